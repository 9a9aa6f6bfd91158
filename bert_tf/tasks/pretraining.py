"""Pre-training batches -> losses and accuracies of masked tokens and pairs."""

import functools
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from bert_tf import losses, models
from bert_tf.tasks import task
from tfrecords import schema


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


def unigram_accuracy(batches: Iterable[task.Batch], vocab_size: int) -> float:
    """Returns the masked-LM accuracy of the best constant guess, in [0, 1].

    That is the share of the most frequent token among the masked ones, which
    a model that has learnt no more than token counts can reach.
    """
    counts = np.zeros(vocab_size, np.int64)
    for batch in batches:
        ids = np.asarray(batch["masked_lm_ids"])
        masked = ids[np.asarray(batch["masked_lm_weights"]) > 0]
        counts += np.bincount(masked, minlength=vocab_size)
    return float(counts.max() / max(counts.sum(), 1))
