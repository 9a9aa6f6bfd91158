"""SWAG's contexts and endings -> multiple-choice records, a row an ending.

Letters: N contexts, C endings of each, S max_seq_length.
"""

import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import tensorflow as tf
from absl import logging

from tfrecords.io import atomic_files
from tfrecords.tasks import glue_examples, glue_rows, split_records, swag_files
from tfrecords.text import tokenizer as tokenizer_lib

# Split to the official name of its file.
FILES = {"train": "train.csv", "dev": "val.csv", "test": "test.csv"}
_ROWS_AT_ONCE = 256


def find_files(data_dir: str, names: Mapping[str, str]) -> dict[str, str]:
    """Returns split to path, of the files that are there.

    Args:
      data_dir: their folder.
      names: split to file name, where it is another than the official one.

    Raises:
      ValueError: if there is none, or one of `names` is not there.
    """
    paths = {
        split: split_records.find_path(data_dir, names[split])
        if names.get(split)
        else os.path.join(data_dir, name)
        for split, name in FILES.items()
    }
    found = {s: path for s, path in paths.items() if os.path.isfile(path)}
    absent = [path for split, path in paths.items() if split not in found]
    wrong = [paths[s] for s in names if names[s] and s not in found]
    if wrong or not found:
        raise ValueError(
            f"No file {', '.join(wrong or absent)}. Give the folder of SWAG's "
            "train.csv and val.csv as --data_dir, or files in their layout."
        )
    if absent:
        logging.info("SWAG  absent: %s", ", ".join(absent))
    return found


def make_records(
    files: Mapping[str, str],
    output_dir: str,
    tokenizer: tokenizer_lib.BertTokenizer,
    *,
    max_seq_length: int = 128,
) -> dict[str, str]:
    """Writes a folder of records for each split; whole ones stay as they are.

      sent1, sent2  She opened the hood of the car. | Then she
      ending0       examined the engine.
      input         [CLS] she opened the hood of the car . [SEP] then she
                    examined the engine . [SEP]

    Devlin et al. 2018, section 4.4: the sentence is A; the beginning of the
    next one and an ending are B.

    Args:
      files: split to path, as `find_files` returns it.
      output_dir: gets a folder for each split, such as `train`.
      tokenizer: text to ids.
      max_seq_length: tokens in a row, [CLS], [SEP] and padding included.

    Returns:
      Split to its folder.

    Raises:
      ValueError: by `swag_files.read_rows`; or if `output_dir` holds records
        that were made of something else.
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

    def examples(statistics):
        reading = glue_rows.ReadStatistics()
        rows = swag_files.read_rows(
            path, is_labelled=is_labelled, statistics=reading
        )
        counts = {"tokens": 0, "truncated_endings": 0}
        yield from _examples(rows, encode, counts)
        statistics |= dataclasses.asdict(reading) | counts

    def count():
        rows = swag_files.read_rows(path, is_labelled=is_labelled)
        return sum(1 for _ in rows)

    return split_records.Split(
        name=split,
        schema_name="multiple_choice" if is_labelled else "choice_inputs",
        sizes=sizes,
        flags={
            "task_name": "SWAG",
            "source": os.path.basename(path),
            "source_sha256": atomic_files.digest(path),
        }
        | sizes,
        count=count,
        examples=examples,
    )


def _examples(
    rows: Iterable[swag_files.Row], encode, counts: dict
) -> Iterator[split_records.Example]:
    """Yields one example for each row, packed many rows at once."""
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
        for place, row in enumerate(chunk):
            example = {name: values[place] for name, values in arrays.items()}
            if row.label is not None:
                example["label_ids"] = np.int32(row.label)
            yield example
