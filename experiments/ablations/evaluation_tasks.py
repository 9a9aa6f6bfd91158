"""Files of tasks -> probes: script, flags, and about how much there is to read.

A probe is a task that each pre-trained model is fine-tuned on. The counts are
for estimates of time, and to cut epochs; the runs count for themselves.
"""

import dataclasses
import math
import os
from collections.abc import Sequence

from tfrecords.tasks import glue_rows, glue_tables, ner_files, squad_files

# Pieces of a word, about; [CLS] and [SEP].
_PIECES, _SPECIAL = 1.3, 2


@dataclasses.dataclass(frozen=True)
class Probe:
    """A task with its files.

    Attributes:
      name: column of the report.
      kind: "glue", "squad", "ner" or "ner_features", see
        `plan.COLUMNS`.
      script: what fine-tunes on it.
      flags: of the script, that say where its files are.
      num_train: training rows, or windows.
      num_dev: those to evaluate on.
      num_tokens: of each, on average.
    """

    name: str
    kind: str
    script: str
    flags: dict[str, str | int | bool]
    num_train: int
    num_dev: int
    num_tokens: float


def glue(folder: str) -> Probe:
    """Returns the probe of a folder that has the name of a task of GLUE.

    Raises:
      ValueError: if no task is so called, or a file is missing or not its.
    """
    task = glue_tables.find(os.path.basename(os.path.normpath(folder)))
    if "train" not in task.files:
        raise ValueError(
            f"{folder}: {task.name} has no training rows; take another task."
        )
    counts = {}
    num_words = 0
    for split in ("train", *(s for s in task.files if s.startswith("dev"))):
        path = os.path.join(folder, task.files[split])
        if not os.path.exists(path):
            # Part of the training rows is held out then.
            counts["dev"] = counts["train"] // 10
            continue
        rows = list(glue_rows.read_rows(task, path, is_labelled=True))
        counts.setdefault("train" if split == "train" else "dev", len(rows))
        if split == "train":
            num_words = _count_words(text for row in rows for text in row.texts)
    return Probe(
        name=task.name,
        kind="glue",
        script="run_glue",
        flags={"task_name": task.name, "data_dir": folder},
        num_train=counts["train"],
        num_dev=counts["dev"],
        num_tokens=_SPECIAL + _PIECES * num_words / counts["train"],
    )


def _count_words(texts) -> int:
    return sum(len(text.split()) for text in texts)


def squad(train_file: str, dev_file: str, max_seq_length: int) -> Probe:
    """Returns the probe of questions on passages, SQuAD 1.1.

    Windows have `max_seq_length` tokens, half of a window is the next one's
    too, and questions may take a third.

    Raises:
      ValueError: if a file is not in the layout of SQuAD 1.1.
    """
    found = {
        name: squad_files.read_questions(
            path, version_2_with_negative=False, is_training=name == "train"
        )
        for name, path in (("train", train_file), ("dev", dev_file))
    }
    stride = max_seq_length // 2
    windows = {}
    for name, questions in found.items():
        words = _count_words(question.passage for question in questions)
        extra = _PIECES * words / len(questions) - 2 * max_seq_length / 3
        windows[name] = len(questions) * (1 + max(0.0, extra) / stride)
    return Probe(
        name="SQuAD",
        kind="squad",
        script="run_squad",
        flags={
            "train_file": train_file,
            "dev_file": dev_file,
            "doc_stride": stride,
            "max_query_length": max_seq_length // 3,
        },
        num_train=round(windows["train"]),
        num_dev=round(windows["dev"]),
        num_tokens=max_seq_length,
    )


def ner(train_file: str, dev_file: str, max_seq_length: int) -> list[Probe]:
    """Returns the probes of named entities, fine-tuned and by features.

    Raises:
      ValueError: if a file is not in CoNLL's columns.
    """
    windows = {}
    for name, path in (("train", train_file), ("dev", dev_file)):
        counts = [len(d.words) for d in ner_files.read(path).documents]
        # Each half of a window is read with the other half around it.
        windows[name] = sum(
            math.ceil(_PIECES * count / (max_seq_length / 2))
            for count in counts
        )
    return [
        Probe(
            name=title,
            kind=kind,
            script=script,
            flags={"train_file": train_file, "dev_file": dev_file},
            num_train=windows["train"],
            num_dev=windows["dev"],
            num_tokens=max_seq_length,
        )
        for title, kind, script in (
            ("NER", "ner", "run_ner"),
            ("NER, feature-based", "ner_features", "run_ner_features"),
        )
    ]


def check_names(probes: Sequence[Probe]) -> None:
    """Raises ValueError if there is no probe, or one is named twice."""
    names = [probe.name for probe in probes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not names:
        raise ValueError(
            f"Probes: {', '.join(names) or 'none'}. Give one task or more by "
            "--glue_dir, --squad_train_file or --ner_train_file, each once."
        )
