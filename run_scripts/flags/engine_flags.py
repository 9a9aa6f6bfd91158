"""Flags of engines -> what runs the jobs: processes here, Spark or Beam."""

import os

from absl import flags

from tfrecords.engines import beam, processes, spark
from tfrecords.io import progress


def define(values: flags.FlagValues) -> None:
    """Adds the flags that say where jobs run."""
    flags.DEFINE_enum(
        "runner",
        "local",
        ["local", "spark", "beam"],
        "Where the work is done: in processes of this machine, on Apache Spark "
        "or on Apache Beam. The records do not depend on it. Machines of a "
        "cluster need this package, and the same paths on a shared file "
        "system. Beam's own flags come last, after a lone --.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "num_processes",
        None,
        "Worker processes of --runner=local; by default one a core. The "
        "records do not depend on it.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_string(
        "spark_master",
        None,
        "Of --runner=spark: spark://HOST:7077, yarn, or local[*], the default.",
        flag_values=values,
    )
    flags.DEFINE_multi_string(
        "spark_conf",
        [],
        "Of --runner=spark: a setting of Spark's, such as "
        "spark.executor.memory=2g; may be given several times.",
        flag_values=values,
    )


def split(argv: list[str]) -> tuple[list[str], list[str]]:
    """Returns our own arguments, and Beam's, which follow a lone `--`."""
    place = argv.index("--") if "--" in argv else len(argv)
    return argv[:place], argv[place + 1 :]


def engine(
    values: flags.FlagValues, beam_flags: list[str], output_dir: str
) -> progress.Engine:
    """Returns the engine that flags ask for, not yet started.

    Args:
      values: with the flags of `define`.
      beam_flags: what followed `--`.
      output_dir: of the records; its folder `work` is where machines meet.

    Raises:
      ValueError: if flags do not go together, or as the engine says.
    """
    runner, shared_dir = values.runner, os.path.join(output_dir, "work")
    for name, value, its_runner in (
        ("--num_processes", values.num_processes, "local"),
        ("--spark_master", values.spark_master, "spark"),
        ("--spark_conf", values.spark_conf, "spark"),
        ("What follows --", beam_flags, "beam"),
    ):
        if value and runner != its_runner:
            raise ValueError(
                f"{name} ({value}) is for --runner={its_runner}, and this is "
                f"--runner={runner}. Leave one of the two away."
            )
    if runner == "spark":
        return spark.Cluster(
            values.spark_master or "local[*]",
            shared_dir,
            dict(map(_setting, values.spark_conf)),
        )
    if runner == "beam":
        return beam.Pipelines(beam_flags, shared_dir)
    cores = len(os.sched_getaffinity(0))
    return processes.Workers(values.num_processes or cores)


def _setting(text):
    name, is_given, value = text.partition("=")
    if not is_given:
        raise ValueError(
            f"--spark_conf={text} should be NAME=VALUE, such as "
            "--spark_conf=spark.executor.memory=2g."
        )
    return name.strip(), value.strip()
