import dataclasses
import json
import sys

import pytest
from absl import flags

from bert_tf.training.config import TrainingConfig
from bert_tf.workflows import run_history
from run_scripts.flags import common_flags, training_flags


@pytest.fixture
def training_values():
    values = flags.FlagValues()
    training_flags.define_training(
        values, learning_rate=1e-4, train_batch_size=32
    )
    return values


def parse(values, *words):
    common_flags.parse(values, ["script", *words], "Doc.")


def test_the_flag_file_of_a_run_repeats_it(training_values, tmp_path):
    parse(training_values, "--learning_rate=3e-5", "--correct_bias")
    run_history.write_flag_values(
        training_values, "run_x", str(tmp_path / "run")
    )
    text = (tmp_path / "run" / "run.flags").read_text()
    assert text.startswith("# run_scripts.run_x\n# python 3.")
    assert "tensorflow 2." in text
    before = training_flags.run_settings(training_values)
    parse(training_values, f"--flagfile={tmp_path / 'run' / 'run.flags'}")
    assert training_flags.run_settings(training_values) == before
    assert training_values.correct_bias


@pytest.mark.parametrize("typed", [False, True])
def test_the_flag_file_leaves_an_untyped_case_to_the_model(
    training_values, tmp_path, typed
):
    common_flags.define_vocabulary(training_values)
    parse(training_values, *["--do_lower_case"] * typed)
    run_history.write_flag_values(training_values, "run_x", str(tmp_path))
    text = (tmp_path / "run.flags").read_text()
    assert ("do_lower_case" in text) == typed


@dataclasses.dataclass
class _More:
    labels: tuple = ("a,b", "c")
    phases: tuple = ("8:0.9", "16:0.1")
    do_lower_case: bool | None = None
    do_eval: bool = False


def test_the_fields_of_dataclasses_are_read_back_as_flags(
    training_values, tmp_path
):
    config = TrainingConfig(
        output_dir="x", correct_bias=False, jit_compile=True
    )
    run_history.write_flags("run_x", str(tmp_path), config, _More())
    path = tmp_path / "run.flags"
    assert path.read_text().startswith("# run_scripts.run_x\n# python 3.")
    for name in ("labels", "phases"):
        flags.DEFINE_list(name, None, "List.", flag_values=training_values)
    flags.DEFINE_bool("do_eval", True, "Bool.", flag_values=training_values)
    common_flags.define_vocabulary(training_values)
    parse(training_values, f"--flagfile={path}")
    assert not training_values["do_lower_case"].present
    assert not training_values.do_eval
    assert training_values.labels == ["a,b", "c"]
    assert training_values.phases == ["8:0.9", "16:0.1"]
    names = [field.name for field in dataclasses.fields(TrainingConfig)]
    read = TrainingConfig(**{n: training_values[n].value for n in names})
    written = dataclasses.replace(config, save_checkpoints_steps=1000)
    assert read == written


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
    found = run_history.read_flags(str(tmp_path))
    assert found.script == "run_pretraining"
    assert found.versions == {"python": "3.0.1", "tensorflow": "1.15.0"}
    assert found.flags == {
        "input_file": "a=b,c",
        "nodo_eval": "",
        "vocab_file": "",
    }


@pytest.mark.parametrize(
    "line", ["", "--seed=1", "# run_scripts.nothing", "# run_scripts.os; ls"]
)
def test_flags_of_no_script_are_refused(tmp_path, line):
    write_flags(tmp_path, line)
    with pytest.raises(ValueError, match="run.flags:1: .* should be the scr"):
        run_history.read_flags(str(tmp_path))


def test_other_versions_are_named(caplog):
    with caplog.at_level("WARNING", logger="absl"):
        run_history.warn_of_versions(
            {
                "python": sys.version.split()[0],
                "numpy": "0.1",
                "no-such-library": "2.0",
            }
        )
    assert [text.split(":")[0] for text in caplog.messages] == [
        f"numpy was 0.1 in this run and is {version('numpy')} here",
        "no-such-library was 2.0 in this run and is not installed here",
    ]


def version(name):
    import importlib.metadata

    return importlib.metadata.version(name)


def test_a_log_gives_its_values_by_step(tmp_path):
    with pytest.raises(ValueError, match="has no log of steps"):
        run_history.read_log(str(tmp_path))
    (tmp_path / "logs" / "train").mkdir(parents=True)
    path = tmp_path / "logs" / "train" / "steps.jsonl"
    lines = [json.dumps({"step": n, "loss": 0.1 * n}) + "\n" for n in (1, 2)]
    path.write_text("".join(lines) + '{"step": 3, "lo')
    assert run_history.read_log(str(tmp_path)) == {
        1: {"loss": 0.1},
        2: {"loss": 0.2},
    }
    path.write_text(lines[0] + "[1]\n")
    with pytest.raises(ValueError, match=r"steps.jsonl:2: '\[1\]' should be"):
        run_history.read_log(str(tmp_path))


def test_only_checkpoints_that_are_whole_count(tmp_path):
    assert run_history.kept_steps(str(tmp_path)) == []
    for name in ("step-00000010", "step-00000009", "damaged-step-00000011"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    (tmp_path / "checkpoints" / ".step-00000012.0123.tmp").mkdir()
    assert run_history.kept_steps(str(tmp_path)) == [9, 10]
    path = run_history.checkpoint(str(tmp_path), 9)
    assert path.endswith("checkpoints/step-00000009")
