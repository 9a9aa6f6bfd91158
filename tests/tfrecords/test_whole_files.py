import errno
import hashlib
import os
import pathlib

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
        lambda path, mode, encoding: real_open("/dev/full", "wb"),
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


def test_neighbours_of_like_names_are_left_alone(tmp_path):
    for name in ("base.old", "base.tmp", "file.tmp", "file.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious").write_text("years of work")
    (tmp_path / "text.tmp").write_text("mine")
    for _ in range(2):
        with whole_files.whole_folder(str(tmp_path / "base")):
            pass
        for name in ("file", "text"):
            with whole_files.whole_file(str(tmp_path / name)):
                pass
    with pytest.raises(KeyboardInterrupt):
        with whole_files.whole_folder(str(tmp_path / "base")):
            raise KeyboardInterrupt
    assert sorted(os.listdir(tmp_path)) == [
        "base",
        "base.old",
        "base.tmp",
        "file",
        "file.old",
        "file.tmp",
        "text",
        "text.tmp",
    ]
    assert len(list(tmp_path.rglob("precious"))) == 4
    assert (tmp_path / "text.tmp").read_text() == "mine"


def test_two_writers_of_a_name_do_not_mix(tmp_path):
    path = str(tmp_path / "a")
    with whole_files.whole_file(path) as first:
        first.write("first")
        with whole_files.whole_file(path) as second:
            second.write("second")
        assert (tmp_path / "a").read_text() == "second"
    assert (tmp_path / "a").read_text() == "first"
    path = str(tmp_path / "b")
    with whole_files.whole_folder(path) as first:
        (pathlib.Path(first) / "first").touch()
        with whole_files.whole_folder(path) as second:
            (pathlib.Path(second) / "second").touch()
        assert os.listdir(path) == ["second"]
    assert os.listdir(path) == ["first"]
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_permissions_are_those_of_the_umask(tmp_path):
    umask = os.umask(0o027)
    try:
        whole_files.write_json(str(tmp_path / "a"), {})
        with whole_files.whole_folder(str(tmp_path / "b")):
            pass
    finally:
        os.umask(umask)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o750


def test_a_folder_comes_back_if_the_new_one_gets_no_name(tmp_path, monkeypatch):
    path = tmp_path / "model"
    (path / "weights").mkdir(parents=True)
    rename = os.rename

    def fail(source, target):
        if source.endswith(".tmp"):
            raise OSError(errno.EIO, "Input/output error", source)
        rename(source, target)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="Input/output error") as raised:
        with whole_files.whole_folder(str(path)):
            pass
    assert raised.value.filename == str(path)
    assert os.listdir(tmp_path) == ["model"] and os.listdir(path) == ["weights"]


def test_a_link_stays_and_its_folder_is_replaced(tmp_path):
    disk = tmp_path / "disk"
    (disk / "model").mkdir(parents=True)
    (disk / "model" / "old").touch()
    link = tmp_path / "model"
    link.symlink_to(disk / "model")
    with whole_files.whole_folder(str(link)) as folder:
        assert os.path.dirname(folder) == str(disk)
    assert link.is_symlink() and not os.listdir(link)
    assert os.listdir(disk) == ["model"]


@pytest.mark.parametrize(
    "whole", [whole_files.whole_file, whole_files.whole_folder]
)
def test_the_cause_of_an_error_is_kept(tmp_path, whole):
    with pytest.raises(ValueError, match="bad") as raised:
        with whole(str(tmp_path / "a")):
            try:
                int("x")
            except ValueError as error:
                raise ValueError("bad") from error
    assert "invalid literal" in str(raised.value.__cause__)
    with pytest.raises(KeyboardInterrupt) as raised:
        with whole(str(tmp_path / "a")):
            raise KeyboardInterrupt
    assert raised.value.__cause__ is None
    with pytest.raises(OSError, match="Make room") as raised:
        with whole(str(tmp_path / "a")):
            raise OSError(errno.ENOSPC, "No space left on device")
    assert raised.value.__cause__ is not raised.value
    assert raised.value.__cause__.errno == errno.ENOSPC


def test_leftovers_are_removed_by_their_own_pattern(tmp_path):
    whole_files.remove_leftovers(str(tmp_path / "nowhere"))
    digits = "0123456789abcdef"
    gone = [f".a.txt.{digits}.tmp", f".a.{digits}.tmp"]
    stay = ["a.tmp", ".a.tmp", f".a.{digits}.old", f".b.{digits}.tmp", digits]
    for name in gone + stay:
        (tmp_path / name).touch()
    whole_files.remove_leftovers(str(tmp_path), "a")
    assert sorted(os.listdir(tmp_path)) == sorted(stay)
    # The names that writers really use are of the pattern.
    killed = tmp_path / "killed"
    with whole_files.whole_file(str(tmp_path / "file")) as file:
        (killed / os.path.basename(file.name)).mkdir(parents=True)
    with whole_files.whole_folder(str(tmp_path / "folder")) as folder:
        (killed / os.path.basename(folder) / "inside").mkdir(parents=True)
    assert len(os.listdir(killed)) == 2
    whole_files.remove_leftovers(str(killed), "f")
    assert not os.listdir(killed)


def test_json_that_is_none_is_named(tmp_path):
    path = tmp_path / "state.json"
    path.write_text("{")
    with pytest.raises(ValueError, match="state.json is no JSON"):
        whole_files.read_json(str(path))


def test_the_digest_is_that_of_the_bytes(tmp_path):
    # More than is read at a time.
    content = bytes(range(256)) * 5000
    path = tmp_path / "a"
    path.write_bytes(content)
    expected = hashlib.sha256(content).hexdigest()
    assert whole_files.digest(str(path)) == expected
