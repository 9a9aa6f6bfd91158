import json
import math

from experiments import dev_scores
from experiments.ablations import report
from experiments.dev_scores import Score


def write_scores(folder, best_metric, **scores):
    content = {"best_metric": best_metric, "dev": {"loss": 1.0} | scores}
    content |= {
        "majority_baseline": {
            "dev": {name: x / 2 for name, x in scores.items()}
        }
    }
    (folder / "eval_results.json").write_text(json.dumps(content))


def test_glue_tasks_with_accuracy_show_accuracy_like_the_paper(tmp_path):
    """MRPC and QQP, whose best model is selected by F1."""
    write_scores(tmp_path, "f1", accuracy=0.7, f1=0.8)
    score = dev_scores.of_run(str(tmp_path), "glue")
    assert score == Score((0.7,), "accuracy", baseline=0.35)
    write_scores(tmp_path, "matthews_correlation", matthews_correlation=0.4)
    score = dev_scores.of_run(str(tmp_path), "glue")
    assert score == Score((0.4,), "matthews_correlation", baseline=0.2)
    # The accuracy of tags includes the words outside of entities.
    write_scores(tmp_path, "entity_f1", accuracy=0.9, entity_f1=0.6)
    score = dev_scores.of_run(str(tmp_path), "ner")
    assert score == Score((0.6,), "entity_f1", baseline=0.3)


def test_an_undefined_score_is_nan_and_below_the_baseline(tmp_path):
    content = {
        "best_metric": "spearman",
        "dev": {"loss": 1.0, "spearman": None},
        "majority_baseline": {"dev": {"spearman": None}},
    }
    (tmp_path / "eval_results.json").write_text(json.dumps(content))
    score = dev_scores.of_run(str(tmp_path), "glue")
    assert math.isnan(score.mean) and score.baseline is None
    assert report._is_below_baseline(score._replace(baseline=0.1))
    assert not report._is_below_baseline(score)
