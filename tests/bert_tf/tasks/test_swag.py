"""swag.py: loss, accuracy and model of multiple choice."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.tasks import swag


@pytest.fixture
def task():
    return swag.Swag()


def test_the_loss_is_one_softmax_over_all_choices(task):
    logits = np.array([[1.0, 3.0, -1.0], [0.0, 0.0, 2.0]], np.float32)
    batch = {
        "label_ids": tf.constant([1, 0]),
        "is_real_example": tf.constant([1.0, 1.0]),
    }
    exps = np.exp(logits)
    right = exps[[0, 1], [1, 0]] / exps.sum(axis=1)
    outputs = {"logits": tf.constant(logits)}
    (loss,) = task.losses(outputs, batch).values()
    assert float(loss.value()) == pytest.approx(-np.log(right).mean())
    (accuracy,) = task.accuracies(outputs, batch).values()
    assert float(accuracy.value()) == 0.5
    (weight,) = task.loss_weights(batch).values()
    assert float(weight) == 2.0


def test_losses_ignore_padding_rows(task):
    batch = {
        "label_ids": tf.constant([1, 0]),
        "is_real_example": tf.constant([1.0, 0.0]),
    }
    one = {"logits": tf.constant([[1.0, 3.0], [9.0, -9.0]])}
    other = {"logits": tf.constant([[1.0, 3.0], [0.0, 0.0]])}
    losses = [
        float(mean.value())
        for outputs in (one, other)
        for mean in task.losses(outputs, batch).values()
    ]
    assert losses[0] == losses[1]


def test_a_dev_set_with_one_answer_is_warned_of(task, caplog):
    task.labels = {"dev": np.full(5, 3, np.int32)}
    assert task.majority_baseline() == {"dev": {"accuracy": 1.0}}
    assert "dev: all 5 labels are '3', so scores" in caplog.text


def test_the_prediction_is_the_best_ending_of_each_row(task, tmp_path):
    logits = np.array([[0.0, 2.0, 1.0], [3.0, 2.0, -np.inf]])
    task.write_predictions(lambda split: {"logits": logits}, str(tmp_path))
    assert (tmp_path / "test.csv").read_text() == ",pred\n0,1\n1,0\n"
