"""Names of data files from flags -> paths by split.

This module does not import TensorFlow, so that scripts report errors at once.
"""

import dataclasses
import os
from collections.abc import Mapping

from absl import logging

from tfrecords.options import (
    LONG_TEXT,
    MAX_SEQ_LENGTH,
    MAX_WINDOWS,
    REQUIRED,
    Options,
    option,
)
from tfrecords.tables import parts
from tfrecords.text.vocab import TokenOptions, VocabularyOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordsConfig(VocabularyOptions, TokenOptions):
    """Settings of a script that only writes the records of a task."""

    output_dir: str = option(
        REQUIRED,
        "Output folder; each split gets a folder in it.",
        writes="folder",
    )
    max_seq_length: int | None = option(
        None,
        "Tokens in an example, [CLS], [SEP] and padding included. Default: "
        "384 for SQuAD, 128 for other tasks.",
        at_least=5,
        at_most=MAX_SEQ_LENGTH,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LongTextOptions(Options):
    """What is read of a text that is longer than `max_seq_length`."""

    long_text: str | None = option(
        None,
        "What is read of a text of more than --max_seq_length tokens. cut: its "
        "first ones; head_tail: its first and last, 128 to 382 (Sun et al. "
        "2019, arXiv 1905.05583); windows: all of it, in windows, whose mean "
        "logits decide; windows_max: whose largest logits decide. In records a "
        f"text has up to {MAX_WINDOWS} windows; exports and predict read all. "
        "It is kept in the model. Default: that of an evaluated model, "
        "otherwise cut.",
        choices=LONG_TEXT,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledFiles(Options):
    """Files of a task to train on and to evaluate on."""

    data_dir: str | None = option(
        None,
        "Folder of the task's files, under their official names, such as "
        "train.tsv of GLUE, train-v1.1.json of SQuAD, train.csv of SWAG or "
        "eng.train of CoNLL-2003; any of them may be missing.",
        reads=True,
    )
    train_file: str | None = option(
        None,
        "File to train on, instead of the official one: in --data_dir or "
        "elsewhere. Several with commas between them, a glob, or a folder of "
        "parts, as Spark and `datasets` write it, are read as one.",
        reads=True,
    )
    dev_file: str | None = option(
        None, "File to evaluate on, likewise.", reads=True
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskFiles(LabelledFiles):
    """Files of a task, one for each split."""

    test_file: str | None = option(
        None,
        "File to predict, and to score if it has labels, likewise.",
        reads=True,
    )


def check(split: str, names: str, layout: str) -> None:
    """Raises ValueError unless there are files of the flag `--<split>_file`.

    Args:
      split: name of the split.
      names: as of `parts.find`.
      layout: description of such a file, for the message.
    """
    try:
        parts.find(names)
    except ValueError as error:
        fix = "" if parts.exist(names) else f" Give {layout}."
        raise ValueError(f"--{split}_file={names}: {error}{fix}") from None


def _located(data_dir: str | None, name: str) -> str:
    """Returns the path of a name, in `data_dir` or elsewhere."""
    path = os.path.join(data_dir or "", name)
    return name if parts.exist(name) and not parts.exist(path) else path


def find_files(
    data_dir: str | None,
    given: Mapping[str, str | None],
    official: Mapping[str, str],
    layout: str,
) -> dict[str, str]:
    """Returns {split: path} of the files that exist, in the order of `given`.

    Args:
      data_dir: folder of the files; None if not given.
      given: {split: value of the flag `--<split>_file`}, a file in `data_dir`
        or elsewhere, or several, as in `parts.find`; None where the flag is
        omitted.
      official: {split: name of the file in `data_dir`}.
      layout: description of such a file, for messages.

    Raises:
      ValueError: if there are no files, or a file named by a flag is missing.
    """
    paths = {}
    for split, name in given.items():
        if name:
            is_one = os.path.exists(os.path.join(data_dir or "", name))
            names = [name] if is_one else map(str.strip, name.split(","))
            paths[split] = ",".join(_located(data_dir, x) for x in names)
            check(split, paths[split], layout)
        # Without data_dir, official names are not looked for in the current
        # folder.
        elif data_dir and split in official:
            path = os.path.join(data_dir, official[split])
            if os.path.isfile(path):
                paths[split] = path
            else:
                logging.info("missing: %s", path)
    if not paths:
        names = ", ".join(official.values())
        where = f"; {data_dir} has none of them" if data_dir else ""
        raise ValueError(
            f"No data: give --data_dir=FOLDER of {names}{where}; or "
            f"{', '.join(f'--{split}_file' for split in given)}, each {layout}."
        )
    return paths
