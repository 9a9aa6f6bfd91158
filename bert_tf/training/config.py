"""Settings of a training -> TrainingConfig, and what of it makes the run.

Names and defaults are those of the flags; `run_scripts/flags` documents them
for the command line.
"""

import dataclasses

# Fields that decide the final weights: a run's folder is tied to them.
_DECISIVE = (
    "train_batch_size",
    "learning_rate",
    "clip_norm",
    "seed",
    "gradient_accumulation_steps",
    "clip_before_reduce",
    "optimizer",
    "weight_decay_rate",
    "correct_bias",
    "layerwise_lr_decay",
    "precision",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How to train, whatever the task.

    Attributes:
      output_dir: folder of checkpoints, logs and results.
      train_batch_size: examples in one optimizer step, over all replicas.
      eval_batch_size: examples in one evaluation batch.
      learning_rate: peak learning rate.
      optimizer: "adamw" or "lamb".
      weight_decay_rate: decay of all weights but LayerNorm and biases.
      correct_bias: whether to correct the bias of Adam's moments; None for
        the optimizer's default.
      layerwise_lr_decay: factor of the learning rate from each layer to the
        one below it.
      clip_norm: global norm to which gradients are clipped.
      clip_before_reduce: clip on each replica, before the sum over replicas.
      gradient_accumulation_steps: micro-batches of one step on each replica.
      seed: of weights, data order and dropout.
      precision: "float32", "bfloat16" or "float16", of matrix products.
      remat: recompute activations in the backward pass to save memory.
      jit_compile: have XLA compile the step.
      steps_per_loop: optimizer steps in one call of the graph.
      save_checkpoints_steps: optimizer steps between checkpoints; None for
        the workflow's default.
      keep_checkpoint_max: newest checkpoints to keep.
      log_every_steps: optimizer steps between progress lines.
      stop_at_step: stop there with a checkpoint, to resume later.
      distribution_strategy: a name of `strategies.NAMES`.
      virtual_devices: CPU devices to split the host into; 0 for none.
      tpu: address of the TPU, with distribution_strategy="tpu".
    """

    output_dir: str
    train_batch_size: int = 32
    eval_batch_size: int = 64
    learning_rate: float = 5e-5
    optimizer: str = "adamw"
    weight_decay_rate: float = 0.01
    correct_bias: bool | None = None
    layerwise_lr_decay: float = 1.0
    clip_norm: float = 1.0
    clip_before_reduce: bool = False
    gradient_accumulation_steps: int = 1
    seed: int = 12345
    precision: str = "float32"
    remat: bool = False
    jit_compile: bool = False
    steps_per_loop: int = 1
    save_checkpoints_steps: int | None = None
    keep_checkpoint_max: int = 3
    log_every_steps: int = 100
    stop_at_step: int | None = None
    distribution_strategy: str = "one_device"
    virtual_devices: int = 0
    tpu: str | None = None

    def decisive_settings(self) -> dict:
        """Returns the settings that decide the final weights, for run.json."""
        settings = {name: getattr(self, name) for name in _DECISIVE}
        if self.correct_bias is None:
            # Kingma and Ba correct it, BERT's AdamW does not.
            settings["correct_bias"] = self.optimizer == "lamb"
        return settings
