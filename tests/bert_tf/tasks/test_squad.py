"""squad.py: loss, accuracies, model and options of the span task."""

import dataclasses
import types

import numpy as np
import planted_tasks
import pytest
import tensorflow as tf

from bert_tf.tasks import squad
from tfrecords.tasks import squad_files

TASK = squad.Squad()
BATCH = {
    "start_positions": tf.constant([1, 0, 2]),
    "end_positions": tf.constant([1, 0, 2]),
    "is_real_example": tf.constant([1.0, 1.0, 0.0]),
}


def outputs(seed=0, last=0.0):
    logits = np.random.default_rng(seed).normal(size=(2, 3, 4))
    logits[:, 2] += last
    start, end = logits.astype(np.float32)
    return {"start_logits": tf.constant(start), "end_logits": tf.constant(end)}


def test_the_loss_is_the_mean_of_starts_and_ends():
    found = outputs()
    each = []
    for name, labels in (("start", [1, 0]), ("end", [1, 0])):
        exps = np.exp(found[f"{name}_logits"].numpy()[:2])
        each.append(-np.log(exps[[0, 1], labels] / exps.sum(axis=1)).mean())
    (loss,) = TASK.losses(found, BATCH).values()
    assert float(loss.value()) == pytest.approx(np.mean(each), rel=1e-6)
    (weight,) = TASK.loss_weights(BATCH).values()
    assert float(weight) == float(loss.weight) == 2.0


def test_losses_and_accuracies_ignore_padding_rows():
    first, second = outputs(), outputs(last=7.0)
    for name in ("losses", "accuracies"):
        one, other = (getattr(TASK, name)(o, BATCH) for o in (first, second))
        for key in one:
            assert float(one[key].value()) == float(other[key].value())


def test_accuracies_are_those_of_starts_and_of_ends():
    start = tf.one_hot([1, 3, 2], 4)
    end = tf.one_hot([1, 0, 2], 4)
    found = {"start_logits": start, "end_logits": end}
    accuracies = TASK.accuracies(found, BATCH)
    assert float(accuracies["start_accuracy"].value()) == 0.5
    assert float(accuracies["end_accuracy"].value()) == 1.0


def test_options_default_to_the_model_or_the_original(tmp_path):
    (tmp_path / "dev-v1.1.json").write_text("{}")
    (tmp_path / "dev-v2.0.json").write_text("{}")
    data = squad_files.SquadOptions(data_dir=str(tmp_path))
    task = squad.Squad(data)
    task.prepare(*planted_tasks.TRAINING)
    original = {  # run_squad.py: flags.
        "task": "spans",
        "doc_stride": 128,
        "max_query_length": 64,
        "n_best_size": 20,
        "max_answer_length": 30,
        "version_2_with_negative": False,
    }
    assert task.metadata() == original
    of_model = {"doc_stride": 5, "version_2_with_negative": True}
    task = squad.Squad(dataclasses.replace(data, n_best_size=3))
    task.prepare(*planted_tasks.evaluation(of_model))
    assert task.metadata() == original | of_model | {"n_best_size": 3}
    assert task.files == {"dev": str(tmp_path / "dev-v2.0.json")}


def test_the_threshold_of_dev_decides_the_answers_of_test():
    data = squad_files.SquadOptions(version_2_with_negative=True)
    task = squad.Squad(data)
    task.annotated = {
        "dev": {"a": ["cat"], "b": []},
        "test": {"c": ["hat"], "d": []},
    }
    task._answer = {
        "dev": lambda outputs: squad.Answered(
            {"a": "cat", "b": "dog"}, {}, {"a": -1.0, "b": 2.0}
        ),
        "test": lambda outputs: squad.Answered(
            {"c": "hat", "d": "no"}, {}, {"c": 0.75, "d": 1.0}
        ),
    }
    assert task.score("dev", {})["f1"] == 100
    scores = task.score("test", {})
    assert scores["f1"] == 50  # 0.875 would be best there.
    assert scores["null_score_diff_threshold"] == task.tuned_threshold == 0.5
    unit, size, score = task.resampled("test", {})
    assert (unit, size, score(np.array([0, 0, 1, 1]))) == ("questions", 2, 50)
    assert score(np.array([0, 0])) == 0
    assert task.majority_baseline()["test"]["f1"] == 50


@pytest.mark.parametrize(
    ("answers", "is_version_2", "scored"),
    [
        (["cat", ""], False, []),  # In 1.1 each question has one.
        (["cat", ""], True, ["test"]),
        (["", ""], True, []),
    ],
)
def test_a_test_file_is_scored_if_it_has_answers(
    answers, is_version_2, scored, monkeypatch
):
    task = squad.Squad(
        squad_files.SquadOptions(version_2_with_negative=is_version_2)
    )
    task.files = {"test": "test.json"}
    questions = [types.SimpleNamespace(answers=x) for x in answers]
    task._answer = {"test": types.SimpleNamespace(read=lambda: questions)}
    monkeypatch.setattr(squad.squad_scores, "read_answers", lambda *_: "xy")
    assert task.open_splits({"test": None}) == scored
