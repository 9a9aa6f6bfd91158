"""Batches of words in windows -> losses of their tags, predicted tags.

Letters: M windows, S sequence, C classes, T words.
"""

import functools

import numpy as np
import tensorflow as tf

from bert_tf.model import feature_tagger, models
from bert_tf.tasks import losses, task
from tfrecords import schema


def _weights(batch):
    """Returns [B, S]: 1 where a word of a real window has its tag."""
    return batch["tag_weights"] * batch["is_real_example"][:, tf.newaxis]


def tagging_losses(outputs, batch):
    """Returns the mean over words of -log of the right tag's probability."""
    return {
        "tagging_loss": losses.cross_entropy(
            outputs["logits"], batch["tag_ids"], _weights(batch)
        )
    }


def tagging_accuracies(outputs, batch):
    """Returns the share of words with the right tag."""
    return {
        "accuracy": losses.accuracy(
            outputs["logits"], batch["tag_ids"], _weights(batch)
        )
    }


def tagging_weights(batch):
    """Returns how many words the loss is divided by."""
    return {"tagging_loss": tf.reduce_sum(_weights(batch))}


def tagging_task(num_classes: int) -> task.Task:
    """Returns a task that tags words (paper, section 5.3; no CRF there).

    Args:
      num_classes: tags, at least 2.

    Raises:
      ValueError: by `build_model`, if there are fewer.
    """
    return task.Task(
        name="NER",
        schema=schema.TAGGING,
        build_model=functools.partial(
            models.BertTagger, num_classes=num_classes
        ),
        losses=tagging_losses,
        loss_weights=tagging_weights,
        accuracies=tagging_accuracies,
    )


def feature_task(
    batch: schema.Schema, num_classes: int, choice: str, lstm_units: int
) -> task.Task:
    """Returns a task that tags words by features that do not change.

    Args:
      batch: features of a batch; see `feature_tagger.FeatureTagger`.
      num_classes: tags, at least 2.
      choice: of layers, a key of `feature_tagger.CHOICES`.
      lstm_units: of each direction.

    Raises:
      ValueError: by `build_model`, as FeatureTagger does.
    """
    return task.Task(
        name="NER",
        schema=batch,
        build_model=functools.partial(
            feature_tagger.FeatureTagger,
            num_classes=num_classes,
            choice=choice,
            lstm_units=lstm_units,
        ),
        losses=tagging_losses,
        loss_weights=tagging_weights,
        accuracies=tagging_accuracies,
    )


def predicted_tags(logits: np.ndarray, tag_weights: np.ndarray) -> np.ndarray:
    """Returns the tag of each word, in the order of the file, [T].

    Args:
      logits: [M, S', C]; S' may be less than S, where windows were cut to a
        length that holds them all.
      tag_weights: [M, S], of the records.
    """
    return _at_words(logits, tag_weights).argmax(axis=-1)


def loss(
    logits: np.ndarray, tag_weights: np.ndarray, tag_ids: np.ndarray
) -> float:
    """Returns the mean loss of words; arguments as of `predicted_tags`.

    Args:
      logits: [M, S', C].
      tag_weights: [M, S].
      tag_ids: [M, S], the right ones.
    """
    chosen = _at_words(logits, tag_weights)
    mean = losses.cross_entropy(
        tf.constant(chosen),
        tf.constant(tag_ids[tag_weights > 0]),
        tf.ones(len(chosen)),
    )
    return float(mean.value())


def _at_words(logits, tag_weights):
    """Returns [T, C]."""
    return logits[tag_weights[:, : logits.shape[1]] > 0]
