"""BertConfig, training settings -> a TrainStep on one device, for tests."""

import tensorflow as tf

from bert_tf.tasks import pretraining
from bert_tf.training import loop, optimizers, strategies, train_step
from bert_tf.training.config import OptimizerOptions


def make(
    config, *, rate=1e-2, task=pretraining.TASK, teach=lambda x: x, **settings
):
    """Returns model, optimizer, loss scale and a TrainStep.

    `teach` makes the task of the step of the one that builds the model.
    """
    strategy = strategies.make_strategy("one_device")
    settings = OptimizerOptions(output_dir="unused", **({"seed": 1} | settings))
    model = loop.build_model(task, config, strategy, settings)
    optimizer = optimizers.make_optimizer(
        settings, model.trainable_weights, lambda step: tf.constant(rate)
    )
    is_scaled = settings.precision == "float16"
    scale = train_step.LossScale() if is_scaled else None
    step = train_step.TrainStep(
        teach(task), model, optimizer, settings, strategy, scale
    )
    return model, optimizer, scale, step


def as_tensors(batch):
    return {name: tf.constant(value) for name, value in batch.items()}
