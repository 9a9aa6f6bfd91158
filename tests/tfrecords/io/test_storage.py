"""storage.py: local files and files in a store behave the same."""

import gzip
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tfrecords.io import storage
from tfrecords.text import documents, text_files

LINES = ["A cat sat.\n", "It purred.\n", "\n", "A sail.\n"]


@pytest.fixture(scope="module")
def store():
    """A folder in TensorFlow's in-memory file system."""
    folder = "ram://test_storage"
    tf.io.gfile.makedirs(f"{folder}/inside")
    with tf.io.gfile.GFile(f"{folder}/a.txt", "wb") as file:
        file.write("".join(LINES).encode())
    with tf.io.gfile.GFile(f"{folder}/a.txt.gz", "wb") as file:
        file.write(gzip.compress("".join(LINES).encode()))
    return folder


def test_inputs_are_found_in_a_store(store):
    found = text_files.expand_inputs(f"{store}/*.txt,{store}/a.txt.gz")
    assert found == [f"{store}/a.txt", f"{store}/a.txt.gz"]
    with pytest.raises(ValueError, match="It is a folder: give ram://"):
        text_files.expand_inputs(f"{store}/inside")
    with pytest.raises(ValueError, match="matches no file"):
        text_files.expand_inputs(f"{store}/*.none")


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_text_in_a_store_is_read(store, name):
    found = documents.read_documents([f"{store}/{name}"])
    assert [row.sentences for row in found] == [
        ["A cat sat.", "It purred."],
        ["A sail."],
    ]


def test_a_stored_file_can_be_read_from_any_offset(store):
    with storage.open_bytes(f"{store}/a.txt") as file:
        assert file.read(5) == b"A cat"
        assert file.seek(-8, os.SEEK_END) == len("".join(LINES)) - 8
        assert file.read() == b"A sail.\n"
        assert file.seek(2) == 2 and file.read(3) == b"cat"


def test_a_version_has_the_size_of_the_file(store, tmp_path):
    stored, local = f"{store}/b.txt", str(tmp_path / "b.txt")
    for path in (stored, local):
        with tf.io.gfile.GFile(path, "w") as file:
            file.write("one")
        size, _ = storage.version(path)
        assert size == 3


def test_a_missing_file_in_a_store_is_named(store):
    with pytest.raises(ValueError, match="No input file at ram://.*none.txt"):
        list(documents.read_documents([f"{store}/none.txt"]))
    with pytest.raises(FileNotFoundError):
        storage.version(f"{store}/none.txt")


def test_an_unknown_store_is_named():
    message = "^nowhere://bucket/.* is an address of a kind"
    with pytest.raises(ValueError, match=message):
        text_files.expand_inputs("nowhere://bucket/*.txt")
    with pytest.raises(ValueError, match=f"{message}.*hf download"):
        storage.open_bytes("nowhere://bucket/a.txt")


def test_paths_in_a_store_are_absolute_already():
    assert storage.absolute_path("gs://b/a.txt") == "gs://b/a.txt"
    assert storage.absolute_path("a.txt") == os.path.abspath("a.txt")


def test_a_file_in_a_store_is_complete_or_absent(store):
    path = f"{store}/new/c.txt"
    storage.make_folder(f"{store}/new")
    for text in ("one é", "two"):
        with storage.atomic_file(path) as file:
            file.write(text)
            assert storage.exists(path) == (text == "two")
        with storage.open_bytes(path) as file:
            assert file.read().decode() == text
    with pytest.raises(RuntimeError):
        with storage.atomic_file(path, "wb") as file:
            file.write(b"x" * 3_000_000)
            raise RuntimeError
    assert storage.names_in(f"{store}/new") == ["c.txt"]
    with storage.atomic_file(f"{store}/new/empty", "wb"):
        pass
    assert storage.version(f"{store}/new/empty")[0] == 0


def test_numbers_are_read_from_any_offset(store, tmp_path):
    numbers = np.arange(1000, dtype="<i4")
    for path in (f"{store}/numbers", str(tmp_path / "numbers")):
        with storage.atomic_file(path, "wb") as file:
            file.write(numbers.data)
        found = storage.read_array(path, numbers.dtype, 10, 20)
        assert found.tolist() == list(range(10, 20))
        assert storage.read_array(path, numbers.dtype, 5, 5).tolist() == []
        assert len(storage.read_array(path, numbers.dtype)) == 1000


def test_leftovers_and_folders_are_removed(store):
    folder = f"{store}/left"
    storage.make_folder(f"{folder}/work")
    for name in (".a.0123456789abcdef.tmp", "a.tmp", "work/b"):
        with storage.atomic_file(f"{folder}/{name}", "wb") as file:
            file.write(b"1")
    storage.remove_leftovers(folder)
    assert sorted(storage.names_in(folder)) == ["a.tmp", "work"]
    storage.remove_folder(f"{folder}/work")
    assert storage.names_in(folder) == ["a.tmp"]
    storage.remove_folder(f"{folder}/work")
    storage.remove(f"{folder}/work")
    assert storage.names_in(f"{folder}/work") == []


def test_a_store_without_atomic_renames_is_rejected():
    for path in ("gs://b/out", "hdfs://host/out", "out", "/out"):
        storage.check_writable(path)
    with pytest.raises(ValueError, match="http://b/out cannot be written to"):
        storage.check_writable("http://b/out")


def test_a_file_may_be_removed_by_another_process_at_the_same_time(
    store, monkeypatch
):
    # `remove` may not rely on an answer that is out of date when it acts.
    monkeypatch.setattr(storage, "exists", lambda path: True)
    storage.remove(f"{store}/none.txt")


def test_tensorflow_does_not_remember_files_of_gs():
    program = "import run_scripts, os; print(os.environ[{name!r}])"
    name = "GCS_STAT_CACHE_MAX_AGE"
    environment = {n: v for n, v in os.environ.items() if n != name}
    ran = subprocess.run(
        [sys.executable, "-c", program.format(name=name)],
        env=environment,
        capture_output=True,
        check=True,
        text=True,
    )
    assert ran.stdout == "0\n"
