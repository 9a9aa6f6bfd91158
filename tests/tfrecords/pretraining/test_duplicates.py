"""duplicates.py: the first of equal documents and lines stays, no other."""

import json

import numpy as np
import pytest

from tfrecords.engines import processes
from tfrecords.pretraining import duplicates, token_files
from tfrecords.text import documents

VOCAB_SIZE = 1000


def tokenize(sentences):
    """One token for each letter; what is in capitals has none."""
    ids = [
        [ord(letter) for letter in text if letter.islower()]
        for text in sentences
    ]
    lengths = np.array([len(row) for row in ids])
    return np.concatenate([np.array(row, int) for row in ids]), lengths


def document(*lines):
    """A document of lines, each a list of sentences."""
    return documents.Document(
        [text for line in lines for text in line], "", list(map(len, lines))
    )


@pytest.fixture
def drop(tmp_path):
    """Files of documents -> files of documents of texts, and the counts."""

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
            token_files.write_json(f"{paths[-1]}.json", {"files": 1})
        with processes.Workers(1) as workers:
            copies = duplicates.drop(
                paths, kinds, str(tmp_path), VOCAB_SIZE, workers
            )
        counts = []
        for copy in copies:
            with open(f"{copy}.json") as file:
                counts.append(json.load(file))
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


def test_a_document_that_came_before_is_left_out(drop):
    texts, counts = drop(FILES, ["documents"])
    assert texts == [[["a", "b", "c"], ["d"]], [], [["c", "e"], list("baab")]]
    assert [count["duplicate_documents"] for count in counts] == [1, 0, 1]
    assert [count["duplicate_lines"] for count in counts] == [0, 0, 0]
    assert counts[0]["files"] == 1


def test_a_line_that_came_before_is_left_out_whole(drop):
    texts, counts = drop(FILES, ["lines"])
    # "b" alone and "a" alone are not the line "a b".
    assert texts == [[["a", "b", "c"], ["d"]], [], [["e"], ["b", "a"]]]
    # NONE has no token, and is counted no more than kept.
    assert [count["duplicate_lines"] for count in counts] == [2, 0, 3]


def test_lines_of_documents_left_out_are_not_counted_again(drop):
    texts, counts = drop(FILES, ["documents", "lines"])
    assert texts == drop(FILES, ["lines"])[0]
    assert [count["duplicate_documents"] for count in counts] == [1, 0, 1]
    assert [count["duplicate_lines"] for count in counts] == [0, 0, 2]


def test_sentences_split_otherwise_are_another_document(drop):
    texts, _ = drop([[document(["a", "b"]), document(["a"], ["b"])]], KINDS)
    assert texts == [[["a", "b"], ["a", "b"]]]


KINDS = list(duplicates.KINDS)


def reference(files):
    """What stays of lines, found with a set."""
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
def test_many_lines_are_dropped_as_a_set_drops_them(
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


def test_what_is_there_is_not_made_again(drop, monkeypatch):
    texts, _ = drop(FILES, KINDS)
    monkeypatch.setattr(duplicates, "_copy", None)
    monkeypatch.setattr(duplicates, "_search", None)
    assert drop(FILES, KINDS)[0] == texts
