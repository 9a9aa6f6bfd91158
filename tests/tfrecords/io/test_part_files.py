"""part_files.py: files are complete or absent, and no part is made twice."""

import json
import os
import threading

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


def flip(part):
    content = bytearray(part.read_bytes())
    content[-1] ^= 1
    part.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        flip,
        lambda part: os.truncate(part, 8),
        lambda part: os.truncate(part, 0),
        # Its own checksum is right, but it is of another part.
        lambda part: part.write_bytes(part.with_name("000000").read_bytes()),
    ],
    ids=["flipped", "cut", "empty", "another part"],
)
def test_a_damaged_part_is_made_again(tmp_path, damage, caplog):
    made = []
    with pytest.raises(OSError, match="no more"):
        write(tmp_path / "f", made, fails_at=2)
    part = tmp_path / ".f.parts" / "000001"
    damage(part)
    write(tmp_path / "f", made)
    assert made == [0, 1, 2, 1, 2]
    assert f"{part}  made again: it is damaged, or of another" in caplog.text
    assert (tmp_path / "f").read_text() == "part 0\npart 1\npart 2\n"


def test_a_part_that_cannot_be_read_is_no_damage(tmp_path):
    with pytest.raises(OSError, match="no more"):
        write(tmp_path / "f", [], fails_at=1)
    part = tmp_path / ".f.parts" / "000000"
    part.unlink()
    part.mkdir()  # Any error but that of a missing file.
    with pytest.raises(IsADirectoryError, match=str(part)):
        write(tmp_path / "f", [])


def test_parts_are_of_their_settings(tmp_path):
    """Without settings.json, too: a checksum is also of the settings."""
    made = []
    for settings in ({"seed": 1}, {"seed": 1}, {"seed": 2}):
        with pytest.raises(OSError, match="no more"):
            write(tmp_path / "f", made, settings=settings, fails_at=1)
        (tmp_path / ".f.parts" / "settings.json").write_text("{")
    assert made == [0, 1, 1, 0, 1]


def test_a_part_that_is_damaged_before_it_is_joined_is_refused(tmp_path):
    def make_part(number):
        if number:
            flip(tmp_path / ".f.parts" / "000000")
        return b"part"

    with pytest.raises(ValueError, match=r"000000 is damaged, or of another"):
        part_files.write(
            *(str(tmp_path / "f"), {}, [1, 1], make_part),
            part_files.concatenate,
            unit="things",
        )
    assert not (tmp_path / "f").exists()


def test_a_file_is_written_by_one_process(tmp_path):
    path, messages = str(tmp_path / "f"), []

    def write_again():
        try:
            write(path, [], settings={"seed": 2})
        except ValueError as error:
            messages.append(str(error))

    def make_part(number):  # A thread is refused as a process is.
        thread = threading.Thread(target=write_again)
        thread.start()
        thread.join()
        return b"first"

    part_files.write(
        *(path, {"seed": 1}, [1], make_part),
        part_files.concatenate,
        unit="things",
    )
    assert len(messages) == 1
    assert (
        f"{path} is in use by another run, process {os.getpid()}"
        in (messages[0])
    )
    assert messages[0].endswith("or choose another file.")
    assert (tmp_path / "f").read_text() == "first"
    assert os.listdir(tmp_path) == ["f"]


def test_zero_parts_give_an_empty_file(tmp_path):
    write(tmp_path / "f", [], num_parts=0)
    assert (tmp_path / "f").read_bytes() == b""
