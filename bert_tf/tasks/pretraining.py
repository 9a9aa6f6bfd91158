"""Pre-training batches -> losses and accuracies of masked tokens and pairs."""

import functools
import math
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf

from bert_tf.model import models
from bert_tf.tasks import losses, task
from tfrecords import schema

_MOST_LOSS = 700.0  # Of more, e to it is no float.


def _example_weights(batch):
    """Returns 1 for each example: [B] float32, or [B, E] where they share rows.

    Those of `schema.PACKED_PRETRAINING` are 0 in rows that fill a batch, too.
    """
    return batch.get("next_sentence_weights", batch["is_real_example"])


def _losses(name, outputs, batch):
    found = {
        "masked_lm_loss": losses.masked_lm_loss(
            outputs["masked_lm_logits"],
            batch["masked_lm_ids"],
            batch["masked_lm_weights"],
        )
    }
    if "next_sentence_labels" in batch:
        found[f"{name}_loss"] = losses.cross_entropy(
            outputs["next_sentence_logits"],
            batch["next_sentence_labels"],
            _example_weights(batch),
        )
    return found


def _loss_weights(name, batch):
    found = {"masked_lm_loss": tf.reduce_sum(batch["masked_lm_weights"])}
    if "next_sentence_labels" in batch:
        found[f"{name}_loss"] = tf.reduce_sum(_example_weights(batch))
    return found


def _accuracies(name, outputs, batch):
    found = {
        "masked_lm_accuracy": losses.accuracy(
            outputs["masked_lm_logits"],
            batch["masked_lm_ids"],
            batch["masked_lm_weights"],
        )
    }
    if "next_sentence_labels" in batch:
        found[f"{name}_accuracy"] = losses.accuracy(
            outputs["next_sentence_logits"],
            batch["next_sentence_labels"],
            _example_weights(batch),
        )
    return found


def _task(name: str, features: schema.Schema) -> task.Task:
    """Returns the task whose labels of pairs are called `name` in the logs."""
    return task.Task(
        name="pretraining",
        schema=features,
        build_model=models.BertPretrainer,
        losses=functools.partial(_losses, name),
        loss_weights=functools.partial(_loss_weights, name),
        accuracies=functools.partial(_accuracies, name),
    )


# By the --pairs that records were made with. The model is the same: the head
# that tells next sentences learns the order of two of Lan et al. 2020 too, and
# nothing where there are no pairs, nor does the pooler then.
TASKS: dict[str, task.Task] = {
    "next_sentence": _task("next_sentence", schema.PRETRAINING),
    "sentence_order": _task("sentence_order", schema.PRETRAINING),
    "none": _task("next_sentence", schema.MASKED_LM),
}
# Section 3.1 and appendix A.2 of the paper.
TASK = TASKS["next_sentence"]


def next_tokens(batch: task.Batch):
    """Returns what follows each place but the last, and if it is to be told.

    Packed examples end where the next one begins.

    Args:
      batch: with the encoder's inputs, [B, S] int32.

    Returns:
      [B, S - 1] int32, and [B, S - 1] float32 weights.
    """
    is_told = batch["input_mask"][:, 1:] > 0
    if "example_numbers" in batch:
        numbers = batch["example_numbers"]
        is_told &= numbers[:, 1:] == numbers[:, :-1]
    return batch["input_word_ids"][:, 1:], tf.cast(is_told, tf.float32)


# "LTR" of the paper's section 5.1, without next sentences.
LEFT_TO_RIGHT = task.Task(
    name="pretraining",
    schema=schema.UNMASKED_SEGMENTS,
    build_model=models.BertPretrainer,
    losses=lambda outputs, batch: {
        "next_token_loss": losses.cross_entropy(
            outputs["next_token_logits"], *next_tokens(batch)
        )
    },
    loss_weights=lambda batch: {
        "next_token_loss": tf.reduce_sum(next_tokens(batch)[1])
    },
    accuracies=lambda outputs, batch: {
        "next_token_accuracy": losses.accuracy(
            outputs["next_token_logits"], *next_tokens(batch)
        )
    },
)


def perplexity(values: Mapping[str, float]) -> float:
    """Returns e to the loss of a token, the "LM (ppl)" of the paper's table 6.

    Args:
      values: of an evaluation, with `masked_lm_loss` or `next_token_loss`.
    """
    (loss,) = (
        values[name]
        for name in ("masked_lm_loss", "next_token_loss")
        if name in values
    )
    return math.exp(loss) if loss < _MOST_LOSS else math.inf


def unigram_accuracy(
    batches: Iterable[task.Batch],
    vocab_size: int,
    bert_task: task.Task = TASK,
) -> float:
    """Returns the accuracy of the best constant guess, in [0, 1].

    That is the share of the most frequent token among those to predict, which
    a model that has learnt no more than token counts can reach.
    """
    counts = np.zeros(vocab_size, np.int64)
    for batch in batches:
        if bert_task is LEFT_TO_RIGHT:
            ids, weights = next_tokens(batch)
        else:
            ids, weights = batch["masked_lm_ids"], batch["masked_lm_weights"]
        masked = np.asarray(ids)[np.asarray(weights) > 0]
        counts += np.bincount(masked, minlength=vocab_size)
    return float(counts.max() / max(counts.sum(), 1))
