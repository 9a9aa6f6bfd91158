"""Records, a vocabulary -> statistics of a sample of the examples.

N examples, S positions in each, P masked slots, V entries in the vocabulary.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tfrecords import schema
from tfrecords.inspection import samples
from tfrecords.io import records as records_lib
from tfrecords.pretraining import masking
from tfrecords.text import vocab as vocab_lib

# Small parts, because a part with a damaged record is skipped.
_READ_EXAMPLES = 512
_NAMED = 3  # Records named in a message.
_DIGEST_BYTES = 8
_ID_FEATURES = ("input_word_ids", "masked_lm_ids")


class Entries(NamedTuple):
    """Properties of a vocabulary, for the checks of a sample."""

    names: list[str]
    masking: masking.Vocabulary
    unk_id: int
    is_special: np.ndarray  # [V] bool: special tokens such as [CLS].
    has_capital: np.ndarray  # [V] bool: not in lower-cased text.

    @classmethod
    def of(cls, names: list[str]) -> "Entries":
        """Returns the properties of the entries of vocab.txt."""
        special = np.array([n in vocab_lib.SPECIAL_TOKENS for n in names])
        capital = np.array([name != name.lower() for name in names])
        return cls(
            names=names,
            masking=masking.Vocabulary.of(names),
            unk_id=names.index("[UNK]"),
            is_special=special,
            has_capital=capital & ~special,
        )


class MaskCounts(NamedTuple):
    """Counts of masked examples; those of several parts can be added.

    A random token equal to the masked one counts as kept.
    """

    masked: np.ndarray  # [S + 1, P + 1] examples by tokens and masked tokens.
    shown: np.ndarray  # [3] masked tokens shown as [MASK], random, kept.


class SampleStatistics(NamedTuple):
    """Statistics of a sample; those of several parts can be added."""

    num_examples: int  # N; each choice of a record is an example.
    num_tokens: int  # Positions that are not padding.
    num_words: int  # Tokens that are not special, including [UNK].
    num_unknown: int  # [UNK] in `num_words`.
    num_capital: int  # Entries with a capital in `num_words`.
    highest_id: int  # Of all token ids, including those before masking.
    num_wrong_ids: int  # Examples with an id out of range.
    wrong_ids: list[str]  # The first of these, each as "record: id".
    highest_type: int  # Of `input_type_ids`.
    misplaced_masks: int  # Examples with a masked position without a token.
    labels: np.ndarray  # [classes] examples by `label_ids`; [0] if none.
    pair_labels: np.ndarray  # [2] by `next_sentence_labels`; [0] if none.
    numbers: np.ndarray  # [N] int64, index of each example's record.
    digests: np.ndarray  # [N] uint64, of the tokens before masking.
    counts: MaskCounts | None  # None for records without masks.


def count(
    records: records_lib.Records,
    name: str,
    sizes: schema.Sizes,
    entries: Entries | None,
    vocab_size: int | None,
    num_wanted: int | None,
) -> tuple[SampleStatistics | None, list[str]]:
    """Returns the statistics of a sample of records.

    Args:
      records: the records.
      name: name of their schema.
      sizes: size of each named dimension.
      entries: properties of their vocabulary; None if it is not known.
      vocab_size: ids at or above it are out of range; None if not known.
      num_wanted: approximate number of records to read; None for all.

    Returns:
      The statistics, or None if nothing could be read; and the reading errors.
    """
    total, errors = None, []
    indices = samples.spread(len(records), num_wanted)
    for begin in range(0, len(indices), _READ_EXAMPLES):
        part = indices[begin : begin + _READ_EXAMPLES]
        try:
            read = samples.read(records, name, sizes, part)
            batch, rows = samples.unpack(read)
        except ValueError as error:
            errors.append(str(error))
            continue
        counted = _count(records, batch, part[rows], entries, vocab_size)
        # All choices of a record share one label.
        counted = counted._replace(labels=_by_label(read, "label_ids"))
        total = _add(total, counted) if total else counted
    return total, errors


def _count(records, batch, indices, entries, vocab_size) -> SampleStatistics:
    is_token = batch["input_mask"] != 0
    ids = samples.unmask(batch)
    highest = max(batch[n].max(initial=0) for n in _ID_FEATURES if n in batch)
    size = len(entries.names) if entries else highest + 1
    plain = ids.clip(0, size - 1)[is_token]
    words = plain
    if entries:
        words = plain[~entries.is_special[plain] | (plain == entries.unk_id)]
    misplaced_masks, counts = 0, None
    if "masked_lm_positions" in batch:
        misplaced_masks = _misplaced_masks(batch)
        counts = _count_masks(batch, is_token, entries, size)
    limit = highest + 1 if vocab_size is None else vocab_size
    wrong_ids = _wrong_ids(records, batch, indices, limit)
    return SampleStatistics(
        num_examples=len(indices),
        num_tokens=int(is_token.sum()),
        num_words=len(words),
        num_unknown=int((words == entries.unk_id).sum()) if entries else 0,
        num_capital=int(entries.has_capital[words].sum()) if entries else 0,
        highest_id=int(highest),
        num_wrong_ids=len(wrong_ids),
        wrong_ids=wrong_ids[:_NAMED],
        highest_type=int(batch["input_type_ids"].max(initial=0)),
        misplaced_masks=misplaced_masks,
        labels=np.zeros(0, np.int64),  # Set by `count`.
        pair_labels=_by_label(batch, "next_sentence_labels", 2),
        numbers=np.asarray(indices),
        digests=_digests(ids * is_token),
        counts=counts,
    )


def _by_label(batch, name, num_classes=0):
    """Returns [classes] the number of examples by label; [0] if none."""
    if name not in batch:
        return np.zeros(0, np.int64)
    return np.bincount(batch[name].clip(0), minlength=num_classes)


def _wrong_ids(records, batch, indices, limit) -> list[str]:
    """Returns a line for each example with an id out of range."""
    lines = {}
    for name in _ID_FEATURES:
        ids = batch.get(name, np.zeros((0, 0), int))
        is_wrong = (ids < 0) | (ids >= limit)
        for row in np.flatnonzero(is_wrong.any(axis=1)).tolist():
            wrong = ids[row, is_wrong[row].argmax()]
            where = records.describe(int(indices[row]))
            lines.setdefault(row, f"{where}: id {wrong} in {name}")
    return [lines[row] for row in sorted(lines)]


def _misplaced_masks(batch) -> int:
    """Returns the number of examples that mask a position without a token."""
    is_used = batch["masked_lm_weights"] > 0
    is_wrong = is_used & ~samples.is_masked(batch)
    rows, slots = np.nonzero(samples.is_masked(batch))
    positions = batch["masked_lm_positions"][rows, slots]
    is_wrong[rows, slots] |= batch["input_mask"][rows, positions] == 0
    return int(is_wrong.any(axis=1).sum())


def _count_masks(batch, is_token, entries, size) -> MaskCounts | None:
    is_used = samples.is_masked(batch)
    if not is_used.any():
        return None
    rows, slots = np.nonzero(is_used)
    positions = batch["masked_lm_positions"][rows, slots]
    shown = batch["input_word_ids"][rows, positions].clip(0, size - 1)
    originals = batch["masked_lm_ids"][rows, slots].clip(0, size - 1)
    replacements = shown[shown != originals]
    # Without a vocabulary, [MASK] is assumed to be the most frequent one.
    mask_id = (
        entries.masking.mask_id
        if entries
        else np.bincount(replacements, minlength=1).argmax()
    )
    num_masks = np.count_nonzero(replacements == mask_id)
    num_random = len(replacements) - num_masks
    shape = is_token.shape[1] + 1, is_used.shape[1] + 1
    masked = np.zeros(shape, np.int64)
    np.add.at(masked, (is_token.sum(axis=1), is_used.sum(axis=1)), 1)
    num_kept = len(shown) - len(replacements)
    return MaskCounts(masked, np.array([num_masks, num_random, num_kept]))


def _digests(ids: np.ndarray) -> np.ndarray:
    """Returns a digest of each row, [N] uint64."""
    rows = np.ascontiguousarray(ids, np.int32)
    digests = b"".join(
        hashlib.blake2b(row.tobytes(), digest_size=_DIGEST_BYTES).digest()
        for row in rows
    )
    return np.frombuffer(digests, np.uint64)


def _add(*parts: SampleStatistics) -> SampleStatistics:
    columns = SampleStatistics(*zip(*parts, strict=True))
    sums = {
        name: sum(values)
        for name, values in columns._asdict().items()
        if isinstance(values[0], int)
    }
    counts = [part for part in columns.counts if part]
    return columns._replace(
        **sums,
        wrong_ids=sum(columns.wrong_ids, [])[:_NAMED],
        labels=_sum(columns.labels),
        pair_labels=_sum(columns.pair_labels),
        numbers=np.concatenate(columns.numbers),
        digests=np.concatenate(columns.digests),
        counts=MaskCounts(*map(sum, zip(*counts, strict=True)))
        if counts
        else None,
    )._replace(
        highest_id=max(columns.highest_id),
        highest_type=max(columns.highest_type),
    )


def _sum(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the sum of counts, which may differ in the number of classes."""
    size = max(map(len, parts))
    return sum(np.pad(part, (0, size - len(part))) for part in parts)
