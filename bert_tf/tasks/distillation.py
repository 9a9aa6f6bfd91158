"""Outputs of a student and of its teacher -> losses of knowledge distillation.

Three named losses, whose values are 0 for a student that equals its teacher:

  soft_targets         the teacher's probabilities (Hinton et al. 2015, arXiv
                       1503.02531, section 2), for each target of the task. If
                       the student is pre-trained, it is the "pre-trained
                       distillation" of Turc et al. 2019 (arXiv 1908.08962).
  attention_relations  similarities of the queries of all tokens, and likewise
                       of keys and of values, in one layer (MiniLMv2, Wang et
                       al. 2021, arXiv 2012.15828, section 3). Unlike the
                       attention weights of MiniLM (arXiv 2002.10957) they need
                       no equal number of attention heads.
  hidden_relations     the same similarities of the layer's outputs.

B batch, S sequence, C classes, H hidden, R relation heads.
"""

import functools
import math
from collections.abc import Sequence

import keras
import tensorflow as tf

from bert_tf.model import encoder as encoder_lib
from bert_tf.model.fused import MASKED_SCORE
from bert_tf.tasks.losses import (
    WeightedMean,
    binary_cross_entropy,
    weighted_mean,
)
from bert_tf.tasks.task import Batch, Target, Task

# Prefix of the names of the teacher's outputs.
_TAUGHT = "teacher/"
_RELATIONS = ("attention_relations", "hidden_relations")


def divergence(taught: tf.Tensor, learned: tf.Tensor) -> tf.Tensor:
    """Returns KL(softmax(taught) || softmax(learned)), [..., C] -> [...].

    It is the cross entropy of the learned probabilities minus the entropy of
    the taught ones, which is constant: both have the same gradient.
    """
    taught, learned = tf.nn.log_softmax(taught), tf.nn.log_softmax(learned)
    return tf.reduce_sum(tf.exp(taught) * (taught - learned), axis=-1)


def soft_targets(
    logits: tf.Tensor,
    taught: tf.Tensor,
    weights: tf.Tensor,
    epsilon: float = 0.0,
    *,
    temperature: float,
) -> WeightedMean:
    """Returns the mean divergence from the teacher's softened probabilities.

    It is multiplied by temperature^2, since softened logits shrink the
    gradients by its inverse (Hinton et al. 2015, section 2).

    Args:
      logits: [..., C] float, the student's.
      taught: [..., C] float, the teacher's.
      weights: [...] float32; rows of weight 0 are ignored.
      epsilon: epsilon of the `WeightedMean`.
      temperature: divisor of the logits.
    """
    softened = [tf.cast(x, tf.float32) / temperature for x in (taught, logits)]
    each = temperature**2 * divergence(*softened)
    return weighted_mean(each, weights, epsilon)


def soft_labels(
    logits: tf.Tensor,
    taught: tf.Tensor,
    weights: tf.Tensor,
    epsilon: float = 0.0,
    *,
    temperature: float,
) -> WeightedMean:
    """Returns `soft_targets` for decisions: the mean divergence over labels.

    Args:
      logits: [B, C] float, the student's; the probability of a label is their
        sigmoid.
      taught: [B, C] float, the teacher's.
      weights: [B] float32; rows of weight 0 are ignored.
      epsilon: epsilon of the `WeightedMean`.
      temperature: divisor of the logits.
    """
    # A decision is a choice of two classes, with logits x and 0.
    both = [tf.stack([x, tf.zeros_like(x)], -1) for x in (logits, taught)]
    softened = [tf.cast(x, tf.float32) / temperature for x in both]
    each = temperature**2 * divergence(softened[1], softened[0])
    return weighted_mean(tf.reduce_mean(each, axis=-1), weights, epsilon)


def similarities(
    vectors: tf.Tensor, num_heads: int, mask: tf.Tensor
) -> tf.Tensor:
    """Returns the scores of all pairs of tokens: [B, R, S, S] float32.

    With vectors X of a relation head, D = H / R columns: X X^T / sqrt(D), and
    -10000 for tokens that the attention does not see.

    Args:
      vectors: [B, S, H] float.
      num_heads: R.
      mask: [B, S] or [B, S, S], see `BertEncoder.attention_mask`.
    """
    size = vectors.shape[-1] // num_heads
    shape = tf.concat([tf.shape(vectors)[:2], [num_heads, size]], axis=0)
    parts = tf.reshape(tf.cast(vectors, tf.float32), shape)
    parts = tf.transpose(parts, [0, 2, 1, 3])  # [B, R, S, D]
    scores = tf.matmul(parts, parts, transpose_b=True) / math.sqrt(size)
    mask = tf.cast(mask, tf.float32)
    mask = mask[:, None, None] if len(mask.shape) == 2 else mask[:, None]
    return scores + MASKED_SCORE * (1.0 - mask)


def relations(
    vectors: tuple[Sequence[tf.Tensor], Sequence[tf.Tensor]],
    mask: tf.Tensor,
    weights: tf.Tensor,
    epsilon: float = 0.0,
    *,
    num_heads: int,
) -> WeightedMean:
    """Returns the divergence of the tokens' similarities, over kinds of vector.

    MiniLMv2, equations 4 to 6: a mean over relation heads and tokens, a sum
    over kinds. The mean is over all tokens of the global batch, where that of
    the paper is over the tokens of each text, then over texts.

    Args:
      vectors: those of the student, such as its queries, keys and values:
        [B, S, H] float each; and those of the teacher, of another H.
      mask: [B, S] or [B, S, S], see `BertEncoder.attention_mask`.
      weights: [B, S] float32, 1 for a token and 0 for padding.
      epsilon: epsilon of the `WeightedMean`.
      num_heads: R, a divisor of both H.
    """
    each = tf.add_n(
        [
            tf.reduce_mean(  # Over relation heads.
                divergence(
                    similarities(theirs, num_heads, mask),
                    similarities(own, num_heads, mask),
                ),
                axis=1,
            )
            for own, theirs in zip(*vectors, strict=True)
        ]
    )
    return weighted_mean(each, weights, epsilon)


class DistilledTask(Task):
    """A task that is also learned from a teacher.

    The losses of labels are multiplied by 1 - `weight`, those of the teacher by
    `weight`: training minimizes the sum of all, and the logs have each as it is
    in the sum.

    Args:
      task: task of the student.
      teacher: model with an encoder; for soft_targets, a model of the task. It
        runs without dropout, and no gradient reaches it.
      losses: names, of `config.DISTILLATION_LOSSES`.
      weight: weight of each of them, above 0 and at most 1.
      temperature: see `soft_targets`.
      relation_heads: see `relations`.
      relation_layer: the teacher's layer, from 0, whose relations the last
        layer of the student learns.
    """

    def __init__(
        self,
        task: Task,
        teacher: keras.Model,
        *,
        losses: Sequence[str],
        weight: float,
        temperature: float,
        relation_heads: int,
        relation_layer: int,
    ):
        self.task = task
        self.name = task.name
        self.schema = task.schema
        self.teacher = teacher
        self.relation_names = [name for name in _RELATIONS if name in losses]
        self.has_soft_targets = "soft_targets" in losses
        self.weight = weight
        self.temperature = temperature
        self.relation_heads = relation_heads
        self.relation_layer = relation_layer

    def targets(self, batch):
        """Returns the targets of the labels, and those of the teacher.

        If labels are not learned, they have accuracies alone.
        """
        of_labels = self.task.targets(batch)
        found = {
            name: target._replace(share=target.share * (1.0 - self.weight))
            for name, target in of_labels.items()
        }
        for name, target in of_labels.items() if self.has_soft_targets else ():
            loss = target.loss
            if target.has_classes:
                loss = functools.partial(
                    soft_targets, temperature=self.temperature
                )
            elif getattr(loss, "func", None) is binary_cross_entropy:
                loss = functools.partial(
                    soft_labels, temperature=self.temperature
                )
            found[f"{name}_soft_targets"] = target._replace(
                labels=_TAUGHT + target.logits,
                loss=loss,
                share=target.share * self.weight,
                loss_name=None,
            )
        for name in self.relation_names:
            found[name] = Target(
                name,
                # The same mask for both models, so the student's is not needed.
                self.teacher.encoder.attention_mask(batch),
                _is_token(batch),
                functools.partial(relations, num_heads=self.relation_heads),
                share=self.weight,
            )
        return found

    def outputs(self, model, batch, dropout_key) -> dict:
        """Returns the student's outputs, and what is learned from the teacher.

        The latter is `teacher/<name>`, an output of the teacher; and, by the
        name of a relation, two lists of vectors [B, S, H], the student's and
        the teacher's.
        """
        of_student = {"training": True, "dropout_key": dropout_key}
        of_teacher, extra = {"training": False}, {}
        if self.relation_names:
            own = model.encoder(batch, **of_student)
            theirs = self.teacher.encoder(batch, **of_teacher)
            for name in self.relation_names:
                learned = _vectors(model.encoder, own, name, -1)
                taught = _vectors(
                    self.teacher.encoder, theirs, name, self.relation_layer
                )
                extra[name] = learned, list(map(tf.stop_gradient, taught))
            of_student["encoder_outputs"] = own
            of_teacher["encoder_outputs"] = theirs
        if self.has_soft_targets:
            for name, taught in self.teacher(batch, **of_teacher).items():
                extra[_TAUGHT + name] = tf.stop_gradient(taught)
        return model(batch, **of_student) | extra


def _is_token(batch: Batch) -> tf.Tensor:  # [B, S] float32
    """Returns 1 for the tokens of real rows, and 0 for padding."""
    is_token = tf.cast(batch["input_mask"], tf.float32)
    return is_token * batch["is_real_example"][:, None]


def _vectors(
    encoder: encoder_lib.BertEncoder,
    outputs: encoder_lib.EncoderOutputs,
    name: str,
    layer: int,
) -> list[tf.Tensor]:
    """Returns the vectors of a relation in one layer, [B, S, H] each.

    Queries, keys and values are computed a second time: a layer returns only
    its output, and they are a fourth of the products of one layer.
    """
    layer %= len(encoder.encoder_layers)
    if name == "hidden_relations":
        return [outputs.encoder_outputs[layer]]
    of_layer = encoder.encoder_layers[layer]
    attention = of_layer.attention
    hidden = outputs.hidden_states[layer]  # The input of the layer.
    if of_layer.norm_first:
        hidden = of_layer.attention_norm(hidden)
    return [
        part(hidden)
        for part in (attention.query, attention.key, attention.value)
    ]
