import errno
import json

import pytest

from bert_tf.training import checksums
from tfrecords.io import atomic_files


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "weights").write_bytes(bytes(range(200)))
    (tmp_path / "papers").write_text("of the model")
    checksums.write_checksums(
        str(tmp_path), {"step": 3, "value": 0.1, "more": [None]}
    )
    return tmp_path


def faults(folder):
    """What both checks say, None where they find nothing."""
    found = []
    for check in (checksums.check, checksums.check_quickly):
        try:
            check(str(folder))
            found.append(None)
        except checksums.DamagedError as error:
            found.append(str(error))
    return found


def test_a_state_comes_back_with_the_sums_of_all_files(folder):
    state = checksums.read_state(str(folder))
    assert sorted(state.pop("files")) == ["papers", "weights"]
    assert state == {"step": 3, "value": 0.1, "more": [None]}
    assert faults(folder) == [None, None]
    (folder / "notes").write_text("of a user")
    assert faults(folder) == [None, None]


@pytest.mark.parametrize("name", ["weights", "papers"])
def test_a_file_that_is_not_what_was_written_is_named(folder, name):
    path = folder / name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    for fault in faults(folder):
        assert fault.startswith(f"{folder} is damaged: {name} has been changed")
    path.write_bytes(content[:-1])
    size = len(content)
    expected = f"{name} has {size - 1} bytes, written were {size}."
    assert faults(folder) == [f"{folder} is damaged: {expected}"] * 2
    path.unlink()
    assert faults(folder) == [f"{folder} is damaged: {name} is missing."] * 2
    # Others of the folder can be checked by themselves.
    others = {"weights", "papers", "unknown"} - {name}
    checksums.check(str(folder), others)
    path.mkdir()
    assert all(f"damaged: {name} " in fault for fault in faults(folder))


def test_large_files_are_read_by_the_thorough_check_alone(folder, monkeypatch):
    (folder / "weights").write_bytes(bytes(200))
    monkeypatch.setattr(checksums, "_QUICK_BYTES", 199)
    thorough, quick = faults(folder)
    assert "weights has been changed" in thorough and quick is None


def test_no_changed_byte_of_the_state_goes_unseen(folder):
    path = folder / checksums.STATE
    content = path.read_bytes()
    given = checksums.read_state(str(folder))
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            # White space may change.
            assert checksums.read_state(str(folder)) == given, place
            assert chr(content[place]).isspace()
        except checksums.DamagedError as error:
            assert str(error).startswith(f"{folder} is damaged: state.json")
    for length in range(0, len(content) - 2, 7):
        path.write_bytes(content[:length])
        with pytest.raises(checksums.DamagedError, match="is no JSON"):
            checksums.read_state(str(folder))
    path.unlink()
    with pytest.raises(checksums.DamagedError, match="state.json is missing"):
        checksums.read_state(str(folder))


def test_a_state_without_sums_is_damage(folder):
    path = folder / checksums.STATE
    path.write_text(json.dumps({"step": 3, "weights_sha256": "ab"}))
    with pytest.raises(checksums.DamagedError, match="is not what was written"):
        checksums.read_state(str(folder))
    path.write_text("[]")
    assert "state.json is no JSON object" in faults(folder)[0]


def test_only_a_disk_that_fails_is_damage(folder, monkeypatch):
    numbers = [errno.EIO, errno.EMFILE]

    def digest(path):
        raise OSError(numbers.pop(0), "what the system says")

    monkeypatch.setattr(atomic_files, "digest", digest)
    match = "cannot be read .what the system says"
    with pytest.raises(checksums.DamagedError, match=match):
        checksums.check(str(folder))
    with pytest.raises(OSError) as raised:
        checksums.check(str(folder))
    assert raised.value.errno == errno.EMFILE


def test_a_state_that_cannot_be_read_is_damage(folder):
    path = folder / checksums.STATE
    path.unlink()
    path.mkdir()
    with pytest.raises(checksums.DamagedError, match="json cannot be read"):
        checksums.read_state(str(folder))
    with pytest.raises(checksums.DamagedError, match="state.json is missing"):
        checksums.read_state(str(folder / "papers"))
