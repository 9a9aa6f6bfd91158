"""Logits and labels -> weighted means, kept as totals and weights.

B batch, P predictions, V vocabulary, C classes.

The mean over the global batch is not the mean of the replicas' means if these
have different numbers of masked tokens. So every loss is kept as a total and a
weight until those of all replicas (training) or all batches (evaluation) are
summed.
"""

from typing import NamedTuple

import tensorflow as tf

from bert_tf.model import fused

# run_pretraining.py: get_masked_lm_output; avoids NaN without masked tokens.
MASKED_LM_EPSILON = 1e-5


class WeightedMean(NamedTuple):
    """A mean before its division.

    Attributes:
      total: scalar float32, sum of weighted values.
      weight: scalar float32, sum of weights.
      epsilon: added to the weight of the global batch.
    """

    total: tf.Tensor
    weight: tf.Tensor
    epsilon: float = 0.0

    def value(self) -> tf.Tensor:
        """Returns total / (weight + epsilon), 0 if the divisor is 0."""
        return tf.math.divide_no_nan(self.total, self.weight + self.epsilon)


def cross_entropy(
    logits: tf.Tensor,
    labels: tf.Tensor,
    weights: tf.Tensor,
    epsilon: float = 0.0,
    *,
    label_smoothing: float = 0.0,
) -> WeightedMean:
    """Returns the mean of -log softmax(logits)[label], in float32.

    Args:
      logits: [..., C] float.
      labels: [...] int32.
      weights: [...] float32; rows of weight 0 are ignored.
      epsilon: epsilon of the `WeightedMean`.
      label_smoothing: share of the target probability that is divided equally
        among all classes (Szegedy et al. 2015, arXiv 1512.00567, section 7).
    """
    logits = tf.cast(logits, tf.float32)
    each = fused.cross_entropy(logits, labels)
    if label_smoothing:
        uniform = -tf.reduce_mean(tf.nn.log_softmax(logits), axis=-1)
        each = (1.0 - label_smoothing) * each + label_smoothing * uniform
    return weighted_mean(each, weights, epsilon)


def binary_cross_entropy(
    logits: tf.Tensor,
    labels: tf.Tensor,
    weights: tf.Tensor,
    epsilon: float = 0.0,
    *,
    positive_weights: tf.Tensor | None = None,
    label_smoothing: float = 0.0,
) -> WeightedMean:
    """Returns the mean over rows of the mean over labels, each one decision.

    Args:
      logits: [B, C] float.
      labels: [B, C] float32, 1 for the labels of a row, otherwise 0.
      weights: [B] float32; rows of weight 0 are ignored.
      epsilon: epsilon of the `WeightedMean`.
      positive_weights: [C] float32, factors of the losses of rows that have a
        label; None for 1.
      label_smoothing: labels are moved towards 0.5 by this share.
    """
    labels = (1.0 - label_smoothing) * tf.cast(labels, tf.float32)
    labels += 0.5 * label_smoothing
    logits = tf.cast(logits, tf.float32)
    if positive_weights is None:
        each = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
    else:
        each = tf.nn.weighted_cross_entropy_with_logits(
            labels, logits, tf.constant(positive_weights)
        )
    return weighted_mean(tf.reduce_mean(each, axis=-1), weights, epsilon)


def weighted_mean(
    each: tf.Tensor, weights: tf.Tensor, epsilon: float = 0.0
) -> WeightedMean:
    """Returns the mean of values with weights, [...] float32 both."""
    total = tf.reduce_sum(each * weights)
    return WeightedMean(total, tf.reduce_sum(weights), epsilon)


def squared_error(
    predictions: tf.Tensor,
    scores: tf.Tensor,
    weights: tf.Tensor,
    epsilon: float = 0.0,
) -> WeightedMean:
    """Returns the mean of (prediction - score)^2; all [B] float32.

    For STS-B, whose labels are scores (appendix B.1 of the paper).
    """
    each = tf.square(tf.cast(predictions, tf.float32) - scores)
    return weighted_mean(each, weights, epsilon)


def of_pairs(
    similarities: tf.Tensor,
    pairs: tf.Tensor,
    weights: tf.Tensor,
    epsilon: float = 0.0,
) -> WeightedMean:
    """Returns the mean squared error of similarities, balanced in each row.

    A similarity should be 1 for a pair of the same class, 0 for one of two
    classes. Both labels, 0 and 1, have half of a row's loss, as if as many of
    each were drawn (Tunstall et al. 2022, arXiv 2209.11055, section 3.1).

    Args:
      similarities: [B, R] float32, cosines of B rows and R others.
      pairs: [B, R] int32: 1 same class, 0 two classes, -1 not compared.
      weights: [B] float32; rows of weight 0 are ignored.
      epsilon: epsilon of the `WeightedMean`.
    """
    each = 0.0
    for label in (0, 1):
        is_label = tf.cast(pairs == label, tf.float32)
        errors = is_label * tf.square(similarities - float(label))
        each += 0.5 * tf.math.divide_no_nan(
            tf.reduce_sum(errors, axis=-1), tf.reduce_sum(is_label, axis=-1)
        )
    return weighted_mean(each, weights, epsilon)


def relevance(
    predictions: tf.Tensor,
    grades: tf.Tensor,
    weights: tf.Tensor,
    epsilon: float = 0.0,
) -> WeightedMean:
    """Returns the mean cross-entropy of "is relevant"; all [B] float32.

    The sigmoid of a prediction is the probability of a grade above 0 (Nogueira
    and Cho 2019, arXiv 1901.04085, equation 1).
    """
    is_relevant = grades > 0
    return binary_cross_entropy(
        predictions[:, None], is_relevant[:, None], weights, epsilon
    )


def listwise(
    predictions: tf.Tensor,
    grades: tf.Tensor,
    weights: tf.Tensor,
    epsilon: float = 0.0,
    *,
    is_passage: tf.Tensor,
) -> WeightedMean:
    """Returns the mean cross-entropy of passages, one softmax for each query.

    Passages should have the shares of their grades: with one relevant passage
    this is the loss of Gao et al. 2021 (arXiv 2101.08751, equation 3), and
    otherwise ListNet's with grades in place of their exponentials (Cao et al.
    2007), so that passages of grade 0 should have no share.

    Args:
      predictions: [B, C] float, scores of C passages of B queries.
      grades: [B, C] float32, at least 0; 0 for missing passages.
      weights: [B] float32; queries of weight 0 are ignored, as are those
        without a relevant passage.
      epsilon: epsilon of the `WeightedMean`.
      is_passage: [B, C] float32, 0 for missing passages.
    """
    scores = tf.cast(predictions, tf.float32)
    scores = tf.where(is_passage > 0, scores, scores.dtype.min / 2)
    total = tf.reduce_sum(grades, axis=-1, keepdims=True)
    shares = tf.math.divide_no_nan(grades, total)
    log_shares = tf.nn.log_softmax(scores)
    # Of missing passages 0 * a large number, which is 0, and so its gradient.
    each = -tf.reduce_sum(shares * log_shares, axis=-1)
    return weighted_mean(each, weights, epsilon)


def accuracy(
    logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
) -> WeightedMean:
    """Returns the share, in [0, 1], of labels that have the highest logit.

    Arguments are those of `cross_entropy`.
    """
    right = tf.argmax(logits, axis=-1, output_type=labels.dtype) == labels
    return weighted_mean(tf.cast(right, tf.float32), weights)
