"""run_pretraining end to end with a small model, and errors."""

import dataclasses
import json
import os
import shutil

import numpy as np
import pytest
import run_processes
import tensorflow as tf

from bert_tf.checkpoint import run_models
from bert_tf.training import stopping
from bert_tf.workflows import run_history
from bert_tf.workflows.pretraining import time_budget
from run_scripts import make_pretraining_records, run_pretraining
from tfrecords import schema
from tfrecords.io import json_files, records

STEPS = ["--num_train_steps=6", "--num_warmup_steps=2"]
SIZES = ["--max_seq_length=32", "--max_predictions_per_seq=5"]
LAST = "checkpoints/step-00000006"
STATE = f"{LAST}/state.json"  # Has the sha256 of the weights.
# Compiled steps are in tests/contracts/test_tasks.py.
pytestmark = pytest.mark.usefixtures("eagerly_in_module")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, pretraining_records, tiny_config):
    """Folder of records, a copy with the original's names, and configs."""
    folder = tmp_path_factory.mktemp("pretraining")
    shutil.copytree(pretraining_records, folder, dirs_exist_ok=True)
    ours = records.Records.open(str(folder / "train"))
    with tf.io.TFRecordWriter(str(folder / "legacy.tfrecord")) as writer:
        for serialized in ours.get(np.arange(len(ours))):
            features = tf.train.Example.FromString(serialized).features.feature
            named = tf.train.Example()
            for name in features:
                legacy = schema.LEGACY_NAMES.get(name, name)
                named.features.feature[legacy].CopyFrom(features[name])
            writer.write(named.SerializeToString())
    config = dataclasses.replace(tiny_config, num_hidden_layers=1)
    config.to_json_file(folder / "bert_config.json")
    small = dataclasses.replace(config, vocab_size=100)
    small.to_json_file(folder / "small.json")
    return folder


def run(folder, output_dir, *more, steps=STEPS):
    words = [
        *(f"--input_file={folder}/train", f"--output_dir={output_dir}"),
        f"--eval_input_file={folder}/held_out",
        f"--bert_config_file={folder}/bert_config.json",
        f"--vocab_file={run_processes.VOCAB_FILE}",
        *("--train_batch_size=8", "--eval_batch_size=32"),
        *("--learning_rate=1e-2", "--save_checkpoints_steps=3"),
        "--log_every_steps=2",
    ]
    run_pretraining.main(["run_pretraining", *words, *steps, *more])


def make_records(folder, *more):
    words = run_processes.record_arguments(folder, dupe_factor=1)
    words = ["make_pretraining_records", *words, *more]
    make_pretraining_records.main(words)


def results_of(run_dir):
    return json_files.read(run_dir / "eval_results.json")


def assert_same(found, expected, *names):
    for name in names:
        content = (expected / name).read_bytes()
        assert (found / name).read_bytes() == content, name


@pytest.fixture(scope="module")
def trained(folder, eagerly_in_module):
    """The folder of a finished, uninterrupted run."""
    run(folder, folder / "run")
    return folder / "run"


def test_the_case_of_a_run_without_manifest_cannot_change(folder, tmp_path):
    words = [
        *(f"--input_file={folder}/legacy.tfrecord", *SIZES),
        *("--eval_input_file=", "--num_train_steps=3"),
    ]
    with pytest.raises(stopping.Stopped):
        run(folder, tmp_path, *words, "--stop_at_step=1", "--nodo_lower_case")
    message = "--do_lower_case=True, but .*step-00000001 was trained with do_l"
    with pytest.raises(ValueError, match=message):
        run(folder, tmp_path, *words, "--do_lower_case")
    run(folder, tmp_path, *words)
    path = tmp_path / "checkpoints/step-00000003/model.json"
    assert json_files.read(path)["do_lower_case"] is False


def test_single_segments_are_trained_on_without_next_sentence_labels(
    folder, tmp_path
):
    """These records are also masked when they are read."""
    made = ["--pairs=none", "--masking_time=dynamic", "--masking=spans"]
    make_records(tmp_path, *made)
    statistics = records.Manifest.read(str(tmp_path / "train")).statistics
    named = [n for n in statistics if "next" in n or "mask" in n]
    assert not named
    more = [
        f"--input_file={tmp_path}/train",
        f"--eval_input_file={tmp_path}/held_out",
    ]
    run(folder, tmp_path / "run", *more, "--log_every_steps=1")
    results = results_of(tmp_path / "run")
    assert results["loss"] == results["masked_lm_loss"] > 0
    assert 0 <= results["unigram_accuracy"] <= 1
    steps = run_processes.log_lines(tmp_path / "run")
    assert len(steps) == 6
    names = [*results, *steps[0]]
    assert not [name for name in names if "next_sentence" in name]


def test_a_run_with_candidates_resumes_exactly(folder, tmp_path):
    flag = "--masked_lm_candidates=60"
    run(folder, tmp_path / "once", flag)
    with pytest.raises(stopping.Stopped):
        run(folder, tmp_path / "resumed", flag, "--stop_at_step=4")
    with pytest.raises(ValueError, match="masked_lm_candidates"):
        run(folder, tmp_path / "resumed")
    run(folder, tmp_path / "resumed", flag)
    names = "eval_results.json", "run.json", STATE, "logs/train/steps.jsonl"
    assert_same(tmp_path / "resumed", tmp_path / "once", *names)
    assert "masked_lm_accuracy" in results_of(tmp_path / "once")


@pytest.mark.slow
def test_a_run_does_not_depend_on_the_input_mode(folder, trained, tmp_path):
    with pytest.raises(stopping.Stopped):
        run(folder, tmp_path, "--input_mode=python", "--stop_at_step=4")
    last = "--input_mode=stream"
    run(folder, tmp_path, last)
    logs = "logs/train/steps.jsonl", "logs/eval/steps.jsonl"
    names = "eval_results.json", "run.json", STATE, *logs
    assert_same(tmp_path, trained, *names)
    assert f"{last}\n" in (tmp_path / "run.flags").read_text()


@pytest.mark.slow
def test_records_with_the_originals_names_train_the_same_model(
    folder, trained, tmp_path
):
    legacy = f"--input_file={folder}/legacy.tfrecord"
    run(folder, tmp_path, legacy, *SIZES, "--vocab_file=", "--nodo_eval")
    # Their metadata differ: one has a vocabulary.
    ours, theirs = (
        json_files.read(run_dir / STATE)["files"]
        for run_dir in (tmp_path, trained)
    )
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert ours[name] == theirs[name], name


# Errors.

_LEGACY = "--input_file={}/legacy.tfrecord"
_EARLY = "--early_stopping_evaluations=2"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([_LEGACY], "no manifest. Give the --max_seq_len"),
        (
            [_LEGACY, *SIZES, "--bert_config_file={}/small.json"]
            + ["--vocab_file="],
            "were made with 203 tokens; the model has vocab_size=100",
        ),
        (["--num_warmup_steps=7"], "num_warmup_steps=7 exceeds"),
        (
            ["--batch_size_ramp=4:0.5", "--gradient_accumulation_steps=8"],
            "batch of 4 examples is not a multiple",
        ),
        ([_EARLY, "--nodo_eval"], "=2 needs --eval_input_file"),
        (
            ["--masked_lm_candidates=40"],
            "=40 should be from 41, more .*=8 .*=5, to the vocab_size of 203",
        ),
        (["--masked_lm_candidates=204"], "=204 should be from 41"),
        (
            ["--masked_lm_candidates=60", "--objective=left_to_right"],
            "=60 is for --objective=masked_lm",
        ),
        (
            ["--masked_lm_candidates=60", "--gradient_accumulation_steps=2"],
            "=60 cannot be combined with --gradient_accumulation_steps=2",
        ),
        (["--train_hours=1"], "hours=1.0 is given instead of --num"),
    ],
)
def test_settings_are_refused_before_anything_is_written(
    folder, tmp_path, words, message
):
    words = [word.format(folder) for word in words]
    with pytest.raises(ValueError, match=message):
        run(folder, tmp_path / "run", *words)
    assert not (tmp_path / "run").exists()


def eval_logs(run_dir):
    """Returns the losses that each log of evaluations has, by step."""
    logs = {}
    for path in sorted(run_dir.glob("logs/eval*/steps.jsonl")):
        rows = map(json.loads, path.read_text().splitlines())
        logs[path.parent.name] = {row["step"]: row["loss"] for row in rows}
    return logs


@pytest.mark.slow
def test_evaluations_on_other_records_have_a_log_of_their_own(
    folder, tmp_path, caplog
):
    often = "--save_checkpoints_steps=2"
    with pytest.raises(stopping.Stopped):
        run(folder, tmp_path, often, "--stop_at_step=2")
    before = eval_logs(tmp_path)["eval"]
    assert list(before) == [2]
    run(folder, tmp_path, often, f"--eval_input_file={folder}/train")
    assert "eval has evaluations on other records" in caplog.text
    on_others = results_of(tmp_path)
    logs = eval_logs(tmp_path)
    assert logs.pop("eval") == before
    ((name, losses),) = logs.items()
    assert name.startswith("eval-") and list(losses)[-2:] == [4, 6]
    run(folder, tmp_path, often)
    assert list(eval_logs(tmp_path)["eval"]) == [2, 6]
    assert eval_logs(tmp_path)[name] == losses
    for key in ("records", "masked_lm_loss"):
        assert results_of(tmp_path)[key] != on_others[key]


def test_results_of_removed_checkpoints_are_not_those_of_a_new_run(
    folder, tmp_path
):
    losses = []
    for rate in (0.01, 0.001):
        shutil.rmtree(tmp_path / "checkpoints", ignore_errors=True)
        words = ["--num_train_steps=2", "--num_warmup_steps=0"]
        run(folder, tmp_path, *words, f"--learning_rate={rate}")
        losses.append(results_of(tmp_path)["loss"])
    assert losses[0] != losses[1]


# Early stopping.


@pytest.mark.slow
def test_a_run_that_does_not_improve_stops_and_keeps_its_best_model(
    folder, tmp_path
):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    # All evaluations are equal.
    without = ["--learning_rate=0", "--num_train_steps=12"]
    words = [*without, "--early_stopping_evaluations=2"]
    fault = "after step 9: no evaluation was better in .*=2"
    for _ in range(2):  # The same command stops again.
        with pytest.raises(stopping.Stopped, match=fault) as error:
            run(folder, whole, *words)
        assert error.value.exit_code == 0
        assert run_models.newest_step(str(whole)) == 9
    with pytest.raises(stopping.Stopped, match="step 7"):
        run(folder, resumed, *words, "--stop_at_step=7")
    with pytest.raises(stopping.Stopped, match=fault):
        run(folder, resumed, *words)
    for path in (whole, resumed):
        assert run_models.step_of(run_models.find(str(path))) == 3
    with pytest.raises(ValueError, match="best has the best model so far"):
        run(folder, whole, *without)
    run(folder, whole, *words, "--early_stopping_evaluations=3")
    assert run_models.newest_step(str(whole)) == 12
    # Nothing is left to train, so that best/ is not outdated.
    run(folder, whole, *without)


def test_a_run_that_may_stop_early_resumes_on_its_held_out_records_alone(
    folder, tmp_path
):
    early = "--early_stopping_evaluations=9"
    with pytest.raises(stopping.Stopped):
        run(folder, tmp_path, early, "--stop_at_step=3")
    before = (tmp_path / "best/state.json").read_bytes()
    for more in (f"--eval_input_file={folder}/train", "--max_eval_steps=1"):
        with pytest.raises(
            ValueError, match="best has the best model on other"
        ):
            run(folder, tmp_path, early, more)
    assert (tmp_path / "best/state.json").read_bytes() == before
    # A damaged one is replaced.
    os.truncate(tmp_path / "best/model.safetensors", 100)
    run(folder, tmp_path, early)
    assert run_models.newest_step(str(tmp_path)) == 6
    assert run_models.step_of(run_models.find(str(tmp_path))) == 6


# Hours instead of steps.


def test_hours_fix_the_steps_of_an_exact_run(folder, tmp_path, monkeypatch):
    calls = []

    def seconds(*args):
        calls.append(args)
        return 60.0

    monkeypatch.setattr(time_budget, "_seconds_per_step", seconds)
    by_hours, by_steps = tmp_path / "hours", tmp_path / "steps"
    hours = ["--train_hours=0.1", "--warmup_proportion=0.5", "--nodo_eval"]
    with pytest.raises(stopping.Stopped):
        run(folder, by_hours, "--stop_at_step=3", steps=hours)
    found = json_files.read(by_hours / "run.json")
    expected = {"num_train_steps": 6, "num_warmup_steps": 3}
    assert found == found | expected | {"train_hours": 0.1}
    run(folder, by_hours, steps=hours)
    assert len(calls) == 1, "the number of steps is in run.json"
    steps = [f"--{name}={value}" for name, value in expected.items()]
    run(folder, by_steps, "--nodo_eval", steps=steps)
    assert_same(by_hours, by_steps, f"{LAST}/model.safetensors")
    with pytest.raises(ValueError, match="train_hours"):
        run(folder, by_hours, "--train_hours=9", steps=hours)
    lost = shutil.copytree(by_hours, tmp_path / "lost")
    (lost / "run.json").unlink()
    with pytest.raises(ValueError, match="contains a run without run.json"):
        run(folder, lost, steps=hours)
    assert len(calls) == 1, "nothing is timed for a run that cannot resume"
    for other, message in (("0.01", "is less than one s"), ("0", "above 0")):
        with pytest.raises(ValueError, match=f"train_hours={other}.*{message}"):
            run(folder, tmp_path / "x", f"--train_hours={other}", steps=hours)
    assert not (tmp_path / "x").exists()
    # run.flags repeats the run, in its folder, too.
    flags = run_history.read_flags(str(by_hours)).flags
    assert flags["num_train_steps"] == "6" and "train_hours" not in flags
    assert flags["num_warmup_steps"] == "3"
    run(folder, by_hours, "--nodo_eval", steps=steps)


def test_steps_are_timed_without_changing_the_run(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(time_budget, "_TIMED_SECONDS", 0.2)
    timed, untimed = tmp_path / "timed", tmp_path / "untimed"
    words = "--stop_at_step=1", "--nodo_eval"
    with pytest.raises(stopping.Stopped):
        run(folder, timed, *words, steps=["--train_hours=2"])
    settings = json_files.read(timed / "run.json")
    # Between a millisecond and 20 seconds.
    assert 360 < settings["num_train_steps"] < 7_200_000
    assert settings["num_warmup_steps"] == settings["num_train_steps"] // 10
    names = "num_train_steps", "num_warmup_steps"
    steps = [f"--{name}={settings[name]}" for name in names]
    with pytest.raises(stopping.Stopped):
        run(folder, untimed, *words, steps=steps)
    assert_same(timed, untimed, "checkpoints/step-00000001/model.safetensors")
