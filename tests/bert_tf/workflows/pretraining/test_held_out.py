"""Files of held-out evaluations; the rest is in test_run_pretraining.py."""

import json
import math
import types

from bert_tf.workflows.pretraining import held_out


def no_constants(name):
    raise ValueError(f"{name} is not valid JSON")


def test_an_infinite_perplexity_is_null_and_warned_of(tmp_path, caplog):
    evaluation = types.SimpleNamespace(
        config=types.SimpleNamespace(output_dir=str(tmp_path)),
        writer=None,
        source=dict,
        _log_folder=lambda: str(tmp_path / "eval"),
    )
    metrics = {"masked_lm_loss": 800.0, "perplexity": math.inf}
    with caplog.at_level("INFO", logger="absl"):
        held_out.HeldOutEvaluation._write(evaluation, 3, metrics)
    text = (tmp_path / "eval_results.json").read_text()
    expected = {"step": 3, "masked_lm_loss": 800.0, "perplexity": None}
    assert json.loads(text, parse_constant=no_constants) == expected
    line = (tmp_path / "eval/steps.jsonl").read_text()
    assert json.loads(line, parse_constant=no_constants) == expected
    assert caplog.messages == [
        "held out, step 3  masked_lm_loss 800  perplexity inf",
        "held out, step 3: perplexity not finite, null in files",
    ]
