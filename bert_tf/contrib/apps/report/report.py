"""Folders of runs -> report.html."""

import os
from collections.abc import Sequence

from absl import logging

from bert_tf.checkpoint import run_models
from bert_tf.contrib.apps.report import page, run_data
from bert_tf.training import run_folder
from bert_tf.workflows import dev_results
from tfrecords.io import atomic_files, streams

FILE = "report.html"


def write(run_dirs: Sequence[str], output_file: str) -> None:
    """Writes the page of one run, or of several fine-tuning runs side by side.

    Raises:
      ValueError: if a folder has no results, the runs are of several tasks or
        one of several is of pre-training, or the output is one of the inputs.
    """
    inputs = [
        ("run_dirs", os.path.join(run_dir, run_folder.RESULTS))
        for run_dir in run_dirs
    ]
    streams.check_output("output_file", output_file, inputs)
    pretrained = list(filter(_is_pretraining, run_dirs))
    if pretrained and len(run_dirs) > 1:
        raise ValueError(
            f"{pretrained[0]} is a pre-training run, which has a report of its "
            "own. Give it alone."
        )
    if pretrained:
        from bert_tf.contrib.apps.report import pretraining

        _write(pretraining.make(pretrained[0]), output_file)
        return
    runs = [run_data.read(run_dir) for run_dir in run_dirs]
    tasks = sorted({run.results["task_name"] for run in runs})
    if len(tasks) > 1:
        raise ValueError(
            f"The runs are of several tasks: {', '.join(tasks)}. Make a report "
            "of each task."
        )
    advice = {
        text
        for run, run_dir in zip(runs, run_dirs, strict=True)
        for text in dev_results.advice(run.results, run_dir)
    }
    _write(page.make(runs, sorted(advice)), output_file)


def _is_pretraining(run_dir: str) -> bool:
    """Returns whether a folder is of a pre-training run."""
    if run_models.read_settings(run_dir).get("task") != "pretraining":
        return False
    path = os.path.join(run_dir, run_models.RESULTS)
    # A user's own task may have that name.
    return not os.path.lexists(path) or (
        "task_name" not in run_models.read_results(run_dir)
    )


def _write(content: str, output_file: str) -> None:
    with atomic_files.atomic_file(output_file) as file:
        file.write(content)
    logging.info("wrote %s", output_file)


def write_own(run_dir: str) -> None:
    """Writes report.html in the folder of a run; an error is a warning.

    All results are written already.
    """
    try:
        write([run_dir], os.path.join(run_dir, FILE))
    except (ValueError, ArithmeticError, OSError) as error:
        logging.warning("there is no %s: %s", FILE, error)
