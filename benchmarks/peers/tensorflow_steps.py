"""Logits and optimizer of a peer in TensorFlow -> its step."""

from collections.abc import Callable, Sequence

from benchmarks import work


def make(
    logits: Callable,
    variables: Sequence,
    make_update: Callable[[], Callable],
    setting: work.Setting,
    jit_compile: bool,
) -> work.Step:
    """Returns a training step or, as the setting asks, a forward pass.

    Args:
      logits: (batch, whether it trains) -> logits, as `loss` expects.
      variables: trainable tf.Variables.
      make_update: returns the optimizer's update, a function of the gradients
        of `variables`; called for training only.
      setting: task, sizes and precision.
      jit_compile: whether XLA compiles the step.
    """
    import tensorflow as tf

    if setting.is_training:
        update = make_update()

        @tf.function(autograph=False, jit_compile=jit_compile)
        def train_step(batch):
            with tf.GradientTape() as tape:
                value = loss(logits(batch, True), batch)
            update(tape.gradient(value, variables))
            return value

        def run(batch):
            return float(train_step(batch))
    else:
        forward = tf.function(
            lambda batch: logits(batch, False),
            autograph=False,
            jit_compile=jit_compile,
        )

        def run(batch):
            return float(tf.cast(forward(batch)[0], tf.float32).numpy().flat[0])

    return work.Step(
        lambda batch: {name: tf.constant(x) for name, x in batch.items()},
        run,
        sum(variable.shape.num_elements() for variable in variables),
    )


def loss(logits, batch):
    """Returns the loss of pre-training or classification, a scalar.

    Args:
      logits: ([B, C],) for classification, ([B, P, V], [B, 2]) for masked LM
        and next sentence.
      batch: from `work.random_batch`.
    """
    import tensorflow as tf

    def cross_entropy(labels, scores):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels, tf.cast(scores, tf.float32)
        )

    if len(logits) == 1:
        return tf.reduce_mean(cross_entropy(batch["label_ids"], logits[0]))
    masked, sentence = logits
    weights = batch["masked_lm_weights"]
    each = cross_entropy(batch["masked_lm_ids"], masked) * weights
    mean = tf.reduce_sum(each) / (tf.reduce_sum(weights) + 1e-5)
    labels = batch["next_sentence_labels"]
    return mean + tf.reduce_mean(cross_entropy(labels, sentence))
