r"""Folders of GLUE runs -> glue.zip, with every file the GLUE site expects.

    python -m run_scripts.make_glue_submission \
      --run_dirs=runs/cola,runs/sst-2,runs/mnli,runs/ax --output_file=glue.zip

Uses `predictions/` of each run. The site requires every file, so a task without
a run is filled with its most frequent label in every row; the log lists these
tasks. A file with a different number of rows than the official test set is
refused.
"""

import dataclasses
import math
import os
import zipfile
from collections.abc import Sequence

from absl import logging

from run_scripts.flags import common_flags
from tfrecords.io import atomic_files, streams
from tfrecords.options import REQUIRED, Options, option, to_number
from tfrecords.tasks import glue_tables


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubmissionConfig(Options):
    """Runs to submit, and where to write the zip."""

    run_dirs: tuple[str, ...] = option(
        REQUIRED,
        "The --output_dir of each run_glue, run with --do_predict.",
        reads=True,
    )
    output_file: str = option("glue.zip", "Zip file to write.", writes="file")


FLAGS = common_flags.make_flags(SubmissionConfig)

_HEADER = "index\tprediction"
# File that the site expects -> rows of the official test set, and the most
# frequent label in train (of scores, the mean). Rows are those of the "test"
# splits in the data set card of nyu-mll/glue, checked against the files of
# CoLA, SST-2, MRPC, STS-B, RTE, WNLI and AX. MNLI and QNLI have balanced
# classes, so any label will do; AX has no train set and gets MNLI's label.
TEST_SETS = {
    "CoLA": (1063, "1"),
    "SST-2": (1821, "1"),
    "MRPC": (1725, "1"),
    "STS-B": (1379, "2.7010"),
    "QQP": (390965, "0"),
    "MNLI-m": (9796, "entailment"),
    "MNLI-mm": (9847, "entailment"),
    "QNLI": (5463, "entailment"),
    "RTE": (3000, "entailment"),
    "WNLI": (146, "0"),
    "AX": (1104, "entailment"),
}
# File name -> its task, which has the valid labels.
_TASKS = {
    name: task
    for task in glue_tables.GLUE_TASKS
    for name in task.predictions.values()
}


def find_predictions(run_dirs: Sequence[str]) -> dict[str, str]:
    """Returns the path of the predictions for each test set by its name.

    Raises:
      ValueError: if a run has no predictions, has some for an unknown test
        set, or for the same one as another run.
    """
    predictions: dict[str, str] = {}
    for run_dir in run_dirs:
        folder = os.path.join(run_dir, "predictions")
        files = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        files = [name for name in files if name.endswith(".tsv")]
        if not files:
            raise ValueError(
                f"{run_dir} has no predictions/*.tsv. Give the output folder "
                "of run_glue --do_predict."
            )
        for file in files:
            name, path = file.removesuffix(".tsv"), os.path.join(folder, file)
            if name not in TEST_SETS:
                raise ValueError(
                    f"{path} does not match any test set of GLUE "
                    f"({', '.join(TEST_SETS)}). Omit {run_dir}."
                )
            if name in predictions:
                raise ValueError(
                    f"{path} and {predictions[name]} are for the same test "
                    "set. Omit one of the two runs."
                )
            predictions[name] = path
    return predictions


def check(name: str, path: str) -> str:
    """Returns the text of a file of predictions that the site will accept.

    Raises:
      ValueError: naming file and line, if the site would reject it.
    """
    # Bytes that are not UTF-8 become characters that no answer has.
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    header, *lines = text.removesuffix("\n").split("\n")
    if header != _HEADER:
        raise ValueError(
            f"{path}:1: {header!r} should be {_HEADER!r}, as run_glue writes."
        )
    num_rows, _ = TEST_SETS[name]
    if len(lines) != num_rows:
        raise ValueError(
            f"{path} has {len(lines):,} rows; the official test set of {name} "
            f"has {num_rows:,}. Predict all of them."
        )
    task = _TASKS[name]
    for number, line in enumerate(lines):
        index, _, value = line.partition("\t")
        if index != str(number) or not _is_answer(task, value):
            raise ValueError(
                f"{path}:{number + 2}: {line!r} should be {number}, a tab and "
                + (", ".join(task.labels) or "a score")
                + ". Predict again with run_glue."
            )
    return text


def _is_answer(task: glue_tables.GlueTask, value: str) -> bool:
    if task.is_regression:
        return not math.isnan(to_number(value))
    return value in task.labels


def main(argv: list[str]) -> None:
    """Writes the zip."""
    common_flags.parse(FLAGS, argv, __doc__)
    config = common_flags.config(SubmissionConfig, FLAGS)
    path = config.output_file
    predictions = find_predictions(config.run_dirs)
    streams.check_output(
        "output_file", path, [("run_dirs", x) for x in predictions.values()]
    )
    texts = {name: check(name, file) for name, file in predictions.items()}
    with (
        atomic_files.atomic_file(path, "wb") as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, (rows, answer) in TEST_SETS.items():
            lines = [_HEADER, *(f"{row}\t{answer}" for row in range(rows)), ""]
            text = texts.get(name, "\n".join(lines))
            # Its time is fixed: the same predictions give the same bytes.
            entry = zipfile.ZipInfo(f"{name}.tsv")
            archive.writestr(entry, text, zipfile.ZIP_DEFLATED)
            source = predictions.get(name, f"no run: filled with {answer}")
            logging.info("%s  rows %d  %s", name, rows, source)
    filled = len(TEST_SETS) - len(predictions)
    logging.info("%s  files %d  filled %d", path, len(TEST_SETS), filled)


run = common_flags.command(main)

if __name__ == "__main__":
    run()
