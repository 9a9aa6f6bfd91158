"""Files of held-out evaluations; the rest is in test_run_pretraining.py."""

import json
import math
import types

import pytest

from bert_tf.training import run_folder
from bert_tf.workflows.pretraining import held_out


def no_constants(name):
    raise ValueError(f"{name} is not valid JSON")


def write(folder, metrics, step=3):
    evaluation = types.SimpleNamespace(
        folder=run_folder.RunFolder(str(folder)),
        writer=None,
        source=dict,
        _log_folder=lambda: str(folder / "eval"),
    )
    held_out.HeldOutEvaluation._write(evaluation, step, metrics)


@pytest.mark.parametrize(("newest", "is_logged"), [(3, True), (4, False)])
def test_only_evaluations_of_the_newest_step_are_in_the_log(
    tmp_path, newest, is_logged
):
    (tmp_path / f"checkpoints/step-0000000{newest}").mkdir(parents=True)
    write(tmp_path, {"masked_lm_loss": 1.0})
    assert (tmp_path / "eval_results.json").exists()
    assert (tmp_path / "eval" / "steps.jsonl").exists() is is_logged


def test_an_infinite_perplexity_is_null_and_warned_of(tmp_path, caplog):
    metrics = {"masked_lm_loss": 800.0, "perplexity": math.inf}
    with caplog.at_level("INFO", logger="absl"):
        write(tmp_path, metrics)
    text = (tmp_path / "eval_results.json").read_text()
    expected = {"step": 3, "masked_lm_loss": 800.0, "perplexity": None}
    assert json.loads(text, parse_constant=no_constants) == expected
    line = (tmp_path / "eval/steps.jsonl").read_text()
    assert json.loads(line, parse_constant=no_constants) == expected
    assert caplog.messages == [
        "held out, step 3  masked_lm_loss 800  perplexity inf",
        "held out, step 3: perplexity not finite, null in files",
    ]


def test_damaged_results_are_evaluated_again(tmp_path, caplog):
    evaluation = types.SimpleNamespace(
        folder=run_folder.RunFolder(str(tmp_path)), source=dict
    )
    path = tmp_path / "eval_results.json"
    path.write_text('{"step": 3, "perplexity": 2.0}')
    assert held_out.HeldOutEvaluation.is_done(evaluation, 3)
    path.write_text('{"step": 3, "perplexity": "x"}')
    assert not held_out.HeldOutEvaluation.is_done(evaluation, 3)
    assert "perplexity is 'x'; it should be a finite number" in caplog.text
