"""KerasHub's BertTextClassifier, as a next-sentence head, and BertMaskedLM."""

import functools

import numpy as np
import pytest

from bert_tf.contrib.formats.keras_hub import preset
from bert_tf.model import layers, models
from bert_tf.tasks import losses as our_losses

PEER = "KerasHub"


@pytest.fixture
def backbone(need, config, precision):
    need("keras_hub")
    import keras
    import keras_hub

    keras.utils.set_random_seed(1)
    return keras_hub.models.BertBackbone(
        vocabulary_size=config.vocab_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        hidden_dim=config.hidden_size,
        intermediate_dim=config.intermediate_size,
        max_sequence_length=config.max_position_embeddings,
        dtype={"bfloat16": "mixed_bfloat16"}.get(precision, precision),
    )


def randomize(model):
    rng = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(weight + 0.1 * rng.normal(size=weight.shape))


def as_checkpoint(task, folder):
    task.save_to_preset(str(folder))
    return preset.read(str(folder))


def inputs_of(batch):
    return {
        "token_ids": batch["input_word_ids"],
        "segment_ids": batch["input_type_ids"],
        "padding_mask": batch["input_mask"],
    }


def their_side(task, inputs, labels, loss_name, folder, **loss_settings):
    """Returns outputs of backbone and head, the loss and all gradients."""
    import keras
    import tensorflow as tf

    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    variables = [weight.value for weight in task.trainable_weights]
    with tf.GradientTape() as tape:
        logits = task(inputs, training=False)
        value = loss(labels, logits, **loss_settings)
    gradients = tape.gradient(
        value, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    found = task.backbone(
        {name: x for name, x in inputs.items() if name != "mask_positions"}
    )
    found |= {"logits": logits, loss_name: value}
    # Saved as weights, gradients are renamed like weights.
    for weight, gradient in zip(task.trainable_weights, gradients, strict=True):
        weight.assign(tf.convert_to_tensor(gradient))
    by_name = as_checkpoint(task, folder).tensors
    return {
        name: np.asarray(tf.cast(x, tf.float32)) for name, x in found.items()
    } | {"gradients": by_name}


def test_next_sentence_as_a_classifier(
    backbone, batch, tmp_path, our_side, table
):
    import keras_hub

    task = keras_hub.models.BertTextClassifier(backbone, num_classes=2)
    randomize(task)
    found = as_checkpoint(task, tmp_path / "weights")
    assert not found.missing() and not found.unused
    ours = our_side(
        found,
        build=functools.partial(models.BertClassifier, num_classes=2),
        losses=lambda logits, batch: {
            "next_sentence_loss": our_losses.cross_entropy(
                logits["logits"],
                batch["next_sentence_labels"],
                batch["is_real_example"],
            ).value()
        },
    )
    theirs = their_side(
        task,
        inputs_of(batch),
        batch["next_sentence_labels"],
        "next_sentence_loss",
        tmp_path / "gradients",
    )
    for side in (ours, theirs):
        side["next_sentence_logits"] = side.pop("logits")
    table.check(f"{PEER} classifier", ours, theirs)


def masked_lm_loss(logits, batch):
    loss = our_losses.cross_entropy(
        logits["masked_lm_logits"],
        batch["masked_lm_ids"],
        batch["masked_lm_weights"],
        our_losses.MASKED_LM_EPSILON,
    )
    return {"masked_lm_loss": loss.value()}


def use_keras_hub_settings(model):
    """Sets the GELU and the epsilon of our head to those of KerasHub."""
    model.masked_lm.transform.activation = layers.gelu_erf
    model.masked_lm.norm.epsilon = 1e-5


def test_masked_lm_differs_only_by_gelu_and_epsilon(
    backbone, batch, tmp_path, our_side, table, precision
):
    import keras_hub

    task = keras_hub.models.BertMaskedLM(backbone)
    randomize(task)
    found = as_checkpoint(task, tmp_path / "weights")
    assert found.missing() == [
        "next_sentence/dense/kernel",
        "next_sentence/dense/bias",
    ]
    assert not found.unused
    inputs = inputs_of(batch)
    inputs["mask_positions"] = batch["masked_lm_positions"]
    if precision == "bfloat16":
        # KerasHub adds a float32 bias to bfloat16 logits, which fails.
        with pytest.raises(Exception, match="expected to be a bfloat16 tensor"):
            task(inputs)
        return
    theirs = their_side(
        task,
        inputs,
        batch["masked_lm_ids"],
        "masked_lm_loss",
        tmp_path / "gradients",
        sample_weight=batch["masked_lm_weights"],
    )
    theirs["masked_lm_logits"] = theirs.pop("logits")

    # masked_lm_head.py: activation "gelu", the erf form in Keras, and
    # layer_norm_epsilon=1e-5. With the same two settings, results are equal.
    ours = our_side(found, losses=masked_lm_loss, change=use_keras_hub_settings)
    table.check(f"{PEER}, its head", ours, theirs)

    name = "masked_lm_logits"
    ours = our_side(found, losses=masked_lm_loss)
    difference = np.max(np.abs(ours[name] - theirs[name]))
    table.add(PEER, name, difference, "by design", np.max(np.abs(ours[name])))
    assert 1e-4 < difference < 0.1
