"""Rows of text and a signature -> outputs of each row, as values for JSON."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_tf.serving.text_rows import Row
from tfrecords.text.vocab import MASK

# JSON key -> model output, for a word and for one of the n-best answers.
WORD = {
    "word": "words",
    "tag": "tags",
    "start": "starts",
    "end": "ends",
    "probability": "probabilities",
}
ANSWER = {
    "answer": "nbest_answers",
    "start": "nbest_starts",
    "end": "nbest_ends",
    "probability": "nbest_probabilities",
    "start_logit": "nbest_start_logits",
    "end_logit": "nbest_end_logits",
}


def batches_of(
    rows: Sequence[Row], ranks: Mapping[str, int], batch_size: int
) -> Iterator[list[Row]]:
    """Yields the rows in batches of similar length, which need less padding."""

    def num_characters(row):
        inputs = [row.fields.get(name, "") for name in ranks]
        return sum(len("".join(texts)) for texts in inputs)

    by_length = sorted(rows, key=num_characters)
    for begin in range(0, len(rows), batch_size):
        yield by_length[begin : begin + batch_size]


def count_cut(
    rows: Sequence[Row],
    ranks: Mapping[str, int],
    max_seq_length: int | None,
    num_tokens: Callable | None,
) -> int:
    """Returns how many rows of a batch are cut.

    Without `num_tokens`, it is the number of those that may be. The other
    arguments are attributes of `predictions.Model`.
    """
    if not max_seq_length:
        return 0

    def most_tokens(row):
        texts = [row.fields.get(name, "") for name in ranks]
        texts = [[text] if isinstance(text, str) else text for text in texts]
        # A token has at least a byte; [CLS] and [SEP] are three at most.
        return 3 + sum(
            max((len(part.encode()) for part in text), default=0)
            for text in texts
        )

    rows = [row for row in rows if most_tokens(row) > max_seq_length]
    if not rows or not num_tokens:
        return len(rows)
    lengths = num_tokens(**make_inputs(rows, ranks)).numpy()
    return int(np.sum(lengths > max_seq_length))


def warn_of_cut(
    num_cut: int, count: int, max_seq_length: int, is_known: bool
) -> None:
    """Logs how many of `count` texts were cut, or may have been."""
    if not num_cut:
        return
    logging.warning(
        "%d of %d texts %s more than max_seq_length=%d tokens and are cut%s",
        num_cut,
        count,
        "have" if is_known else "may have",
        max_seq_length,
        "" if is_known else "; export the model again to know",
    )


def make_inputs(
    rows: Sequence[Row], ranks: Mapping[str, int]
) -> dict[str, Any]:
    """Returns the inputs of a signature for a batch, see `make_tensor`."""
    return {name: make_tensor(rows, name, rank) for name, rank in ranks.items()}


def make_tensor(rows: Sequence[Row], name: str, rank: int):
    """Returns an input of all rows: [N] string, or [N, C] padded with "".

    A missing text is "".
    """
    import tensorflow as tf

    if rank == 1:
        texts = [row.fields.get(name, "") for row in rows]
        return tf.constant(texts, tf.string)
    lists = [row.fields.get(name, []) for row in rows]
    most = max(map(len, lists), default=0)
    padded = [texts + [""] * (most - len(texts)) for texts in lists]
    return tf.reshape(tf.constant(padded, tf.string), [len(rows), most])


def answer_rows(
    signature,
    rows: Sequence[Row],
    ranks: Mapping[str, int],
    outputs: Sequence[str],
) -> Iterator[dict]:
    """Yields the content of an output line for each row.

    It consists of the line number, the row's keys, and the answers, which
    replace keys of the same name.

    Args:
      signature: signature of a SavedModel.
      rows: one batch.
      ranks: name -> rank of its inputs.
      outputs: names of the outputs to write.
    """
    answers = compute(signature, rows, ranks)
    for row, of_row in zip(rows, answers, strict=True):
        answer = _to_json(row, of_row, set(outputs))
        yield {"line": row.line} | row.fields | answer


def compute(
    signature, rows: Sequence[Row], ranks: Mapping[str, int]
) -> Iterator[dict[str, np.ndarray]]:
    """Yields all outputs for each row of a batch, [1, ...], without padding.

    Args:
      signature: signature of a SavedModel, or the function that becomes one.
      rows: one batch.
      ranks: name -> rank of its inputs.
    """
    inputs = make_inputs(rows, ranks)
    answers = {name: x.numpy() for name, x in signature(**inputs).items()}
    lists = [name for name in ranks if ranks[name] == 2]
    for i, row in enumerate(rows):
        num_texts = max((len(row.fields[name]) for name in lists), default=None)
        yield without_padding(
            {name: array[i : i + 1] for name, array in answers.items()},
            num_texts,
        )


def plain(value: np.ndarray):
    """Returns a value for JSON, with float32 in its shortest decimal form."""
    if value.dtype == object:
        texts = [text.decode() for text in value.ravel()]
        return np.array(texts, object).reshape(value.shape).tolist()
    if value.dtype == np.float32:
        # Via strings, so that 0.1 is not 0.10000000149011612.
        return value.astype(str).astype(np.float64).tolist()
    return value.tolist()


def _join(texts: list[str], tokens: list[str]) -> str:
    """Returns texts joined by tokens; `##` continues the previous word."""
    filled = texts[0]
    for token, text in zip(tokens, texts[1:], strict=True):
        if token.startswith("##"):
            filled = filled.rstrip()
        filled += token.removeprefix("##") + text
    return filled


def fill_masks(text: str, tokens: np.ndarray, probabilities: np.ndarray):
    """Returns the text with filled masks, and candidates for each [MASK].

    A [MASK] beyond the model's length has no candidates and is kept.

    Args:
      text: text with [MASK].
      tokens: [P, k] bytes, best first.
      probabilities: [P, k] float32.

    Returns:
      `filled`, the text with the best token for each mask, and `masks`: for
      each mask a list of `token`, `probability`, and `filled` with this token.
    """
    texts = text.split(MASK)
    tokens, probabilities = plain(tokens), plain(probabilities)
    best = [candidates[0] for candidates in tokens]
    best += [MASK] * (len(texts) - 1 - len(best))
    masks = [
        [
            {
                "token": token,
                "probability": probability,
                "filled": _join(texts, best[:i] + [token] + best[i + 1 :]),
            }
            for token, probability in zip(
                tokens[i], probabilities[i], strict=True
            )
        ]
        for i in range(len(tokens))
    ]
    return {"filled": _join(texts, best), "masks": masks}


def records(answers: Mapping[str, np.ndarray], names: Mapping) -> list[dict]:
    """Returns outputs [1, n] as n dicts; `names` are key -> output."""
    columns = [plain(answers[name])[0] for name in names.values()]
    return [
        dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)
    ]


def without_padding(
    answers: Mapping[str, np.ndarray], num_texts: int | None
) -> dict[str, np.ndarray]:
    """Returns the answers for one row without the padding of its batch.

    Args:
      answers: all outputs of the signature, each [1, ...]. The number of words,
        masks, answers or tokens in the row is derived from them.
      num_texts: length of the row's longest list of texts; None if it has no
        lists.
    """
    padded = ("",)  # Prefixes of the names of padded outputs.
    if "num_answers" in answers:
        padded, count = ("nbest_",), int(answers["num_answers"][0])
    elif "input_mask" in answers:
        padded = ("input_mask", "sequence_output", "encoder_outputs")
        count = int(answers["input_mask"][0].sum())
    elif "words" in answers:
        count = np.count_nonzero(answers["words"][0] != b"")
    elif "tokens" in answers:
        count = np.count_nonzero(answers["tokens"][0, :, 0] != b"")
    elif num_texts is not None:
        count = num_texts
    else:
        return dict(answers)
    return dict(answers) | {
        name: value[:, :count]
        for name, value in answers.items()
        if value.ndim > 1 and name.startswith(padded)
    }


def _to_json(
    row: Row, answers: Mapping[str, np.ndarray], outputs: set[str]
) -> dict:
    """Returns the answers for one row; for known kinds of model, as dicts."""
    if {"tokens", "probabilities"} <= outputs:
        return fill_masks(
            row.fields["text"],
            answers["tokens"][0],
            answers["probabilities"][0],
        )
    if set(WORD.values()) <= outputs:
        return {"words": records(answers, WORD)}
    written = {name: plain(answers[name])[0] for name in sorted(outputs)}
    if {"answer", "nbest_answers", "num_answers"} <= outputs:
        best = {
            name: value
            for name, value in written.items()
            if not name.startswith(("num_answers", "nbest_"))
        }
        return best | {"nbest": records(answers, ANSWER)}
    return written
