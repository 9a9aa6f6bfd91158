"""Engine flags -> an engine: local processes, Apache Spark or Beam."""

import os

from absl import flags

from tfrecords.engines import processes
from tfrecords.io import progress
from tfrecords.pretraining import records


def define(flag_values: flags.FlagValues) -> None:
    """Adds the flags that select where jobs run."""
    flags.DEFINE_enum(
        "runner",
        "local",
        ["local", "spark", "beam"],
        "Where to run: in processes on this machine, on Apache Spark or on "
        "Apache Beam. The records do not depend on it. All machines of a "
        "cluster need this package, and the same paths on a shared file "
        "system. Beam's own flags follow at the end, after --.",
        flag_values=flag_values,
    )
    flags.DEFINE_integer(
        "num_processes",
        None,
        "With --runner=local: number of worker processes. Default: one per "
        "core. The records do not depend on it.",
        lower_bound=1,
        flag_values=flag_values,
    )
    flags.DEFINE_string(
        "spark_master",
        None,
        "With --runner=spark: spark://HOST:7077, yarn or local[*]. Default: "
        "local[*].",
        flag_values=flag_values,
    )
    flags.DEFINE_multi_string(
        "spark_conf",
        [],
        "With --runner=spark: a Spark property, such as "
        "spark.executor.memory=2g; may be given several times.",
        flag_values=flag_values,
    )


def split(argv: list[str]) -> tuple[list[str], list[str]]:
    """Returns our own arguments, and Beam's, which follow `--`."""
    end = argv.index("--") if "--" in argv else len(argv)
    return argv[:end], argv[end + 1 :]


def engine(
    flag_values: flags.FlagValues, beam_flags: list[str], output: records.Output
) -> progress.Engine:
    """Returns the engine that the flags select, not yet started.

    Args:
      flag_values: flags added by `define`.
      beam_flags: the arguments after `--`.
      output: settings of the records; machines exchange files in `work/` of
        its folder.

    Raises:
      ValueError: if flags contradict each other, or the engine rejects them.
    """
    runner = flag_values.runner
    shared_dir = os.path.join(output.output_dir, "work")
    for name, value, its_runner in (
        ("--num_processes", flag_values.num_processes, "local"),
        ("--spark_master", flag_values.spark_master, "spark"),
        ("--spark_conf", flag_values.spark_conf, "spark"),
        ("Arguments after --", beam_flags, "beam"),
    ):
        if value and runner != its_runner:
            raise ValueError(
                f"{name} ({value}) needs --runner={its_runner}, but the flags "
                f"have --runner={runner}. Omit one of the two."
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
                f"--{name}={value} cannot be combined with --compat=original, "
                "which draws everything from one random stream, in one "
                "process. Omit one of the two flags."
            )


def _setting(text):
    name, is_given, value = text.partition("=")
    if not is_given:
        raise ValueError(
            f"--spark_conf={text} should be NAME=VALUE, such as "
            "--spark_conf=spark.executor.memory=2g."
        )
    return name.strip(), value.strip()
