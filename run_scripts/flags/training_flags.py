"""Flags of training scripts -> settings and keywords of a run."""

import dataclasses

import tensorflow as tf
from absl import flags

from bert_tf.training import loop, optimizers, strategies
from bert_tf.training.config import POLICIES, TrainingConfig


def define_training(
    values: flags.FlagValues, *, learning_rate: float, train_batch_size: int
) -> None:
    """Adds the flags of the training loop, with a script's own defaults."""
    flags.DEFINE_string(
        "output_dir",
        None,
        "Folder for checkpoints, logs and results. The same command with "
        "the same folder goes on where it stopped.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "train_batch_size",
        train_batch_size,
        "Examples in one optimizer step, over all replicas.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "eval_batch_size",
        64,
        "Examples in one evaluation batch.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "save_checkpoints_steps",
        1000,
        "Optimizer steps between checkpoints.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "keep_checkpoint_max",
        3,
        "Newest checkpoints to keep.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "log_every_steps",
        100,
        "Optimizer steps between progress lines.",
        lower_bound=1,
        flag_values=values,
    )
    _define_optimizer(values, learning_rate)
    _define_step(values)
    _define_devices(values)


def _define_optimizer(values: flags.FlagValues, learning_rate: float) -> None:
    flags.DEFINE_float(
        "learning_rate",
        learning_rate,
        "Peak learning rate.",
        flag_values=values,
    )
    flags.DEFINE_float(
        "weight_decay_rate",
        0.01,
        "Decay of all weights but LayerNorm and biases.",
        flag_values=values,
    )
    flags.DEFINE_float(
        "clip_norm",
        1.0,
        "Global norm to which gradients are clipped; a large one, such as 1e9, "
        "clips nothing.",
        flag_values=values,
    )
    flags.register_validator(
        "clip_norm",
        lambda norm: norm > 0,
        "should be above 0.",
        flag_values=values,
    )
    flags.DEFINE_enum(
        "optimizer",
        "adamw",
        list(optimizers.OPTIMIZERS),
        "adamw as in the original, or lamb for very large batches.",
        flag_values=values,
    )
    flags.DEFINE_bool(
        "correct_bias",
        None,
        "Correct the bias of Adam's moments. Default: as its authors have it, "
        "not for adamw, but for lamb.",
        flag_values=values,
    )
    flags.DEFINE_float(
        "layerwise_lr_decay",
        1.0,
        "Factor of the learning rate from each layer to the one below it, "
        "such as 0.9 in fine-tuning; 1 for the same rate everywhere.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "seed", 12345, "Seed of weights, order and dropout.", flag_values=values
    )


def _define_step(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "gradient_accumulation_steps",
        1,
        "Parts in which a replica takes its share of --train_batch_size, one "
        "after the other, to save memory; the update is the same.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_bool(
        "clip_before_reduce",
        False,
        "Clip the gradients of each replica before they are summed, as the "
        "original does; the run then depends on the number of replicas.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "steps_per_loop",
        1,
        "Optimizer steps in one call of the graph, for devices that are "
        "quicker than Python: 100 or more on a TPU. Divides "
        "--save_checkpoints_steps.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_enum(
        "precision",
        "float32",
        list(POLICIES),
        "Type of matrix products; weights and scores stay float32. float16 "
        "scales the loss, and skips steps whose gradients overflow.",
        flag_values=values,
    )
    flags.DEFINE_bool(
        "jit_compile",
        False,
        "Have XLA compile the whole step: for GPUs; a TPU always does. On a "
        "CPU it is slower.",
        flag_values=values,
    )
    flags.DEFINE_bool(
        "remat",
        False,
        "Keep only the inputs of each layer, and compute the rest again for "
        "the gradients: less memory, a third more time.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "stop_at_step",
        None,
        "Stop after this optimizer step with a checkpoint, to go on later "
        "without the flag.",
        lower_bound=1,
        flag_values=values,
    )


def _define_devices(values: flags.FlagValues) -> None:
    flags.DEFINE_enum(
        "distribution_strategy",
        "one_device",
        list(strategies.NAMES),
        "one_device; mirrored over all local accelerators; multi_worker over "
        "those of all processes that the variable TF_CONFIG lists; tpu.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "virtual_devices",
        0,
        "Split the host's CPU into this many devices, to try replicas.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_string(
        "tpu",
        None,
        "With --distribution_strategy=tpu: local on a TPU VM. A name or "
        "grpc:// address is for a TPU of another host; records are read by "
        "Python on this one, which such a TPU may not take.",
        flag_values=values,
    )


def make_strategy(
    values: flags.FlagValues, do_train: bool
) -> tf.distribute.Strategy:
    """Returns the strategy that the flags mean, able to share a batch.

    To be called before TensorFlow has done anything else.

    Raises:
      ValueError: if there is no such device; or, to train, if replicas cannot
        share `--train_batch_size`, or flags of the loop do not go together.
    """
    strategy = strategies.make_strategy(
        values.distribution_strategy, values.virtual_devices, values.tpu
    )
    if do_train:
        loop.check_batch(
            strategy,
            values.train_batch_size,
            values.gradient_accumulation_steps,
        )
        loop.check_calls(
            strategy,
            find_config(values),
            # Unless given, as many as suit both.
            values.save_checkpoints_steps or values.steps_per_loop,
        )
    return strategy


def find_config(values: flags.FlagValues) -> TrainingConfig:
    """Returns the settings that the flags of `define_training` mean."""
    fields = dataclasses.fields(TrainingConfig)
    return TrainingConfig(
        **{field.name: values[field.name].value for field in fields}
    )


def training_keywords(values: flags.FlagValues) -> dict:
    """Returns the flags of `define_training` that `loop.train` takes."""
    return {"config": find_config(values)}


def run_settings(values: flags.FlagValues) -> dict:
    """Returns the flags of `define_training` that decide the final weights."""
    return find_config(values).decisive_settings()
