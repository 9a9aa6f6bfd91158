"""corpus.py: one token file per input file or part of it, written once."""

import dataclasses
import errno
import json
import os
import pathlib
import shutil

import pytest

from tfrecords.engines import processes
from tfrecords.io import storage
from tfrecords.pretraining import corpus, file_parts, token_files


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


def test_a_changed_file_gets_a_new_token_file(text, tmp_path):
    before = tokenize(text, tmp_path / "work")
    with open(text.paths()[0], "a") as file:
        file.write("The garden.\n")
    after = tokenize(text, tmp_path / "work")
    assert before[0] != after[0] and before[1] == after[1]


def test_other_options_give_other_token_files(text, tmp_path, tiny_vocab_file):
    one = tokenize(text, tmp_path / "work")
    for rule in ("do_lower_case", "strip_accents", "tokenize_chinese_chars"):
        other = dataclasses.replace(text, **{rule: False})
        assert text.describe([]) != other.describe([])
        assert not set(one) & set(tokenize(other, tmp_path / "work"))
    # BERT's own values are not mentioned.
    same = dataclasses.replace(text, strip_accents=True)
    assert text.describe([]) == same.describe([])


def test_tokens_that_continue_a_given_word_have_ids_of_their_own(tmp_path):
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"天气好4", "##5"]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(entries), "utf-8")
    given, expected = (
        corpus.load_tokenizer(str(path), is_split, do_lower_case=True)[0]
        for is_split in (True, False)
    )
    sentences = ["天气 \ufffd 好", "\u200b", "气好天 45", "\x00 天"]
    ids, lengths = given(sentences)
    # 天 气|好    气 好 天|4 ##5    天
    assert (ids // len(entries)).tolist() == [0, 1, 0, 0, 1, 1, 0, 1, 0]
    for found, wanted in zip(
        (ids % len(entries), lengths), expected(sentences), strict=True
    ):
        assert found.tolist() == wanted.tolist()


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


# Parts of large files.


@pytest.fixture
def large(tmp_path, tiny_vocab_file, monkeypatch):
    """A file with repeated documents and a line that is not UTF-8."""
    path = tmp_path / "large.txt"
    documents = [b"The cat sat.\n", b"A door.\nThe \xff sea.\n", b"A sail.\n"]
    path.write_bytes(b"\n".join(documents * 5))
    monkeypatch.setattr(file_parts, "PART_BYTES", 40)
    return corpus.Corpus(
        input_file=str(path),
        vocab_file=tiny_vocab_file,
        input_format="sentences",
    )


def content(made):
    """Returns the documents of token files, and the reader's counts."""
    documents = token_files.read(made, token_files.locate(made), 1000)
    documents = [array.tolist() for array in documents]
    return documents, corpus.read_statistics(made)


@pytest.mark.parametrize("kinds", [(), ("documents",), ("documents", "lines")])
def test_a_file_in_parts_has_the_same_documents(
    large, tmp_path, monkeypatch, kinds
):
    large = dataclasses.replace(large, drop_duplicates=kinds)
    parts = tokenize(large, tmp_path / "parts")
    monkeypatch.undo()
    whole = tokenize(large, tmp_path / "whole")
    assert (len(parts), len(whole)) == (6, 1)
    assert content(parts) == content(whole)
    counts = corpus.read_statistics(parts)
    assert counts["files"] == 1 and counts["invalid_characters"] == 5
    assert counts["duplicate_documents"] == (12 if kinds else 0)


def test_a_remote_file_is_read_in_parts(large, tmp_path):
    path = "ram://test_corpus/large.txt"
    with storage.atomic_file(path, "wb") as file:
        file.write(pathlib.Path(large.input_file).read_bytes())
    local = tokenize(large, tmp_path / "local")
    large = dataclasses.replace(large, input_file=path)
    remote = tokenize(large, tmp_path / "remote")
    assert len(remote) == 6
    assert content(remote) == content(local)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        ("json", os.remove),
        ("json", flip),
        ("json", lambda path: os.truncate(path, 20)),
        ("tokens", flip),
        ("tokens", lambda path: os.truncate(path, 20)),
        ("sentences", os.remove),
        ("documents.npy", lambda path: os.truncate(path, 0)),
    ],
)
def test_a_rerun_tokenizes_only_missing_or_damaged_parts(
    large, tmp_path, caplog, suffix, damage
):
    made = tokenize(large, tmp_path / "work")
    wanted = content(made)
    before = [os.stat(f"{path}.tokens").st_mtime_ns for path in made]
    path = pathlib.Path(f"{made[2]}.{suffix}")
    damage(path)
    is_gone = path.suffix == ".json" and not path.exists()
    assert tokenize(large, tmp_path / "work") == made
    after = [os.stat(f"{path}.tokens").st_mtime_ns for path in made]
    is_equal = [a == b for a, b in zip(after, before, strict=True)]
    assert is_equal == [True, True, False, True, True, True]
    assert content(made) == wanted
    # A part without .json was never finished.
    warning = f"{made[2]}.*  made again: a file is damaged"
    assert (warning in caplog.text) == (not is_gone)


def test_a_token_file_of_an_earlier_version_is_made_again(
    text, tmp_path, caplog
):
    made = tokenize(text, tmp_path / "work")
    path = pathlib.Path(f"{made[0]}.json")
    wanted = path.read_text()
    path.write_text(json.dumps(json.loads(wanted)["counts"]))
    assert tokenize(text, tmp_path / "work") == made
    assert path.read_text() == wanted
    assert f"{made[0]}.*  made again: it is of an earlier ver" in caplog.text
    assert "damaged" not in caplog.text


def test_a_store_that_is_not_reached_is_no_damage(text, tmp_path, monkeypatch):
    tokenize(text, tmp_path / "work")

    def open_bytes(path):
        raise OSError(errno.EIO, "cannot be reached", path)

    monkeypatch.setattr(storage, "open_bytes", open_bytes)
    with pytest.raises(OSError, match="cannot be reached"):
        tokenize(text, tmp_path / "work")


def test_the_token_file_of_another_part_is_made_again(large, tmp_path):
    made = tokenize(large, tmp_path / "work")
    wanted = content(made)
    for path in (tmp_path / "work").glob(f"{os.path.basename(made[0])}.*"):
        shutil.copy(path, f"{made[1]}{path.suffixes[-1]}")
    assert content(tokenize(large, tmp_path / "work")) == wanted


@pytest.mark.parametrize("kinds", [(), ("lines",)])
def test_an_empty_file_in_parts_is_counted_and_named_once(
    large, text, tmp_path, caplog, kinds
):
    path = text.paths()[1]
    with open(path, "w") as file:
        file.write(" \n" * 100)
    large = dataclasses.replace(
        large,
        input_file=f"{large.input_file},{path}",
        drop_duplicates=kinds,
    )
    made = tokenize(large, tmp_path / "work")
    assert len(made) == 11
    for _ in range(2):
        counts = corpus.read_statistics(tokenize(large, tmp_path / "work"))
        assert (counts["files"], counts["empty_files"]) == (2, 1)
    lines = [record.getMessage() for record in caplog.records]
    assert f"{path} has no sentences" in lines
    assert f"{large.input_file} has no sentences" not in lines


def test_a_file_that_changes_after_it_was_split_raises(
    large, tmp_path, monkeypatch
):
    real = file_parts.split

    def shrink(files, *others):
        parts = real(files, *others)
        with open(files[0][0], "r+b") as file:
            file.truncate(60)
        return parts

    monkeypatch.setattr(file_parts, "split", shrink)
    with pytest.raises(ValueError, match="large.txt changed while it was read"):
        tokenize(large, tmp_path / "work")
