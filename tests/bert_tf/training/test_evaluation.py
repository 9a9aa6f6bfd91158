import functools
import os
import subprocess
import sys

import numpy as np
import pytest
import replica_outputs
import tensorflow as tf

import bert_tf
from bert_tf.tasks import pretraining
from bert_tf.training import evaluation, strategies
from tfrecords import schema
from tfrecords.io import records
from tfrecords.reading import batches


@pytest.fixture
def model(tiny_config):
    return bert_tf.BertPretrainer(tiny_config)


@pytest.fixture(scope="module")
def strategy():
    return strategies.make_strategy("one_device")


@pytest.fixture
def evaluate(model, strategy):
    """A function of batches that returns the metrics of the model."""
    step = evaluation.make_evaluation_step(pretraining.TASK, model, strategy)
    return functools.partial(evaluation.evaluate, step, strategy=strategy)


@pytest.fixture
def predict(model, strategy):
    """A function of batches that returns the outputs of the model."""
    step = evaluation.make_prediction_step(model, strategy)
    return functools.partial(evaluation.predict, step, strategy=strategy)


def batches_of(examples, batch_size, **replicas):
    """Splits rows into batches; the last is padded with zeros."""
    assert replicas in (
        {},
        {"replicas": 1, "first_replica": 0, "local_replicas": 1},
    )
    rows = len(examples["is_real_example"])
    for start in range(0, rows, batch_size):
        part = {n: a[start : start + batch_size] for n, a in examples.items()}
        missing = batch_size - len(part["is_real_example"])
        yield {
            name: tf.constant(
                np.pad(array, [(0, missing)] + [(0, 0)] * (array.ndim - 1))
            )
            for name, array in part.items()
        }


def test_metrics_are_those_of_the_model_for_any_batch_size(
    model, evaluate, tiny_config, make_batch
):
    examples = make_batch(tiny_config, rows=7)
    values, *others = (
        evaluate(functools.partial(batches_of, examples, size))
        for size in (7, 3, 2)
    )
    for other in others:
        assert list(other) == list(values)
        assert other == pytest.approx(values, rel=1e-5)
    assert values["loss"] == pytest.approx(
        values["masked_lm_loss"] + values["next_sentence_loss"]
    )
    outputs = model(next(batches_of(examples, 7)), training=False)
    classes = np.argmax(outputs["next_sentence_logits"], -1)
    expected = np.mean(classes == examples["next_sentence_labels"])
    assert values["next_sentence_accuracy"] == pytest.approx(expected)


def test_predictions_omit_padding_and_keep_order(
    predict, tiny_config, make_batch
):
    examples = make_batch(tiny_config, rows=5)
    expected, outputs = (
        predict(functools.partial(batches_of, examples, size))
        for size in (5, 2)
    )
    assert set(outputs) == {"masked_lm_logits", "next_sentence_logits"}
    for name, array in outputs.items():
        assert array.shape == expected[name].shape
        assert len(array) == 5
        np.testing.assert_allclose(array, expected[name], atol=1e-5)


@pytest.fixture
def nine_records(tmp_path, tiny_config, make_batch):
    """Path of records of nine examples with up to 12 tokens."""
    examples = make_batch(tiny_config, rows=9, tokens=12, seed=3)
    del examples["is_real_example"]
    rows = [{n: a[row] for n, a in examples.items()} for row in range(9)]
    path = str(tmp_path / "records")
    sizes = replica_outputs.SIZES
    data = [schema.serialize(r, schema.PRETRAINING, sizes) for r in rows]
    records.write_shard(path, data)
    return path


def test_bucket_lengths_do_not_change_outputs(predict, evaluate, nine_records):
    def outputs_with(bucket_lengths):
        make_batches = functools.partial(
            batches.evaluation_batches,
            records.Records.open(nine_records),
            schema.PRETRAINING,
            replica_outputs.SIZES,
            batch_size=2,
            bucket_lengths=bucket_lengths,
        )
        lengths = {batch["input_mask"].shape[1] for batch in make_batches()}
        return lengths, predict(make_batches), evaluate(make_batches)

    plain, bucketed = outputs_with(()), outputs_with((6, 9))
    assert plain[0] == {12} < bucketed[0]
    for name, array in bucketed[1].items():
        np.testing.assert_allclose(array, plain[1][name], atol=1e-5)
    assert bucketed[2] == pytest.approx(plain[2], rel=1e-5)


@pytest.mark.slow
def test_results_on_several_devices_are_the_same_bit_for_bit(
    tmp_path, tiny_config, nine_records
):
    tiny_config.to_json_file(tmp_path / "bert_config.json")
    subprocess.run(
        [sys.executable, replica_outputs.__file__, str(tmp_path)],
        check=True,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(sys.path), "CUDA_VISIBLE_DEVICES": ""},
    )
    for case in replica_outputs.CASES:
        one, *others = (
            dict(np.load(replica_outputs.path_of(tmp_path, number, case)))
            for number in replica_outputs.NUM_DEVICES
        )
        assert {"loss", "masked_lm_logits"} <= one.keys()
        assert one.pop("replica").tolist() == [0.0] * 9
        batch_size, bucket_lengths = case
        for number, found in zip((2, 4), others, strict=True):
            replica = found.pop("replica")
            if not bucket_lengths:  # With them, the longest rows come first.
                expected = np.arange(9) // batch_size % number
                assert replica.tolist() == expected.tolist()
            elif number == 2:
                assert set(replica) == {0, 1}
            assert found.keys() == one.keys()
            for name, value in found.items():
                assert value.dtype == one[name].dtype
                assert value.tobytes() == one[name].tobytes(), (number, name)


def test_outputs_of_different_lengths_are_padded(strategy):
    def step(batch):
        return {"logits": batch["x"], "states": batch["x"][..., None]}

    dataset = [
        {
            "x": tf.fill([2, length], float(length)),
            "is_real_example": tf.constant([1.0, is_real]),
            "example_index": tf.constant(indices),
        }
        for length, is_real, indices in ((3, 1.0, [2, 0]), (1, 0.0, [1, 0]))
    ]
    outputs = evaluation.predict(step, lambda **_: dataset, strategy)
    padding = -np.inf
    expected = [[3, 3, 3], [1, padding, padding], [3, 3, 3]]
    np.testing.assert_array_equal(outputs["logits"], expected)
    assert outputs["states"].shape == (3, 3, 1)


def test_outputs_that_are_not_finite_raise(strategy):
    def step(batch):
        return {"logits": 1 / batch["x"]}

    def predict():
        return evaluation.predict(step, lambda **_: [batch], strategy)

    batch = {"x": tf.constant([1.0, 0.0]), "is_real_example": tf.ones(2)}
    with pytest.raises(FloatingPointError, match="not finite.*--learning_ra"):
        predict()
    # Padding rows are not checked.
    batch["is_real_example"] = tf.constant([1.0, 0.0])
    assert predict()["logits"].tolist() == [1.0]


def test_evaluation_without_examples_raises(evaluate):
    with pytest.raises(ValueError, match="the records have no examples"):
        evaluate(lambda **_: [])
