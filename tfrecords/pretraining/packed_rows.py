"""Pre-training examples -> rows that several of them share, each for itself.

Short examples stand side by side in the places that padding would take. Each
keeps its own positions, its [CLS] and its label, and attention stays inside of
it (`layers.packed_attention_mask` in bert_tf/model). So the model computes for
it what it would in a row of its own: Krell et al. 2021, "Efficient Sequence
Packing without Cross-contamination".

n examples, r rows, S places in a row, E examples in a row at most, P masked
slots of a row.
"""

import functools
from collections.abc import Iterator

import numpy as np

Features = dict[str, np.ndarray]


def pack(
    blocks: Iterator[Features], counts: np.ndarray, sizes: dict[str, int]
) -> Iterator[Features]:
    """Joins examples to rows, block by block.

    Args:
      blocks: features of `schema.PRETRAINING`, without labels or masks if
        there are none, each [n, ...]; all examples in the order of
        `packing.Rows.order`.
      counts: [R] examples of each row, as in `packing.Rows`.
      sizes: of the packed schema.

    Yields:
      The features of the packed schema, each [r, ...]; r is that of the rows
      which a block completes.
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
        num_whole = int(own.sum())
        rest = {name: array[num_whole:] for name, array in block.items()}
        if len(own):
            whole = {name: array[:num_whole] for name, array in block.items()}
            yield join(whole, own, sizes)
        num_rows, num_done = last, num_done + num_whole


def join(
    examples: Features, counts: np.ndarray, sizes: dict[str, int]
) -> Features:
    """Puts examples side by side in rows.

      two examples      CLS 21 SEP 31 SEP, CLS 22 SEP 32 33 SEP
      input_word_ids    CLS 21 SEP 31 SEP CLS 22 SEP 32 33 SEP  0
      example_numbers     1  1   1  1   1   2  2   2  2  2   2  0
      position_ids        0  1   2  3   4   0  1   2  3  4   5  0
      cls_positions       0  5

    Args:
      examples: features of `schema.PRETRAINING`, without labels or masks if
        there are none, each [n, ...].
      counts: [r] examples of each row; their sum is n.
      sizes: of the packed schema.

    Returns:
      The features of `schema.PACKED_PRETRAINING`, as far as the examples have
      them, each [r, ...].

    Raises:
      ValueError: if the examples of a row do not fit into it.
    """
    ends = np.cumsum(counts)
    row = np.repeat(np.arange(len(counts)), counts)  # [n]

    def before(amounts):
        """Returns [n + 1] amounts of all examples before each one."""
        return np.concatenate([[0], np.cumsum(amounts)])

    def rows_of(size, amounts):
        """Returns values -> [r, size], each row begun by its own of them."""
        sums = before(amounts)[np.append(0, ends)]
        is_used = np.arange(sizes[size]) < np.diff(sums)[:, None]
        return functools.partial(_fill, is_used)

    is_token = examples["input_mask"] > 0
    num_tokens = is_token.sum(axis=1)
    of_tokens = rows_of("max_seq_length", num_tokens)
    of_examples = rows_of("max_examples_per_row", np.ones_like(row))
    first = (ends - counts)[row]  # [n], the first example of its row.
    number = np.arange(len(row)) - first
    begin = before(num_tokens)
    begin = begin[:-1] - begin[first]
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
    found = np.zeros(is_used.shape, dtype)
    found[is_used] = values
    return found
