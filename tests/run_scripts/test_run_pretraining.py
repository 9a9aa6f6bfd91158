"""run_pretraining end to end with a two-layer model, and errors."""

import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from bert_tf.checkpoint import run_models
from bert_tf.training import checkpoints, stopping
from bert_tf.workflows import run_history
from bert_tf.workflows.pretraining import time_budget
from bert_tf.workflows.pretraining.config import PretrainingConfig
from bert_tf.workflows.pretraining.run import pretrain
from run_scripts import make_pretraining_records, run_pretraining
from run_scripts.flags import common_flags
from tfrecords import schema
from tfrecords.io import records

TEXT = pathlib.Path(__file__).parents[1] / "data" / "sentences.txt"
SIZES = ["--max_seq_length=32", "--max_predictions_per_seq=5"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, pretraining_records, tiny_config):
    """Folder of records, a copy with the original's names, and a config."""
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
    tiny_config.to_json_file(folder / "bert_config.json")
    return folder


def run(folder, output_dir, *more):
    run_pretraining.main(
        [
            "run_pretraining",
            f"--input_file={folder}/train",
            f"--eval_input_file={folder}/held_out",
            f"--bert_config_file={folder}/bert_config.json",
            f"--output_dir={output_dir}",
            "--num_train_steps=6",
            "--num_warmup_steps=2",
            "--train_batch_size=8",
            "--eval_batch_size=32",
            "--learning_rate=1e-2",
            "--save_checkpoints_steps=3",
            "--log_every_steps=2",
            *more,
        ]
    )


@pytest.fixture(scope="module")
def trained(folder, tiny_vocab_file):
    """The folder of a finished, uninterrupted run."""
    run(folder, folder / "run", f"--vocab_file={tiny_vocab_file}")
    return folder / "run"


@pytest.mark.usefixtures("eagerly")
def test_a_model_has_the_case_of_its_records(folder, tiny_vocab_file, tmp_path):
    cased = tmp_path / "cased"
    shutil.copytree(folder / "train", cased / "train")
    shutil.copytree(folder / "held_out", cased / "held_out")
    for path in cased.glob("*/manifest.json"):
        manifest = json.loads(path.read_text())
        assert manifest["vocabulary"]["do_lower_case"] is True
        manifest["vocabulary"]["do_lower_case"] = False
        path.write_text(json.dumps(manifest))
    shutil.copy(folder / "bert_config.json", cased)
    words = f"--vocab_file={tiny_vocab_file}", "--nodoctor"
    with pytest.raises(ValueError, match="made with do_lower_case=False"):
        run(cased, tmp_path / "run", *words, "--do_lower_case")
    assert not (tmp_path / "run").exists()
    run(cased, tmp_path / "run", *words, "--stop_at_step=6")
    newest = run_models.find(str(tmp_path / "run"))
    description = json.loads(pathlib.Path(newest, "model.json").read_text())
    assert description["do_lower_case"] is False


@pytest.mark.usefixtures("eagerly")
def test_the_case_of_a_run_without_manifest_cannot_change(
    folder, tiny_vocab_file, tmp_path
):
    words = [
        f"--input_file={folder}/legacy.tfrecord",
        *SIZES,
        f"--vocab_file={tiny_vocab_file}",
        "--eval_input_file=",
        "--num_train_steps=3",
    ]
    with pytest.raises(stopping.Stopped):
        run(folder, tmp_path, *words, "--stop_at_step=1", "--nodo_lower_case")
    message = "--do_lower_case=True, but .*step-00000001 was trained with do_l"
    with pytest.raises(ValueError, match=message):
        run(folder, tmp_path, *words, "--do_lower_case")
    run(folder, tmp_path, *words)
    newest = pathlib.Path(run_models.find(str(tmp_path)))
    description = json.loads((newest / "model.json").read_text())
    assert newest.name == "step-00000003"
    assert description["do_lower_case"] is False


@pytest.mark.usefixtures("eagerly")
def test_single_segments_are_trained_on_without_next_sentence_labels(
    folder, tiny_vocab_file, tmp_path
):
    """These records are also masked when they are read."""
    words = [
        f"--input_file={TEXT}",
        f"--vocab_file={tiny_vocab_file}",
        f"--output_dir={tmp_path}",
        "--held_out_prob=0.2",
        "--pairs=none",
        "--masking_time=dynamic",
        "--masking=spans",
        "--num_processes=1",
        *SIZES,
    ]
    make_pretraining_records.main(["make_pretraining_records", *words])
    statistics = records.Manifest.read(str(tmp_path / "train")).statistics
    named = [n for n in statistics if "next" in n or "mask" in n]
    assert not named
    more = [
        f"--input_file={tmp_path}/train",
        f"--eval_input_file={tmp_path}/held_out",
        f"--vocab_file={tiny_vocab_file}",
    ]
    run(folder, tmp_path / "run", *more)
    results = json.loads((tmp_path / "run/eval_results.json").read_text())
    assert not [name for name in results if "next_sentence" in name]
    assert results["loss"] == results["masked_lm_loss"] > 0
    assert 0 <= results["unigram_accuracy"] <= 1
    path = tmp_path / "run/logs/train/steps.jsonl"
    steps = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(steps) == 6
    assert not [name for name in steps[0] if "next_sentence" in name]
    with pytest.raises(ValueError, match="--input_mode=stream cannot read"):
        run(folder, tmp_path / "other", *more, "--input_mode=stream")
    assert not (tmp_path / "other").exists()
    with pytest.raises(ValueError, match="The records were made differently"):
        run(folder, tmp_path / "other", *more[::2])
    words = [f"--init_checkpoint={tmp_path}/run", "--nodo_train"]
    with pytest.raises(ValueError, match="was trained with pairs=none"):
        run(folder, tmp_path / "evaluated", *words)


@pytest.mark.slow
@pytest.mark.parametrize(
    "modes", [["stream"], ["stream", "python"], ["python", "stream"]]
)
def test_a_run_does_not_depend_on_the_input_mode(
    folder, trained, tiny_vocab_file, tmp_path, modes
):
    words = [f"--vocab_file={tiny_vocab_file}", f"--input_mode={modes[0]}"]
    if len(modes) == 2:
        with pytest.raises(stopping.Stopped):
            run(folder, tmp_path, *words, "--stop_at_step=4")
        words[1] = f"--input_mode={modes[1]}"
    run(folder, tmp_path, *words)
    found = run_models.find(str(tmp_path))
    for name in (
        "eval_results.json",
        "run.json",
        "checkpoints/step-00000006/state.json",  # Has the sha256 of weights.
        "logs/train/steps.jsonl",
        "logs/eval/steps.jsonl",
    ):
        expected = (trained / name).read_bytes()
        assert (tmp_path / name).read_bytes() == expected, name
    assert f"--input_mode={modes[-1]}\n" in (tmp_path / "run.flags").read_text()
    assert found.endswith("step-00000006")


@pytest.mark.usefixtures("eagerly")
def test_a_damaged_record_is_named_when_streamed(
    folder, tiny_vocab_file, tmp_path
):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (path,) = (tmp_path / "train").glob("*.tfrecord")
    begin = int(np.load(f"{path}.index")[3])
    with open(path, "r+b") as file:
        file.seek(begin + 100)
        file.write(b"\xff\xff")
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        run(
            *(tmp_path, tmp_path / "broken", f"--vocab_file={tiny_vocab_file}"),
            *("--input_mode=stream", "--nodoctor", "--num_train_steps=99"),
        )
    message = common_flags._message(raised.value)
    assert message == (
        f"Corrupt or missing record at '{path}', record 3, byte {begin}. If "
        f"only its index is wrong: delete '{path}.index', which is made again "
        "from the shard. Otherwise delete the shard and rerun the command that "
        "makes it."
    )


class Killed(BaseException):
    """Simulates a kill; no code may catch it."""


@pytest.mark.slow
def test_a_run_killed_after_a_checkpoint_equals_an_uninterrupted_one(
    folder, trained, tiny_vocab_file, tmp_path, monkeypatch
):
    write = checkpoints.RunCheckpoints.save

    def save(self, step, is_regular):
        if step == 6:
            raise Killed
        write(self, step, is_regular)

    more = f"--vocab_file={tiny_vocab_file}"
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.RunCheckpoints, "save", save)
        with pytest.raises(Killed):
            run(folder, tmp_path, more)
    assert run_models.newest_step(str(tmp_path)) == 3
    run(folder, tmp_path, more)
    for name in (
        "eval_results.json",
        "checkpoints/step-00000006/state.json",
        "logs/eval/steps.jsonl",
    ):
        expected = (trained / name).read_bytes()
        assert (tmp_path / name).read_bytes() == expected, name


@pytest.mark.slow
def test_records_with_the_originals_names_train_the_same_model(
    folder, trained, tmp_path
):
    legacy = [f"--input_file={folder}/legacy.tfrecord", "--nodo_eval"]
    with pytest.raises(ValueError, match="no manifest. Give the --max_seq_len"):
        run(folder, tmp_path, *legacy)
    run(folder, tmp_path, *legacy, *SIZES)
    states = [
        json.loads(
            (run_dir / "checkpoints/step-00000006/state.json").read_text()
        )
        for run_dir in (trained, tmp_path)
    ]
    # Their metadata differ: one has a vocabulary.
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert states[0]["files"][name] == states[1]["files"][name], name


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_two_phases_stopped_before_the_switch_equal_one_run(
    folder, tiny_config, tiny_vocab_file, tmp_path
):
    make_pretraining_records.main(
        [
            "make_pretraining_records",
            f"--input_file={TEXT}",
            f"--vocab_file={tiny_vocab_file}",
            f"--output_dir={tmp_path}",
            "--dupe_factor=1",
            "--num_processes=1",
            "--max_seq_length=16",
            "--max_predictions_per_seq=2",
        ]
    )
    more = [
        # The shorter ones still come first, for 0.9 of the steps.
        f"--input_file={folder}/train,{tmp_path}/train",
        f"--vocab_file={tiny_vocab_file}",
        write_config(tmp_path, tiny_config, num_hidden_layers=1),
        "--num_train_steps=10",
        "--save_checkpoints_steps=100",
        "--nodo_eval",
    ]
    run(folder, tmp_path / "whole", *more)
    with pytest.raises(stopping.Stopped, match="after step 8"):
        run(folder, tmp_path / "stopped", *more, "--stop_at_step=8")
    settings = json.loads((tmp_path / "stopped/run.json").read_text())
    assert settings["phases"] == [9, 1]
    assert [s["max_seq_length"] for s in settings["sizes"]] == [16, 32]
    run(folder, tmp_path / "stopped", *more)
    for name in (
        "checkpoints/step-00000010/state.json",
        "logs/train/steps.jsonl",
    ):
        expected = (tmp_path / "whole" / name).read_bytes()
        assert (tmp_path / "stopped" / name).read_bytes() == expected, name


# Errors.


def write_config(folder, tiny_config, **changes):
    changed = type(tiny_config).from_dict(tiny_config.to_dict() | changes)
    changed.to_json_file(folder / "other.json")
    return f"--bert_config_file={folder}/other.json"


def test_records_of_another_vocabulary_are_refused(
    folder, tiny_vocab_file, tmp_path
):
    lines = pathlib.Path(tiny_vocab_file).read_text().splitlines()
    other = tmp_path / "vocab.txt"
    other.write_text("\n".join([*lines[:-1], "unheardof", ""]))
    with pytest.raises(ValueError, match="with a vocabulary of sha256.*again"):
        run(folder, tmp_path / "run", f"--vocab_file={other}")


def test_records_of_another_length_are_refused(folder, tmp_path):
    with pytest.raises(
        ValueError, match="32 values of 'input_word_ids'.*max_seq_length=16"
    ):
        run(folder, tmp_path / "run", "--max_seq_length=16")


def test_a_vocabulary_larger_than_the_model_is_refused(
    folder, tiny_config, tiny_vocab_file, tmp_path
):
    config = write_config(tmp_path, tiny_config, vocab_size=100)
    message = "The vocabulary has 203 tokens, the model only vocab_size=100"
    for more in ([], [f"--vocab_file={tiny_vocab_file}"]):
        with pytest.raises(ValueError, match=message):
            run(folder, tmp_path / "run", config, *more)
    legacy = f"--input_file={folder}/legacy.tfrecord"
    with pytest.raises(ValueError, match="vocabulary of 203 tokens; the mode"):
        run(folder, tmp_path / "run", config, legacy, *SIZES)


def test_all_records_must_have_the_vocabulary_of_the_model(
    folder, trained, tmp_path, tiny_vocab_file
):
    """Also without --vocab_file."""
    entries = pathlib.Path(tiny_vocab_file).read_text().splitlines()
    entries[-1], entries[-2] = entries[-2], entries[-1]
    other = tmp_path / "vocab.txt"
    other.write_text("\n".join(entries) + "\n")
    make_pretraining_records.main(
        [
            "make_pretraining_records",
            f"--input_file={TEXT}",
            f"--vocab_file={other}",
            f"--output_dir={tmp_path / 'records'}",
            "--dupe_factor=1",
            "--num_processes=1",
            *SIZES,
        ]
    )
    results = (trained / "eval_results.json").read_bytes()
    evaluated = f"--eval_input_file={tmp_path / 'records' / 'train'}"
    with pytest.raises(ValueError, match="made with a vocabulary of sha256"):
        run(folder, tmp_path / "run", evaluated)
    with pytest.raises(ValueError, match="made with a vocabulary of sha256"):
        run(folder, trained, "--nodo_train", evaluated)
    assert (trained / "eval_results.json").read_bytes() == results


@pytest.mark.usefixtures("eagerly")
def test_a_finished_run_can_be_evaluated_later(folder, tmp_path):
    run(folder, tmp_path, "--nodo_eval")
    assert not (tmp_path / "eval_results.json").exists()
    run(folder, tmp_path)
    results = json.loads((tmp_path / "eval_results.json").read_text())
    assert results["step"] == 6
    # And on other or more records.
    run(folder, tmp_path, f"--eval_input_file={folder}/train")
    others = json.loads((tmp_path / "eval_results.json").read_text())
    assert others["step"] == 6
    assert others["records"] != results["records"]
    assert others["masked_lm_loss"] != results["masked_lm_loss"]
    assert len(eval_logs(tmp_path)) == 2


def eval_logs(run_dir):
    """Returns the losses that each log of evaluations has, by step."""
    logs = {}
    for path in sorted(run_dir.glob("logs/eval*/steps.jsonl")):
        rows = map(json.loads, path.read_text().splitlines())
        logs[path.parent.name] = {row["step"]: row["loss"] for row in rows}
    return logs


@pytest.mark.usefixtures("eagerly")
def test_a_run_that_started_from_a_model_is_evaluated_itself(
    folder, trained, tmp_path
):
    init = f"--init_checkpoint={trained}"
    run(folder, tmp_path, init)
    expected = json.loads((tmp_path / "eval_results.json").read_text())
    run(folder, tmp_path, init, "--nodo_train")
    found = json.loads((tmp_path / "eval_results.json").read_text())
    assert found == pytest.approx(expected)
    assert list(eval_logs(tmp_path)["eval"]) == [3, 6]


@pytest.mark.usefixtures("eagerly")
@pytest.mark.slow
def test_evaluations_on_other_records_have_a_log_of_their_own(
    folder, tmp_path, caplog
):
    stop = "--stop_at_step=2"
    with pytest.raises(stopping.Stopped):
        run(folder, tmp_path, "--save_checkpoints_steps=2", stop)
    before = eval_logs(tmp_path)["eval"]
    assert list(before) == [2]
    words = "--save_checkpoints_steps=2", f"--eval_input_file={folder}/train"
    run(folder, tmp_path, *words)
    assert "eval has evaluations on other records" in caplog.text
    logs = eval_logs(tmp_path)
    assert logs.pop("eval") == before
    ((name, losses),) = logs.items()
    assert name.startswith("eval-") and list(losses)[-2:] == [4, 6]
    run(folder, tmp_path, "--save_checkpoints_steps=2")
    assert list(eval_logs(tmp_path)["eval"]) == [2, 6]
    assert eval_logs(tmp_path)[name] == losses


# Batches that grow.


@pytest.mark.slow
def test_a_ramp_resumes_exactly_and_must_divide(
    folder, tiny_vocab_file, tmp_path
):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    settings = {
        "batch_size_ramp": ("4:0.5",),
        "optimizer": "muon",
        "num_train_steps": 6,
        "num_warmup_steps": 2,
    }
    pretrain_for(folder, whole, tiny_vocab_file, **settings)
    run_json = json.loads((whole / "run.json").read_text())
    assert run_json["batch_sizes"] == [4, 8]
    assert run_json["phases"] == [3, 3]
    with pytest.raises(stopping.Stopped):
        pretrain_for(
            folder, stopped, tiny_vocab_file, stop_at_step=4, **settings
        )
    pretrain_for(folder, stopped, tiny_vocab_file, **settings)
    name = "checkpoints/step-00000006/state.json"
    assert (whole / name).read_bytes() == (stopped / name).read_bytes()
    with pytest.raises(
        ValueError, match="batch of 4 examples is not a multiple"
    ):
        pretrain_for(
            folder,
            tmp_path / "new",
            tiny_vocab_file,
            gradient_accumulation_steps=8,
            **settings,
        )
    assert not (tmp_path / "new").exists()


# Averages of the weights.


def pretrain_for(folder, output_dir, tiny_vocab_file, **settings):
    defaults = {
        "input_file": f"{folder}/train",
        "bert_config_file": f"{folder}/bert_config.json",
        "vocab_file": str(tiny_vocab_file),
        "output_dir": str(output_dir),
        "train_batch_size": 8,
        "learning_rate": 1e-2,
        "save_checkpoints_steps": 3,
    }
    pretrain(PretrainingConfig(**defaults | settings))


@pytest.mark.slow
def test_a_resumed_run_has_the_same_averages_and_evaluates_them(
    folder, tiny_vocab_file, tmp_path
):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    settings = {
        "ema_decay": 0.9,
        "eval_input_file": f"{folder}/held_out",
        "num_train_steps": 6,
        "num_warmup_steps": 2,
    }
    pretrain_for(folder, whole, tiny_vocab_file, **settings)
    with pytest.raises(stopping.Stopped):
        pretrain_for(
            folder, stopped, tiny_vocab_file, stop_at_step=4, **settings
        )
    pretrain_for(folder, stopped, tiny_vocab_file, **settings)
    name = "checkpoints/step-00000006/"
    for file in ("model.safetensors", "optimizer.safetensors", "state.json"):
        ours, theirs = (
            (path / name / file).read_bytes() for path in (stopped, whole)
        )
        assert ours == theirs, file
    results = json.loads((whole / "eval_results.json").read_text())
    assert results == json.loads((stopped / "eval_results.json").read_text())

    saved = load_file(whole / name / "model.safetensors")
    slots = load_file(whole / name / "optimizer.safetensors")
    path = "masked_lm/bias"
    np.testing.assert_array_equal(saved[path], slots[f"average/{path}"])
    assert np.abs(saved[path] - slots[f"weight/{path}"]).max() > 1e-4
    # The model folder alone, evaluated without training, gives the results.
    again = tmp_path / "again"
    pretrain_for(
        folder,
        again,
        tiny_vocab_file,
        do_train=False,
        init_checkpoint=str(whole),
        eval_input_file=f"{folder}/held_out",
    )
    found = json.loads((again / "eval_results.json").read_text())
    assert found["loss"] == pytest.approx(results["loss"], rel=1e-6)
    with pytest.raises(ValueError, match="ema_decay"):
        pretrain_for(
            folder, whole, tiny_vocab_file, **settings | {"ema_decay": None}
        )


def test_results_of_removed_checkpoints_are_not_those_of_a_new_run(
    folder, tiny_vocab_file, tmp_path
):
    losses = []
    for rate in (0.01, 0.001):
        shutil.rmtree(tmp_path / "run/checkpoints", ignore_errors=True)
        pretrain_for(
            folder,
            tmp_path / "run",
            tiny_vocab_file,
            learning_rate=rate,
            num_train_steps=2,
            num_warmup_steps=0,
            eval_input_file=f"{folder}/held_out",
        )
        found = json.loads((tmp_path / "run/eval_results.json").read_text())
        losses.append(found["loss"])
    assert losses[0] != losses[1]


# Early stopping.


@pytest.mark.slow
def test_a_run_that_does_not_improve_stops_and_keeps_its_best_model(
    folder, tiny_vocab_file, tmp_path
):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    settings = {
        "learning_rate": 0.0,  # All evaluations are equal.
        "eval_input_file": f"{folder}/held_out",
        "early_stopping_evaluations": 2,
        "num_train_steps": 12,
        "num_warmup_steps": 0,
    }
    fault = "after step 9: the held-out perplexity was not lower in .*=2"
    for _ in range(2):  # The same command stops again.
        with pytest.raises(stopping.Stopped, match=fault) as error:
            pretrain_for(folder, whole, tiny_vocab_file, **settings)
        assert error.value.exit_code == 0
        assert run_models.newest_step(str(whole)) == 9
    with pytest.raises(stopping.Stopped, match="step 7"):
        pretrain_for(
            folder, resumed, tiny_vocab_file, stop_at_step=7, **settings
        )
    with pytest.raises(stopping.Stopped, match=fault):
        pretrain_for(folder, resumed, tiny_vocab_file, **settings)
    for path in (whole, resumed):
        assert run_models.step_of(run_models.find(str(path))) == 3
    without = settings | {"early_stopping_evaluations": None}
    with pytest.raises(ValueError, match="best has the best model so far"):
        pretrain_for(folder, whole, tiny_vocab_file, **without)
    settings["early_stopping_evaluations"] = 3
    pretrain_for(folder, whole, tiny_vocab_file, **settings)
    assert run_models.newest_step(str(whole)) == 12
    # Nothing is left to train, so that best/ is not outdated.
    pretrain_for(folder, whole, tiny_vocab_file, **without)


def test_the_best_model_is_that_of_its_evaluation(
    folder, tiny_vocab_file, tmp_path
):
    settings = {
        "eval_input_file": f"{folder}/held_out",
        "early_stopping_evaluations": 9,
        "num_train_steps": 6,
        "num_warmup_steps": 2,
        "ema_decay": 0.9,
    }
    pretrain_for(folder, tmp_path / "run", tiny_vocab_file, **settings)
    best = tmp_path / "run" / "best"
    state = json.loads((best / "state.json").read_text())
    assert state["metric"] == "mean_log_likelihood" and state["step"] == 6
    pretrain_for(
        folder,
        tmp_path / "again",
        tiny_vocab_file,
        do_train=False,
        init_checkpoint=str(best),
        eval_input_file=f"{folder}/held_out",
    )
    found = json.loads((tmp_path / "again" / "eval_results.json").read_text())
    assert -np.log(found["perplexity"]) == pytest.approx(state["value"])


def test_a_run_that_may_stop_early_resumes_on_its_held_out_records_alone(
    folder, tiny_vocab_file, tmp_path
):
    run = tmp_path / "run"
    settings = {
        "eval_input_file": f"{folder}/held_out",
        "early_stopping_evaluations": 9,
        "num_train_steps": 6,
        "num_warmup_steps": 2,
    }
    with pytest.raises(stopping.Stopped):
        pretrain_for(folder, run, tiny_vocab_file, stop_at_step=3, **settings)
    before = (run / "best/state.json").read_bytes()
    for more in (
        {"eval_input_file": f"{folder}/train"},
        {"max_eval_steps": 1},
    ):
        with pytest.raises(
            ValueError, match="best has the best model on other"
        ):
            pretrain_for(folder, run, tiny_vocab_file, **settings | more)
    assert (run / "best/state.json").read_bytes() == before
    # A damaged one is replaced.
    os.truncate(run / "best/model.safetensors", 100)
    pretrain_for(folder, run, tiny_vocab_file, **settings)
    assert run_models.newest_step(str(run)) == 6
    assert run_models.step_of(run_models.find(str(run))) == 6


def test_early_stopping_without_an_evaluation_is_refused(tmp_path):
    settings = {"output_dir": str(tmp_path), "early_stopping_evaluations": 2}
    for more in ({}, {"eval_input_file": "x", "do_eval": False}):
        with pytest.raises(ValueError, match="=2 needs --eval_input_file"):
            PretrainingConfig(**settings, **more)


# Hours instead of steps.


def test_hours_fix_the_steps_of_an_exact_run(
    folder, tiny_vocab_file, tmp_path, monkeypatch
):
    calls = []

    def seconds(*args):
        calls.append(args)
        return 60.0

    monkeypatch.setattr(time_budget, "_seconds_per_step", seconds)
    by_hours, by_steps = tmp_path / "hours", tmp_path / "steps"
    settings = {"train_hours": 0.1, "warmup_proportion": 0.5}
    with pytest.raises(stopping.Stopped):
        pretrain_for(
            folder, by_hours, tiny_vocab_file, stop_at_step=3, **settings
        )
    settings_of = json.loads((by_hours / "run.json").read_text())
    assert settings_of["train_hours"] == 0.1
    assert settings_of["num_train_steps"] == 6
    assert settings_of["num_warmup_steps"] == 3
    pretrain_for(folder, by_hours, tiny_vocab_file, **settings)
    assert len(calls) == 1, "the number of steps is in run.json"
    pretrain_for(
        folder,
        by_steps,
        tiny_vocab_file,
        num_train_steps=6,
        num_warmup_steps=3,
    )
    states = [
        (path / "checkpoints/step-00000006/model.safetensors").read_bytes()
        for path in (by_hours, by_steps)
    ]
    assert states[0] == states[1]
    with pytest.raises(ValueError, match="train_hours"):
        pretrain_for(
            folder, by_hours, tiny_vocab_file, **settings | {"train_hours": 9.0}
        )
    # run.flags repeats the run, in its folder, too.
    flags = run_history.read_flags(str(by_hours)).flags
    assert flags["num_train_steps"] == "6" and "train_hours" not in flags
    assert flags["num_warmup_steps"] == "3"
    pretrain_for(
        folder,
        by_hours,
        tiny_vocab_file,
        num_train_steps=6,
        num_warmup_steps=3,
    )


def test_a_warmup_longer_than_the_run_is_found_before_anything_is_written(
    folder, tiny_vocab_file, tmp_path
):
    with pytest.raises(ValueError, match="num_warmup_steps=7 exceeds"):
        pretrain_for(
            folder,
            tmp_path / "run",
            tiny_vocab_file,
            num_train_steps=6,
            num_warmup_steps=7,
        )
    assert not (tmp_path / "run").exists()


def test_steps_are_timed_without_changing_the_run(
    folder, tiny_vocab_file, tmp_path, monkeypatch
):
    monkeypatch.setattr(time_budget, "_TIMED_SECONDS", 0.2)
    run_dir = tmp_path / "run"
    with pytest.raises(stopping.Stopped):
        pretrain_for(
            folder, run_dir, tiny_vocab_file, train_hours=2.0, stop_at_step=1
        )
    settings = json.loads((run_dir / "run.json").read_text())
    # Between a millisecond and 20 seconds.
    assert 360 < settings["num_train_steps"] < 7_200_000
    assert settings["num_warmup_steps"] == settings["num_train_steps"] // 10
    untimed = tmp_path / "untimed"
    with pytest.raises(stopping.Stopped):
        pretrain_for(
            folder,
            untimed,
            tiny_vocab_file,
            num_train_steps=settings["num_train_steps"],
            num_warmup_steps=settings["num_warmup_steps"],
            stop_at_step=1,
        )
    file = "checkpoints/step-00000001/model.safetensors"
    assert (run_dir / file).read_bytes() == (untimed / file).read_bytes()


def test_hours_that_hold_no_step_are_refused(
    folder, tiny_vocab_file, tmp_path, monkeypatch
):
    monkeypatch.setattr(time_budget, "_seconds_per_step", lambda *args: 60.0)
    with pytest.raises(ValueError, match="train_hours=0.01 is less than one s"):
        pretrain_for(
            folder, tmp_path / "run", tiny_vocab_file, train_hours=0.01
        )
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match="hours=1.0 is given instead of --num"):
        PretrainingConfig(output_dir="x", train_hours=1.0, num_train_steps=5)
    with pytest.raises(ValueError, match="--train_hours=0.0 should be above 0"):
        PretrainingConfig(output_dir="x", train_hours=0.0)
