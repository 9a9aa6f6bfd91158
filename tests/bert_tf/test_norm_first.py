"""Models whose sublayers begin with LayerNorm (pre-LN)."""

import dataclasses

import keras
import numpy as np
import oracle
import pytest
import reference_bert
import tensorflow as tf
from random_weights import randomised, weights_of

import bert_tf
from bert_tf.model import dropout, layers, lora, models
from bert_tf.tasks import distillation, pretraining

KEY = dropout.make_key(7, 3, 0)


@pytest.fixture(params=[False, True], ids=["bidirectional", "causal"])
def config(request, tiny_config):
    """No dropout, so that training matches the reference."""
    return dataclasses.replace(
        tiny_config,
        norm_first=True,
        is_causal=request.param,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "training"])
def test_every_layer_and_attention_match_the_reference(config, make_batch, key):
    encoder = randomised(bert_tf.BertEncoder(config))
    batch, weights = make_batch(config), weights_of(encoder)
    outputs = encoder(
        batch, training=key is not None, dropout_key=key, return_attention=True
    )
    expected, pooled = oracle.encode(batch, weights, config)
    real = batch["input_mask"] > 0
    for ours, theirs in zip(outputs.encoder_outputs, expected, strict=True):
        np.testing.assert_allclose(ours[real], theirs[real], atol=2e-5)
    np.testing.assert_allclose(outputs.pooled_output, pooled, atol=1e-5)
    np.testing.assert_array_equal(
        outputs.sequence_output, outputs.hidden_states[-1]
    )
    _, attention = oracle.layer_attention(batch, weights, config)
    for ours, theirs in zip(outputs.attention, attention, strict=True):
        np.testing.assert_allclose(ours[:1], theirs[:1], atol=1e-5)


def gradients(encoder, batch, training):
    variables = [weight.value for weight in encoder.trainable_weights]

    @tf.function(autograph=False)
    def run():
        with tf.GradientTape() as tape:
            outputs = encoder(batch, training=training, dropout_key=KEY)
            total = tf.reduce_sum(outputs.sequence_output[..., 0] ** 2)
            total += tf.reduce_sum(outputs.pooled_output)
        return tape.gradient(total, variables)

    return [tf.convert_to_tensor(gradient).numpy() for gradient in run()]


def test_gradients_match_those_of_tensorflow_also_recomputed(
    config, make_batch
):
    encoder = randomised(bert_tf.BertEncoder(config))
    batch = {name: tf.constant(x) for name, x in make_batch(config).items()}
    plain = gradients(encoder, batch, training=False)
    largest = max(np.abs(gradient).max() for gradient in plain)
    for recomputes in (False, True):
        encoder.remat = recomputes
        ours = gradients(encoder, batch, training=True)
        for one, other in zip(ours, plain, strict=True):
            np.testing.assert_allclose(
                one, other, rtol=1e-3, atol=1e-6 * largest
            )


@pytest.mark.parametrize("other", ["attention", "feed-forward"])
def test_dropout_applies_to_each_sublayer(tiny_config, other):
    config = dataclasses.replace(
        tiny_config,
        norm_first=True,
        hidden_dropout_prob=0.5,
        attention_probs_dropout_prob=0.0,
    )
    layer = layers.EncoderLayer(config, 0)
    hidden = tf.random.stateless_normal((2, 8, config.hidden_size), (1, 2))
    mask = tf.ones((2, 8), tf.int32)
    layer.build(hidden.shape)
    randomised(layer)
    # What one sublayer adds; the other one adds 0.
    last = layer.output_dense
    if other == "attention":
        last = layer.attention.output_dense
    for weight in last.weights:
        weight.assign(tf.zeros_like(weight))
    added = layer(hidden, mask, training=False) - hidden
    first, again, other_key = (
        layer(hidden, mask, training=True, dropout_key=key) - hidden
        for key in (KEY, KEY, dropout.make_key(7, 4, 0))
    )
    is_kept = np.abs(first) > 1e-6
    assert 0.3 < is_kept.mean() < 0.7
    expected = np.where(is_kept, 2.0 * added, 0.0)
    np.testing.assert_allclose(first, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(first, again)
    assert (is_kept != (np.abs(other_key) > 1e-6)).any()


@pytest.mark.parametrize("how", ["keras", "folder"])
def test_saved_models_compute_the_same(config, make_batch, tmp_path, how):
    model = randomised(models.BertClassifier(config, 2))
    batch = make_batch(config)
    if how == "keras":
        model.save(tmp_path / "model.keras")
        again = keras.models.load_model(tmp_path / "model.keras")
    else:
        bert_tf.save(model, tmp_path / "model", labels=["a", "b"])
        again = bert_tf.load(tmp_path / "model")[0]
    assert again.config == config
    np.testing.assert_array_equal(
        again(batch)["logits"], model(batch)["logits"]
    )


def test_adapters_leave_all_norms_frozen(config):
    encoder = bert_tf.BertEncoder(config)
    encoder.enable_lora(2)
    trained = {
        weight.path.split("/")[1]
        for weight in encoder.trainable_weights
        if not lora.is_factor(weight)
    }
    assert trained == {"pooler"}


def test_a_student_learns_queries_and_keys_after_layer_norm(config, make_batch):
    batch = {n: tf.constant(x) for n, x in make_batch(config).items()}
    model = models.for_task("pretraining", config)
    task = distillation.DistilledTask(
        pretraining.TASK,
        model,
        losses=("attention_relations",),
        weight=1.0,
        temperature=1.0,
        relation_heads=config.num_attention_heads,
        relation_layer=config.num_hidden_layers - 1,
    )
    learned, taught = task.outputs(model, batch, KEY)["attention_relations"]
    encoder = model.encoder
    query, key = (
        np.stack(np.split(x.numpy(), config.num_attention_heads, -1), 1)
        for x in learned[:2]
    )  # [B, A, S, D]
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    mask = encoder.attention_mask(batch).numpy().astype(bool)
    mask = mask[:, None] if mask.ndim == 3 else mask[:, None, None]
    scores = np.where(mask, scores, -1e4)
    attention = encoder(batch, return_attention=True).attention[-1]
    np.testing.assert_allclose(
        np.exp(reference_bert.log_softmax(scores)), attention, atol=1e-5
    )
    np.testing.assert_array_equal(learned[2], taught[2])
