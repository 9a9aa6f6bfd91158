import errno
import json

import pytest

from bert_tf.checkpoint import checksums
from tfrecords.io import atomic_files


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "weights").write_bytes(bytes(range(200)))
    (tmp_path / "metadata").write_text("of the model")
    checksums.write_checksums(
        str(tmp_path), {"step": 3, "value": 0.1, "more": [None]}
    )
    return tmp_path


def faults(folder):
    """Returns the errors of the full and the quick check; None for success."""
    messages = []
    for check in (checksums.check, checksums.check_quickly):
        try:
            check(str(folder))
            messages.append(None)
        except checksums.DamagedError as error:
            messages.append(str(error))
    return messages


def test_a_state_is_read_with_the_checksums_of_all_files(folder):
    state = checksums.read_state(str(folder))
    assert sorted(state.pop("files")) == ["metadata", "weights"]
    assert state == {"step": 3, "value": 0.1, "more": [None]}
    assert faults(folder) == [None, None]
    (folder / "notes").write_text("of a user")
    assert faults(folder) == [None, None]


@pytest.mark.parametrize("name", ["weights", "metadata"])
def test_an_error_names_a_changed_or_missing_file(folder, name):
    path = folder / name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    for fault in faults(folder):
        assert fault.startswith(f"{folder} is damaged: {name} has been changed")
    path.write_bytes(content[:-1])
    size = len(content)
    expected = f"{name} has {size - 1} bytes instead of {size}."
    assert faults(folder) == [f"{folder} is damaged: {expected}"] * 2
    path.unlink()
    assert faults(folder) == [f"{folder} is damaged: {name} is missing."] * 2
    # Other files can be checked separately.
    others = {"weights", "metadata", "unknown"} - {name}
    checksums.check(str(folder), others)
    path.mkdir()
    assert all(f"damaged: {name} " in fault for fault in faults(folder))


def test_the_quick_check_does_not_read_large_files(folder, monkeypatch):
    (folder / "weights").write_bytes(bytes(200))
    monkeypatch.setattr(checksums, "_QUICK_BYTES", 199)
    full, quick = faults(folder)
    assert "weights has been changed" in full and quick is None


def test_every_changed_byte_of_the_state_is_detected(folder):
    path = folder / checksums.STATE
    content = path.read_bytes()
    expected = checksums.read_state(str(folder))
    for i in range(len(content)):
        changed = bytearray(content)
        changed[i] ^= 1 << i % 8
        path.write_bytes(changed)
        try:
            # White space may change.
            assert checksums.read_state(str(folder)) == expected, i
            assert chr(content[i]).isspace()
        except checksums.DamagedError as error:
            assert str(error).startswith(f"{folder} is damaged: state.json")
    for length in range(0, len(content) - 2, 7):
        path.write_bytes(content[:length])
        with pytest.raises(
            checksums.DamagedError, match="state.json is not JSON"
        ):
            checksums.read_state(str(folder))
    path.unlink()
    with pytest.raises(checksums.DamagedError, match="state.json is missing"):
        checksums.read_state(str(folder))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"step": 3, "weights_sha256": "ab"}, "state.json: files is missing"),
        ({"files": {}, "step": 3}, "not match its checksum"),
        ({"files": {"a": {"bytes": "9"}}}, "files.a.bytes is '9'; it"),
        ([], r"state.json: the content is \[\]; it should be an object"),
    ],
)
def test_a_state_without_checksums_is_damaged(folder, content, message):
    (folder / checksums.STATE).write_text(json.dumps(content))
    with pytest.raises(checksums.DamagedError, match=message):
        checksums.read_state(str(folder))


def test_disk_failures_are_damage_and_other_errors_are_not(folder, monkeypatch):
    numbers = [errno.EIO, errno.EMFILE]

    def digest(path):
        raise OSError(numbers.pop(0), "message of the system")

    monkeypatch.setattr(atomic_files, "digest", digest)
    match = "cannot be read .message of the system"
    with pytest.raises(checksums.DamagedError, match=match):
        checksums.check(str(folder))
    with pytest.raises(OSError) as raised:
        checksums.check(str(folder))
    assert raised.value.errno == errno.EMFILE


def test_an_unreadable_state_is_damaged(folder):
    path = folder / checksums.STATE
    path.unlink()
    path.mkdir()
    with pytest.raises(checksums.DamagedError, match="json cannot be read"):
        checksums.read_state(str(folder))
    with pytest.raises(checksums.DamagedError, match="state.json is missing"):
        checksums.read_state(str(folder / "metadata"))
