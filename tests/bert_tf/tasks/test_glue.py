"""glue.py: models, losses, scores and baselines of the GLUE tasks."""

import numpy as np
import planted_tasks as tasks
import pytest
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


def test_a_classifier_has_a_logit_for_each_class(tiny_config):
    task = tasks.classification("MNLI", 3)
    outputs = task.build_model(tiny_config)(batch_of(task))
    assert outputs["logits"].shape == (3, 3)


@pytest.mark.parametrize(("name", "expected"), [("SST-2", 1), ("MRPC", 2)])
def test_the_number_of_texts_is_recorded(tiny_config, name, expected):
    (table,) = (x for x in glue_tables.GLUE_TASKS if x.name == name)
    task = glue.Glue(table)
    assert task.metadata()["num_texts"] == expected


def test_a_regressor_has_a_score_for_each_row(tiny_config):
    task = tasks.regression("STS-B")
    outputs = task.build_model(tiny_config)(batch_of(task))
    assert outputs["predictions"].shape == (3,)


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


def test_a_single_class_raises(tiny_config):
    with pytest.raises(ValueError, match="num_classes=1"):
        tasks.classification("x", 1).build_model(tiny_config)


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


@pytest.fixture
def open_splits(tmp_path):
    """Function: schema name and labels by split -> records by split."""

    def write(name, **labels):
        sets = {}
        (feature,) = set(schema.SCHEMAS[name]) - set(schema.ENCODER_INPUTS)
        for split, values in labels.items():
            folder = tmp_path / split
            folder.mkdir()
            ones = dict.fromkeys(schema.ENCODER_INPUTS, np.ones(8, np.int32))
            shard = records.write_shard(
                str(folder / records.shard_name(split, 0, 1)),
                (
                    schema.serialize(
                        ones | {feature: value}, schema.SCHEMAS[name], SIZES
                    )
                    for value in values
                ),
            )
            records.Manifest(
                schema_name=name,
                sizes=SIZES,
                flags={},
                vocabulary={},
                statistics={},
                shards=[shard],
            ).write(str(folder))
            sets[split] = records.Records.open(str(folder))
        return sets

    return write


def test_the_baseline_is_the_best_label_for_each_metric(open_splits):
    labels = np.array([0, 0, 0, 1], np.int32)
    sets = open_splits("classification", train=1 - labels, dev=labels)
    metrics = ("accuracy", "f1", "matthews_correlation")
    task = tasks.classification("MRPC", 2, metrics)
    task.open_splits(sets)
    # Always 0 is right three times; always 1 has precision 1/4, recall 1.
    assert task.majority_baseline() == {
        "dev": {"accuracy": 0.75, "f1": 0.4, "matthews_correlation": 0.0}
    }


def test_a_dev_set_with_one_label_is_warned_of(open_splits, caplog):
    labels = np.ones(3, np.int32)
    sets = open_splits("classification", train=1 - labels, dev=labels)
    task = tasks.classification("CoLA", 2, ["matthews_correlation"])
    task.open_splits(sets)
    baseline = {"dev": {"matthews_correlation": 0.0}}
    assert task.majority_baseline() == baseline
    assert "dev: all 3 labels are '1', so scores" in caplog.text


def test_the_baseline_of_a_regression_predicts_the_mean_score(open_splits):
    scores = np.array([0.0, 2.5, 5.0], np.float32)
    sets = open_splits("regression", train=scores, dev_a=scores, dev_b=scores)
    task = tasks.regression("STS-B", ["spearman"])
    task.open_splits(sets)
    assert task.majority_baseline() == {
        "dev_a": {"spearman": None},
        "dev_b": {"spearman": None},
    }


def test_a_dev_set_of_one_row_is_refused_by_name(open_splits):
    scores = np.array([2.5], np.float32)
    sets = open_splits("regression", train=scores, dev=scores)
    sets["dev"].manifest.flags["source"] = "mine.tsv"
    task = tasks.regression("own", ["pearson", "spearman"])
    task.open_splits(sets)
    message = "mine.tsv: dev has 1 labelled row; pearson, spearman need at"
    with pytest.raises(ValueError, match=message):
        task.majority_baseline()


def test_labels_of_all_records_are_read(open_splits, monkeypatch):
    monkeypatch.setattr(records, "_RECORDS_AT_ONCE", 2)
    labels = np.array([0, 1, 1, 0, 1], np.int32)
    sets = open_splits("classification", dev=labels)
    task = tasks.classification("RTE", 2)
    task.open_splits(sets)
    logits = np.eye(2, dtype=np.float32)[labels]
    assert task.score("dev", {"logits": logits})["accuracy"] == 1.0
