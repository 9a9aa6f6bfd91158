"""run_models.py: run.json and eval_results.json, intact and damaged."""

import json
import math

import pytest

from bert_tf.checkpoint import run_models

CLASS = {"f1": 0.5, "support": 3}
RESULTS = {
    "task_name": "RTE",
    "step": 2,
    "best_metric": "accuracy",
    "dev": {"loss": math.nan, "accuracy": 0.5, "pearson": None},
    "majority_baseline": {"dev": {"accuracy": 0.5}},
    "classes": {"dev": {"bad": CLASS, "good": CLASS}},
    "confusion_matrix": {"dev": [[2, 1], [0, 3]]},
}
PRETRAINED = dict.fromkeys(RESULTS, "-") | {
    "step": 2,
    "records": "ab",
    "perplexity": 3.0,
    "accuracy": None,
    "unigram_accuracy": 0.1,
}


def read(folder, **changes):
    content = {n: x for n, x in (RESULTS | changes).items() if x != "-"}
    (folder / "eval_results.json").write_text(json.dumps(content))
    return run_models.read_results(str(folder))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dev": {"accuracy": None}},
        {"dev_pairs": {"spearman": 0.1}},  # Of vectors that a search chooses.
        {"classes": "-", "confusion_matrix": None},
        {"confusion_matrix": "-"},
        PRETRAINED,
    ],
)
def test_results_of_a_run_are_read(tmp_path, changes):
    assert read(tmp_path, **changes)["step"] == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step": "-"}, ": step is missing or null; it should be an integer"),
        ({"dev": "-"}, " has no scores of a dev set. Evaluate the run again"),
        ({"dev": {"loss": 1}}, ": dev.accuracy is missing or null; it should"),
        ({"dev": {"accuracy": math.nan}}, ": dev.accuracy is nan; .* finite"),
        ({"dev": {"accuracy": 10**400}}, ": dev.accuracy is 1000.* finite"),
        ({"majority_baseline": {"dev": 1}}, ": majority_baseline.dev is 1; it"),
        (
            {"classes": {"dev": {"bad": {"f1": 1}}}},
            "bad.support is missing",
        ),
        ({"confusion_matrix": {"dev": [[-1]]}}, "dev.0..0. is -1; .* from 0"),
        (PRETRAINED | {"perplexity": "x"}, "perplexity is 'x'; it should be a"),
    ],
)
def test_damaged_results_are_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, **changes)


def test_a_damaged_run_json_is_refused(tmp_path):
    assert run_models.read_settings(str(tmp_path)) == {}
    (tmp_path / "run.json").write_text('{"config": [1]}')
    with pytest.raises(ValueError, match=r"run.json: config is \[1\]; it shou"):
        run_models.read_settings(str(tmp_path))
    (tmp_path / "run.json").unlink()
    (tmp_path / "run.json").symlink_to("nothing")
    with pytest.raises(FileNotFoundError):
        run_models.read_settings(str(tmp_path))
