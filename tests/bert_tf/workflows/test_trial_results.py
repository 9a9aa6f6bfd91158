"""Results of several runs: mean, deviation, degenerate runs."""

import json
import statistics

import pytest

from bert_tf.workflows import trial_results


def write(folder, **more):
    folder.mkdir(parents=True)
    content = {
        "task_name": "MNLI",
        "step": 7,
        "best_metric": "accuracy",
        "dev_matched": {"loss": 1.0, "accuracy": 0.75},
        "dev_mismatched": {"loss": 1.0, "accuracy": 0.99},
        "majority_baseline": {"dev_matched": {"accuracy": 0.5}},
    }
    (folder / "eval_results.json").write_text(json.dumps(content | more))
    return str(folder)


def test_the_first_dev_set_decides(tmp_path):
    folder = write(tmp_path / "a")
    assert trial_results.read(folder) == {
        "has_failed": False,
        "split": "dev_matched",
        "metric": "accuracy",
        "score": 0.75,
        "majority_baseline": 0.5,
        "is_degenerate": False,
        "step": 7,
    }


@pytest.mark.parametrize(
    ("score", "baseline", "is_degenerate"),
    [
        (0.5, {"accuracy": 0.5}, True),
        (0.4, {"accuracy": 0.5}, True),
        (0.51, {"accuracy": 0.5}, False),
        (0.0, {"accuracy": 0.0}, True),
        (0.0, {}, False),
        # An undefined score.
        (None, {"accuracy": None}, True),
        (None, {"accuracy": 0.0}, True),
        (0.2, {"accuracy": None}, False),
        (-0.1, {"accuracy": None}, True),
        (0.0, {"accuracy": None}, True),
    ],
)
def test_a_run_not_better_than_the_baseline_is_degenerate(
    tmp_path, score, baseline, is_degenerate
):
    # A loss may be of any value.
    scores = {"loss": float("nan"), "accuracy": score}
    baselines = {"dev_matched": baseline} if baseline else {}
    more = {"dev_matched": scores, "majority_baseline": baselines}
    result = trial_results.read(write(tmp_path / "a", **more))
    assert result["score"] == score
    assert result["majority_baseline"] == baseline.get("accuracy")
    assert result["is_degenerate"] is is_degenerate
    reason = "all predictions, or all labels, are the same"
    assert result.get("undefined") == (reason if score is None else None)


def test_a_score_that_is_missing_is_an_error(tmp_path):
    folder = write(tmp_path / "a", dev_matched={"loss": 1.0})
    with pytest.raises(ValueError, match="dev_matched.accuracy is missing"):
        trial_results.read(folder)


def make_result(score, **setting):
    return {
        "name": f"run {score}",
        "has_failed": False,
        "split": "dev",
        "metric": "accuracy",
        "score": score,
        "majority_baseline": 0.5,
        "is_degenerate": score <= 0.5,
    } | setting


def test_mean_and_deviation_are_computed_for_each_setting():
    results = [
        make_result(score, learning_rate=rate, seed=seed)
        for rate, scores in ((1e-5, (0.5, 0.6, 0.7)), (2e-5, (0.9,)))
        for seed, score in enumerate(scores)
    ]
    failed = {"name": "x", "learning_rate": 1e-5} | {"has_failed": True}
    assert trial_results.summarize([*results, failed]) == [
        {
            "learning_rate": 2e-5,
            "num_runs": 1,
            "mean": 0.9,
            "standard_deviation": None,
            "best": 0.9,
        },
        {
            "learning_rate": 1e-5,
            "num_runs": 3,
            "mean": pytest.approx(0.6),
            "standard_deviation": statistics.stdev([0.5, 0.6, 0.7]),
            "best": 0.7,
        },
    ]


def test_settings_with_an_undefined_score_are_last(caplog):
    undefined = {"score": None, "is_degenerate": True, "undefined": "..."}
    results = [
        make_result(0.9, learning_rate=1e-5),
        make_result(0.8, learning_rate=1e-5) | undefined,
        make_result(0.1, learning_rate=2e-5) | undefined,
        make_result(0.2, learning_rate=3e-5),
    ]
    found = trial_results.summarize(results)
    assert [x["learning_rate"] for x in found] == [3e-5, 1e-5, 2e-5]
    assert [x["mean"] for x in found] == [0.2, None, None]
    assert [x["best"] for x in found] == [0.2, 0.9, None]
    assert found[1]["standard_deviation"] is None
    assert found[1]["num_runs"] == 2
    with caplog.at_level("WARNING", logger="absl"):
        trial_results.report(results)
    assert caplog.messages[0] == (
        "2 of 4 runs have an undefined score, since all predictions, or all "
        "labels, are the same, and are last in every ranking: run 0.8, run 0.1."
    )
    assert trial_results.describe(results[1]) == (
        "dev accuracy undefined, degenerate"
    )


def test_degenerate_runs_are_logged_as_a_warning(caplog):
    with caplog.at_level("INFO", logger="absl"):
        trial_results.report([make_result(0.5), make_result(0.75)])
    first, second = caplog.records
    assert first.getMessage() == (
        "num_runs 2  mean 0.625  standard_deviation 0.1768  best 0.75"
    )
    assert second.levelname == "WARNING"
    assert second.getMessage().startswith(
        "1 of 2 runs are degenerate, not better than the majority-class "
        "baseline (accuracy 0.5000): run 0.5. Raise --num_train_epochs"
    )
    caplog.clear()
    trial_results.report([make_result(0.75)])
    assert "degenerate" not in caplog.text
    folds = [make_result(0.5), make_result(0.5) | {"majority_baseline": 0.6}]
    trial_results.report(folds)
    assert "baseline (accuracy 0.5000, 0.6000): run 0.5" in caplog.text


def test_describe_has_score_and_state():
    assert trial_results.describe(make_result(0.75)) == "dev accuracy 0.7500"
    assert trial_results.describe(make_result(0.25)) == (
        "dev accuracy 0.2500, degenerate"
    )
    assert trial_results.describe({"has_failed": True}) == "failed"
