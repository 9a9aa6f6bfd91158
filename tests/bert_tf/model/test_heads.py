import dataclasses

import numpy as np
import oracle
import pytest
import tensorflow as tf
from random_weights import randomised, weights_of

import bert_tf
from bert_tf.checkpoint import contents, model_folders
from bert_tf.model import dropout, models
from tfrecords import schema


def reference_outputs(model, batch):
    weights = weights_of(model)
    encoder_weights = {
        name.removeprefix("encoder/"): value for name, value in weights.items()
    }
    layers, pooled = oracle.encode(batch, encoder_weights, model.config)
    return weights, layers[-1], pooled


def test_pretraining_logits_match_the_reference(tiny_config, batch):
    pretrainer = randomised(bert_tf.BertPretrainer(tiny_config))
    weights, sequence_output, pooled = reference_outputs(pretrainer, batch)
    outputs = pretrainer(batch)
    np.testing.assert_allclose(
        outputs["masked_lm_logits"],
        oracle.masked_lm_logits(
            sequence_output, batch["masked_lm_positions"], weights
        ),
        atol=1e-5,
    )
    np.testing.assert_allclose(
        outputs["next_sentence_logits"],
        pooled @ weights["next_sentence/dense/kernel"]
        + weights["next_sentence/dense/bias"],
        atol=1e-5,
    )


def test_the_masked_lm_head_shares_the_word_embeddings(tiny_config):
    names = model_folders.weight_names(bert_tf.BertPretrainer(tiny_config))
    shape = (tiny_config.vocab_size, tiny_config.hidden_size)
    tables = [name for name, w in names.items() if tuple(w.shape) == shape]
    assert tables == ["encoder/embeddings/word_embeddings"]


@pytest.mark.parametrize(
    "task",
    [task for task in models.TASK_MODELS if task != "pretraining"],
)
def test_logits_of_tasks_match_the_reference(tiny_config, make_batch, task):
    batch = make_batch(tiny_config, rows=6)
    num_classes = 5 * (task in contents.WITH_LABELS)
    model = randomised(models.for_task(task, tiny_config, num_classes))
    weights, sequence_output, pooled = reference_outputs(model, batch)
    vectors = sequence_output if task in ("spans", "tagging") else pooled
    kernel, bias = (weights[f"{task}/dense/{x}"] for x in ("kernel", "bias"))
    expected = {"logits": vectors @ kernel + bias}
    if task == "spans":
        start, end = np.moveaxis(expected["logits"], -1, 0)
        expected = {"start_logits": start, "end_logits": end}
    elif task == "regression":
        expected = {"predictions": expected["logits"][:, 0]}
    elif task == "multiple_choice":
        expected = {"logits": expected["logits"].reshape(2, 3)}
        batch = {n: batch[n].reshape(2, 3, -1) for n in schema.ENCODER_INPUTS}
    outputs = model(batch)
    assert outputs.keys() == expected.keys()
    for name, logits in expected.items():
        assert outputs[name].shape == logits.shape
        np.testing.assert_allclose(outputs[name], logits, atol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("task", models.TASK_MODELS)
def test_logits_are_not_rounded_to_the_compute_dtype(
    tiny_config, make_batch, task, policy
):
    has_classes = task in contents.WITH_LABELS
    model = models.for_task(task, tiny_config, 3 * has_classes, dtype=policy)
    batch = make_batch(tiny_config, rows=32)
    if task == "multiple_choice":
        batch = {
            name: np.stack([values, values[::-1]], 1)
            for name, values in batch.items()
        }
    compute_dtype = policy.removeprefix("mixed_")
    for name, logits in model(batch, training=False).items():
        assert logits.dtype == tf.float32, name
        logits = logits.numpy().ravel()
        rounded = tf.cast(tf.cast(logits, compute_dtype), tf.float32)
        assert np.mean(rounded == logits) < 0.1, name


def test_one_class_is_rejected(tiny_config):
    with pytest.raises(ValueError, match="num_classes=1.*BertRegressor"):
        bert_tf.BertClassifier(tiny_config, num_classes=1)
    with pytest.raises(ValueError, match="num_classes=1; BertTagger needs 2"):
        bert_tf.BertTagger(tiny_config, 1)


def test_dropout_of_choices_is_the_same_on_any_replica(tiny_config, make_batch):
    model = randomised(bert_tf.BertMultipleChoice(tiny_config))
    batch = make_batch(tiny_config, rows=6)
    choices = {n: batch[n].reshape(2, 3, -1) for n in schema.ENCODER_INPUTS}

    def logits(first, last):
        rows = {name: x[first:last] for name, x in choices.items()}
        key = dropout.make_key(5, tf.constant(9, tf.int64), tf.constant(first))
        return model(rows, training=True, dropout_key=key)["logits"]

    both = logits(0, 2)
    assert not np.allclose(both, model(choices)["logits"], atol=1e-3)
    np.testing.assert_allclose(
        both, tf.concat([logits(0, 1), logits(1, 2)], 0), atol=1e-5
    )


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("mode", ["mean", "max", "cls"])
def test_a_head_reads_the_pooled_hidden_states_of_tokens(
    tiny_config, batch, task, mode
):
    config = dataclasses.replace(tiny_config, classifier_pooling=mode)
    model = models.for_task(task, config, 3 * (task == "classification"))
    weights, hidden, _ = reference_outputs(model, batch)
    function = {"mean": np.mean, "max": np.max, "cls": lambda x, axis: x[0]}
    lengths = batch["input_mask"].sum(axis=1)
    assert min(lengths) < max(lengths)  # Padding counts for nothing.
    pooled = [
        function[mode](row[:length], axis=0)
        for row, length in zip(hidden, lengths, strict=True)
    ]
    kernel, bias = (
        weights[f"{task}/dense/{part}"] for part in ("kernel", "bias")
    )
    (found,) = model(batch, training=False).values()
    expected = np.stack(pooled) @ kernel + bias
    np.testing.assert_allclose(found, expected.reshape(found.shape), atol=1e-5)
    restored = type(model).from_config(model.get_config())
    assert restored.config == config
