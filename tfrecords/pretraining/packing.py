"""Examples -> packed rows of several examples each, with little padding.

Krell et al. 2021, "Efficient Sequence Packing without Cross-contamination":
packing depends only on the number of examples of each length, and there are few
lengths. So all rows with the same lengths are processed at once. No library
packs by the number of examples of each length.

Short examples take the place of padding. Each keeps its own positions, [CLS]
and label, and attends only to itself (`layers.packed_attention_mask` in
bert_tf/model), so that the model computes the same for it as in a separate row.

N examples, R rows, S positions in a row, at most E examples in a row.
"""

import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

# The shortest example: [CLS], one token, [SEP].
_FEWEST_TOKENS = 3

Features = dict[str, np.ndarray]


class Rows(NamedTuple):
    """The examples of each row."""

    order: np.ndarray  # [N] int64, indices of all examples, row by row.
    counts: np.ndarray  # [R] int64, examples in each row; their sum is N.


class _Layout(NamedTuple):
    """Rows whose examples have the same lengths."""

    num_rows: int
    free: int  # Unused positions in each row.
    lengths: tuple[int, ...]  # Of a row's examples, descending.

    def with_more(self, num_rows: int, length: int, count: int) -> "_Layout":
        """Returns `num_rows` such rows with `count` more examples in each."""
        lengths = self.lengths + (length,) * count
        return _Layout(num_rows, self.free - count * length, lengths)


def assign(
    lengths: np.ndarray, max_seq_length: int, max_examples_per_row: int
) -> Rows:
    """Assigns examples to rows by first-fit-decreasing.

    From long to short, each example goes into the first row with room for it.

      lengths 5 3 8 2 2, rows of 8, at most three examples
      order   0 1  2  3 4
      counts  2    1  2

    This needs at most 11 / 9 of the optimal number of rows, plus one (Dosa
    2007), unless E limits the rows. The same lengths give the same rows. Rows
    are ordered by the indices of their longest examples, so that shuffled
    examples give shuffled rows.

    Args:
      lengths: [N] integer, tokens of each example; from 1 to S.
      max_seq_length: S.
      max_examples_per_row: E.

    Raises:
      ValueError: if a length is out of range.
    """
    lengths = np.asarray(lengths, np.int64)
    wrong = lengths[(lengths < 1) | (lengths > max_seq_length)]
    if wrong.size:
        raise ValueError(
            f"An example of {wrong[0]} tokens does not fit into a row of "
            f"max_seq_length={max_seq_length}; it should have 1 to "
            f"{max_seq_length}."
        )
    histogram = np.bincount(lengths, minlength=max_seq_length + 1)
    layouts = _first_fit_decreasing(histogram.tolist(), max_examples_per_row)
    counts = np.array([len(layout.lengths) for layout in layouts], np.int64)
    repeats = np.array([layout.num_rows for layout in layouts], np.int64)
    wanted = [np.tile(layout.lengths, layout.num_rows) for layout in layouts]
    wanted = np.concatenate([np.zeros(0, np.int64), *wanted])  # [N] lengths.
    counts = np.repeat(counts, repeats)
    # Examples of equal length are interchangeable: the first row that needs
    # one gets the first of them, and so on.
    order = np.empty(len(lengths), np.int64)
    order[np.argsort(wanted, kind="stable")] = np.argsort(
        lengths, kind="stable"
    )
    longest = order[np.cumsum(counts) - counts]  # [R]
    rows = np.argsort(longest)
    rank = np.empty(len(rows), np.int64)
    rank[rows] = np.arange(len(rows))
    by_row = np.argsort(np.repeat(rank, counts), kind="stable")
    return Rows(order[by_row], counts[rows])


def _first_fit_decreasing(
    histogram: list[int], max_examples_per_row: int
) -> list[_Layout]:
    """Returns the rows by layout.

    `histogram` [S + 1] is the number of examples of each length.
    """
    max_seq_length = len(histogram) - 1
    present = [length for length, count in enumerate(histogram) if count]
    shortest = present[0] if present else 0
    full, open_layouts = [], []
    for length in reversed(present):
        left, layouts = histogram[length], []
        # Empty rows are tried last; there are as many as could be needed.
        for layout in [*open_layouts, _Layout(left, max_seq_length, ())]:
            room = max_examples_per_row - len(layout.lengths)
            each = min(layout.free // length, room)
            if not each or not left:
                layouts.append(layout)
                continue
            # Some rows get as many as fit, one gets the rest, others none.
            filled = min(left // each, layout.num_rows)
            left -= filled * each
            rows = layout.num_rows - filled
            layouts.append(layout.with_more(filled, length, each))
            if rows and left:
                layouts.append(layout.with_more(1, length, left))
                rows, left = rows - 1, 0
            layouts.append(layout._replace(num_rows=rows))
        open_layouts = []
        for layout in layouts:
            if not layout.num_rows or not layout.lengths:
                continue
            has_room = len(layout.lengths) < max_examples_per_row
            is_open = has_room and layout.free >= shortest
            (open_layouts if is_open else full).append(layout)
    return full + open_layouts


def max_predictions_per_row(
    max_seq_length: int,
    max_predictions_per_seq: int,
    masked_lm_prob: float,
    max_examples_per_row: int,
) -> int:
    """Returns P, enough masked slots for any row of examples.

    An example of n tokens has at most max(1, round(n * masked_lm_prob)) masked
    tokens. That exceeds n * masked_lm_prob by up to 1/2 from rounding, or by up
    to 1 - 3 * masked_lm_prob, as even an example of 3 tokens has one. So a row
    has at most S * masked_lm_prob plus E times the larger excess: 80 slots for
    S = 512 and E = 6. With E * max_predictions_per_seq, it would have 480,
    nearly all of them empty but computed.
    """
    more = max(0.5, 1.0 - _FEWEST_TOKENS * masked_lm_prob)
    # 1e-6, so that int() of an integer with a rounding error is that integer.
    most = max_seq_length * masked_lm_prob + max_examples_per_row * more + 1e-6
    return min(
        int(most),
        max_seq_length,
        max_examples_per_row * max_predictions_per_seq,
    )


def pack(
    blocks: Iterator[Features], counts: np.ndarray, sizes: dict[str, int]
) -> Iterator[Features]:
    """Joins blocks of examples into rows, as `join` does.

    Args:
      blocks: examples in the order of `Rows.order`.
      counts: [R] examples in each row, as in `Rows`.
      sizes: sizes of the dimensions of the packed schema.

    Yields:
      The rows completed by each block.
    """
    ends = np.cumsum(counts)
    rest: Features = {}
    num_done = num_rows = 0  # Examples and rows.
    for block in blocks:
        if rest:
            block = {
                name: np.concatenate([rest[name], array])
                for name, array in block.items()
            }
        have = num_done + len(block["input_mask"])
        last = int(np.searchsorted(ends, have, side="right"))
        own = counts[num_rows:last]
        num_complete = int(own.sum())
        rest = {name: array[num_complete:] for name, array in block.items()}
        if len(own):
            complete = {
                name: array[:num_complete] for name, array in block.items()
            }
            yield join(complete, own, sizes)
        num_rows, num_done = last, num_done + num_complete


def join(
    examples: Features, counts: np.ndarray, sizes: dict[str, int]
) -> Features:
    """Returns rows of consecutive examples.

      two examples      CLS 21 SEP 31 SEP, CLS 22 SEP 32 33 SEP
      input_word_ids    CLS 21 SEP 31 SEP CLS 22 SEP 32 33 SEP  0
      example_numbers     1  1   1  1   1   2  2   2  2  2   2  0
      position_ids        0  1   2  3   4   0  1   2  3  4   5  0
      cls_positions       0  5

    Args:
      examples: features of `schema.PRETRAINING`, each [n, ...]; labels and
        masks may be missing.
      counts: [r] examples in each row; their sum is n.
      sizes: sizes of the dimensions of the packed schema.

    Returns:
      The features of `schema.PACKED_PRETRAINING`, each [r, ...], without those
      of missing labels and masks.

    Raises:
      ValueError: if the examples of a row do not fit into it.
    """
    ends = np.cumsum(counts)
    row = np.repeat(np.arange(len(counts)), counts)  # [n]

    def rows_of(size, amounts):
        """Returns a function: values -> rows [r, size], padded with 0.

        `amounts` [n] is the number of values of each example.
        """
        sums = np.append(0, np.cumsum(amounts))[np.append(0, ends)]
        is_used = np.arange(sizes[size]) < np.diff(sums)[:, None]
        return functools.partial(_fill, is_used)

    is_token = examples["input_mask"] > 0
    num_tokens = is_token.sum(axis=1)
    of_tokens = rows_of("max_seq_length", num_tokens)
    of_examples = rows_of("max_examples_per_row", np.ones_like(row))
    first = (ends - counts)[row]  # [n], the first example of its row.
    number = np.arange(len(row)) - first
    begin = np.cumsum(num_tokens) - num_tokens
    begin -= begin[first]
    position = np.broadcast_to(np.arange(is_token.shape[1]), is_token.shape)
    rows = {
        "input_word_ids": of_tokens(examples["input_word_ids"][is_token]),
        "input_mask": of_tokens(1),
        "input_type_ids": of_tokens(examples["input_type_ids"][is_token]),
        "example_numbers": of_tokens(np.repeat(number + 1, num_tokens)),
        "position_ids": of_tokens(position[is_token]),
        "cls_positions": of_examples(begin),
    }
    if "next_sentence_labels" in examples:
        labels = examples["next_sentence_labels"]
        rows |= {
            "next_sentence_labels": of_examples(labels),
            "next_sentence_weights": of_examples(1, np.float32),
        }
    if "masked_lm_weights" not in examples:
        return rows
    is_masked = examples["masked_lm_weights"] > 0
    num_masked = is_masked.sum(axis=1)
    of_masked = rows_of("max_predictions_per_row", num_masked)
    positions = examples["masked_lm_positions"][is_masked]
    weights = examples["masked_lm_weights"][is_masked]
    return rows | {
        "masked_lm_positions": of_masked(
            positions + np.repeat(begin, num_masked)
        ),
        "masked_lm_ids": of_masked(examples["masked_lm_ids"][is_masked]),
        "masked_lm_weights": of_masked(weights, np.float32),
    }


def _fill(is_used, values, dtype=np.int32):
    filled = np.zeros(is_used.shape, dtype)
    filled[is_used] = values
    return filled


def separate(rows: Features) -> tuple[Features, np.ndarray]:
    """Returns each packed example in its own row, and its packed row's index.

    This is the inverse of `join`. The indices, [N], are ascending. Rows of
    other schemas are returned unchanged.
    """
    if "example_numbers" not in rows:
        return rows, np.arange(len(rows["input_mask"]))
    counts = rows["example_numbers"].max(axis=1, initial=0)  # [R]
    most = np.arange(rows["cls_positions"].shape[1])
    row, numbers = np.nonzero(most < counts[:, None])  # [N] each
    begins = rows["cls_positions"][row, numbers, None]  # [N, 1]
    owners = rows["example_numbers"][row] - 1  # [N, S]
    num_tokens = (owners == numbers[:, None]).sum(axis=1, keepdims=True)
    positions_in_row = np.arange(owners.shape[1])
    is_token = positions_in_row < num_tokens
    source = np.where(is_token, begins + positions_in_row, 0)
    examples = {
        name: np.take_along_axis(rows[name][row], source, 1) * is_token
        for name in ("input_word_ids", "input_mask", "input_type_ids")
    }
    name = "next_sentence_labels"
    if name in rows:
        examples[name] = rows[name][row, numbers]
    if "masked_lm_positions" not in rows:
        return examples, row
    positions = rows["masked_lm_positions"][row]  # [N, P]
    is_own = rows["masked_lm_weights"][row] > 0
    is_own &= np.take_along_axis(owners, positions, 1) == numbers[:, None]
    order = np.argsort(~is_own, axis=1, kind="stable")  # Its own slots first.
    for name, values in (
        ("masked_lm_positions", positions - begins),
        ("masked_lm_ids", rows["masked_lm_ids"][row]),
        ("masked_lm_weights", rows["masked_lm_weights"][row]),
    ):
        examples[name] = np.take_along_axis(values * is_own, order, 1)
    return examples, row
