"""corpus.py: one token file per input file, written once."""

import dataclasses
import os

import pytest

from tfrecords.engines import processes
from tfrecords.pretraining import corpus, token_files


@pytest.fixture
def text(tmp_path, tiny_vocab_file):
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    files[0].write_text("The old captain.\nA white sail.\n\nThe sea.\n")
    files[1].write_bytes(b"The cat \xff sat.\nThe door.\n")
    return corpus.Corpus(
        input_file=",".join(map(str, files)), vocab_file=tiny_vocab_file
    )


def tokenize(text, folder):
    os.makedirs(folder, exist_ok=True)
    with processes.Workers(1) as workers:
        return corpus.tokenize(text, text.paths(), str(folder), workers)


def test_each_file_becomes_a_token_file_in_order(text, tmp_path):
    made = tokenize(text, tmp_path / "work")
    table = token_files.locate(made)
    assert table[:, 1].tolist() == [0, 0, 1]
    documents = token_files.read(made, table, 1000)
    assert len(documents.sentence_bounds) - 1 == 5
    read = corpus.read_statistics(made)
    assert read["files"] == 2 and read["documents"] == 3
    assert read["invalid_characters"] == 1


def test_a_rerun_writes_only_missing_token_files(text, tmp_path):
    made = tokenize(text, tmp_path / "work")
    before = os.stat(f"{made[0]}.tokens").st_mtime_ns
    os.remove(f"{made[1]}.json")
    assert tokenize(text, tmp_path / "work") == made
    assert os.stat(f"{made[0]}.tokens").st_mtime_ns == before
    assert os.path.exists(f"{made[1]}.json")


def test_a_changed_file_gets_a_new_token_file(text, tmp_path):
    before = tokenize(text, tmp_path / "work")
    with open(text.paths()[0], "a") as file:
        file.write("The garden.\n")
    after = tokenize(text, tmp_path / "work")
    assert before[0] != after[0] and before[1] == after[1]


def test_other_options_give_other_token_files(text, tmp_path, tiny_vocab_file):
    cased = corpus.Corpus(
        input_file=text.input_file,
        vocab_file=tiny_vocab_file,
        do_lower_case=False,
    )
    assert text.describe([]) != cased.describe([])
    one = tokenize(text, tmp_path / "work")
    assert not set(one) & set(tokenize(cased, tmp_path / "work"))


def test_a_file_that_grows_while_it_is_read_raises(text, tmp_path, monkeypatch):
    real = token_files.write

    def grow(path, documents, *others):
        real(path, documents, *others)
        with open(text.paths()[0], "a") as file:
            file.write("The garden.\n")

    with monkeypatch.context() as patch:
        patch.setattr(token_files, "write", grow)
        with pytest.raises(
            ValueError, match="a.txt changed while it was read: it had 41 bytes"
        ):
            tokenize(text, tmp_path / "work")
    assert os.listdir(tmp_path / "work") == []
    assert len(tokenize(text, tmp_path / "work")) == 2


def test_duplicates_are_dropped_and_counted(text, tmp_path):
    with open(text.paths()[1], "ab") as file:
        file.write(b"\nThe sea.\n\nThe old captain.\nA cat.\n")
    both = dataclasses.replace(text, drop_duplicates=("documents", "lines"))
    assert both.describe([]) != text.describe([])
    made = tokenize(both, tmp_path / "work")
    documents = token_files.read(made, token_files.locate(made), 1000)
    assert len(documents.sentence_bounds) - 1 == 6  # Of 8.
    read = corpus.read_statistics(made)
    assert read["documents"] == 5 and read["sentences"] == 8
    assert read["duplicate_documents"] == read["duplicate_lines"] == 1
    assert tokenize(both, tmp_path / "work") == made
