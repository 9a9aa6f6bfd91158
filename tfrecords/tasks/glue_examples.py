"""GLUE rows -> classification, regression or unlabelled records."""

import collections
import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from tfrecords.options import MAX_WINDOWS, quoted, some
from tfrecords.tables import parts, table_files
from tfrecords.tasks import glue_rows, glue_tables, split_records
from tfrecords.text import segments
from tfrecords.text import tokenizer as tokenizer_lib

_ROWS_AT_ONCE = 1024


@dataclasses.dataclass(frozen=True)
class Split:
    """All rows of a file, or some of them."""

    name: str  # Train, dev... or test..., as in `GlueTask.files`.
    path: str
    takes_row: Callable[[int], bool] = lambda number: True
    held_out: dict | None = None  # Settings, if dev is held out from train.

    @property
    def is_labelled(self) -> bool:
        """Whether the file must have labels."""
        return not self.name.startswith("test")


def find_splits(
    task: glue_tables.GlueTask,
    data_dir: str,
    *,
    dev_share: float | list[int],
    seed: int,
) -> list[Split]:
    """Returns the splits whose files exist.

    Args:
      task: defines the names of the files.
      data_dir: folder of the files.
      dev_share: share of the rows of train to hold out if there is no dev
        file; 0 for none; or the fold of train that is dev, and the number of
        folds, without a dev file.
      seed: random seed of the rows to hold out.

    Raises:
      ValueError: if none of the files exists, `dev_share` is out of range, or
        folds have a dev file, or no train file.
    """
    has_folds = isinstance(dev_share, list)
    if not has_folds and not 0.0 <= dev_share < 1.0:
        raise ValueError(f"dev_share={dev_share} should be in [0, 1).")
    paths = {
        name: os.path.join(data_dir, file) for name, file in task.files.items()
    }
    existing = [name for name, path in paths.items() if parts.exist(path)]
    missing = [path for n, path in paths.items() if n not in existing]
    if not existing:
        raise ValueError(
            f"No file of {task.name} was found; looked for "
            f"{', '.join(missing)}. Give the task's own folder."
        )
    if missing:
        logging.info("%s  missing: %s", task.name, ", ".join(missing))
    splits = [Split(name, paths[name]) for name in existing]
    has_dev = any(name.startswith("dev") for name in existing)
    if has_folds and (has_dev or "train" not in existing):
        raise ValueError(
            f"--folds={dev_share[1]} takes dev from the rows of train, and "
            f"there is {', '.join(paths[name] for name in existing)}. Give a "
            "train file, and no dev file."
        )
    if "train" not in existing or has_dev or not dev_share:
        return splits
    held_out = {
        "dev_share": dev_share,
        "seed": seed,
        "stratified": True,
        "groups": task.group_name,
    }
    read = functools.partial(_strata_and_groups, task, paths["train"])
    return [*held_out_splits(paths["train"], read, held_out), *splits[1:]]


def held_out_splits(
    path: str, read: Callable[[], tuple], held_out: dict
) -> list[Split]:
    """Returns train and dev, which are rows of one file.

    Args:
      path: the file.
      read: returns strata and groups of its rows, as for `hold_out.choose`. It
        is called when the first row is asked for.
      held_out: settings for the manifest: `dev_share`, `seed` and others.
    """
    share, seed = held_out["dev_share"], held_out["seed"]

    @functools.cache
    def dev_rows():
        from tfrecords.tables import hold_out  # Only without a dev file.

        strata, groups = read()
        rows = hold_out.choose(strata, groups, dev_share=share, seed=seed)
        why = f"--dev_share={share}"
        if isinstance(share, list):
            why = f"--fold={share[0]} --folds={share[1]}"
        _log_held_out(path, len(rows), len(strata), why, seed)
        return frozenset(rows.tolist())

    return [
        Split("train", path, lambda i: i not in dev_rows(), held_out),
        Split("dev", path, lambda i: i in dev_rows(), held_out),
    ]


@functools.cache  # Once, though records and report both choose the rows.
def _log_held_out(*values) -> None:
    text = "%s: %d of %d rows are held out as dev (%s, seed %d)"
    logging.info(text, *values)


def fold_of_rows(
    task: glue_tables.GlueTask, data_dir: str, *, num_folds: int, seed: int
) -> list[int]:
    """Returns the fold of each row of train; raises as `find_splits` does."""
    from tfrecords.tables import hold_out

    share = [0, num_folds]
    train, *_ = find_splits(task, data_dir, dev_share=share, seed=seed)
    rows = _strata_and_groups(task, train.path)
    return hold_out.folds(*rows, num_folds, seed).tolist()


def _strata_and_groups(task, path) -> tuple[list[int], Sequence | None]:
    rows = glue_rows.read_rows(task, path, is_labelled=True)
    # Without the texts, which may not fit into memory.
    labels, groups = zip(*((row.label, row.group) for row in rows), strict=True)
    strata = [0] * len(labels) if task.is_regression else _strata(labels)
    return strata, groups if task.group_name else None


def _strata(labels: Sequence) -> list[int]:
    """Returns a class of each row: of several labels, the rarest one."""
    rows = [x if isinstance(x, tuple) else (x,) for x in labels]
    counts = collections.Counter(label for row in rows for label in row)
    return [min(row, key=lambda x: (counts[x], x), default=-1) for row in rows]


def read_split(
    task: glue_tables.GlueTask,
    data_dir: str,
    output_dir: str,
    name: str,
    *,
    dev_share: float | list[int],
    seed: int,
    is_labelled: bool | None = None,
) -> Iterator[glue_rows.Row]:
    """Returns the rows of a split, in the order of its records.

    The arguments are those of `make_records` and `rows_of`.

    Raises:
      ValueError: if its file has changed since the records were made.
    """
    splits = find_splits(task, data_dir, dev_share=dev_share, seed=seed)
    (split,) = (x for x in splits if x.name == name)
    split_records.check_unchanged(os.path.join(output_dir, name), split.path)
    return rows_of(task, split, is_labelled=is_labelled)


def make_records(
    task: glue_tables.GlueTask,
    data_dir: str,
    output_dir: str,
    tokenizer: tokenizer_lib.BertTokenizer,
    *,
    max_seq_length: int = 128,
    dev_share: float | list[int] = 0.1,
    seed: int = 12345,
    long_text: str = "cut",
    make_split: Callable[..., split_records.Split] | None = None,
) -> dict[str, str]:
    """Writes a folder of records for each split; complete ones are kept.

    Args:
      task: the task of the files.
      data_dir: folder of the files.
      output_dir: parent of a folder for each split, such as `train`.
      tokenizer: maps text to ids.
      max_seq_length: tokens in an example, including [CLS], [SEP] and padding.
      dev_share: see `find_splits`.
      seed: see `find_splits`.
      long_text: see `LongTextOptions`.
      make_split: arguments of `split_of` -> the records of a split. Default: an
        example for each row.

    Returns:
      The folder of each split.

    Raises:
      ValueError: as in `glue_rows.read_rows` and `split_records.make`.
    """
    encode = make_encoder(
        tokenizer, len(task.text_columns), max_seq_length, long_text
    )
    splits = find_splits(task, data_dir, dev_share=dev_share, seed=seed)
    if task.group_column:
        _check_groups(task, splits)
    found = [
        (make_split or split_of)(task, split, encode, max_seq_length)
        for split in splits
    ]
    if long_text != "cut":
        found = [_of_long_texts(split, long_text) for split in found]
    return split_records.make(
        found,
        split_records.vocabulary_of(tokenizer),
        output_dir,
    )


def _of_long_texts(split: split_records.Split, long_text: str):
    """Returns a split with its flags and sizes; windows are in one sequence."""
    flags, sizes = {"long_text": long_text}, {}
    if long_text.startswith("windows"):  # For each pooling.
        number = MAX_WINDOWS
        flags = {"long_text": "windows", "max_windows": number}
        sizes = {"max_seq_length": number * split.sizes["max_seq_length"]}
    return dataclasses.replace(
        split, flags=split.flags | flags, sizes=split.sizes | sizes
    )


def _check_groups(task, splits: Sequence[Split]) -> None:
    """Raises ValueError if a group has rows in the files of train and dev."""
    groups: dict[str, set] = {}
    for split in splits:
        if split.is_labelled and not split.held_out:
            rows = glue_rows.read_rows(task, split.path, is_labelled=True)
            groups[split.name] = {row.group for row in rows}
    train = groups.pop("train", set())
    for name, found in groups.items():
        if both := train & found:
            raise ValueError(
                f"{len(both)} groups of {task.group_column!r} have rows in "
                f"both train and {name}, such as "
                f"{quoted(min(map(str, both)))}. Move "
                "their rows into one file, or omit --group_column."
            )


def split_of(
    task: glue_tables.GlueTask, split: Split, encode, max_seq_length: int
) -> split_records.Split:
    """Returns the records of a split, to be made: an example for each row.

    Args:
      task: the task of the files.
      split: from `find_splits`.
      encode: from `make_encoder`.
      max_seq_length: tokens in an example.
    """

    def examples(statistics):
        reading = glue_rows.ReadStatistics()
        counts = {"tokens": 0, "truncated_rows": 0}
        yield from encode_rows(
            rows_of(task, split, reading), task, encode, counts
        )
        statistics |= dataclasses.asdict(reading) | counts

    return split_records.Split(
        name=split.name,
        schema_name=task.schema_name(split.name),
        sizes={"max_seq_length": max_seq_length} | task.sizes(split.name),
        flags={
            "task_name": task.name,
            "max_seq_length": max_seq_length,
            "text_columns": list(task.text_columns),
            "label_column": task.label_column,
            "labels": list(task.labels),
            "held_out": split.held_out,
            **task.manifest_flags(split.name),
            **table_files.manifest_entries(split.path, task.input_format),
        },
        count=lambda: count_rows(
            _checked(rows_of(task, split), task, split), split
        ),
        examples=examples,
    )


def _checked(rows: Iterable[glue_rows.Row], task, split: Split):
    """Yields rows, and checks those of train after the last one.

    A class that no row has is a warning; weights that are all 0 are an error.
    """
    if split.name != "train":
        yield from rows
        return
    found, has_weight, last = set(), not task.weight_column, None
    for last in rows:
        found.update(last.label if task.multi_label else [last.label])
        has_weight = has_weight or last.weight > 0
        yield last
    if not last:
        return
    if not has_weight:
        raise ValueError(
            f"{split.path}: all weights of {task.weight_column!r} are 0, so "
            "that nothing would be learned. Correct them, or omit "
            "--weight_column."
        )
    unused = [x for i, x in enumerate(task.labels) if i not in found]
    if unused:
        logging.warning(
            "%s has no row of %d of the %d labels: %s",
            *(split.path, len(unused), len(task.labels), some(unused)),
        )


def rows_of(
    task: glue_tables.GlueTask,
    split: Split,
    statistics: glue_rows.ReadStatistics | None = None,
    is_labelled: bool | None = None,
) -> Iterator[glue_rows.Row]:
    """Yields the rows of a split; labels are read as it says, unless given."""
    rows = glue_rows.read_rows(
        task,
        split.path,
        is_labelled=split.is_labelled if is_labelled is None else is_labelled,
        is_train=split.name == "train",
        statistics=statistics,
    )
    return (row for number, row in enumerate(rows) if split.takes_row(number))


def count_rows(rows: Iterable[glue_rows.Row], split: Split) -> int:
    """Checks all rows of a split and returns their number."""
    num_rows = sum(1 for _ in rows)
    if not num_rows:
        raise ValueError(
            f"{split.path} has too few rows to hold out a share of "
            f"{split.held_out['dev_share']}: {split.name} would have none. "
            "Give a dev file, another --dev_share, or 0."
        )
    return num_rows


def make_encoder(
    tokenizer: tokenizer_lib.BertTokenizer,
    num_texts: int,
    max_seq_length: int,
    long_text: str = "cut",
):
    """Returns a graph: texts -> encoder inputs [N, S], is_truncated [N] bool.

    Its arguments are one or two (`num_texts`) tensors [N] string. The windows
    of a text, each of S, are one after the other, [N, MAX_WINDOWS * S].
    """

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string)] * num_texts,
        autograph=False,  # No control flow to convert; saves seconds.
    )
    def encode(*texts):
        tokens = read = tokenizer.tokenize_each(*texts)
        if long_text != "cut":
            read, rows = segments.shorten(tokens, max_seq_length, long_text)
        packed = segments.pack(
            read[0],
            read[1] if num_texts == 2 else None,
            max_seq_length,
            tokenizer.cls_id,
            tokenizer.sep_id,
        )
        if long_text.startswith("windows"):
            shape = [None, MAX_WINDOWS, max_seq_length]
            windows = {
                name: tf.RaggedTensor.from_value_rowids(
                    values, rows, tf.size(texts[0], tf.int64)
                )
                for name, values in packed.items()
            }
            num_windows = windows["input_mask"].row_lengths()
            return {
                name: tf.reshape(
                    x.to_tensor(shape=shape), [-1, shape[1] * shape[2]]
                )
                for name, x in windows.items()
            }, num_windows > shape[1]
        lengths = [part.row_lengths() for part in tokens]
        needed = 2 + tf.add_n(lengths)  # With [CLS] and [SEP].
        for length in lengths[1:]:
            needed += tf.cast(length > 0, length.dtype)  # Another [SEP].
        return packed, needed > max_seq_length

    return encode


def encode_rows(
    rows: Iterable[glue_rows.Row],
    task: glue_tables.GlueTask,
    encode,
    counts: dict,
) -> Iterator[dict[str, np.ndarray]]:
    """Yields an example for each row; rows are packed in batches.

    Args:
      rows: the rows.
      task: their task.
      encode: from `make_encoder`.
      counts: `tokens` and `truncated_rows` are added to.
    """
    rows = iter(rows)
    while chunk := list(itertools.islice(rows, _ROWS_AT_ONCE)):
        texts = zip(*[row.texts for row in chunk], strict=True)
        packed, is_cut = encode(*[tf.constant(column) for column in texts])
        arrays = {name: values.numpy() for name, values in packed.items()}
        counts["tokens"] += int(arrays["input_mask"].sum())
        counts["truncated_rows"] += int(is_cut.numpy().sum())
        for index, row in enumerate(chunk):
            example = {name: values[index] for name, values in arrays.items()}
            yield example | label_of(task, row.label, row.weight)


def label_of(
    task: glue_tables.GlueTask,
    label: glue_rows.Label,
    weight: float | None = None,
) -> dict[str, np.ndarray]:
    """Returns the features of a row's label and weight."""
    if label is None:
        return {}
    if task.multi_label:
        labels = np.zeros(len(task.labels), np.float32)
        labels[list(label)] = 1.0
        features = {"multi_hot_labels": labels}
    elif task.is_regression:
        features = {"label_scores": np.float32(label)}
    else:
        features = {"label_ids": np.int32(label)}
    if weight is not None:
        features["example_weights"] = np.float32(weight)
    return features
