"""Progress of a plan, its report -> finished runs, files of the report."""

import os
from collections.abc import Iterator, Mapping

from matplotlib.figure import Figure

from bert_tf.config import BertConfig
from experiments import commands, recipes
from tfrecords.io import atomic_files

REPORT = "report.md"


def after_runs(
    progress: commands.Progress, configs: Mapping[str, BertConfig]
) -> Iterator[None]:
    """Runs the missing jobs; yields whenever a report has to be written.

    That is after each run, but not after jobs that make records or a
    vocabulary, and once more at the end.

    Args:
      progress: progress of the plan; see `commands.run`.
      configs: path -> config, written first.
    """
    recipes.write_configs(configs)
    for job in commands.run(progress):
        if ".run_" in job.module:
            yield
    yield


def write(output_dir: str, text: str) -> None:
    """Writes report.md atomically."""
    with atomic_files.atomic_file(os.path.join(output_dir, REPORT)) as file:
        file.write(text)


def save_figure(figure: Figure, output_dir: str, name: str) -> None:
    """Writes a figure as a PNG, atomically."""
    figure.tight_layout()
    path = os.path.join(output_dir, name)
    with atomic_files.atomic_file(path, "wb") as file:
        figure.savefig(file, format="png", dpi=110)
