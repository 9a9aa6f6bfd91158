"""part_files.py: files are complete or absent, and no part is made twice."""

import json

import pytest

from tfrecords.io import part_files


def write(path, made, num_parts=3, settings=None, fails_at=None):
    def make_part(number):
        made.append(number)
        if number == fails_at:
            raise OSError("no more")
        return f"part {number}\n".encode()

    part_files.write(
        str(path),
        settings or {"seed": 1},
        [1] * num_parts,
        make_part,
        part_files.concatenate,
        unit="things",
    )


def test_a_file_consists_of_its_parts_in_order(tmp_path):
    made = []
    write(tmp_path / "f", made)
    assert made == [0, 1, 2]
    assert (tmp_path / "f").read_text() == "part 0\npart 1\npart 2\n"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_rerun_makes_only_missing_parts(tmp_path):
    made = []
    with pytest.raises(OSError, match="no more"):
        write(tmp_path / "f", made, fails_at=2)
    assert not (tmp_path / "f").exists()
    write(tmp_path / "f", made)
    assert made == [0, 1, 2, 2]
    assert (tmp_path / "f").read_text() == "part 0\npart 1\npart 2\n"


def test_parts_made_with_other_settings_are_deleted(tmp_path):
    made = []
    with pytest.raises(OSError, match="no more"):
        write(tmp_path / "f", made, fails_at=1)
    settings = tmp_path / ".f.parts" / "settings.json"
    assert json.loads(settings.read_text()) == {"seed": 1}
    write(tmp_path / "f", made, settings={"seed": 2})
    assert made == [0, 1, 0, 1, 2]


def test_zero_parts_give_an_empty_file(tmp_path):
    write(tmp_path / "f", [], num_parts=0)
    assert (tmp_path / "f").read_bytes() == b""
