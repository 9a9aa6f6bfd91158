"""token_files.py: written documents are read, in any order."""

import os

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from tfrecords.pretraining import token_files


def tokenize(sentences):
    """Returns the tokens 3 and 4 of "3 4"."""
    tokens = [[int(word) for word in s.split()] for s in sentences]
    flat = np.array([t for row in tokens for t in row], np.int32)
    return flat, np.array([len(row) for row in tokens], np.int64)


FIRST = [["1 2", "3"], ["4"]]
SECOND = [["5 6 7"], ["8", "", "9 10"], ["", ""], ["11"]]


@pytest.fixture
def paths(tmp_path):
    paths = [str(tmp_path / name) for name in "ab"]
    for path, documents in zip(paths, (FIRST, SECOND), strict=True):
        token_files.write(path, documents, tokenize, 100)
    return paths


def _as_lists(documents):
    bounds = documents.sentence_bounds
    sentences = [
        documents.tokens[begin:end].tolist()
        for begin, end in zip(bounds[:-1], bounds[1:], strict=True)
    ]
    bounds = documents.document_bounds
    return [
        sentences[begin:end]
        for begin, end in zip(bounds[:-1], bounds[1:], strict=True)
    ]


def test_documents_are_read_as_they_were_written(paths):
    table = token_files.locate(paths)
    documents = token_files.read(paths, table, 100)
    # Without empty sentences, and without documents that have only these.
    assert _as_lists(documents) == [
        [[1, 2], [3]],
        [[4]],
        [[5, 6, 7]],
        [[8], [9, 10]],
        [[11]],
    ]
    assert documents.numbers.tolist() == [0, 1, 2, 3, 4]


def test_selected_documents_are_read_in_the_order_of_the_table(paths):
    table = token_files.locate(paths)[[3, 0]]
    documents = token_files.read(paths, table, 100)
    assert _as_lists(documents) == [[[8], [9, 10]], [[1, 2], [3]]]
    assert documents.numbers.tolist() == [3, 0]


@pytest.mark.parametrize("vocab_size", [1 << 15, (1 << 15) + 1])
def test_the_largest_id_fits(tmp_path, vocab_size):
    path = str(tmp_path / "a")
    largest = 2 * vocab_size - 1  # Of a token that continues a word.
    token_files.write(path, [[str(largest)]], tokenize, vocab_size)
    table = token_files.locate([path])
    found = token_files.read([path], table, vocab_size)
    assert found.tokens.tolist() == [largest]


def test_small_vocabularies_need_two_bytes_per_token(paths):
    assert os.path.getsize(f"{paths[0]}.tokens") == 2 * 4


def test_more_sentences_than_are_tokenized_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(token_files, "_SENTENCES", 3)
    rng = np.random.default_rng(0)
    documents = [
        [str(rng.integers(100)) for _ in range(rng.integers(1, 9))]
        for _ in range(50)
    ]
    path = str(tmp_path / "a")
    token_files.write(path, documents, tokenize, 100)
    found = token_files.read([path], token_files.locate([path]), 100)
    assert _as_lists(found) == [[[int(s)] for s in d] for d in documents]


def test_a_token_file_without_documents_has_no_rows(tmp_path):
    path = str(tmp_path / "a")
    token_files.write(path, [], tokenize, 100)
    assert token_files.locate([path]).shape == (0, 6)


def test_a_failed_write_leaves_no_files(tmp_path):
    def documents():
        yield ["1"]
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        token_files.write(str(tmp_path / "a"), documents(), tokenize, 9)
    assert os.listdir(tmp_path) == []


def _cut(documents, **sizes):
    """Cuts sentences of ids; those from 100 continue a word."""
    flat = [token for sentences in documents for s in sentences for token in s]
    lengths = [len(s) for sentences in documents for s in sentences]
    counts = [len(sentences) for sentences in documents]
    found, statistics = token_files.cut_long_sentences(
        token_files.Documents(
            tokens=np.array(flat, np.uint16),
            sentence_bounds=np.cumsum([0, *lengths]),
            document_bounds=np.cumsum([0, *counts]),
            numbers=np.arange(len(documents)),
        ),
        is_continuation=np.arange(200) >= 100,
        **sizes,
    )
    return _as_lists(found), statistics


def test_only_sentences_longer_than_an_example_are_cut():
    documents = [[[1, 2], [3, 4, 5, 6, 7]], [[1, 2, 3, 4]], [[8] * 9, [9]]]
    found, statistics = _cut(documents, max_tokens=4, part_tokens=2)
    assert found == [
        [[1, 2], [3, 4], [5, 6], [7]],
        [[1, 2, 3, 4]],
        [[8, 8], [8, 8], [8, 8], [8, 8], [8], [9]],
    ]
    assert statistics == {"cut_sentences": 2, "cut_tokens": 14}
    assert _cut(documents, max_tokens=9, part_tokens=2) == (
        documents,
        {"cut_sentences": 0, "cut_tokens": 0},
    )


def test_parts_of_a_long_sentence_end_where_words_end():
    # Words of 1, 2, 3 and 7 pieces: the last one is longer than a part.
    words = [1, 2, 102, 3, 103, 104, 4, 105, 106, 107, 108, 109, 110]
    found, _ = _cut([[words]], max_tokens=4, part_tokens=4)
    assert found == [
        [[1, 2, 102], [3, 103, 104], [4, 105, 106, 107], [108, 109, 110]]
    ]


@hypothesis.given(
    strategies.lists(
        strategies.lists(
            strategies.lists(strategies.integers(0, 199), min_size=1),
            min_size=1,
        ),
        min_size=1,
    ),
    strategies.integers(1, 9),
    strategies.integers(1, 9),
)
def test_cutting_keeps_all_tokens_and_documents(documents, longest, part):
    part = min(part, longest)
    found, _ = _cut(documents, max_tokens=longest, part_tokens=part)
    assert max(len(s) for d in found for s in d) <= longest
    for before, after in zip(documents, found, strict=True):
        assert sum(after, []) == sum(before, [])
        # Bounds of sentences are kept.
        for sentence in before:
            assert len(sentence) > longest or sentence in after
