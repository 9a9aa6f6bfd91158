"""classes.py: weights, smoothing and scores of each class, in NumPy."""

import types

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.tasks import glue
from bert_tf.tasks.texts import calibration
from bert_tf.tasks.texts.options import LabelledData
from tfrecords.tasks import glue_tables

LABELS = ("bad", "good", "rare")
TABLE = glue_tables.own_task(
    "reviews", files={}, text_columns=("text",), labels=LABELS
)
GENERATOR = np.random.default_rng(0)
LOGITS = GENERATOR.normal(size=(50, 3)).astype(np.float32)
RIGHT = np.array([0] * 30 + [1] * 19 + [2], np.int32)
LOGITS[:49, 2] -= 9  # Nothing but the last row is likely to be rare.


def make(**options):
    task = glue.task_of(TABLE, LabelledData(**options))
    task.labels = {"dev": RIGHT}
    return task


def batch_of(weights):
    return {"label_ids": tf.constant(RIGHT), "is_real_example": weights}


@pytest.mark.parametrize(
    ("options", "factors"),
    [
        ({}, [1, 1, 1]),
        ({"label_smoothing": 0.2}, [1, 1, 1]),
        ({"class_weights": ("rare:5",)}, [1, 1, 5]),
        # scikit-learn's "balanced".
        ({"class_weights": ("balanced",)}, [50 / 90, 50 / 57, 50 / 3]),
        ({"class_weights": ("balanced",), "label_smoothing": 0.2}, None),
    ],
)
def test_the_loss_is_a_weighted_mean_over_rows(options, factors):
    factors = factors or [50 / 90, 50 / 57, 50 / 3]
    task = make(**options)
    task.read_train(RIGHT)
    weights = GENERATOR.uniform(size=50).astype(np.float32)
    smoothing = options.get("label_smoothing", 0.0)
    total = divisor = 0.0
    for logits, label, weight in zip(LOGITS, RIGHT, weights, strict=True):
        logits = np.float64(logits)
        log_p = logits - np.log(np.exp(logits).sum())
        each = (1 - smoothing) * -log_p[label] - smoothing * log_p.mean()
        total += weight * factors[label] * each
        divisor += weight * factors[label]
    outputs = {"logits": tf.constant(LOGITS)}
    (mean,) = task.losses(outputs, batch_of(weights)).values()
    assert float(mean.value()) == pytest.approx(total / divisor, rel=1e-5)
    # The accuracy of training has no weights of classes.
    is_right = LOGITS.argmax(-1) == RIGHT
    (accuracy,) = task.accuracies(outputs, batch_of(weights)).values()
    assert float(accuracy.value()) == pytest.approx(
        (is_right * weights).sum() / weights.sum(), rel=1e-5
    )


def test_eval_results_have_each_class_and_the_confusion_matrix():
    found = make().details("dev", {"logits": LOGITS})
    predicted = LOGITS.argmax(-1)
    matrix = [
        [int(((RIGHT == i) & (predicted == j)).sum()) for j in range(3)]
        for i in range(3)
    ]
    assert found["confusion_matrix"] == matrix
    assert list(found["classes"]) == list(LABELS)
    for i, scores in enumerate(found["classes"].values()):
        hits, named = matrix[i][i], sum(row[i] for row in matrix)
        precision, recall = hits / max(named, 1), hits / sum(matrix[i])
        f1 = 2 * hits / (named + sum(matrix[i]))
        expected = [precision, recall, f1, sum(matrix[i])]
        assert [*scores.values()] == pytest.approx(expected)


def test_macro_f1_is_the_mean_over_classes_and_weighted_f1_over_rows():
    task = make()
    scores = task.score("dev", {"logits": LOGITS})
    found = task.details("dev", {"logits": LOGITS})["classes"].values()
    f1 = [x["f1"] for x in found]
    assert scores["macro_f1"] == pytest.approx(np.mean(f1))
    rows = [x["support"] for x in found]
    assert scores["weighted_f1"] == pytest.approx(np.average(f1, weights=rows))


def test_many_classes_have_no_confusion_matrix():
    labels = tuple(map(str, range(51)))
    table = glue_tables.own_task(
        "x", files={}, text_columns=("text",), labels=labels
    )
    task = glue.task_of(table)
    logits = np.eye(51, dtype=np.float32)
    task.labels = {"dev": np.arange(51)}
    found = task.details("dev", {"logits": logits})
    assert list(found) == ["classes"]
    assert len(found["classes"]) == 51


def test_settings_of_labels_identify_a_run():
    assert make().decisive_settings() == {}
    found = make(class_weights=("rare:2",), best_metric="macro_f1")
    assert found.decisive_settings() == {
        "class_weights": ["rare:2"],
        "best_metric": "macro_f1",
    }


def test_the_best_metric_can_be_chosen():
    assert make().best_metric == "accuracy"
    assert make(best_metric="macro_f1").best_metric == "macro_f1"
    with pytest.raises(ValueError, match=r"--best_metric=f2: reviews has accu"):
        make(best_metric="f2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("rare",), "'rare' should be a label and its weight, such as spam:5"),
        (("rare:x",), "'rare:x' should be"),
        (("rare:-1",), "'rare:-1' should be"),
        (("rare:2", "rare:3"), "has 'rare' twice. Give each label one weight"),
        (("bad:0", "good:0", "rare:0"), "all are 0, so that nothing would be"),
        (("fair:2",), "'fair' is none of the labels, bad, good, rare"),
    ],
)
def test_wrong_class_weights_are_refused(words, message):
    with pytest.raises(ValueError, match=message):
        make(class_weights=words)


def test_balanced_weights_need_a_row_of_each_class():
    task = make(class_weights=("balanced",))
    with pytest.raises(ValueError, match="no row of train has 'rare'"):
        task.read_train(RIGHT[:-1])


@pytest.mark.parametrize(
    ("options", "labels", "message"),
    [
        ({"threshold": "0.5"}, LABELS, "for several labels, with --multi_lab"),
        ({"class_weights": ("a:1",)}, ("score",), "--class_weights=a:1 is for"),
        ({"label_smoothing": 0.1}, ("score",), "is for classes; x is a task"),
    ],
)
def test_options_of_other_labels_are_refused(options, labels, message):
    table = glue_tables.own_task(
        "x", files={}, text_columns=("text",), labels=labels
    )
    with pytest.raises(ValueError, match=message):
        glue.task_of(table, LabelledData(**options))


@pytest.mark.parametrize("value", ["0", "1", "1.5", "two", "nan"])
def test_a_threshold_is_a_probability(value):
    with pytest.raises(ValueError, match=f"--threshold={value} should be one,"):
        LabelledData(threshold=value)


def test_evaluated_rows_have_names_and_probabilities():
    task = make()
    (answer, *_) = task.answers({"logits": LOGITS[-1:]})
    p = np.exp(LOGITS[-1]) / np.exp(LOGITS[-1]).sum()
    assert answer["probabilities"] == pytest.approx(p, abs=1e-6)
    assert answer["predicted"] == task.named(int(p.argmax()))


def test_a_temperature_of_the_first_dev_split_is_kept_and_scored():
    task = make(calibrate=True)
    task.labels = {"test": 2 - RIGHT, "dev_a": RIGHT, "dev_b": RIGHT[::-1]}
    scores = {x: task.score(x, {"logits": LOGITS}) for x in task.labels}
    assert "temperature" not in task.metadata()
    found = task.metadata(scores)["temperature"]
    assert found == calibration.find_temperature(LOGITS, RIGHT) != 1.0
    assert "temperature" not in make().metadata(scores)
    # The head of the model that is evaluated is divided by it.
    task.use_tuned({"temperature": found})
    details = task.details("dev_a", {"logits": LOGITS / found})
    assert details["calibration"] == {
        "temperature": found,
        "error": calibration.error_of(LOGITS / found, RIGHT),
        "error_before": pytest.approx(calibration.error_of(LOGITS, RIGHT)),
    }
    assert "calibration" not in make().details("dev", {"logits": LOGITS})


@pytest.mark.parametrize(
    ("labels", "multi_label"), [(("score",), False), (LABELS, True)]
)
def test_a_temperature_is_of_classes(labels, multi_label):
    table = glue_tables.own_task(
        "reviews",
        files={},
        text_columns=("text",),
        labels=labels,
        multi_label=multi_label,
    )
    with pytest.raises(ValueError, match="calibrate=True is for classes"):
        glue.task_of(table, LabelledData(calibrate=True))


def test_a_temperature_needs_a_dev_split_or_a_model_that_has_one():
    config = types.SimpleNamespace(do_train=True, do_eval=False)
    with pytest.raises(ValueError, match="dev: add --do_eval"):
        make(calibrate=True).prepare(config, None)
    with pytest.raises(ValueError, match="the model has no temperature"):
        make(calibrate=True).use_tuned({})


def test_how_long_texts_are_read_is_kept_and_decides_weights():
    assert "long_text" not in make(long_text="cut").metadata()
    task = make(long_text="head_tail")
    assert task.metadata()["long_text"] == "head_tail"
    assert task.decisive_settings() == {"long_text": "head_tail"}
