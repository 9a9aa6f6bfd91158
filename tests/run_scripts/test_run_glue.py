"""run_glue: what is of GLUE alone, and errors; see tests/contracts too."""

import dataclasses
import re

import exports
import numpy as np
import planted_data
import pytest

import bert_tf
from bert_tf.checkpoint import run_models
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.training import stopping
from bert_tf.workflows import fine_tuning, run_history
from run_scripts import run_glue
from tfrecords.io import json_files

pytestmark = pytest.mark.usefixtures("eagerly_in_module")


@pytest.fixture
def base_flags(tiny_model_flags):
    """Flags that every run from scratch needs."""
    return [
        *tiny_model_flags,
        *("--train_batch_size=4", "--eval_batch_size=5"),
        *("--learning_rate=1e-3", "--num_train_epochs=2"),
        "--log_every_steps=2",
    ]


def flags_of(task_name, data, output_dir, *more):
    return [
        f"--task_name={task_name}",
        f"--data_dir={data / task_name}",
        f"--output_dir={output_dir}",
        "--max_seq_length=24",
        *more,
    ]


def run(*flags):
    run_glue.main(["run_glue", *map(str, flags)])


def read_predictions(path):
    header, *lines = path.read_text().splitlines()
    assert header == "index\tprediction"
    rows = [line.split("\t") for line in lines]
    assert [row[0] for row in rows] == [str(n) for n in range(len(rows))]
    return [row[1] for row in rows]


@pytest.mark.slow
def test_mnli_has_two_dev_and_test_sets_and_predicts_ax(
    tmp_path, base_flags, tiny_config
):
    # Predictions differ between texts.
    large = tmp_path / "large.json"
    dataclasses.replace(tiny_config, initializer_range=1.0).to_json_file(large)
    planted_data.write_glue(tmp_path)
    path = tmp_path / "MNLI/test_matched.tsv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]))
    output = tmp_path / "run"
    goals = "--do_train", "--do_eval", "--do_predict"
    flags = flags_of("MNLI", tmp_path, output, *goals, *base_flags)
    run(*flags, f"--bert_config_file={large}")
    results = json_files.read(output / "eval_results.json")
    assert results["dev_matched"] == results["dev_mismatched"]
    matched = read_predictions(output / "predictions/MNLI-m.tsv")
    mismatched = read_predictions(output / "predictions/MNLI-mm.tsv")
    assert matched == mismatched[:2]
    assert len(mismatched) == 4
    assert set(mismatched) <= {"neutral", "contradiction", "entailment"}
    assert len(set(mismatched)) > 1
    # Its first texts are the same.
    flags = flags_of("AX", tmp_path, tmp_path / "ax", "--do_predict")
    run(*flags, f"--init_checkpoint={output}")
    predicted = read_predictions(tmp_path / "ax/predictions/AX.tsv")
    assert predicted[:4] == mismatched


def mistake(message, *flags):
    with pytest.raises(ValueError, match=message):
        run(*flags)


@pytest.fixture
def trained(tmp_path):
    """A model of CoLA, and the folder of the data."""
    planted_data.write_glue(tmp_path)
    model, folder = exports.make_model("classification"), tmp_path / "trained"
    exports.save_model(model, "classification", folder)
    return folder


def test_a_model_without_a_trained_head_is_not_evaluated(trained, tmp_path):
    encoder = tmp_path / "encoder"
    bert_tf.save(bert_tf.load(trained)[0].encoder, encoder)
    given = Checkpoint.open(encoder).with_head("classification", ["0", "1"])
    given.save(str(tmp_path / "headless"))
    mistake(
        "headless has no trained classification/dense/kernel.*random. Add --do",
        *flags_of("CoLA", tmp_path, tmp_path / "run", "--do_eval"),
        f"--init_checkpoint={tmp_path / 'headless'}",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Nothing to do: add one or more of --do_train"),
        (["--do_train", "--vocab_file="], "No vocabulary: give --vocab_file"),
        (["--do_eval"], "contains no model.*Give the output_dir"),
        (["--do_train", "--eval_steps=5"], "eval_steps=5 needs --do_eval"),
        (
            ["--do_train", "--early_stopping_evaluations=2"],
            "early_stopping_evaluations=2 needs --do_eval",
        ),
        (
            ["--do_train", "--max_seq_length=65"],
            "max_seq_length=65 exceeds .*max_position_embeddings=64",
        ),
        (
            ["--do_train", "--do_eval", "--dev_share=0"],
            "--do_eval needs a dev file of CoLA; there is only train, test",
        ),
    ],
)
def test_bad_flags_are_refused(tmp_path, base_flags, words, message):
    planted_data.write_glue(tmp_path)
    (tmp_path / "CoLA/dev.tsv").unlink()
    flags = flags_of("CoLA", tmp_path, tmp_path / "run", *base_flags)
    mistake(message, *flags, *words)
    # Nothing is trained.
    assert not list(tmp_path.glob("run/*.json*"))


def test_other_labels_than_those_of_the_model_are_refused(trained, tmp_path):
    flags = flags_of("RTE", tmp_path, tmp_path / "run", "--do_predict")
    message = re.escape(f"is a model with labels {exports.LABELS}; RTE has")
    mistake(message, *flags, f"--init_checkpoint={trained}")


@pytest.mark.slow
def test_a_test_file_with_labels_is_scored_after_training(tmp_path, base_flags):
    rows = ["the old cat sat,good", "it rained,bad", "old bread,bad"] * 4
    for name in ("train", "dev", "test"):
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join(["text,label", *rows]) + "\n")
    files = [f"--{x}_file={tmp_path / x}.csv" for x in ("train", "dev", "test")]
    output = tmp_path / "run"
    goals = ["--do_train", "--do_eval", "--do_predict", "--task_name=films"]
    more = [
        "--text_column=text",
        "--max_seq_length=16",
        f"--output_dir={output}",
    ]
    run(*files, *goals, *more, *base_flags)
    results = json_files.read(output / "eval_results.json")
    assert results["test"] == results["dev"]
    assert results["classes"]["test"]["bad"]["support"] == 8
    for split in ("dev", "test"):
        interval = results["confidence_interval"][split]
        score = results[split]["accuracy"]
        assert interval["low"] <= score <= interval["high"]
        assert results["tf_idf_baseline"][split]["accuracy"] == 1
    lines = (output / "predictions/test.jsonl").read_text().splitlines()
    assert len(lines) == 12 and '"label": "good"' in lines[0]
    header, *lines = (output / "predictions/films.tsv").read_text().splitlines()
    assert header == "index\tprediction\tprobability_bad\tprobability_good"
    bad, good = map(float, lines[0].split("\t")[2:])
    assert bad + good == pytest.approx(1, abs=1e-5)
    assert "Accuracy on test: " in (output / "report.html").read_text()


@pytest.mark.slow
def test_a_calibrated_run_trains_as_others_also_after_a_stop(
    tmp_path, base_flags
):
    rows = ["the old cat sat,good", "it rained,bad", "old bread,bad"] * 4
    rows.append("it rained,good")  # Not all can be right.
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    flags = [f"--{x}_file={path}" for x in ("train", "dev", "test")]
    flags += ["--do_train", "--do_eval", "--text_column=text"]
    flags += ["--max_seq_length=16", f"--records_dir={tmp_path / 'records'}"]
    run(*flags, f"--output_dir={tmp_path / 'plain'}", *base_flags)
    flags += ["--calibrate", f"--output_dir={tmp_path / 'calibrated'}"]
    with pytest.raises(stopping.Stopped):
        run(*flags, *base_flags, "--stop_at_step=4")
    run(*flags, *base_flags)
    plain, calibrated = (
        Checkpoint.open(str(tmp_path / x)) for x in ("plain", "calibrated")
    )
    temperature = calibrated.model_json()["temperature"]
    assert calibrated.step == plain.step and temperature != 1.0
    assert "temperature" not in plain.model_json()
    for name, weight in plain.tensors.items():
        is_head = name.startswith("classification/")
        expected = weight / np.float32(temperature) if is_head else weight
        np.testing.assert_array_equal(calibrated.tensors[name], expected)
    results = json_files.read(tmp_path / "calibrated/eval_results.json")
    before = json_files.read(tmp_path / "plain/eval_results.json")
    assert results["dev"]["accuracy"] == before["dev"]["accuracy"]
    assert results["dev"]["loss"] < before["dev"]["loss"]
    for split in ("dev", "test"):
        found = results["calibration"][split]
        assert found["temperature"] == temperature
    assert "calibration" not in before


def test_a_run_ends_at_an_evaluation_that_is_not_better(
    tmp_path, base_flags, monkeypatch, caplog
):
    """12 rows in batches of 4; a rate of 0 makes all evaluations equal."""
    planted_data.write_glue(tmp_path)
    words = [*base_flags, "--do_train", "--do_eval", "--learning_rate=0"]
    words += ["--eval_steps=1", "--save_checkpoints_steps=5"]
    early = "--early_stopping_evaluations=3"
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run(*flags_of("CoLA", tmp_path, whole, *words, early))

    def kill(folder, strategy, step, count, interval):
        if step == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(fine_tuning.dev_results, "check_improves", kill)
        run(*flags_of("CoLA", tmp_path, killed, *words, early))
    assert not (killed / "eval_results.json").exists()
    for _ in range(2):  # The second start trains nothing.
        with caplog.at_level("INFO", logger="absl"):
            run(*flags_of("CoLA", tmp_path, killed, *words, early))
        assert "ended early, after step 4: no evaluation was" in caplog.text
        for name in ("eval_results.json", "best/state.json"):
            assert json_files.read(whole / name)["step"] == 1
            assert (whole / name).read_bytes() == (killed / name).read_bytes()
        assert [*run_history.read_log(str(killed), "dev")] == [1, 2, 3, 4]
        assert run_models.newest_step(str(killed)) == 4
    with pytest.raises(ValueError, match="eval_steps: was 1, is now 2"):
        run(*flags_of("CoLA", tmp_path, killed, *words, "--eval_steps=2"))
    run(*flags_of("CoLA", tmp_path, killed, *words))  # Trains on.
    assert run_models.newest_step(str(killed)) == 6
