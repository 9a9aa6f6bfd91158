import json
import math

import pytest

from experiments import dev_scores
from experiments.ablations import report
from experiments.dev_scores import Score


def write_scores(folder, best_metric, **scores):
    baseline = {name: x and x / 2 for name, x in scores.items()}
    content = {
        "best_metric": best_metric,
        "dev": {"loss": 1.0} | scores,
        "majority_baseline": {"dev": baseline},
    }
    (folder / "eval_results.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("kind", "best", "scores", "expected"),
    [
        # MRPC and QQP, whose best model is selected by F1.
        ("glue", "f1", {"accuracy": 0.7, "f1": 0.8}, "accuracy"),
        ("glue", "spearman", {"spearman": 0.4}, "spearman"),
        # The accuracy of tags includes the words outside of entities.
        ("ner", "entity_f1", {"accuracy": 0.9, "entity_f1": 0.6}, "entity_f1"),
    ],
)
def test_glue_tasks_with_accuracy_show_accuracy_like_the_paper(
    tmp_path, kind, best, scores, expected
):
    write_scores(tmp_path, best, **scores)
    value = scores[expected]
    assert dev_scores.of_run(str(tmp_path), kind) == Score(
        (value,), expected, baseline=value / 2
    )


def test_an_undefined_score_is_nan_and_below_the_baseline(tmp_path):
    write_scores(tmp_path, "spearman", spearman=None)
    score = dev_scores.of_run(str(tmp_path), "glue")
    assert math.isnan(score.mean) and score.baseline is None
    assert report._is_below_baseline(score._replace(baseline=0.1))
    assert not report._is_below_baseline(score)
