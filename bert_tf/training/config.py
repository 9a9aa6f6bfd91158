"""Training settings -> TrainingConfig, and those that identify a run."""

import dataclasses

from bert_tf.config import LEARNING_RATE_SCHEDULES, POLICIES
from tfrecords.options import MAX_BATCH_SIZE, REQUIRED, Options, option

# Largest decay rate of a moving average; closer to 1, float32 loses digits.
_MAX_DECAY = 0.999999
# The largest seed that keras.utils.set_random_seed accepts.
MAX_SEED = 2**32 - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig(Options):
    """Training settings of all tasks: the flags of every training script.

    Attributes:
      optimizer, muon_learning_rate, adam_beta_2, ema_decay: options of
        pre-training, see `OptimizerOptions`; fine-tuning has these values.
    """

    optimizer, muon_learning_rate = "adamw", None
    adam_beta_2, ema_decay = 0.999, None

    output_dir: str = option(
        REQUIRED,
        "Folder for checkpoints, logs and results. The same command with the "
        "same folder resumes where it stopped.",
        writes="folder",
    )
    train_batch_size: int = option(
        32,
        "Examples in one optimizer step, over all replicas.",
        at_least=1,
        at_most=MAX_BATCH_SIZE,
        decides="always",
    )
    eval_batch_size: int = option(
        64,
        "Examples in one evaluation batch of a replica. The results do not "
        "depend on the number of replicas.",
        at_least=1,
        at_most=MAX_BATCH_SIZE,
    )
    save_checkpoints_steps: int | None = option(
        1000, "Optimizer steps between checkpoints.", at_least=1
    )
    keep_checkpoint_max: int = option(
        3,
        "Number of checkpoints to keep, the newest ones; those made between "
        "the regular ones, at a stop or by the minute, are removed first.",
        at_least=1,
    )
    log_every_steps: int = option(
        100, "Optimizer steps between progress lines.", at_least=1
    )
    learning_rate: float = option(
        5e-5, "Peak learning rate.", at_least=0.0, decides="always"
    )
    learning_rate_schedule: str = option(
        "linear",
        "How the learning rate falls after the warmup. linear, as in the "
        "original: on the line from the peak at step 0 to the final rate at "
        "the last step; when the warmup ends, the rate drops from the peak to "
        "this line. constant: not at all. cosine and one_cycle: from the peak "
        "at the end of the warmup, along a cosine or a line (Hugging Face's "
        "linear schedule).",
        choices=LEARNING_RATE_SCHEDULES,
        decides="unless_default",
    )
    clip_norm: float = option(
        1.0,
        "Maximum global norm of the gradients, above 0; larger gradients are "
        "scaled down. A large value, such as 1e9, disables clipping.",
        decides="always",
        above=0.0,
    )
    correct_bias: bool | None = option(
        None,
        "Whether to correct the bias of Adam's moments. Default: as each "
        "optimizer's authors do: false for BERT's adamw and with muon, true "
        "for lamb.",
        decides="always",
    )
    seed: int = option(
        12345,
        "Seed of weights, data order and dropout.",
        at_least=0,
        at_most=MAX_SEED,
        decides="always",
    )
    gradient_accumulation_steps: int = option(
        1,
        "Number of micro-batches that a replica's share of --train_batch_size "
        "is split into, to save memory; the update is the same.",
        at_least=1,
        decides="always",
    )
    steps_per_loop: int = option(
        1,
        "Optimizer steps per call of the compiled graph, for devices that are "
        "faster than Python: 100 or more on a TPU. Must divide "
        "--save_checkpoints_steps.",
        at_least=1,
    )
    save_checkpoints_minutes: float | None = option(
        None,
        "Also save a checkpoint when the last one is this many minutes old, "
        "above 0.",
        above=0.0,
    )
    dropout: str = option(
        "stateless",
        "Generator of dropout masks. stateless: the same masks on every "
        "device and any number of replicas. device: chosen by TensorFlow for "
        "the device; on a TPU the generator in hardware, which is faster.",
        choices=("stateless", "device"),
        decides="unless_default",
    )
    use_one_hot_embeddings: bool = option(
        False,
        "Look up embeddings by a matrix product with one-hot vectors, as the "
        "original does on TPUs, which round them to bfloat16.",
        decides="unless_default",
    )
    precision: str | None = option(
        "float32",
        "Type of matrix products; weights and attention scores stay float32. "
        "float16 scales the loss, and skips steps whose gradients overflow.",
        choices=tuple(POLICIES),
        decides="always",
    )
    jit_compile: bool = option(
        False,
        "Compile the complete step with XLA: for GPUs. TPUs always do; CPUs "
        "get slower.",
    )
    remat: bool = option(
        False,
        "Rematerialize: keep only the inputs of each layer, and recompute the "
        "rest for the gradients. Less memory, a third more time.",
    )
    stop_at_step: int | None = option(
        None,
        "Stop after this optimizer step, with a checkpoint; the same command "
        "without the flag resumes from there.",
        at_least=1,
    )
    preemption_server: str | None = option(
        None,
        "Stop as after SIGTERM, with a checkpoint, when this metadata server "
        "announces the preemption of the machine: metadata.google.internal on "
        "Google Cloud.",
    )
    distribution_strategy: str = option(
        "one_device",
        "one_device; mirrored: all accelerators of this machine; "
        "multi_worker: those of all processes listed in the environment "
        "variable TF_CONFIG; tpu.",
        choices=("one_device", "mirrored", "multi_worker", "tpu"),
    )
    input_mode: str | None = option(
        None,
        "How records are read: python, by Python in this process; or stream, "
        "by TensorFlow ops alone, which can run on other hosts. The batches "
        "are the same. Default: python; stream if a TPU is on other hosts.",
        choices=("python", "stream"),
    )
    virtual_devices: int = option(
        0,
        "Split the CPU into this many virtual devices, to try replicas.",
        at_least=0,
    )
    tpu: str | None = option(
        None,
        "With --distribution_strategy=tpu: local on a TPU VM; or the name or "
        "grpc:// address of a TPU on other hosts, which then read the records "
        "(--input_mode=stream).",
    )

    @property
    def corrects_bias(self) -> bool:
        """Whether the bias of Adam's moments is corrected."""
        if self.correct_bias is None:
            # You et al. 2020 correct it; the original AdamW does not.
            return self.optimizer == "lamb"
        return self.correct_bias

    def decisive_settings(self) -> dict:
        """Returns the settings that affect the final weights, for run.json.

        A run cannot resume with others. Options that were added later, and
        those that need another one, are there only if they are used, so that
        runs begun before they existed can resume.
        """
        settings = {}
        for field in dataclasses.fields(self):
            value, known = getattr(self, field.name), field.metadata
            decides, needed = known.get("decides"), known.get("needs")
            is_used = decides == "always"
            if needed:
                is_used &= getattr(self, needed) is not None
            if (
                is_used
                or decides == "unless_default"
                and value != field.default
            ):
                is_list = isinstance(value, tuple)
                settings[field.name] = list(value) if is_list else value
        return settings | {"correct_bias": self.corrects_bias}


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerOptions(TrainingConfig):
    """Training settings with rate and optimizers of pre-training."""

    learning_rate: float = option(
        1e-4, "Peak learning rate.", at_least=0.0, decides="always"
    )
    optimizer: str = option(
        TrainingConfig.optimizer,
        "adamw, as in the original; lamb, for very large batches; or muon, for "
        "pre-training in few steps, for instance with "
        "--muon_learning_rate=5e-3 --learning_rate=1.5e-3.",
        choices=("adamw", "lamb", "muon"),
        decides="always",
    )
    muon_learning_rate: float | None = option(
        TrainingConfig.muon_learning_rate,
        "With --optimizer=muon: peak learning rate of the matrices of the "
        "layers, above 0, such as 0.005; --learning_rate is that of all other "
        "weights. Default: --learning_rate.",
        decides="unless_default",
        above=0.0,
    )
    adam_beta_2: float = option(
        TrainingConfig.adam_beta_2,
        "Decay rate of Adam's second moment; 0.98 for short runs.",
        at_least=0.0,
        at_most=_MAX_DECAY,
        decides="unless_default",
    )
    ema_decay: float | None = option(
        TrainingConfig.ema_decay,
        "Decay of a moving average of the weights, above 0, such as 0.999. "
        "Evaluations and saved models then have the averages.",
        at_most=_MAX_DECAY,
        decides="unless_default",
        above=0.0,
    )

    def __post_init__(self):
        super().__post_init__()
        if self.muon_learning_rate is not None and (
            self.optimizer != "muon" or self.learning_rate == 0
        ):
            raise ValueError(
                f"--muon_learning_rate={self.muon_learning_rate} needs "
                "--optimizer=muon and a --learning_rate above 0, whose "
                "schedule it follows. Change them, or omit it."
            )
