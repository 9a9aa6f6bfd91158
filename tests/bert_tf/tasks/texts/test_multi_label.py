"""multi_label.py: losses, thresholds and scores against loops in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.tasks import glue
from bert_tf.tasks.texts import multi_label
from bert_tf.tasks.texts.options import LabelledData
from tfrecords.tasks import glue_tables

LABELS = ("calm", "glad", "rare")
TABLE = glue_tables.own_task(
    "moods",
    files={},
    text_columns=("text",),
    labels=LABELS,
    multi_label=True,
)
GENERATOR = np.random.default_rng(0)
LOGITS = GENERATOR.normal(size=(40, 3)).astype(np.float32)
# Labels that the logits tell, more or less.
RIGHT = (LOGITS + GENERATOR.normal(size=LOGITS.shape) > [0, 0.5, 1]) * 1.0


def make(**options):
    return glue.task_of(TABLE, LabelledData(**options))


def loss_of(task, logits, labels, weights, **more):
    batch = {
        "multi_hot_labels": tf.constant(labels, tf.float32),
        "is_real_example": tf.constant(weights, tf.float32),
    } | more
    (mean,) = task.losses({"logits": tf.constant(logits)}, batch).values()
    return float(mean.value())


def expected_loss(logits, labels, weights, factors=(1, 1, 1), smoothing=0.0):
    total = 0.0
    for row in range(len(logits)):
        each = 0.0
        for c in range(3):
            p = 1 / (1 + np.exp(-np.float64(logits[row, c])))
            y = labels[row, c] * (1 - smoothing) + smoothing / 2
            each -= factors[c] * y * np.log(p) + (1 - y) * np.log(1 - p)
        total += weights[row] * each / 3
    return total / sum(weights)


@pytest.mark.parametrize(
    ("options", "factors"),
    [
        ({}, (1, 1, 1)),
        ({"label_smoothing": 0.1}, (1, 1, 1)),
        ({"class_weights": ("rare:5", "calm:0")}, (0, 1, 5)),
        (
            {"class_weights": ("balanced",)},
            (40 - RIGHT.sum(0)) / RIGHT.sum(0),
        ),
    ],
)
def test_the_loss_is_the_mean_of_the_decisions(options, factors):
    task = make(**options)
    task.read_train(RIGHT)
    weights = np.array([1.0] * 20 + [0.0] * 20)
    expected = expected_loss(
        LOGITS, RIGHT, weights, factors, options.get("label_smoothing", 0.0)
    )
    found = loss_of(task, LOGITS, RIGHT, weights)
    assert found == pytest.approx(expected, rel=1e-6)


def test_rows_have_weights_in_the_loss():
    weights = GENERATOR.uniform(size=40)
    found = loss_of(
        make(),
        LOGITS,
        RIGHT,
        np.ones(40),
        example_weights=tf.constant(weights, tf.float32),
    )
    expected = expected_loss(LOGITS, RIGHT, weights)
    assert found == pytest.approx(expected, rel=1e-6)


def f1(predicted, right):
    both = ((predicted == 1) & (right == 1)).sum()
    total = predicted.sum() + right.sum()
    return 2 * both / total if total else 0.0


def best_f1(probability, right):
    return max(f1(probability >= p, right) for p in np.unique(probability))


def test_one_threshold_has_the_best_micro_f1():
    task = make()
    task.labels = {"dev": RIGHT}
    scores = task.score("dev", {"logits": LOGITS})
    probability = multi_label.probabilities(LOGITS)
    assert len(set(task.thresholds.tolist())) == 1
    assert scores["micro_f1"] == pytest.approx(best_f1(probability, RIGHT))
    predicted = (probability >= task.thresholds).astype(int)
    each = [f1(predicted[:, c], RIGHT[:, c]) for c in range(3)]
    assert scores["macro_f1"] == pytest.approx(np.mean(each))
    assert "thresholds" not in task.metadata()
    thresholds = task.metadata({})["thresholds"]
    assert thresholds == [float(str(task.thresholds[0]))] * 3


def test_each_label_may_have_the_threshold_of_its_best_f1():
    task = make(threshold="each")
    task.labels = {"dev": RIGHT}
    scores = task.score("dev", {"logits": LOGITS})
    probability = multi_label.probabilities(LOGITS)
    best = [best_f1(probability[:, c], RIGHT[:, c]) for c in range(3)]
    assert scores["macro_f1"] == pytest.approx(np.mean(best))
    found = task.details("dev", {"logits": LOGITS})["classes"]
    assert list(found) == list(LABELS)
    assert [x["f1"] for x in found.values()] == pytest.approx(best)
    assert [x["support"] for x in found.values()] == RIGHT.sum(0).tolist()
    precisions = [x["average_precision"] for x in found.values()]
    assert precisions == multi_label.average_precisions(LOGITS, RIGHT)
    assert [x["threshold"] for x in found.values()] == pytest.approx(
        task.thresholds, abs=1e-6
    )


def test_a_threshold_is_between_two_probabilities():
    probability = np.array([0.1, 0.4, 0.6, 0.9])
    found = multi_label.choose_thresholds(
        probability[:, None], np.array([[0], [0], [1], [1]]), True
    )
    assert found == pytest.approx([0.5])


def test_a_threshold_is_above_0_as_float32():
    probability, right = np.zeros((2, 1)), np.ones((2, 1), int)
    (found,) = multi_label.choose_thresholds(probability, right, True)
    assert 0 < np.float32(found) < 1e-30


def test_a_label_of_no_row_keeps_the_default():
    right = RIGHT.copy()
    right[:, 2] = 0
    probability = multi_label.probabilities(LOGITS)
    found = multi_label.choose_thresholds(probability, right, True)
    assert found[2] == 0.5 != found[0]
    # It has no average precision, either.
    found = multi_label.average_precisions(LOGITS, right)
    assert found[2] is None
    assert multi_label.mean_of_defined(found) == np.mean(found[:2])
    assert multi_label.mean_of_defined([None]) is None


def average_precision(scores, right):
    """The mean of the precision at each right row, by falling score."""
    order = np.argsort(-scores, kind="stable")
    found = right[order]
    precision = np.cumsum(found) / np.arange(1, len(found) + 1)
    return precision[found == 1].mean()


def test_average_precision_is_the_mean_precision_at_the_right_rows():
    found = multi_label.average_precisions(LOGITS, RIGHT)
    expected = [average_precision(LOGITS[:, c], RIGHT[:, c]) for c in range(3)]
    assert found == pytest.approx(expected)


def test_a_given_threshold_is_kept_and_an_evaluated_model_keeps_its_own():
    task = make(threshold="0.25")
    task.labels = {"dev": RIGHT}
    task.score("dev", {"logits": LOGITS})
    assert task.metadata()["thresholds"] == [0.25] * 3
    for given, expected in (("one", [0.1, 0.2, 0.3]), ("0.25", [0.25] * 3)):
        task = make(threshold=given)
        task.use_tuned({"thresholds": [0.1, 0.2, 0.3]})
        task.labels = {"dev": RIGHT}
        task.score("dev", {"logits": LOGITS})
        assert task.thresholds.tolist() == pytest.approx(expected)


def test_the_baseline_is_the_best_constant_answer():
    task = make()
    task.labels = {"dev": RIGHT, "last": np.eye(3)[[2, 2, 2, 1]]}
    # The most frequent label alone: 3 of 4 answers and 3 of 4 labels.
    last = task.majority_baseline()["last"]
    assert last["micro_f1"] == pytest.approx(0.75)
    found = task.majority_baseline()["dev"]
    answers = [
        np.broadcast_to([int(i in chosen) for i in range(3)], RIGHT.shape)
        for chosen in ([0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2])
    ]
    micro = max(f1(answer, RIGHT) for answer in answers)
    assert found["micro_f1"] == pytest.approx(micro)
    every = [f1(np.ones(40), RIGHT[:, c]) for c in range(3)]
    assert found["macro_f1"] == pytest.approx(np.mean(every))
    assert found["average_precision"] == pytest.approx(RIGHT.mean())


def test_predictions_are_names_with_separators_or_nothing():
    task = make(threshold="0.5")
    # The probability of 0 is 0.5, which reaches the threshold.
    logits = np.array([[1, -1, 1], [-1, -1, -1], [-1, 0, -1]], np.float32)
    predicted = task.predicted({"logits": logits})
    assert task.cells(predicted) == ["calm,rare", "", "glad"]
    answers = [x["predicted"] for x in task.answers({"logits": logits})]
    assert answers == [["calm", "rare"], [], ["glad"]]


def test_thresholds_are_chosen_on_dev_and_used_on_test():
    task = make(threshold="each")
    task.labels = {"dev": RIGHT, "test": 1 - RIGHT}
    task.score("dev", {"logits": LOGITS})
    expected = task.thresholds
    scores = task.score("test", {"logits": LOGITS})
    assert (task.thresholds == expected).all()
    unit, size, score = task.resampled("test", {"logits": LOGITS})
    assert (unit, size) == ("rows", 40)
    assert score(np.arange(40)) == pytest.approx(scores["micro_f1"])
