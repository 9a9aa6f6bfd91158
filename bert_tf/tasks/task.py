"""Records, model and losses of a task -> Task, what training reads."""

import dataclasses
from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

from bert_tf import config
from bert_tf.tasks import losses
from tfrecords import schema

Batch = Mapping[str, tf.Tensor]
Outputs = Mapping[str, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Task:
    """One thing BERT is trained to do.

    Attributes:
      name: as typed on the command line.
      schema: the features of its records.
      build_model: config -> built model; the model maps a batch to named
        float32 logits. `model.encoder` is its BertEncoder.
      losses: outputs and batch -> named means. Training minimises their sum.
      loss_weights: batch -> what each loss is divided by, which is known before
        the model has run.
      accuracies: outputs and batch -> named means to watch.
    """

    name: str
    schema: schema.Schema
    build_model: Callable[[config.BertConfig], keras.Model]
    losses: Callable[[Outputs, Batch], dict[str, losses.WeightedMean]]
    loss_weights: Callable[[Batch], dict[str, tf.Tensor]]
    accuracies: Callable[[Outputs, Batch], dict[str, losses.WeightedMean]]
