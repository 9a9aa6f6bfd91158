"""Batches of windows -> the loss and accuracies of the span of the answer."""

import tensorflow as tf

from bert_tf.model import models
from bert_tf.tasks import losses, task
from tfrecords import schema

_EDGES = ("start", "end")


def _losses(outputs, batch):
    # run_squad.py: model_fn_builder; over all places, padding included.
    edges = [
        losses.cross_entropy(
            outputs[f"{edge}_logits"],
            batch[f"{edge}_positions"],
            batch["is_real_example"],
        )
        for edge in _EDGES
    ]
    total = tf.add_n([mean.total for mean in edges]) / len(edges)
    return {"span_loss": losses.WeightedMean(total, edges[0].weight)}


def _accuracies(outputs, batch):
    return {
        f"{edge}_accuracy": losses.accuracy(
            outputs[f"{edge}_logits"],
            batch[f"{edge}_positions"],
            batch["is_real_example"],
        )
        for edge in _EDGES
    }


def span_task(name: str) -> task.Task:
    """Returns a task that finds the answer in a window, such as "SQuAD".

    Devlin et al. 2018, section 4.2: a vector for the start and one for the
    end, a softmax over the window's places for each, and the mean of the two
    losses. A window without an answer has both at [CLS] (section 4.3).
    """
    return task.Task(
        name=name,
        schema=schema.SPANS,
        build_model=models.BertSpanPredictor,
        losses=_losses,
        loss_weights=lambda batch: {
            "span_loss": tf.reduce_sum(batch["is_real_example"])
        },
        accuracies=_accuracies,
    )
