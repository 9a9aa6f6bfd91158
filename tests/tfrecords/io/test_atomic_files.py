import ctypes
import errno
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tfrecords.io import atomic_files, json_files


def fill_disk(file):
    file.write("half" if "b" not in file.mode else b"half")
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_the_old_file_survives_a_full_disk(tmp_path, mode):
    path = tmp_path / "results.json"
    json_files.write(str(path), {"step": 1})
    with pytest.raises(OSError, match="No space left.*Make room") as raised:
        with atomic_files.atomic_file(str(path), mode) as file:
            fill_disk(file)
    assert raised.value.filename == str(path)
    assert json_files.read(str(path)) == {"step": 1}
    assert os.listdir(tmp_path) == ["results.json"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_writing_a_file_to_a_really_full_disk_fails(tmp_path, monkeypatch):
    real_open = open
    monkeypatch.setattr(
        "builtins.open",
        lambda path, mode, encoding: real_open("/dev/full", "wb"),
    )
    with pytest.raises(OSError, match="Make room"):
        with atomic_files.atomic_file(str(tmp_path / "a"), "wb") as file:
            file.write(b"x" * 100_000)


def test_append_is_all_or_nothing(tmp_path):
    path = str(tmp_path / "log")
    atomic_files.append(path, "first\n")
    atomic_files.append(path, "größer\n")

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left.*Make room") as raised:
            atomic_files.append(path, "third\n")
    assert raised.value.filename == path
    with open(path, encoding="utf-8") as file:
        assert file.read() == "first\ngrößer\n"
    with pytest.raises(FileNotFoundError) as raised:
        atomic_files.append(str(tmp_path / "none" / "log"), "first\n")
    assert raised.value.filename == str(tmp_path / "none" / "log")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_appending_on_a_really_full_disk_fails(tmp_path):
    os.symlink("/dev/full", tmp_path / "log")
    with pytest.raises(OSError, match="Make room") as raised:
        atomic_files.append(str(tmp_path / "log"), "line\n")
    assert raised.value.filename == str(tmp_path / "log")


def test_an_error_of_an_input_file_keeps_its_file_name(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        with atomic_files.atomic_file(str(tmp_path / "a")):
            open(tmp_path / "missing")
    assert raised.value.filename == str(tmp_path / "missing")
    assert not os.listdir(tmp_path)


def test_a_missing_folder_is_named_without_advice_on_full_disks(tmp_path):
    path = str(tmp_path / "nowhere" / "a.txt")
    with pytest.raises(OSError, match="No such file") as raised:
        with atomic_files.atomic_file(path):
            pass
    assert raised.value.filename == path
    assert "Make room" not in str(raised.value)


def test_the_old_folder_survives_a_full_disk(tmp_path):
    path = str(tmp_path / "model")
    with atomic_files.atomic_folder(path):
        pass
    with pytest.raises(OSError, match="No space left.*Make room") as raised:
        with atomic_files.atomic_folder(path) as folder:
            with open(os.path.join(folder, "weights"), "w") as file:
                fill_disk(file)
    assert raised.value.filename == path
    assert os.listdir(tmp_path) == ["model"] and not os.listdir(path)


def test_files_with_similar_names_are_not_touched(tmp_path):
    for name in ("base.old", "base.tmp", "file.tmp", "file.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious").write_text("years of work")
    (tmp_path / "text.tmp").write_text("mine")
    for _ in range(2):
        with atomic_files.atomic_folder(str(tmp_path / "base")):
            pass
        for name in ("file", "text"):
            with atomic_files.atomic_file(str(tmp_path / name)):
                pass
    with pytest.raises(KeyboardInterrupt):
        with atomic_files.atomic_folder(str(tmp_path / "base")):
            raise KeyboardInterrupt
    assert set(os.listdir(tmp_path)) == {
        *("base", "base.old", "base.tmp", "file", "file.old", "file.tmp"),
        *("text", "text.tmp"),
    }
    assert len(list(tmp_path.rglob("precious"))) == 4
    assert (tmp_path / "text.tmp").read_text() == "mine"


def test_two_writers_of_the_same_path_do_not_interfere(tmp_path):
    path = str(tmp_path / "a")
    with atomic_files.atomic_file(path) as first:
        first.write("first")
        with atomic_files.atomic_file(path) as second:
            second.write("second")
        assert (tmp_path / "a").read_text() == "second"
    assert (tmp_path / "a").read_text() == "first"
    path = str(tmp_path / "b")
    with atomic_files.atomic_folder(path) as first:
        (pathlib.Path(first) / "first").touch()
        with atomic_files.atomic_folder(path) as second:
            (pathlib.Path(second) / "second").touch()
        assert os.listdir(path) == ["second"]
    assert os.listdir(path) == ["first"]
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_permissions_are_those_of_the_umask(tmp_path):
    umask = os.umask(0o027)
    try:
        json_files.write(str(tmp_path / "a"), {})
        with atomic_files.atomic_folder(str(tmp_path / "b")):
            pass
    finally:
        os.umask(umask)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o750


def test_the_old_folder_is_restored_if_the_rename_fails(tmp_path, monkeypatch):
    path = tmp_path / "model"
    (path / "weights").mkdir(parents=True)
    rename = os.rename

    def fail(source, target):
        if source.endswith(".tmp"):
            raise OSError(errno.EIO, "Input/output error", source)
        rename(source, target)

    monkeypatch.setattr(atomic_files, "_exchange", lambda *_: False)
    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="Input/output error") as raised:
        with atomic_files.atomic_folder(str(path)):
            pass
    assert raised.value.filename == str(path)
    assert os.listdir(tmp_path) == ["model"] and os.listdir(path) == ["weights"]


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2 is Linux's")
def test_names_are_exchanged_or_an_error_is_raised(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name / f"was {name}").mkdir(parents=True)
    names = str(tmp_path / "a"), str(tmp_path / "b")
    if not atomic_files._exchange(*names):
        pytest.skip("this file system cannot exchange names")
    assert os.listdir(names[0]) == ["was b"]
    assert os.listdir(names[1]) == ["was a"]
    with pytest.raises(FileNotFoundError) as raised:
        atomic_files._exchange(names[0], str(tmp_path / "none"))
    assert raised.value.filename == names[0]


def test_a_system_without_exchange_replaces_by_two_renames(
    tmp_path, monkeypatch
):
    calls = []

    def refuse(*arguments):
        calls.append(arguments)
        ctypes.set_errno(errno.EINVAL)
        return -1

    for function in (refuse, None):
        monkeypatch.setattr(atomic_files, "_renameat2", lambda f=function: f)
        for name in ("old", "new"):
            with atomic_files.atomic_folder(str(tmp_path / "model")) as folder:
                (pathlib.Path(folder) / name).touch()
        assert os.listdir(tmp_path) == ["model"]
        assert os.listdir(tmp_path / "model") == ["new"]
    assert calls


# Replaces a folder in forked children. Child N ends before the Nth line that it
# would execute in atomic_files.py (or shutil.py).
_KILLER = """
import os, shutil, sys, traceback
from tfrecords.io import atomic_files

place, how, exchanges = sys.argv[1], sys.argv[2], sys.argv[3] == "exchanges"
name, above = os.path.basename(place), os.path.dirname(place)
if not exchanges:
    atomic_files._exchange = lambda *_: False

def replace(content):
    with atomic_files.atomic_folder(place) as folder:
        for file in ("one", "two"):
            with open(os.path.join(folder, file), "w") as out:
                out.write(content)

def content():
    return [open(os.path.join(place, file)).read() for file in ("one", "two")]

class Stop(BaseException):
    pass

def tracer(last):
    left = last
    def trace(frame, event, _):
        nonlocal left
        # Raising between two lines of rmtree would be an error of the test.
        files = ("atomic_files.py", "shutil.py")[: 1 + (how == "exit")]
        if not frame.f_code.co_filename.endswith(files):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                if how == "exit":
                    os._exit(1)
                raise Stop
        return trace
    return trace

def run_until(last):
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 2
    try:
        sys.settrace(tracer(last))
        replace("new")
        code = 0
    except Stop:
        code = 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.settrace(None)
        os._exit(code)

replace("old")
seen, lines, code = set(), 0, 1
while code == 1:
    lines += 1
    code = run_until(lines)
    if how == "raise" or exchanges:
        seen.add(tuple(content()))
    if how == "exit":
        atomic_files._remove_dead(place)
    else:
        atomic_files.remove_leftovers(above)
    found = content()
    seen.add(tuple(found))
    assert os.listdir(above) == [name], (lines, os.listdir(above))
    if found[0] == "new":
        replace("old")
assert code == 0, code
assert seen == {("old", "old"), ("new", "new")}, seen
print(lines)
"""


@pytest.mark.parametrize("exchanges", ["exchanges", "renames"])
@pytest.mark.parametrize("how", ["exit", "raise"])
def test_a_writer_stopped_before_any_line_leaves_old_or_new(
    tmp_path, how, exchanges
):
    """With plain renames, after what a restart or the next writer calls."""
    place = tmp_path / "above" / "model"
    done = subprocess.run(
        [sys.executable, "-c", _KILLER, str(place), how, exchanges],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50


@pytest.fixture
def events(monkeypatch):
    """Records calls that sync, rename, exchange and remove, in order."""
    calls = []

    def fsync(handle, real=os.fsync):
        calls.append(("sync", os.fstat(handle).st_ino))
        real(handle)

    def note(module, name, word):
        real = getattr(module, name)

        def noted(*arguments, **keywords):
            done = real(*arguments, **keywords)
            calls.append((word, *(os.path.basename(x) for x in arguments)))
            return done

        monkeypatch.setattr(module, name, noted)

    monkeypatch.setattr(os, "fsync", fsync)
    note(os, "rename", "rename")
    note(os, "replace", "rename")
    note(atomic_files, "_exchange", "exchange")
    note(shutil, "rmtree", "remove")
    return calls


def test_contents_are_synced_before_the_rename(tmp_path, events):
    path = tmp_path / "model"
    inodes = {}

    def write():
        events.clear()
        with atomic_files.atomic_folder(str(path)) as folder:
            for name in ("a", "b/c"):
                file = pathlib.Path(folder) / name
                file.parent.mkdir(exist_ok=True)
                file.write_text(name)
            for name in ("a", "b", "b/c", "."):
                inodes[(pathlib.Path(folder) / name).stat().st_ino] = name
            inodes[tmp_path.stat().st_ino] = "above"
            events.clear()
        return [
            (word, inodes[names[0]] if word == "sync" else names[-1])
            for word, *names in events
        ]

    found = write()
    assert sorted(found[:4]) == [("sync", x) for x in (".", "a", "b", "b/c")]
    assert found[4:] == [("rename", "model"), ("sync", "above")]
    found = write()
    assert sorted(found[:4]) == [("sync", x) for x in (".", "a", "b", "b/c")]
    if found[4] != ("exchange", "model"):
        pytest.skip("this file system cannot exchange names")
    # The replaced folder is removed only after the exchange is synced.
    assert found[5] == ("sync", "above")
    assert found[6][0] == "remove" and found[6][1].endswith(".tmp")
    assert len(found) == 7


def test_a_file_and_its_name_are_synced(tmp_path, events):
    json_files.write(str(tmp_path / "a"), {})
    assert [event[0] for event in events] == ["sync", "rename", "sync"]
    assert events[0][1] == (tmp_path / "a").stat().st_ino
    assert events[2][1] == tmp_path.stat().st_ino


def test_a_folder_is_hidden_before_it_is_removed(tmp_path, events):
    (tmp_path / "step-1" / "weights").mkdir(parents=True)
    atomic_files.remove_folder(str(tmp_path / "step-1"))
    assert [event[0] for event in events] == ["rename", "sync", "remove"]
    hidden = events[0][2]
    assert events[2][1] == hidden and not os.listdir(tmp_path)
    # If the removal is killed, a restart completes it.
    (tmp_path / hidden / "weights").mkdir(parents=True)
    atomic_files.remove_leftovers(str(tmp_path), "step-")
    assert not os.listdir(tmp_path)


def test_parent_folders_are_made_and_synced(tmp_path, events):
    with atomic_files.atomic_folder(str(tmp_path / "run" / "best")):
        synced = {event[1] for event in events if event[0] == "sync"}
        assert {x.stat().st_ino for x in (tmp_path, tmp_path / "run")} <= synced
    assert os.listdir(tmp_path / "run") == ["best"]


def test_a_file_system_that_cannot_sync_folders_works(tmp_path, monkeypatch):
    def fsync(handle):
        raise OSError(errno.EINVAL, "Invalid argument")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        atomic_files._sync(str(tmp_path))

    def broken(handle):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output error"):
        with atomic_files.atomic_folder(str(tmp_path / "a")):
            pass
    assert not os.listdir(tmp_path)


def test_a_full_disk_gives_its_advice_once(tmp_path):
    with pytest.raises(OSError) as raised:
        with atomic_files.atomic_folder(str(tmp_path / "model")) as folder:
            with atomic_files.atomic_file(f"{folder}/state.json") as file:
                fill_disk(file)
    assert str(raised.value).count("Make room") == 1
    assert raised.value.filename == str(tmp_path / "model")


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    disk = tmp_path / "disk"
    (disk / "model").mkdir(parents=True)
    (disk / "model" / "old").touch()
    link = tmp_path / "model"
    link.symlink_to(disk / "model")
    with atomic_files.atomic_folder(str(link)) as folder:
        assert os.path.dirname(folder) == str(disk)
    assert link.is_symlink() and not os.listdir(link)
    assert os.listdir(disk) == ["model"]


@pytest.mark.parametrize(
    "atomic", [atomic_files.atomic_file, atomic_files.atomic_folder]
)
def test_the_cause_of_an_error_is_kept(tmp_path, atomic):
    with pytest.raises(ValueError, match="bad") as raised:
        with atomic(str(tmp_path / "a")):
            try:
                int("x")
            except ValueError as error:
                raise ValueError("bad") from error
    assert "invalid literal" in str(raised.value.__cause__)
    with pytest.raises(KeyboardInterrupt) as raised:
        with atomic(str(tmp_path / "a")):
            raise KeyboardInterrupt
    assert raised.value.__cause__ is None
    assert not os.listdir(tmp_path)
    with pytest.raises(OSError, match="Make room") as raised:
        with atomic(str(tmp_path / "a")):
            raise OSError(errno.ENOSPC, "No space left on device")
    assert raised.value.__cause__ is not raised.value
    assert raised.value.__cause__.errno == errno.ENOSPC


def test_only_leftovers_with_the_prefix_are_removed(tmp_path):
    atomic_files.remove_leftovers(str(tmp_path / "nowhere"))
    digits = "0123456789abcdef"
    gone = [f".a.txt.{digits}.tmp", f".a.{digits}.tmp", f".a.{digits}.old"]
    stay = ["a", "a.tmp", ".a.tmp", f".b.{digits}.tmp", f".b.{digits}.old"]
    for name in gone + stay:
        (tmp_path / name).touch()
    atomic_files.remove_leftovers(str(tmp_path), "a")
    assert sorted(os.listdir(tmp_path)) == sorted(stay)
    # An .old whose original name is missing is restored.
    atomic_files.remove_leftovers(str(tmp_path), "b")
    assert sorted(os.listdir(tmp_path)) == [".a.tmp", "a", "a.tmp", "b"]
    for name in ("a", "b", "a.tmp", ".a.tmp"):
        (tmp_path / name).unlink()
    # The names that writers really use match the pattern.
    killed = tmp_path / "killed"
    with atomic_files.atomic_file(str(tmp_path / "file")) as file:
        (killed / os.path.basename(file.name)).mkdir(parents=True)
    with atomic_files.atomic_folder(str(tmp_path / "folder")) as folder:
        (killed / os.path.basename(folder) / "inside").mkdir(parents=True)
    assert len(os.listdir(killed)) == 2
    atomic_files.remove_leftovers(str(killed), "f")
    assert not os.listdir(killed)


# Begins to write a path, says so, and waits.
_WRITER = """
import sys
from tfrecords.io import atomic_files
path, kind = sys.argv[1:]
if kind == "temporary_folder":
    import tempfile
    tempfile.tempdir = path
    context = atomic_files.temporary_folder()
else:
    context = getattr(atomic_files, kind)(path)
with context:
    print(flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def start_writer(tmp_path):
    """Starts a process that writes tmp_path/model and waits; returns it."""
    processes = []

    def start(kind):
        path = tmp_path if kind == "temporary_folder" else tmp_path / "model"
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path), kind],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        processes.append(process)
        assert process.stdout.readline() == b"\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "kind", ["atomic_file", "atomic_folder", "temporary_folder"]
)
def test_only_what_a_killed_writer_left_is_removed_by_the_next(
    tmp_path, start_writer, kind
):
    living = start_writer(kind)
    (of_living,) = os.listdir(tmp_path)
    killed = start_writer(kind)
    (left,) = set(os.listdir(tmp_path)) - {of_living}
    killed.kill()
    killed.wait()
    next_one = start_writer(kind)
    found = set(os.listdir(tmp_path))
    assert len(found) == 2 and of_living in found and left not in found
    next_one.communicate()
    assert os.listdir(tmp_path).count(of_living) == 1
    living.communicate()
    done = [] if kind == "temporary_folder" else ["model"]
    assert living.returncode == 0 and os.listdir(tmp_path) == done


def test_nothing_is_removed_where_nothing_can_be_locked(tmp_path, monkeypatch):
    left = tmp_path / f".model.{'0' * 16}.tmp"
    left.mkdir()

    def flock(handle, operation):
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", flock)
    with atomic_files.atomic_folder(str(tmp_path / "model")):
        pass
    assert sorted(os.listdir(tmp_path)) == [left.name, "model"]


def test_a_new_folder_that_was_taken_for_a_dead_one_is_made_again(
    tmp_path, monkeypatch
):
    path = str(tmp_path / "model")
    make, made = atomic_files._make_folders, []

    def make_and_lose(aside):
        make(aside)
        made.append(aside)
        if len(made) == 1:
            atomic_files._remove_dead(path)

    monkeypatch.setattr(atomic_files, "_make_folders", make_and_lose)
    with atomic_files.atomic_folder(path) as folder:
        (pathlib.Path(folder) / "weights").touch()
    assert len(made) == 2 and os.listdir(path) == ["weights"]


def test_the_digest_is_the_sha256_of_all_bytes(tmp_path):
    # More than one block.
    content = bytes(range(256)) * 5000
    path = tmp_path / "a"
    path.write_bytes(content)
    expected = hashlib.sha256(content).hexdigest()
    assert atomic_files.digest(str(path)) == expected


# Outputs that are not regular files.


def test_the_end_of_a_symbolic_link_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "target"
    for number, (name, to) in enumerate(
        [("b", "folder/target"), ("a", "b"), ("c", str(target))]
    ):
        os.symlink(to, tmp_path / name)
        with atomic_files.atomic_file(str(tmp_path / name)) as file:
            file.write(str(number))
        assert os.path.islink(tmp_path / name)
    assert target.read_text() == "2"
    assert os.listdir(tmp_path / "folder") == ["target"]


def test_a_link_to_itself_is_named(tmp_path):
    path = str(tmp_path / "loop")
    os.symlink("loop", path)
    with pytest.raises(OSError, match="symbolic links") as raised:
        with atomic_files.atomic_file(path):
            pass
    assert raised.value.filename == path and os.path.islink(path)
