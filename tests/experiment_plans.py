"""Plan of an experiment -> its inputs, the check of its flags, its results."""

import copy
import importlib
import pathlib

from experiments import commands

TEXT = pathlib.Path(__file__).parent / "data" / "sentences.txt"


def flags_of_inputs(folder, vocab_file):
    """Returns flags of a text and of SST-2 with 16 rows, written to a folder.

    The words decide the label, and half of the rows have each.
    """
    task = folder / "SST-2"
    task.mkdir()
    rows = [f"the {'cat' if i % 2 else 'moon'}\t{i % 2}\n" for i in range(16)]
    for name in ("train", "dev"):
        content = "sentence\tlabel\n" + "".join(rows)
        (task / f"{name}.tsv").write_text(content)
    return [
        f"--corpus={TEXT}",
        f"--vocab_file={vocab_file}",
        f"--glue_dir={task}",
        f"--output_dir={folder}/out",
    ]


def check_flags(job):
    """Raises an error if a job's script does not have its flags."""
    script = importlib.import_module(job.module)
    # Unknown flags and invalid values raise an error.
    values = copy.deepcopy(script.FLAGS)
    values([job.script, *commands.job_arguments(job)])


def run(job):
    """Runs a job in this process, which is faster than in one of its own."""
    script = importlib.import_module(job.module)
    script.main([job.script, *commands.job_arguments(job)])


def run_all(progress):
    """Runs all jobs of a plan in this process, as `commands.run` does."""
    for job in progress.jobs:
        run(job)
        progress.taken[job.name] = 1.0
        yield job
