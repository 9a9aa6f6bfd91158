"""Pre-training batches -> masked-LM and next-sentence losses, accuracies."""

from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from bert_tf import losses, models
from bert_tf.tasks import task
from tfrecords import schema


def _losses(outputs, batch):
    return {
        "masked_lm_loss": losses.masked_lm_loss(
            outputs["masked_lm_logits"],
            batch["masked_lm_ids"],
            batch["masked_lm_weights"],
        ),
        "next_sentence_loss": losses.cross_entropy(
            outputs["next_sentence_logits"],
            batch["next_sentence_labels"],
            batch["is_real_example"],
        ),
    }


def _loss_weights(batch):
    return {
        "masked_lm_loss": tf.reduce_sum(batch["masked_lm_weights"]),
        "next_sentence_loss": tf.reduce_sum(batch["is_real_example"]),
    }


def _accuracies(outputs, batch):
    return {
        "masked_lm_accuracy": losses.accuracy(
            outputs["masked_lm_logits"],
            batch["masked_lm_ids"],
            batch["masked_lm_weights"],
        ),
        "next_sentence_accuracy": losses.accuracy(
            outputs["next_sentence_logits"],
            batch["next_sentence_labels"],
            batch["is_real_example"],
        ),
    }


# Section 3.1 and appendix A.2 of the paper.
TASK = task.Task(
    name="pretraining",
    schema=schema.PRETRAINING,
    build_model=models.BertPretrainer,
    losses=_losses,
    loss_weights=_loss_weights,
    accuracies=_accuracies,
)


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
