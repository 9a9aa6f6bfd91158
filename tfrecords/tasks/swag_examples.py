"""SWAG's contexts and endings -> multiple-choice records, one row per ending.

N contexts, C endings of each, S max_seq_length.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import tensorflow as tf

from tfrecords.tables import parts, table_files
from tfrecords.tasks import glue_examples, split_records, swag_files
from tfrecords.text import tokenizer as tokenizer_lib

_ROWS_AT_ONCE = 256


def make_records(
    files: Mapping[str, str],
    output_dir: str,
    tokenizer: tokenizer_lib.BertTokenizer,
    *,
    max_seq_length: int = 128,
) -> dict[str, str]:
    """Writes a folder of records for each split; complete ones are kept.

      sent1, sent2  She opened the hood of the car. | Then she
      ending0       examined the engine.
      input         [CLS] she opened the hood of the car . [SEP] then she
                    examined the engine . [SEP]

    Devlin et al. 2018, section 4.4: the sentence is A; the beginning of the
    next one and an ending are B.

    Args:
      files: {split: path}, from `SwagData.find_files`.
      output_dir: parent of a folder for each split, such as `train`.
      tokenizer: maps text to ids.
      max_seq_length: tokens in a row, including [CLS], [SEP] and padding.

    Returns:
      The folder of each split.

    Raises:
      ValueError: as in `swag_files.read_rows` and `split_records.make`.
    """
    encode = glue_examples.make_encoder(tokenizer, 2, max_seq_length)
    return split_records.make(
        [
            _to_make(split, path, encode, max_seq_length)
            for split, path in files.items()
        ],
        split_records.vocabulary_of(tokenizer),
        output_dir,
    )


def _to_make(split, path, encode, max_seq_length) -> split_records.Split:
    is_labelled = not split.startswith("test")
    sizes = {
        "num_choices": swag_files.count_endings(path),
        "max_seq_length": max_seq_length,
    }

    def read(statistics=None):
        return swag_files.read_rows(
            path, is_labelled=is_labelled, statistics=statistics
        )

    def examples(statistics):
        reading = table_files.ReadStatistics()
        counts = {"tokens": 0, "truncated_endings": 0}
        yield from _examples(read(reading), encode, counts)
        statistics |= dataclasses.asdict(reading) | counts

    return split_records.Split(
        name=split,
        schema_name="multiple_choice" if is_labelled else "choice_inputs",
        sizes=sizes,
        flags={"task_name": "SWAG", **parts.source(path)} | sizes,
        count=lambda: sum(1 for _ in read()),
        examples=examples,
    )


def _examples(
    rows: Iterable[swag_files.Row], encode, counts: dict
) -> Iterator[split_records.Example]:
    """Yields an example for each row; rows are packed in batches."""
    rows = iter(rows)
    while chunk := list(itertools.islice(rows, _ROWS_AT_ONCE)):
        contexts = [row.context for row in chunk for _ in row.endings]
        endings = [ending for row in chunk for ending in row.endings]
        packed, is_cut = encode(tf.constant(contexts), tf.constant(endings))
        arrays = {
            name: values.numpy().reshape(len(chunk), -1, values.shape[-1])
            for name, values in packed.items()
        }  # [N, C, S]
        counts["tokens"] += int(arrays["input_mask"].sum())
        counts["truncated_endings"] += int(is_cut.numpy().sum())
        for index, row in enumerate(chunk):
            example = {name: values[index] for name, values in arrays.items()}
            if row.label is not None:
                example["label_ids"] = np.int32(row.label)
            yield example
