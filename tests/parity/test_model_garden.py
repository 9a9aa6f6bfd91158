"""tf-models-official, whose BertPretrainerV2 has both heads."""

import numpy as np
import pytest

from bert_tf.contrib.formats.model_garden import tf2_checkpoint, tf2_files

PEER = "Model Garden"


@pytest.fixture
def policy(need, precision):
    need("official")
    import tf_keras

    name = {"bfloat16": "mixed_bfloat16"}.get(precision, precision)
    tf_keras.mixed_precision.set_global_policy(name)
    yield
    tf_keras.mixed_precision.set_global_policy("float32")


@pytest.fixture
def peer(policy, config):
    """BertPretrainerV2 with random weights and two equal poolers."""
    import tf_keras
    from official.nlp.modeling import layers, models, networks

    tf_keras.utils.set_random_seed(1)
    encoder = networks.BertEncoderV2(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        max_sequence_length=config.max_position_embeddings,
        type_vocab_size=config.type_vocab_size,
        inner_dim=config.intermediate_size,
    )
    head = layers.ClassificationHead(
        config.hidden_size, num_classes=2, name="next_sentence"
    )
    model = models.BertPretrainerV2(
        encoder,
        mlm_activation=lambda x: tf_keras.activations.gelu(x, approximate=True),
        classification_heads=[head],
    )
    model(model.inputs)
    rng = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign_add(0.1 * rng.normal(size=weight.shape))
    encoder.pooler_layer.set_weights(head.dense.get_weights())
    return model


def as_checkpoint(model, folder):
    tf2_files.write({"model": model}, str(folder))
    return tf2_checkpoint.read(str(folder))


@pytest.fixture
def their_side(peer, batch, tmp_path):
    import tensorflow as tf
    import tf_keras
    from official.nlp.tasks import masked_lm

    metrics = [
        tf_keras.metrics.Mean(name)
        for name in ("lm_example_loss", "next_sentence_loss")
    ]
    inputs = {name: tf.constant(x) for name, x in batch.items()}
    task = masked_lm.MaskedLMTask(masked_lm.MaskedLMConfig())
    with tf.GradientTape() as tape:
        found = peer(inputs, training=False)
        total = task.build_losses(inputs, found, metrics)
    gradients = tape.gradient(total, peer.trainable_variables)
    values = {
        "sequence_output": found["sequence_output"],
        "pooled_output": found["pooled_output"],
        "masked_lm_logits": found["mlm_logits"],
        "next_sentence_logits": found["next_sentence"],
    }
    masked, sentence = (metric.result() for metric in metrics)
    values |= {"masked_lm_loss": masked, "next_sentence_loss": sentence}
    # Saved as weights, gradients are renamed like weights.
    for weight, gradient in zip(
        peer.trainable_variables, gradients, strict=True
    ):
        # None for the encoder's pooler, which is unused.
        weight.assign(tf.zeros_like(weight) if gradient is None else gradient)
    by_name = as_checkpoint(peer, tmp_path).tensors
    return {
        name: np.asarray(tf.cast(x, tf.float32)) for name, x in values.items()
    } | {"gradients": by_name}


def test_outputs_losses_and_gradients(
    peer, tmp_path, our_side, batch, table, request
):
    folder = tmp_path / "weights"
    folder.mkdir()
    found = as_checkpoint(peer, folder)
    assert not found.missing() and not found.unused
    ours = our_side(found)
    table.check(PEER, ours, request.getfixturevalue("their_side"))
