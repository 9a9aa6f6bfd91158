"""Logits of a peer and a batch -> BERT's training loss."""


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
