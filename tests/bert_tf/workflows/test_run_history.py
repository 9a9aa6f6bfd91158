import dataclasses
import importlib.metadata
import json

import pytest
import tensorflow as tf
from absl import flags

from bert_tf.training.config import TrainingConfig
from bert_tf.workflows import run_history
from run_scripts.flags import common_flags
from tfrecords.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(TrainingConfig):
    labels: tuple[str, ...] | None = option(None, "List.")
    phases: tuple[str, ...] | None = option(None, "List.")
    do_lower_case: bool | None = option(None, "Bool.")
    do_eval: bool = option(True, "Bool.")
    prompt: str | None = option(None, "Text.")


def test_the_flag_file_of_a_run_repeats_it(tmp_path):
    config = Config(
        output_dir="x",
        correct_bias=False,
        jit_compile=True,
        learning_rate=3e-5,
        labels=("a,b", "c"),
        phases=("8:0.9", "16:0.1"),
        do_eval=False,
    )
    run_history.write_flags("run_x", str(tmp_path / "run"), config)
    path = tmp_path / "run" / "run.flags"
    text = path.read_text()
    assert text.startswith("# run_scripts.run_x\n# python 3.")
    assert "tensorflow 2." in text
    # Options that are None are omitted.
    assert "do_lower_case" not in text
    values = flags.FlagValues()
    common_flags.define(values, Config)
    common_flags.parse(values, ["script", f"--flagfile={path}"], "Doc.")
    assert common_flags.config(Config, values) == config


def test_tensorflow_may_be_installed_by_a_wheel_of_another_name(
    tmp_path, monkeypatch
):
    """tensorflow-tpu has the module, but no metadata of `tensorflow`."""
    version = importlib.metadata.version

    def missing(name):
        if name == "tensorflow":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    run_history.write_flags("run_x", str(tmp_path), Config(output_dir="x"))
    text = (tmp_path / "run.flags").read_text()
    assert f"  tensorflow {tf.__version__}  keras 3." in text


def write_flags(folder, *lines):
    (folder / "run.flags").write_text("".join(f"{line}\n" for line in lines))


def test_flags_versions_and_script_of_a_run(tmp_path):
    write_flags(
        tmp_path,
        "# run_scripts.run_pretraining",
        "# python 3.0.1  tensorflow 1.15.0",
        "--input_file=a=b,c",
        "--nodo_eval",
        "--vocab_file=",
    )
    read = run_history.read_flags(str(tmp_path))
    assert read.script == "run_pretraining"
    assert read.versions == {"python": "3.0.1", "tensorflow": "1.15.0"}
    expected = {"input_file": "a=b,c", "nodo_eval": "", "vocab_file": ""}
    assert read.flags == expected


@pytest.mark.parametrize("prompt", ["find:\nQuery: ", "query: ", "a\rb"])
def test_a_text_that_no_flag_file_can_hold_is_a_comment(tmp_path, prompt):
    config = Config(output_dir="x", prompt=prompt)
    run_history.write_flags("run_glue", str(tmp_path), config)
    assert run_history.read_flags(str(tmp_path)).flags["prompt"] == prompt
    text = (tmp_path / "run.flags").read_text()
    assert "# Give this in the command; no flag file can hold it" in text
    values = flags.FlagValues()
    common_flags.define(values, Config)
    words = ["script", f"--flagfile={tmp_path / 'run.flags'}"]
    common_flags.parse(values, words, "Doc.")
    without = dataclasses.replace(config, prompt=None)
    assert common_flags.config(Config, values) == without


def test_a_command_of_experiments_has_its_full_name(tmp_path):
    run_history.write_flags("experiments.features.run_x", str(tmp_path))
    read = run_history.read_flags(str(tmp_path))
    assert read.script == "experiments.features.run_x"


@pytest.mark.parametrize(
    "line",
    [
        *("", "--seed=1", "# run_scripts.nothing", "# run_scripts.os; ls"),
        *("# experiments", "# experiments.x; ls", "experiments.x"),
    ],
)
def test_flags_without_a_valid_script_are_rejected(tmp_path, line):
    write_flags(tmp_path, line)
    with pytest.raises(ValueError, match="run.flags:1: .* should be the scr"):
        run_history.read_flags(str(tmp_path))


def test_flags_that_are_not_utf_8_are_refused(tmp_path):
    path = tmp_path / "run.flags"
    path.write_bytes(b"# run_scripts.run_glue\n--name=\xff\n")
    message = r"run.flags is not UTF-8 \(.*\). Correct it, or"
    with pytest.raises(ValueError, match=message):
        run_history.read_flags(str(tmp_path))


def test_read_log_returns_values_by_step(tmp_path, caplog):
    assert run_history.read_log(str(tmp_path)) == {}
    (tmp_path / "logs" / "train").mkdir(parents=True)
    path = tmp_path / "logs" / "train" / "steps.jsonl"
    lines = [json.dumps({"step": n, "loss": 0.1 * n}) + "\n" for n in (1, 2)]
    path.write_text("".join(lines) + '{"step": 3, "lo')
    assert run_history.read_log(str(tmp_path)) == {
        1: {"loss": 0.1},
        2: {"loss": 0.2},
    }
    path.write_text(lines[0] + '{"step": 2, "loss": "x"}\n')
    assert run_history.read_log(str(tmp_path)) == {1: {"loss": 0.1}}
    assert "steps.jsonl:2: loss is 'x'; it should be a num" in caplog.text
