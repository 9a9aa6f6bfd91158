"""Flags of engines -> an engine: local processes, Apache Spark or Beam."""

import os

from absl import flags

from tfrecords.engines import processes
from tfrecords.io import progress
from tfrecords.pretraining import records


def define(flag_values: flags.FlagValues) -> None:
    """Adds the flags that say where jobs run."""
    flags.DEFINE_enum(
        "runner",
        "local",
        ["local", "spark", "beam"],
        "Where the work is done: in processes of this machine, on Apache Spark "
        "or on Apache Beam. The records do not depend on it. Machines of a "
        "cluster need this package, and the same paths on a shared file "
        "system. Beam's own flags come last, after a lone --.",
        flag_values=flag_values,
    )
    flags.DEFINE_integer(
        "num_processes",
        None,
        "Worker processes of --runner=local; by default one a core. The "
        "records do not depend on it.",
        lower_bound=1,
        flag_values=flag_values,
    )
    flags.DEFINE_string(
        "spark_master",
        None,
        "Of --runner=spark: spark://HOST:7077, yarn, or local[*], the default.",
        flag_values=flag_values,
    )
    flags.DEFINE_multi_string(
        "spark_conf",
        [],
        "Of --runner=spark: a setting of Spark's, such as "
        "spark.executor.memory=2g; may be given several times.",
        flag_values=flag_values,
    )


def split(argv: list[str]) -> tuple[list[str], list[str]]:
    """Returns our own arguments, and Beam's, which follow a lone `--`."""
    end = argv.index("--") if "--" in argv else len(argv)
    return argv[:end], argv[end + 1 :]


def engine(
    flag_values: flags.FlagValues,
    beam_flags: list[str],
    output: records.Output,
) -> progress.Engine:
    """Returns the engine that flags ask for, not yet started.

    Args:
      flag_values: with the flags of `define`.
      beam_flags: the arguments after `--`.
      output: of the records; machines meet in its folder `work`.

    Raises:
      ValueError: if flags do not go together, or as the engine says.
    """
    runner = flag_values.runner
    shared_dir = os.path.join(output.output_dir, "work")
    for name, value, its_runner in (
        ("--num_processes", flag_values.num_processes, "local"),
        ("--spark_master", flag_values.spark_master, "spark"),
        ("--spark_conf", flag_values.spark_conf, "spark"),
        ("What follows --", beam_flags, "beam"),
    ):
        if value and runner != its_runner:
            raise ValueError(
                f"{name} ({value}) is for --runner={its_runner}, and this is "
                f"--runner={runner}. Omit one of the two."
            )
    if output.compat:
        _check_one_process(flag_values)
        return processes.Workers(1)
    if runner == "spark":
        from tfrecords.engines import spark

        return spark.Cluster(
            flag_values.spark_master or "local[*]",
            shared_dir,
            dict(map(_setting, flag_values.spark_conf)),
        )
    if runner == "beam":
        from tfrecords.engines import beam

        return beam.Pipelines(beam_flags, shared_dir)
    cores = len(os.sched_getaffinity(0))
    return processes.Workers(flag_values.num_processes or cores)


def _check_one_process(flag_values):
    for name, possible in (("runner", ["local"]), ("num_processes", [None, 1])):
        value = flag_values[name].value
        if value not in possible:
            raise ValueError(
                f"--{name}={value} does not go with --compat=original, which "
                "draws everything from one random stream, in one process. Omit "
                "one of the two flags."
            )


def _setting(text):
    name, is_given, value = text.partition("=")
    if not is_given:
        raise ValueError(
            f"--spark_conf={text} should be NAME=VALUE, such as "
            "--spark_conf=spark.executor.memory=2g."
        )
    return name.strip(), value.strip()
