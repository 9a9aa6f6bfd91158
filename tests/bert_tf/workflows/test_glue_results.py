"""Facts of what one answer to all would score on dev."""

import numpy as np
import pytest

from bert_tf.tasks import glue
from bert_tf.workflows import glue_results
from tfrecords import schema
from tfrecords.io import records

SIZES = {"max_seq_length": 8}


@pytest.fixture
def open_splits(tmp_path):
    """Split to labels -> split to records of them."""

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


def test_it_is_the_best_label_for_each_metric(open_splits):
    labels = np.array([0, 0, 0, 1], np.int32)
    sets = open_splits("classification", train=1 - labels, dev=labels)
    task = glue.classification_task("MRPC", 2)
    metrics = ("accuracy", "f1", "matthews_correlation")
    # Always 0 is right three times; always 1 has precision 1/4, recall 1.
    assert glue_results.majority_baseline(metrics, task, sets) == {
        "dev": {"accuracy": 0.75, "f1": 0.4, "matthews_correlation": 0.0}
    }


def test_of_scores_it_is_their_mean(open_splits):
    scores = np.array([0.0, 2.5, 5.0], np.float32)
    sets = open_splits("regression", train=scores, dev_a=scores, dev_b=scores)
    task = glue.regression_task("STS-B")
    assert glue_results.majority_baseline(("spearman",), task, sets) == {
        "dev_a": {"spearman": 0.0},
        "dev_b": {"spearman": 0.0},
    }


def test_all_records_are_read(open_splits, monkeypatch):
    monkeypatch.setattr(records, "_RECORDS_AT_ONCE", 2)
    labels = np.array([0, 1, 1, 0, 1], np.int32)
    sets = open_splits("classification", dev=labels)
    task = glue.classification_task("RTE", 2)
    score = glue_results.make_score(("accuracy",), task, sets)
    logits = np.eye(2, dtype=np.float32)[labels]
    assert score("dev", {"logits": logits})["accuracy"] == 1.0
