"""Setting -> a step of tf-models-official's BERT, on Keras 2.

Uses its encoder, heads and AdamWeightDecay in a tf.function with a
GradientTape, like its trainers.
"""

from benchmarks import work
from benchmarks.peers import tensorflow_steps


def make(setting: work.Setting, jit_compile: bool = False) -> work.Step:
    """Returns the step of tf-models-official.

    Args:
      setting: task, sizes and precision.
      jit_compile: whether to compile the step with XLA.
    """
    import tf_keras

    tf_keras.utils.set_random_seed(1)
    if setting.precision == "bfloat16":
        # For inference, the weights are bfloat16 too.
        policy = "mixed_bfloat16" if setting.is_training else "bfloat16"
        tf_keras.mixed_precision.set_global_policy(policy)
    model = _model(setting)

    def logits(batch, training):
        names = ["input_word_ids", "input_mask", "input_type_ids"]
        if setting.task == "pretraining":
            names.append("masked_lm_positions")
        found = model({n: batch[n] for n in names}, training=training)
        if setting.task == "pretraining":
            return found["mlm_logits"], found["next_sentence"]
        return (found,)

    # BertPretrainerV2 has its own pooler; the encoder's has no gradient.
    variables = model.trainable_variables
    return tensorflow_steps.make(
        logits,
        variables,
        lambda: _update(variables, setting.learning_rate),
        setting,
        jit_compile,
    )


def _model(setting):
    import tf_keras
    from official.nlp.modeling import layers, models, networks

    config = setting.config

    def gelu(x):
        return tf_keras.activations.gelu(x, approximate=True)

    encoder = networks.BertEncoderV2(
        vocab_size=config["vocab_size"],
        hidden_size=config["hidden_size"],
        num_layers=config["num_hidden_layers"],
        num_attention_heads=config["num_attention_heads"],
        max_sequence_length=config["max_position_embeddings"],
        type_vocab_size=config["type_vocab_size"],
        inner_dim=config["intermediate_size"],
        inner_activation=gelu,
        output_dropout=config["hidden_dropout_prob"],
        attention_dropout=config["attention_probs_dropout_prob"],
    )
    if setting.task == "fine_tuning":
        return models.BertClassifier(
            encoder,
            num_classes=work.NUM_CLASSES,
            dropout_rate=config["hidden_dropout_prob"],
        )
    head = layers.ClassificationHead(
        config["hidden_size"],
        num_classes=2,
        dropout_rate=0.0,
        name="next_sentence",
    )
    model = models.BertPretrainerV2(
        encoder, mlm_activation=gelu, classification_heads=[head]
    )
    model(model.inputs)
    return model


def _update(variables, learning_rate):
    from official.nlp import optimization

    optimizer = optimization.AdamWeightDecay(
        learning_rate=learning_rate,
        weight_decay_rate=0.01,
        epsilon=1e-6,
        exclude_from_weight_decay=["LayerNorm", "layer_norm", "bias"],
        gradient_clip_norm=1.0,
    )

    def update(gradients):
        pairs = zip(gradients, variables, strict=True)
        optimizer.apply_gradients([(g, v) for g, v in pairs if g is not None])

    return update
