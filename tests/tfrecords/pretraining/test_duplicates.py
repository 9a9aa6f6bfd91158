"""duplicates.py: only the first of equal documents and lines is kept."""

import numpy as np
import pytest

from tfrecords.engines import processes
from tfrecords.pretraining import duplicates, token_files
from tfrecords.text import documents

VOCAB_SIZE = 1000


def tokenize(sentences):
    """Returns a token per lower-case letter; capitals have no token."""
    ids = [
        [ord(letter) for letter in text if letter.islower()]
        for text in sentences
    ]
    lengths = np.array([len(row) for row in ids])
    return np.concatenate([np.array(row, int) for row in ids]), lengths


def document(*lines):
    """Returns a document of lines, each a list of sentences."""
    return documents.Document(
        [text for line in lines for text in line], "", list(map(len, lines))
    )


@pytest.fixture
def drop(tmp_path):
    """Function: files of documents -> the texts that remain, and the counts."""

    def call(files, kinds, **changes):
        paths = []
        for number, found in enumerate(files):
            paths.append(str(tmp_path / f"token_file-{number}"))
            token_files.write(
                paths[-1],
                [row.sentences for row in found],
                tokenize,
                VOCAB_SIZE,
                map(duplicates.fingerprint, found),
            )
            token_files.finish(paths[-1], {"files": 1})
        with processes.Workers(1) as workers:
            copies = duplicates.drop(
                paths, kinds, str(tmp_path), VOCAB_SIZE, workers
            )
        counts = list(map(token_files.read_counts, copies))
        return list(map(texts_of, copies)), counts

    return call


def texts_of(token_file):
    table = token_files.locate([token_file])
    if not len(table):
        return []
    found = token_files.read([token_file], table, VOCAB_SIZE)
    letters = "".join(map(chr, found.tokens))
    bounds = found.sentence_bounds
    texts = [letters[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]
    ends = found.document_bounds
    return [texts[a:b] for a, b in zip(ends, ends[1:], strict=False)]


FILES = [
    [
        document(["a", "b"], ["c"]),
        document(["NONE"], ["d"]),
        document(["a", "b"], ["c"]),
    ],
    [],
    [
        document(["c"], ["e"]),
        document(["b"], ["a"], ["a", "b"]),
        document(["NONE"], ["d"]),
        document(["NONE"]),
    ],
]


def test_repeated_documents_are_dropped(drop):
    texts, counts = drop(FILES, ["documents"])
    assert texts == [[["a", "b", "c"], ["d"]], [], [["c", "e"], list("baab")]]
    assert [count["duplicate_documents"] for count in counts] == [1, 0, 1]
    assert [count["duplicate_lines"] for count in counts] == [0, 0, 0]
    assert counts[0]["files"] == 1


def test_repeated_lines_are_dropped_with_all_their_sentences(drop):
    texts, counts = drop(FILES, ["lines"])
    # The lines "b" and "a" differ from the line "a b".
    assert texts == [[["a", "b", "c"], ["d"]], [], [["e"], ["b", "a"]]]
    # NONE has no token, so it is neither kept nor counted.
    assert [count["duplicate_lines"] for count in counts] == [2, 0, 3]


def test_lines_of_dropped_documents_are_not_counted(drop):
    texts, counts = drop(FILES, ["documents", "lines"])
    assert texts == drop(FILES, ["lines"])[0]
    assert [count["duplicate_documents"] for count in counts] == [1, 0, 1]
    assert [count["duplicate_lines"] for count in counts] == [0, 0, 2]


def test_documents_with_different_line_breaks_are_different(drop):
    texts, _ = drop([[document(["a", "b"]), document(["a"], ["b"])]], KINDS)
    assert texts == [[["a", "b"], ["a", "b"]]]


KINDS = list(duplicates.KINDS)


def reference(files):
    """Returns the texts without repeated lines, by means of a set."""
    seen, kept = set(), []
    for found in files:
        kept.append([])
        for row in found:
            texts, begin = [], 0
            for length in row.line_lengths:
                line = tuple(row.sentences[begin : begin + length])
                begin += length
                if line not in seen:
                    seen.add(line)
                    texts += line
            if texts:
                kept[-1].append(texts)
    return kept


@pytest.mark.parametrize("keys_in_bucket", [1 << 22, 40])
def test_many_repeated_lines_are_dropped_as_by_a_set(
    drop, monkeypatch, keys_in_bucket
):
    monkeypatch.setattr(duplicates, "_KEYS_IN_BUCKET", keys_in_bucket)
    monkeypatch.setattr(duplicates, "_CHUNK", 64)
    monkeypatch.setattr(token_files, "_COPIED_SENTENCES", 50)
    rng = np.random.default_rng(5)
    words = [
        "".join(rng.choice(list("abcdef"), rng.integers(1, 4)))
        for _ in range(60)
    ]
    files = [
        [
            document(
                *(
                    rng.choice(words, rng.integers(1, 3)).tolist()
                    for _ in range(rng.integers(1, 40))
                )
            )
            for _ in range(count)
        ]
        for count in (9, 0, 30, 1)
    ]
    texts, _ = drop(files, ["lines"])
    assert texts == reference(files)


def test_existing_copies_are_kept(drop, monkeypatch):
    texts, _ = drop(FILES, KINDS)
    monkeypatch.setattr(duplicates, "_copy", None)
    monkeypatch.setattr(duplicates, "_search", None)
    assert drop(FILES, KINDS)[0] == texts
