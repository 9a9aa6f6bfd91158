"""Invented questions, with results of the original code -> SQuAD files.

tests/data/squad_golden.json describes how it was made.
"""

import functools
import json
import pathlib

import numpy as np

GOLDEN = pathlib.Path(__file__).parent / "data" / "squad_golden.json"


@functools.cache
def golden():
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


def write_vocab(folder):
    """Writes the vocabulary of the golden cases; returns its path."""
    path = folder / "golden_vocab.txt"
    path.write_text("\n".join(golden()["vocab"]) + "\n", encoding="utf-8")
    return str(path)


def write(folder, case):
    """Writes the file of a golden case; returns its path."""
    version = "v2.0" if case["version_2_with_negative"] else "v1.1"
    path = folder / f"{version}.json"
    path.write_text(json.dumps(golden()[version]), encoding="utf-8")
    return str(path)


def make_windows(tokenizer, questions, passages, S, stride=128, most=64):
    """Returns the windows of questions, of which `most` tokens are kept."""
    # Tests that only write files need no TensorFlow.
    import tensorflow as tf

    from tfrecords.tasks import question_windows

    tokens = question_windows.tokenize(
        tokenizer, tf.constant(questions), tf.constant(passages)
    )
    return question_windows.make_windows(
        *tokens,
        max_seq_length=S,
        doc_stride=stride,
        max_query_length=most,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
    )


def logits(num_windows, length):
    """Returns the start and end logits behind the golden answers."""
    w, t = np.arange(num_windows)[:, None], np.arange(length)[None]
    start = (37 * w + 101 * t + 13 * t * t + 5 * w * t) % 211
    end = (53 * w + 89 * t + 17 * t * t + 3 * w * t) % 223
    return tuple((x / 20 - 5).astype(np.float32) for x in (start, end))


def article(*paragraphs, version="1.1", title="Invented"):
    """Returns the content of a file; paragraphs are (passage, questions)."""
    return {
        "version": version,
        "data": [
            {
                "title": title,
                "paragraphs": [
                    {"context": passage, "qas": list(questions)}
                    for passage, questions in paragraphs
                ],
            }
        ],
    }


def question(name, text, passage, *answers, **members):
    """Returns an entry of `qas`; answers start at their first occurrence."""
    return {
        "id": name,
        "question": text,
        "answers": [
            {"text": answer, "answer_start": passage.index(answer)}
            for answer in answers
        ],
    } | members
