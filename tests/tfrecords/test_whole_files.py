import errno
import os

import pytest

from tfrecords import whole_files


def fill_disk(file):
    file.write("half" if "b" not in file.mode else b"half")
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_a_file_that_a_full_disk_cuts_leaves_the_old_one(tmp_path, mode):
    path = tmp_path / "results.json"
    whole_files.write_json(str(path), {"step": 1})
    with pytest.raises(OSError, match="No space left.*Make room") as raised:
        with whole_files.whole_file(str(path), mode) as file:
            fill_disk(file)
    assert raised.value.filename == str(path)
    assert whole_files.read_json(str(path)) == {"step": 1}
    assert os.listdir(tmp_path) == ["results.json"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_disk_that_is_full_in_earnest(tmp_path, monkeypatch):
    real_open = open
    monkeypatch.setattr(
        "builtins.open",
        lambda path, mode, encoding: real_open("/dev/full", mode),
    )
    with pytest.raises(OSError, match="Make room"):
        with whole_files.whole_file(str(tmp_path / "a"), "wb") as file:
            file.write(b"x" * 100_000)


def test_a_stopped_writer_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        with whole_files.whole_file(str(tmp_path / "a")) as file:
            file.write("half")
            raise KeyboardInterrupt
    assert not os.listdir(tmp_path)


def test_an_error_of_an_input_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        with whole_files.whole_file(str(tmp_path / "a")):
            open(tmp_path / "missing")
    assert raised.value.filename == str(tmp_path / "missing")
    assert not os.listdir(tmp_path)


def test_a_folder_that_is_not_there_is_named_without_advice(tmp_path):
    path = str(tmp_path / "nowhere" / "a.txt")
    with pytest.raises(OSError, match="No such file") as raised:
        with whole_files.whole_file(path):
            pass
    assert raised.value.filename == path
    assert "Make room" not in str(raised.value)


def test_a_folder_is_replaced_as_a_whole(tmp_path):
    for name in ("old", "new"):
        with whole_files.whole_folder(str(tmp_path / "model")) as folder:
            with open(os.path.join(folder, name), "w") as file:
                file.write(name)
    assert os.listdir(tmp_path) == ["model"]
    assert os.listdir(tmp_path / "model") == ["new"]


def test_a_folder_that_a_full_disk_cuts_leaves_the_old_one(tmp_path):
    path = str(tmp_path / "model")
    with whole_files.whole_folder(path):
        pass
    with pytest.raises(OSError, match="No space left.*Make room") as raised:
        with whole_files.whole_folder(path) as folder:
            with open(os.path.join(folder, "weights"), "w") as file:
                fill_disk(file)
    assert raised.value.filename == path
    assert os.listdir(tmp_path) == ["model"] and not os.listdir(path)


def test_json_that_is_none_is_named(tmp_path):
    path = tmp_path / "state.json"
    path.write_text("{")
    with pytest.raises(ValueError, match="state.json is no JSON"):
        whole_files.read_json(str(path))
