"""glue.py: models, losses, scores and baselines of the GLUE tasks."""

import numpy as np
import planted_tasks as tasks
import pytest
import record_folders
import tensorflow as tf

from bert_tf.tasks import glue
from tfrecords import schema
from tfrecords.io import records
from tfrecords.tasks import glue_tables

SIZES = {"max_seq_length": 8}


def batch_of(task, num_examples=3):
    specs = schema.batch_signature(task.schema, SIZES, num_examples)
    batch = {
        name: tf.ones(spec.shape, spec.dtype) for name, spec in specs.items()
    }
    return batch | {"is_real_example": tf.constant([1.0, 1.0, 0.0])}


@pytest.mark.parametrize(("name", "expected"), [("SST-2", 1), ("MRPC", 2)])
def test_the_number_of_texts_is_recorded(tiny_config, name, expected):
    (table,) = (x for x in glue_tables.GLUE_TASKS if x.name == name)
    task = glue.task_of(table)
    assert task.metadata()["num_texts"] == expected


def test_classification_loss_ignores_padding_rows():
    task = tasks.classification("SST-2", 2)
    logits = np.array([[0.0, 1.0], [2.0, 0.0], [9.0, 0.0]], np.float32)
    losses = task.losses({"logits": tf.constant(logits)}, batch_of(task))
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert float(losses["classification_loss"].value()) == pytest.approx(
        -np.log(p[:2, 1]).mean(), rel=1e-6
    )
    accuracies = task.accuracies(
        {"logits": tf.constant(logits)}, batch_of(task)
    )
    assert float(accuracies["accuracy"].value()) == 0.5


def test_regression_loss_ignores_padding_rows():
    task = tasks.regression("STS-B")
    predictions = tf.constant([2.0, 4.0, 100.0])
    losses = task.losses({"predictions": predictions}, batch_of(task))
    assert float(losses["squared_error_loss"].value()) == (1 + 9) / 2
    assert task.accuracies({"predictions": predictions}, batch_of(task)) == {}


def test_scores_are_the_loss_and_the_named_metrics():
    task = tasks.classification("MRPC", 2, ["accuracy", "f1"])
    logits = np.array([[0.0, 1.0], [2.0, 0.0]], np.float32)
    task.labels = {"dev": np.array([1, 1])}
    scores = task.score("dev", {"logits": logits})
    assert (scores["accuracy"], scores["f1"]) == (0.5, pytest.approx(2 / 3))
    expected = (np.log(1 + np.exp(-1)) + np.log(1 + np.exp(2))) / 2
    assert scores["loss"] == pytest.approx(expected, rel=1e-6)


def test_scores_of_a_regression_use_its_predictions():
    task = tasks.regression("STS-B", ["pearson"])
    predictions = np.array([1.0, 2.0, 4.0], np.float32)
    labels = np.array([1.0, 3.0, 4.0], np.float32)
    task.labels = {"dev": labels}
    scores = task.score("dev", {"predictions": predictions})
    assert scores["loss"] == pytest.approx(1 / 3)
    expected = np.corrcoef(predictions, labels)[0, 1]
    assert scores["pearson"] == pytest.approx(expected)


def test_the_baseline_is_the_best_label_for_each_metric():
    metrics = ("accuracy", "f1", "matthews_correlation")
    task = tasks.classification("MRPC", 2, metrics)
    task.labels = {"dev": np.array([0, 0, 0, 1], np.int32)}
    # Always 0 is right three times; always 1 has precision 1/4, recall 1.
    assert task.majority_baseline() == {
        "dev": {"accuracy": 0.75, "f1": 0.4, "matthews_correlation": 0.0}
    }


def test_a_dev_set_with_one_label_is_warned_of(caplog):
    task = tasks.classification("CoLA", 2, ["matthews_correlation"])
    task.labels = {"dev": np.ones(3, np.int32)}
    baseline = {"dev": {"matthews_correlation": 0.0}}
    assert task.majority_baseline() == baseline
    assert "dev: all 3 labels are '1', so scores" in caplog.text


def test_the_baseline_of_a_regression_predicts_the_mean_score():
    scores = np.array([0.0, 2.5, 5.0], np.float32)
    task = tasks.regression("STS-B", ["spearman"])
    task.labels = {"dev_a": scores, "dev_b": scores}
    assert task.majority_baseline() == {
        "dev_a": {"spearman": None},
        "dev_b": {"spearman": None},
    }


def test_a_dev_set_of_one_row_is_refused_by_name():
    task = tasks.regression("own", ["pearson", "spearman"])
    task.labels = {"dev": np.array([2.5], np.float32)}
    task.sources = {"dev": "mine.tsv"}
    message = "mine.tsv: dev has 1 labelled row; pearson, spearman need at"
    with pytest.raises(ValueError, match=message):
        task.majority_baseline()


def test_labels_of_all_records_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "_RECORDS_AT_ONCE", 2)
    labels = np.array([0, 1, 1, 0, 1], np.int32)
    ones = dict.fromkeys(schema.ENCODER_INPUTS, np.ones(8, np.int32))
    examples = [ones | {"label_ids": label} for label in labels]
    record_folders.write(
        tmp_path,
        [schema.serialize(x, schema.CLASSIFICATION, SIZES) for x in examples],
        schema_name="classification",
        sizes=SIZES,
        flags={"source": "mine.tsv"},
    )
    task = tasks.classification("RTE", 2)
    task.open_splits({"dev": records.Records.open(str(tmp_path))})
    assert task.sources == {"dev": "mine.tsv"}
    assert task.labels["dev"].tolist() == labels.tolist()
