"""Folders or globs of pre-training records -> counts of each set."""

import glob
import itertools
import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfrecords import schema
from tfrecords.io import atomic_files, records
from tfrecords.pretraining import masking
from tfrecords.text import vocab as vocab_lib
from tools import record_statistics

_READ_EXAMPLES = 4096


def open_sets(patterns: str) -> list[records.Records]:
    """Opens sets of records.

    Args:
      patterns: sets, separated by commas: folders with a manifest.json, each
        one set, or a glob of them; or a glob of TFRecord files, which together
        are one set.

    Raises:
      ValueError: if there are no records, a glob matches both folders and
        files, or as in `Records.open`.
    """
    sets = []
    for pattern in filter(None, map(str.strip, patterns.split(","))):
        paths = glob.glob(pattern)
        folders = sorted(filter(os.path.isdir, paths))
        if folders and len(folders) < len(paths):
            (file, *_) = sorted({*paths} - {*folders})
            raise ValueError(
                f"{pattern!r} matches the folder {folders[0]} and the file "
                f"{file}. Give folders, or files, which together are one set."
            )
        sets += map(records.Records.open, folders or [pattern])
    if not sets:
        raise ValueError(
            f"{patterns!r} names no records; give a folder written by "
            "make_pretraining_records, or a glob of TFRecord files."
        )
    return sets


def find_sizes(record_set: records.Records) -> dict[str, int]:
    """Returns the sizes of a set, from its manifest or its first example.

    Raises:
      ValueError: if it has no pre-training examples.
    """
    where = record_set.paths[0]
    if not len(record_set):
        raise ValueError(f"{where!r} has no examples.")
    if record_set.manifest:
        if record_set.manifest.schema_name != "pretraining":
            raise ValueError(
                f"{where!r} has examples of schema "
                f"{record_set.manifest.schema_name!r}; only pre-training "
                "records of sentence pairs can be compared that were masked "
                "when they were written, and are not packed."
            )
        return record_set.manifest.sizes
    example = tf.train.Example.FromString(record_set.get([0])[0])
    features = example.features.feature
    return {
        "max_seq_length": len(features["input_mask"].int64_list.value),
        "max_predictions_per_seq": len(
            features["masked_lm_positions"].int64_list.value
        ),
    }


def count_sides(
    sides: Sequence[Sequence[records.Records]], vocab_file: str
) -> list[list[record_statistics.Counts]]:
    """Returns the counts of each set of each side.

    Raises:
      ValueError: if sets differ in their sizes or vocabularies, or a record is
        damaged or is not a pre-training example.
    """
    vocabulary = masking.Vocabulary.of(vocab_lib.read(vocab_file))
    sha256 = atomic_files.digest(vocab_file)
    one = sides[0][0]
    sizes = find_sizes(one)
    # One stream for all sets: equal streams would correlate them.
    rng = np.random.default_rng(0)
    for other in itertools.chain(*sides):
        if find_sizes(other) != sizes:
            raise ValueError(
                f"{one.paths[0]!r} has examples of {sizes} and "
                f"{other.paths[0]!r} of {find_sizes(other)}; give records made "
                "with the same values of these flags."
            )
        other.check(schema.PRETRAINING, sizes, vocabulary.size, sha256)
    return [
        [count_records(one_set, sizes, vocabulary, rng) for one_set in side]
        for side in sides
    ]


def count_records(
    record_set: records.Records,
    sizes: schema.Sizes,
    vocabulary: masking.Vocabulary,
    rng: np.random.Generator,
) -> record_statistics.Counts:
    """Returns the counts of one set.

    Args:
      record_set: the set.
      sizes: sizes of its examples.
      vocabulary: vocabulary of its tokens.
      rng: see `record_statistics.count`.
    """
    total = None
    for begin in range(0, len(record_set), _READ_EXAMPLES):
        end = min(begin + _READ_EXAMPLES, len(record_set))
        batch = schema.parse(
            record_set.get(np.arange(begin, end)),
            schema.PRETRAINING,
            sizes,
            record_set.legacy_names,
        )
        arrays = {name: tensor.numpy() for name, tensor in batch.items()}
        part = record_statistics.count(arrays, vocabulary, rng)
        total = part if total is None else record_statistics.add([total, part])
    return total
