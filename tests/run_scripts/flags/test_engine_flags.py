"""engine_flags.py: flags become engines; contradictions are refused."""

import pytest
from absl import flags

from run_scripts.flags import engine_flags
from tfrecords.engines import processes, spark
from tfrecords.pretraining import records


def engine(*words, beam_flags=()):
    values = flags.FlagValues()
    engine_flags.define(values)
    values(["test", *words])
    output = records.Output(output_dir="out")
    return engine_flags.engine(values, list(beam_flags), output)


def test_processes_are_the_default():
    assert isinstance(engine("--num_processes=1"), processes.Workers)
    assert isinstance(engine(), processes.Workers)


def test_spark_does_not_start_before_it_is_needed():
    found = engine("--runner=spark", "--spark_conf=spark.executor.cores=1")
    assert isinstance(found, spark.Cluster)


def test_arguments_after_two_dashes_are_for_beam():
    argv = ["make", "--runner=beam", "--", "--runner=FlinkRunner", "--x=1"]
    ours, beams = engine_flags.split(argv)
    assert ours == ["make", "--runner=beam"]
    assert beams == ["--runner=FlinkRunner", "--x=1"]
    assert engine_flags.split(ours) == (ours, [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--runner=spark", "--num_processes=2"], "needs --runner=local"),
        (["--spark_master=local"], "spark_master .*needs --runner=spark"),
        (["--runner=beam", "--spark_conf=a=b"], "needs --runner=spark"),
        (["--runner=spark", "--spark_conf=a"], "should be NAME=VALUE"),
    ],
)
def test_flags_of_another_engine_are_named(words, message):
    with pytest.raises(ValueError, match=message):
        engine(*words)


def test_beam_flags_without_the_beam_runner_are_named():
    with pytest.raises(ValueError, match="Arguments after -- .*--runner=beam"):
        engine(beam_flags=["--runner=DirectRunner"])
