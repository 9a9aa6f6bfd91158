"""Rows of inputs, a SavedModel's signature -> answers as JSON has them.

What fills a batch up, such as the tags of words that a row does not have, is
left out, so an answer does not depend on the rows beside it.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bert_tf.export import mask_signatures
from bert_tf.workflows import text_rows


def plain(value: np.ndarray):
    """Returns a value as JSON has it; float32 in its own few digits."""
    if value.dtype == object:
        texts = [text.decode() for text in value.ravel()]
        return np.array(texts, object).reshape(value.shape).tolist()
    if value.dtype == np.float32:
        # Through text, so that 0.1 is not 0.10000000149011612.
        return value.astype(str).astype(np.float64).tolist()
    return value.tolist()


def _put(texts: list[str], tokens: list[str]) -> str:
    """Joins what stands around masks by tokens; `##` joins to what is before.

    A mask beyond the model's length has no token and stays.
    """
    tokens = tokens + [mask_signatures.MASK] * (len(texts) - 1 - len(tokens))
    filled = texts[0]
    for token, text in zip(tokens, texts[1:], strict=True):
        if token.startswith("##"):
            filled = filled.rstrip()
        filled += token.removeprefix("##") + text
    return filled


def fill_masks(text: str, tokens: np.ndarray, probabilities: np.ndarray):
    """Returns candidates for each [MASK] of a text, and the best text.

    Args:
      text: with [MASK] in it.
      tokens: [P, k] bytes, best first.
      probabilities: [P, k] float32.

    Returns:
      `filled`, with the best token in each place, and `masks`: for each mask
      a list of `token`, `probability`, and `filled` with this token there.
    """
    texts = text.split(mask_signatures.MASK)
    tokens = plain(tokens)
    best = [candidates[0] for candidates in tokens]
    masks = [
        [
            {
                "token": token,
                "probability": probability,
                "filled": _put(texts, best[:i] + [token] + best[i + 1 :]),
            }
            for token, probability in zip(*candidates, strict=True)
        ]
        for i, candidates in enumerate(
            zip(tokens, plain(probabilities), strict=True)
        )
    ]
    return {"filled": _put(texts, best), "masks": masks}


def _tagged(answers: Mapping[str, np.ndarray]) -> list[dict]:
    """Returns the words of a text, each with its tag and place."""
    names = {
        "word": "words",
        "tag": "tags",
        "start": "starts",
        "end": "ends",
        "probability": "probabilities",
    }
    columns = [plain(answers[name]) for name in names.values()]
    return [
        dict(zip(names, values, strict=True))
        for values in zip(*columns, strict=True)
    ]


def _answered(answers: Mapping[str, np.ndarray], names: set[str]) -> dict:
    """Returns the answer to a question, and the best ones as a list."""
    prefix = "nbest_"
    columns = {
        "answer": "nbest_answers",
        "start": "nbest_starts",
        "end": "nbest_ends",
        "probability": "nbest_probabilities",
        "start_logit": "nbest_start_logits",
        "end_logit": "nbest_end_logits",
    }
    values = {
        name: plain(answers[name])[0]
        for name in sorted(names - {"num_answers"})
        if not name.startswith(prefix)
    }
    rows = [plain(answers[name][0]) for name in columns.values()]
    best = [
        dict(zip(columns, row, strict=True)) for row in zip(*rows, strict=True)
    ]
    return values | {"nbest": best}


def without_filling(
    answers: Mapping[str, np.ndarray], num_given: int | None
) -> dict[str, np.ndarray]:
    """Returns answers to one row without what fills its batch up.

    Args:
      answers: all outputs of the signature, each [1, ...]; by them is known
        how many words, masks, answers or tokens the row has.
      num_given: texts in the row's longest list, None if it gives none.
    """
    filled = ("",)  # Starts of the names of outputs that are filled up.
    if "num_answers" in answers:
        filled, count = ("nbest_",), int(answers["num_answers"][0])
    elif "input_mask" in answers:
        filled = ("input_mask", "sequence_output", "encoder_outputs")
        count = int(answers["input_mask"][0].sum())
    elif "words" in answers:
        count = np.count_nonzero(answers["words"][0] != b"")
    elif "tokens" in answers:
        count = np.count_nonzero(answers["tokens"][0, :, 0] != b"")
    elif num_given is not None:
        count = num_given
    else:
        return dict(answers)
    return {
        name: value[:, :count]
        if value.ndim > 1 and name.startswith(filled)
        else value
        for name, value in answers.items()
    }


def _values(
    row: text_rows.Row, answers: Mapping[str, np.ndarray], outputs: set[str]
) -> dict:
    """Returns the answers for one row, by what is asked for."""
    if {"tokens", "probabilities"} <= outputs:
        return fill_masks(
            row.values["text"],
            answers["tokens"][0],
            answers["probabilities"][0],
        )
    if {"words", "tags", "starts", "ends", "probabilities"} <= outputs:
        return {"words": _tagged({n: x[0] for n, x in answers.items()})}
    if {"answer", "nbest_answers", "num_answers"} <= outputs:
        return _answered(answers, outputs)
    return {name: plain(answers[name])[0] for name in sorted(outputs)}


def answer(
    signature,
    rows: Sequence[text_rows.Row],
    ranks: Mapping[str, int],
    outputs: Sequence[str],
) -> Iterator[dict]:
    """Yields what to write for each row: its line, what it gave, the answers.

    Args:
      signature: of a SavedModel.
      rows: a batch of them.
      ranks: inputs of the signature, as for `text_rows`.
      outputs: those of the signature to write.
    """
    inputs = {
        name: text_rows.make_tensor(rows, name, rank)
        for name, rank in ranks.items()
    }
    answers = {name: x.numpy() for name, x in signature(**inputs).items()}
    lists = [name for name in ranks if ranks[name] == 2]
    for i, row in enumerate(rows):
        num_given = max((len(row.values[name]) for name in lists), default=None)
        of_row = without_filling(
            {name: array[i : i + 1] for name, array in answers.items()},
            num_given,
        )
        values = _values(row, of_row, set(outputs))
        yield {"line": row.line} | row.values | values
