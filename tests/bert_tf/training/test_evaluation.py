import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.tasks import pretraining
from bert_tf.training import evaluation
from tfrecords import schema
from tfrecords.io import records
from tfrecords.reading import batches


@pytest.fixture
def model(tiny_config):
    return bert_tf.BertPretrainer(tiny_config)


def batches_of(examples, batch_size):
    """Splits rows into batches; the last is padded with zeros."""
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


def test_metrics_do_not_depend_on_the_batch_size(
    model, tiny_config, make_batch
):
    examples = make_batch(tiny_config, rows=7)
    step = evaluation.make_evaluation_step(pretraining.TASK, model)
    values = [
        evaluation.evaluate(step, batches_of(examples, size))
        for size in (7, 3, 2)
    ]
    for other in values[1:]:
        assert list(other) == list(values[0])
        np.testing.assert_allclose(
            list(other.values()), list(values[0].values()), rtol=1e-5
        )
    assert set(values[0]) == {
        "loss",
        "masked_lm_loss",
        "next_sentence_loss",
        "masked_lm_accuracy",
        "next_sentence_accuracy",
    }


def test_loss_is_a_sum_and_accuracy_a_fraction(model, tiny_config, make_batch):
    examples = make_batch(tiny_config, rows=5)
    step = evaluation.make_evaluation_step(pretraining.TASK, model)
    values = evaluation.evaluate(step, batches_of(examples, 2))
    assert values["loss"] == pytest.approx(
        values["masked_lm_loss"] + values["next_sentence_loss"]
    )
    outputs = model(next(batches_of(examples, 5)), training=False)
    classes = np.argmax(outputs["next_sentence_logits"], -1)
    expected = np.mean(classes == examples["next_sentence_labels"])
    assert values["next_sentence_accuracy"] == pytest.approx(expected)


def test_predictions_omit_padding_and_keep_order(
    model, tiny_config, make_batch
):
    examples = make_batch(tiny_config, rows=5)
    step = evaluation.make_prediction_step(model)
    expected = evaluation.predict(step, batches_of(examples, 5))
    outputs = evaluation.predict(step, batches_of(examples, 2))
    assert set(outputs) == {"masked_lm_logits", "next_sentence_logits"}
    for name, array in outputs.items():
        assert array.shape == expected[name].shape
        assert len(array) == 5
        np.testing.assert_allclose(array, expected[name], atol=1e-5)


def test_bucket_lengths_do_not_change_outputs(
    model, tiny_config, make_batch, tmp_path
):
    examples = make_batch(tiny_config, rows=9, tokens=12, seed=3)
    del examples["is_real_example"]
    sizes = {"max_seq_length": 12, "max_predictions_per_seq": 3}
    rows = [{n: a[row] for n, a in examples.items()} for row in range(9)]
    path = str(tmp_path / "records")
    data = [schema.serialize(r, schema.PRETRAINING, sizes) for r in rows]
    records.write_shard(path, data)

    def outputs_with(bucket_lengths):
        dataset = batches.evaluation_batches(
            records.Records.open(path),
            schema.PRETRAINING,
            sizes,
            batch_size=2,
            bucket_lengths=bucket_lengths,
        )
        lengths = {batch["input_mask"].shape[1] for batch in dataset}
        predicted = evaluation.predict(predict, dataset)
        return lengths, predicted, evaluation.evaluate(evaluate, dataset)

    predict = evaluation.make_prediction_step(model)
    evaluate = evaluation.make_evaluation_step(pretraining.TASK, model)
    plain, bucketed = outputs_with(()), outputs_with((6, 9))
    assert plain[0] == {12} < bucketed[0]
    for name, array in bucketed[1].items():
        np.testing.assert_allclose(array, plain[1][name], atol=1e-5)
    assert bucketed[2] == pytest.approx(plain[2], rel=1e-5)


def test_outputs_of_different_lengths_are_padded():
    def step(batch):
        return {"logits": batch["x"], "states": batch["x"][..., None]}

    dataset = [
        {
            "x": tf.fill([2, length], float(length)),
            "is_real_example": tf.constant([1.0, is_real]),
            "example_index": tf.constant(indices),
        }
        for length, is_real, indices in (
            (3, 1.0, [2, 0]),
            (1, 0.0, [1, 0]),
        )
    ]
    outputs = evaluation.predict(step, dataset)
    padding = -np.inf
    expected = [[3, 3, 3], [1, padding, padding], [3, 3, 3]]
    np.testing.assert_array_equal(outputs["logits"], expected)
    assert outputs["states"].shape == (3, 3, 1)


def test_outputs_that_are_not_finite_raise():
    batch = {"x": tf.constant([1.0, 0.0]), "is_real_example": tf.ones(2)}
    with pytest.raises(FloatingPointError, match="not finite.*--learning_ra"):
        evaluation.predict(lambda b: {"logits": 1 / b["x"]}, [batch])
    # Padding rows are not checked.
    batch["is_real_example"] = tf.constant([1.0, 0.0])
    outputs = evaluation.predict(lambda b: {"logits": 1 / b["x"]}, [batch])
    assert outputs["logits"].tolist() == [1.0]


def test_evaluation_without_examples_raises(model):
    step = evaluation.make_evaluation_step(pretraining.TASK, model)
    with pytest.raises(ValueError, match="the records have no examples"):
        evaluation.evaluate(step, [])
