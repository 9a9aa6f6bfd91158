"""Files of tasks -> evaluation tasks: script, flags, estimated sizes.

Each pre-trained model is fine-tuned on every evaluation task. The sizes are
used to estimate time and to limit epochs.
"""

import dataclasses
import math
import os
from collections.abc import Sequence

from experiments.commands import Job, PlanOptions
from tfrecords.options import Options, option
from tfrecords.tasks import glue_rows, glue_tables, ner_files, squad_files

# Estimated word pieces per word; [CLS] and [SEP].
_PIECES, _SPECIAL = 1.3, 2
_RECORDS_SECONDS = 60.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskFiles(Options):
    """Files of the tasks of an experiment: flags of its command."""

    glue_dir: tuple[str, ...] = option(
        (),
        "Folders of GLUE tasks, each named like its task, such as glue/SST-2.",
    )
    squad_train_file: str | None = option(None, "SQuAD 1.1 training file.")
    squad_dev_file: str | None = option(None, "SQuAD 1.1 dev file.")
    ner_train_file: str | None = option(None, "CoNLL-2003 training file.")
    ner_dev_file: str | None = option(None, "CoNLL-2003 dev file.")


@dataclasses.dataclass(frozen=True)
class EvaluationTask:
    """A task to fine-tune on, with its files.

    Attributes:
      name: column of the report.
      kind: "glue", "squad", "ner" or "ner_features".
      script: command that fine-tunes on it, see `Job`.
      flags: flags of the script that name the task and its files.
      num_train: number of training rows, or windows.
      num_dev: number of dev rows, or windows.
      num_tokens: mean number of tokens in a row or window.
    """

    name: str
    kind: str
    script: str
    flags: dict[str, str | int | bool]
    num_train: int
    num_dev: int
    num_tokens: float

    @property
    def records_name(self) -> str:
        """Name of the job that makes its records."""
        return f"records/{self.script}/{self.name}".replace(" ", "_")

    def records_job(
        self,
        options: PlanOptions,
        vocab_file: str,
        max_seq_length: int,
        **flags,
    ) -> Job:
        """Returns the job that makes its records.

        Args:
          options: the output folder of all jobs.
          vocab_file: vocabulary of the models.
          max_seq_length: tokens in a row or window.
          **flags: more flags of the script.
        """
        flags |= self.flags | {
            "vocab_file": vocab_file,
            "output_dir": f"{options.output_dir}/{self.records_name}",
            "max_seq_length": max_seq_length,
        }
        script = f"{self.script.replace('run_', 'make_')}_records"
        return Job(self.records_name, script, flags, _RECORDS_SECONDS)


def read(files: TaskFiles, max_seq_length: int) -> list[EvaluationTask]:
    """Returns the tasks whose files are given.

    Args:
      files: files of the tasks.
      max_seq_length: tokens in a window of SQuAD and NER.

    Raises:
      ValueError: if there is no task, one is given twice or without one of its
        files, or a file is malformed.
    """
    tasks = [glue(folder) for folder in files.glue_dir]
    for name, train_file, dev_file in (
        ("squad", files.squad_train_file, files.squad_dev_file),
        ("ner", files.ner_train_file, files.ner_dev_file),
    ):
        if bool(train_file) != bool(dev_file):
            raise ValueError(
                f"--{name}_train_file and --{name}_dev_file belong together; "
                "give both or neither."
            )
        if train_file and name == "squad":
            tasks.append(squad(train_file, dev_file, max_seq_length))
        elif train_file:
            tasks += ner(train_file, dev_file, max_seq_length)
    check_names(tasks)
    return tasks


def glue(folder: str) -> EvaluationTask:
    """Returns the task of a folder named like a GLUE task.

    Raises:
      ValueError: if there is no such task, or a file is missing or malformed.
    """
    task = glue_tables.find(os.path.basename(os.path.normpath(folder)))
    if "train" not in task.files:
        raise ValueError(
            f"{folder}: {task.name} has no training rows; choose another task."
        )
    dev = next(name for name in task.files if name.startswith("dev"))
    train_file, dev_file = (
        os.path.join(folder, task.files[name]) for name in ("train", dev)
    )
    if not os.path.exists(train_file):
        raise ValueError(
            f"--glue_dir={folder} has no {task.files['train']}. Give the "
            f"folder with the files of {task.name}."
        )
    rows = list(glue_rows.read_rows(task, train_file, is_labelled=True))
    num_words = _count_words(text for row in rows for text in row.texts)
    # Without a dev file the script holds out a tenth of the training rows.
    num_dev = len(rows) // 10
    if os.path.exists(dev_file):
        dev_rows = glue_rows.read_rows(task, dev_file, is_labelled=True)
        num_dev = len(list(dev_rows))
    return EvaluationTask(
        name=task.name,
        kind="glue",
        script="run_glue",
        flags={"task_name": task.name, "data_dir": folder},
        num_train=len(rows),
        num_dev=num_dev,
        num_tokens=_SPECIAL + _PIECES * num_words / len(rows),
    )


def _count_words(texts) -> int:
    return sum(len(text.split()) for text in texts)


def squad(
    train_file: str, dev_file: str, max_seq_length: int
) -> EvaluationTask:
    """Returns the task of SQuAD 1.1.

    Windows have `max_seq_length` tokens and overlap by half; questions have at
    most a third of the tokens.

    Raises:
      ValueError: if a file is not in the layout of SQuAD 1.1.
    """
    questions_of = {
        name: squad_files.read_questions(
            path, version_2_with_negative=False, is_training=name == "train"
        )
        for name, path in (("train", train_file), ("dev", dev_file))
    }
    stride = max_seq_length // 2
    windows = {}
    for name, questions in questions_of.items():
        words = _count_words(question.passage for question in questions)
        extra = _PIECES * words / len(questions) - 2 * max_seq_length / 3
        windows[name] = len(questions) * (1 + max(0.0, extra) / stride)
    return EvaluationTask(
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


def ner(
    train_file: str, dev_file: str, max_seq_length: int
) -> list[EvaluationTask]:
    """Returns the tasks of named entity recognition: fine-tuned, feature-based.

    Raises:
      ValueError: if a file is not in the column format of CoNLL.
    """
    windows = {}
    for name, path in (("train", train_file), ("dev", dev_file)):
        counts = [len(d.words) for d in ner_files.read(path).documents]
        # Windows overlap by half, so that every word has context.
        windows[name] = sum(
            math.ceil(_PIECES * count / (max_seq_length / 2))
            for count in counts
        )
    return [
        EvaluationTask(
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
            (
                "NER, feature-based",
                "ner_features",
                "experiments.feature_based.run_ner_features",
            ),
        )
    ]


def check_names(tasks: Sequence[EvaluationTask]) -> None:
    """Raises ValueError if there is no task, or one is named twice."""
    names = [task.name for task in tasks]
    if not names or len(set(names)) < len(names):
        raise ValueError(
            f"Evaluation tasks: {', '.join(names) or 'none'}. Give one task or "
            "more with --glue_dir, --squad_train_file or --ner_train_file, "
            "each once."
        )
