"""Setting -> a step of KerasHub's BERT on TensorFlow.

KerasHub has no next-sentence head, so a Dense layer on the pooled output is
used. Its masked-LM head fails under mixed_bfloat16 (it adds a float32 bias to
bfloat16), so `make` calls the layers of the head one by one. The step is a
tf.function with a GradientTape and Keras's AdamW.
"""

from benchmarks import work
from benchmarks.peers import tensorflow_steps


def make(setting: work.Setting, jit_compile: bool = False) -> work.Step:
    """Returns the step of KerasHub.

    Args:
      setting: task, sizes and precision.
      jit_compile: whether to compile the step with XLA.
    """
    import os

    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras

    keras.utils.set_random_seed(1)
    if setting.precision == "bfloat16":
        # For inference, the weights are bfloat16 too.
        policy = "mixed_bfloat16" if setting.is_training else "bfloat16"
        keras.config.set_dtype_policy(policy)
    is_pretraining = setting.task == "pretraining"
    make_logits = _pretraining_logits if is_pretraining else _class_logits
    logits, weights = make_logits(setting.config)
    return tensorflow_steps.make(
        logits,
        [weight.value for weight in weights],
        lambda: _update(weights, setting.learning_rate),
        setting,
        jit_compile,
    )


def _backbone(config):
    import keras_hub

    return keras_hub.models.BertBackbone(
        vocabulary_size=config["vocab_size"],
        num_layers=config["num_hidden_layers"],
        num_heads=config["num_attention_heads"],
        hidden_dim=config["hidden_size"],
        intermediate_dim=config["intermediate_size"],
        dropout=config["hidden_dropout_prob"],
        max_sequence_length=config["max_position_embeddings"],
        num_segments=config["type_vocab_size"],
    )


def _inputs(batch):
    return {
        "token_ids": batch["input_word_ids"],
        "segment_ids": batch["input_type_ids"],
        "padding_mask": batch["input_mask"],
    }


def _class_logits(config):
    import keras_hub

    model = keras_hub.models.BertTextClassifier(
        _backbone(config),
        num_classes=work.NUM_CLASSES,
        dropout=config["hidden_dropout_prob"],
    )
    return (
        lambda batch, training: (model(_inputs(batch), training=training),),
        model.trainable_weights,
    )


def _pretraining_logits(config):
    import keras
    import keras_hub
    import tensorflow as tf

    backbone = _backbone(config)
    head = keras_hub.layers.MaskedLMHead(
        token_embedding=backbone.token_embedding,
        intermediate_activation=lambda x: keras.ops.gelu(x, approximate=True),
        layer_norm_epsilon=1e-12,
    )
    next_sentence = keras.layers.Dense(2)
    hidden = (None, None, config["hidden_size"])
    head.build(hidden, (None, None))
    next_sentence.build((None, config["hidden_size"]))

    def logits(batch, training):
        outputs = backbone(_inputs(batch), training=training)
        masked = tf.gather(
            outputs["sequence_output"],
            batch["masked_lm_positions"],
            batch_dims=1,
        )  # [B, P, H]
        masked = head._intermediate_layer_norm(head._intermediate_dense(masked))
        scores = backbone.token_embedding(masked, reverse=True)  # [B, P, V]
        scores += tf.cast(head._bias.value, scores.dtype)
        return scores, next_sentence(outputs["pooled_output"])

    # Duplicates are removed: the head's weights include the tied embedding.
    weights = [
        *backbone.trainable_weights,
        *head.trainable_weights,
        *next_sentence.trainable_weights,
    ]
    return logits, list({id(weight): weight for weight in weights}.values())


def _update(weights, learning_rate):
    import keras

    optimizer = keras.optimizers.AdamW(
        learning_rate,
        weight_decay=0.01,
        epsilon=1e-6,
        global_clipnorm=1.0,
    )
    optimizer.exclude_from_weight_decay(
        [weight for weight in weights if len(weight.shape) == 1]
    )
    optimizer.build(weights)
    return lambda gradients: optimizer.apply(gradients, weights)
