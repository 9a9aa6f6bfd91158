"""Folders in a store: copied, changed as a whole, also by killed writers."""

import os
import pathlib
import shutil

import folder_store
import pytest

from tfrecords.io import leases, storage, stored_folders

OLD = {"run.json": "{}", "logs/steps": "1\n", "best/weights": "old"}
NEW = {
    "run.json": "{}",
    "logs/steps": "1\n2\n",
    "best/weights": "new",
    "checkpoints/step-2/weights": "2",
}


@pytest.fixture
def address(tmp_path, monkeypatch):
    """A folder in a store."""
    monkeypatch.setenv(stored_folders.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(storage, "_gfile", storage._gfile)
    folder_store.use(tmp_path / "store")
    return "gs://bucket/run"


def put(folder, files):
    """Makes a local folder have these files and no other."""
    top = pathlib.Path(folder)
    for name in stored_folders._content(folder):
        if name not in files:
            (top / name).unlink()
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        if not (top / name).exists() or (top / name).read_text() != text:
            (top / name).write_text(text)


def content(folder):
    """Returns the files of a local folder."""
    top = pathlib.Path(folder)
    names = stored_folders._content(folder)
    return {name: (top / name).read_text() for name in names}


def new_folder(address, files):
    folder = stored_folders.StoredFolder(address)
    folder.pull()
    put(folder.path, files)
    folder.commit()
    return folder


def test_local_paths_are_not_copied(tmp_path):
    assert stored_folders.fetch(str(tmp_path)) == str(tmp_path)
    assert stored_folders.fetch("a.txt,b.txt") == "a.txt,b.txt"
    assert stored_folders.open_output("-", "file") == "-"
    assert stored_folders.address("runs/a") == "runs/a"


def test_commits_add_change_and_remove_files(address):
    folder = new_folder(address, OLD)
    assert content(stored_folders.fetch(address)) == OLD
    put(folder.path, NEW)
    folder.commit()
    assert content(stored_folders.fetch(address)) == NEW
    smaller = {"run.json": "{}"}
    put(folder.path, smaller)
    folder.commit()
    assert content(stored_folders.fetch(address)) == smaller
    assert set(storage.files_in(address)) == set(smaller)
    assert stored_folders.address(folder.path) == address


def test_another_machine_continues_from_the_store(address, monkeypatch):
    new_folder(address, OLD)
    other = os.environ[stored_folders.CACHE_VARIABLE] + "-other"
    monkeypatch.setenv(stored_folders.CACHE_VARIABLE, other)
    folder = stored_folders.StoredFolder(address)
    folder.pull()
    assert folder.path.startswith(other) and content(folder.path) == OLD


def test_changes_that_were_not_committed_are_lost(address):
    folder = new_folder(address, OLD)
    put(folder.path, NEW)
    folder = stored_folders.StoredFolder(address)
    folder.pull()
    assert content(folder.path) == OLD


class Killed(BaseException):
    pass


def kill_at(monkeypatch, number):
    """Makes operation `number` on the store fail, and all that follow."""
    count = [0]
    gfile = storage._gfile

    def failing(path):
        count[0] += 1
        if count[0] >= number:
            raise Killed
        return gfile(path)

    monkeypatch.setattr(storage, "_gfile", failing)
    return count


# Files that the kill leaves open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_commit_killed_at_any_operation_is_complete_or_absent(
    address, monkeypatch
):
    seen, number = [], 0
    while True:
        number += 1
        here = f"{address}-{number}"
        folder = new_folder(here, OLD)
        put(folder.path, NEW)
        with monkeypatch.context() as patch:
            kill_at(patch, number)
            try:
                folder.commit()
                break
            except Killed:
                pass
        read = content(stored_folders.fetch(here))
        assert read in (OLD, NEW)
        # The next writer finds the same, and can go on.
        again = stored_folders.StoredFolder(here)
        again.pull()
        assert content(again.path) == read
        put(again.path, NEW | {"more": "3"})
        again.commit()
        assert content(stored_folders.fetch(here)) == NEW | {"more": "3"}
        assert set(storage.files_in(here)) == {*NEW, "more"}
        seen.append(read == NEW)
    # First never, then always.
    assert seen == sorted(seen) and {*seen} == {False, True} and number > 10


def test_files_globs_and_checkpoints_are_fetched(address):
    names = ("a.txt", "b.txt", "bert.ckpt.index", "inside/c.txt")
    new_folder(address, {name: name for name in names})
    path = stored_folders.fetch(f"{address}/a.txt")
    assert pathlib.Path(path).read_text() == "a.txt"
    both = stored_folders.fetch(f"{address}/*.txt").split(",")
    assert [pathlib.Path(path).read_text() for path in both] == [
        "a.txt",
        "b.txt",
    ]
    prefix = stored_folders.fetch(f"{address}/bert.ckpt")
    assert pathlib.Path(f"{prefix}.index").read_text() == "bert.ckpt.index"
    assert (pathlib.Path(prefix).parent / "a.txt").exists()  # Such as a config.
    with pytest.raises(FileNotFoundError, match="nothing"):
        stored_folders.fetch(f"{address}/nothing")


def test_an_address_of_a_folder_may_end_in_a_slash(address):
    new_folder(address, OLD)
    assert content(stored_folders.fetch(f"{address}/")) == OLD


def test_an_unchanged_file_is_not_copied_again(address, monkeypatch):
    new_folder(address, OLD)
    stored_folders.fetch(address)
    monkeypatch.setattr(storage, "open_bytes", None)
    assert content(stored_folders.fetch(address)) == OLD


def test_a_truncated_object_is_not_accepted(address, monkeypatch):
    new_folder(address, OLD)
    monkeypatch.setattr(storage, "version", lambda path: (99, 1))
    with pytest.raises(OSError, match="3 bytes were read instead of 99"):
        stored_folders.fetch(f"{address}/best/weights")
    inputs = os.path.join(stored_folders.cache_dir(), "inputs")
    assert not [names for _, _, names in os.walk(inputs) if names]


def test_folders_that_were_not_committed_are_not_left_empty(address):
    # A checkpoint folder without files would be taken for a damaged one.
    folder = new_folder(address, OLD)
    put(folder.path, NEW)
    folder.pull()
    assert not os.path.exists(os.path.join(folder.path, "checkpoints"))


def test_a_writer_that_loses_its_lease_while_copying_changes_nothing(address):
    slow = new_folder(address, OLD)
    put(slow.path, NEW | {"slow": "1"})
    other = stored_folders.StoredFolder(address)
    number = 0

    def check():
        nonlocal number
        number += 1
        if number == 2:  # After copying: another process has the lease.
            other.pull()
            put(other.path, OLD | {"other": "1"})
            other.commit()
            raise ValueError("taken")

    with pytest.raises(ValueError, match="taken"):
        slow.commit(check)
    assert content(stored_folders.fetch(address)) == OLD | {"other": "1"}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_commit_after_an_interrupted_one_is_not_mixed_with_it(
    address, monkeypatch
):
    number = 0
    while True:
        number += 1
        here = f"{address}-{number}"
        folder = new_folder(here, OLD)
        put(folder.path, NEW | {"first": "1"})
        with monkeypatch.context() as patch:
            kill_at(patch, number)
            try:
                folder.commit()
                break
            except Killed:
                pass
        put(folder.path, NEW | {"second": "2"})
        folder.commit()
        assert content(stored_folders.fetch(here)) == NEW | {"second": "2"}
    assert number > 10


def test_a_folder_that_changes_while_it_is_copied_is_copied_again(
    address, monkeypatch
):
    folder = new_folder(address, OLD)
    fetch_file, changes = stored_folders._fetch_file, [NEW]

    def fetch_then_change(source, target):
        fetch_file(source, target)
        if changes and "inputs" in target:
            put(folder.path, changes.pop())
            folder.commit()

    monkeypatch.setattr(stored_folders, "_fetch_file", fetch_then_change)
    assert content(stored_folders.fetch(address)) == NEW


def test_outputs_inside_of_each_other_and_files_named_as_folders_are_refused(
    address,
):
    with stored_folders.outputs() as found:
        folder = found.open_folder(f"{address}/")
        assert found.open_folder(address) == folder
        for other in (f"{address}/records", "gs://bucket"):
            with pytest.raises(
                ValueError, match="overlap: one is inside the other"
            ):
                found.open_folder(other)
        with pytest.raises(IsADirectoryError):
            found.open_file("gs://bucket/answers/")


@pytest.mark.parametrize("removed", ["outputs", "outputs/gs/bucket/run"])
def test_a_local_folder_that_was_removed_removes_nothing(address, removed):
    folder = new_folder(address, OLD)
    shutil.rmtree(os.path.join(stored_folders.cache_dir(), removed))
    with pytest.raises(OSError, match="was removed while it was in use"):
        folder.commit()
    assert content(stored_folders.fetch(address)) == OLD


@pytest.mark.parametrize("name", ["../a", "b/../../a", "./a", "b//a"])
def test_nothing_is_written_outside_of_the_cache(address, name):
    with pytest.raises(ValueError, match=r"empty part, \. or \.\."):
        stored_folders.StoredFolder(f"{address}/{name}")
    with pytest.raises(ValueError, match=r"empty part, \. or \.\."):
        stored_folders._inside("folder", name)


def test_outputs_are_committed_at_the_end_also_after_an_error(address):
    with pytest.raises(KeyError), stored_folders.outputs():
        folder = stored_folders.open_output(address, "folder")
        assert stored_folders.open_output(address, "folder") == folder
        file = stored_folders.open_output("gs://bucket/answers.txt", "file")
        put(folder, OLD)
        stored_folders.commit()
        assert content(stored_folders.fetch(address)) == OLD
        put(folder, NEW)
        pathlib.Path(file).write_text("done")
        raise KeyError
    assert content(stored_folders.fetch(address)) == NEW
    path = stored_folders.fetch("gs://bucket/answers.txt")
    assert pathlib.Path(path).read_text() == "done"
    assert not storage.exists(f"{address}/{leases.NAME}")


def test_a_folder_that_another_process_takes_is_not_written_to(address):
    with pytest.raises(ValueError, match="was taken by process"):
        with stored_folders.outputs():
            put(stored_folders.open_output(address, "folder"), OLD)
            stored_folders.commit()
            put(stored_folders.open_output(address, "folder"), NEW)
            other = leases.Lease(address)
            other._write()
    assert content(stored_folders.fetch(address)) == OLD
