"""Settings of workflows -> frozen dataclasses, without TensorFlow."""

import dataclasses

from bert_tf.checkpoint.options import CheckpointOptions
from bert_tf.config import DISTILLATION_LOSSES, LORA_TARGETS
from bert_tf.training.config import MAX_SEED, TrainingConfig
from bert_tf.workflows.selection import search
from tfrecords.options import (
    MAX_BATCH_SIZE,
    MAX_SEQ_LENGTH,
    Options,
    option,
    to_index,
)
from tfrecords.text.vocab import VocabularyOptions

MAX_EPOCHS = 1e6


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelSource(VocabularyOptions, CheckpointOptions):
    """Config, initial weights and tokenizer of a model."""

    bert_config_file: str | None = option(
        None, "bert_config.json with the sizes of the model.", reads=True
    )
    bert_config_name: str | None = option(
        None,
        "Released model size by name, such as base or L-2_H-128, instead of "
        "--bert_config_file. The vocabulary size comes from --vocab_file.",
    )
    init_checkpoint: str | None = option(
        None,
        "Model to initialize the weights from: folder of an earlier run or of "
        "one of its checkpoints, or a checkpoint of Google's BERT, Hugging "
        "Face, the Model Garden or KerasHub.",
        reads=True,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TeacherOptions(Options):
    """The teacher of a student, if any, and what to learn from it."""

    teacher: str | None = option(
        None,
        "Model that the student learns from, of any format as for "
        "--init_checkpoint. It needs the vocabulary of the student and, for "
        "soft_targets, its task and labels. Default: none, only the labels are "
        "learned.",
        reads=True,
    )
    distillation_losses: tuple[str, ...] = option(
        ("soft_targets",),
        "With --teacher: what to learn from it, one or more of soft_targets, "
        "the teacher's probabilities; attention_relations, the similarities of "
        "the tokens' queries, keys and values (MiniLMv2); hidden_relations, "
        "the same of their hidden states.",
        needs="teacher",
        decides="always",
    )
    distillation_weight: float = option(
        0.5,
        "With --teacher: weight of its losses, above 0; that of the losses of "
        "the labels is 1 minus this. 1: labels are not used.",
        at_most=1.0,
        needs="teacher",
        decides="always",
        above=0.0,
    )
    temperature: float = option(
        2.0,
        "With soft_targets: divisor of both models' logits, above 0. Higher "
        "ones weigh the less likely classes more.",
        needs="teacher",
        decides="always",
        above=0.0,
    )
    init_from_teacher_layers: tuple[str, ...] | None = option(
        None,
        "With --teacher: layers of it, from 0, such as 0,4,8,11, which the "
        "layers of the student are copied from; embeddings, pooler and head "
        "are copied too. Default: none.",
        needs="teacher",
        instead_of="init_checkpoint",
        decides="always",
    )

    def __post_init__(self):
        super().__post_init__()
        if self.teacher is None:
            return
        losses = self.distillation_losses
        if not losses or not set(losses) <= set(DISTILLATION_LOSSES):
            raise ValueError(
                f"--distillation_losses={','.join(losses)} should be one or "
                f"more of {', '.join(DISTILLATION_LOSSES)}."
            )
        has_soft_targets = "soft_targets" in losses
        if (
            not has_soft_targets
            and self.temperature != TeacherOptions.temperature
        ):
            raise ValueError(
                f"--temperature={self.temperature} has no effect with "
                f"--distillation_losses={','.join(losses)}. Add soft_targets, "
                "or omit --temperature."
            )
        if self.distillation_weight == 1 and not has_soft_targets:
            raise ValueError(
                "--distillation_weight=1 without soft_targets in "
                "--distillation_losses trains no head. Lower it, or add "
                "soft_targets."
            )
        layers = self.init_from_teacher_layers
        if layers is not None and not (
            layers and None not in map(to_index, layers)
        ):
            raise ValueError(
                f"--init_from_teacher_layers={','.join(layers)} should be "
                "numbers of layers, such as 0,4,8,11."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoraOptions(Options):
    """Adapters (LoRA), if any."""

    lora_rank: int | None = option(
        None,
        "Rank of adapters (LoRA), such as 8: only they, pooler and head are "
        "trained, and saved models have the merged weights. Needs a higher "
        "learning rate. Default: no adapters, all weights are trained.",
        at_least=1,
        decides="unless_default",
    )
    lora_targets: tuple[str, ...] | None = option(
        None,
        "With --lora_rank: products of each layer that get adapters: "
        f"{', '.join(LORA_TARGETS)}. Default: query,value.",
        needs="lora_rank",
        decides="always",
    )

    def __post_init__(self):
        super().__post_init__()
        unknown = set(self.lora_targets or ()) - set(LORA_TARGETS)
        if unknown or self.lora_targets == ():
            raise ValueError(
                f"--lora_targets={','.join(self.lora_targets)} should be one "
                f"or more of {', '.join(LORA_TARGETS)}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """Checks before training, and when it ends early."""

    doctor: bool = option(
        True,
        "Check a sample of the records before training, and stop if they have "
        "errors; run_scripts.doctor reports details.",
    )
    early_stopping_evaluations: int | None = option(
        None,
        "Keep the best model in best/, and end after this many evaluations on "
        "held-out rows in which it was not better: one every --eval_steps in "
        "fine-tuning, one at each regular checkpoint in pre-training. The "
        "learning rate falls as in the complete run. Default: to the end.",
        at_least=1,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningConfig(
    LoraOptions, TeacherOptions, RunOptions, TrainingConfig, ModelSource
):
    """Fine-tuning settings of all tasks.

    Attributes:
      min_save_steps: steps between checkpoints at least, by default.
    """

    min_save_steps = 1  # Not an option.
    do_train: bool = option(False, "Whether to train.")
    do_eval: bool = option(
        False,
        "Whether to evaluate on dev, and to keep the best model during "
        "training.",
    )
    do_predict: bool = option(False, "Whether to predict the test sets.")
    max_seq_length: int | None = option(
        None,
        "Tokens in an example, [CLS], [SEP] and padding included. Default: "
        "384 for SQuAD, 128 for other tasks; without --do_train, the model's.",
        at_least=5,
        at_most=MAX_SEQ_LENGTH,
    )
    bucket_lengths: tuple[str, ...] = option(
        ("auto",),
        "Static lengths, such as 16,32,64: rows of similar length share a "
        "batch, padded to the next of these lengths instead of "
        "--max_seq_length. auto: up to six lengths, chosen from the rows. "
        "none: always --max_seq_length, as in the original, which takes "
        "several times longer. In training with --steps_per_loop above 1: "
        "always none.",
    )
    num_train_epochs: float = option(
        3.0, "Epochs of training.", at_least=0.0, at_most=MAX_EPOCHS
    )
    warmup_proportion: float = option(
        0.1,
        "Fraction of the optimizer steps in which the learning rate rises.",
        at_least=0.0,
        at_most=1.0,
    )
    save_checkpoints_steps: int | None = option(
        None,
        "Optimizer steps between checkpoints. Default: once an epoch.",
        at_least=1,
    )
    eval_steps: int | None = option(
        None,
        "Optimizer steps between evaluations on dev, each of which keeps the "
        "best model; one larger than the run evaluates only its end. Default: "
        "at each regular checkpoint.",
        at_least=1,
        needs="do_eval",
        decides="unless_default",
    )
    precision: str | None = option(
        None,
        "Type of matrix products; weights and attention scores stay float32. "
        "float16 scales the loss, and skips steps whose gradients overflow. "
        "Default: float32; without --do_train, the model's.",
        choices=("float32", "bfloat16", "float16"),
        decides="always",
    )
    records_dir: str | None = option(
        None,
        "Folder for the records. Default: records in --output_dir.",
        writes="folder",
    )

    def __post_init__(self):
        super().__post_init__()
        if self.early_stopping_evaluations and not self.do_eval:
            raise ValueError(
                "--early_stopping_evaluations="
                f"{self.early_stopping_evaluations} needs --do_eval. Add it, "
                "or omit the flag."
            )
        if self.lora_rank is None:
            return
        if self.do_train and not self.init_checkpoint:
            raise ValueError(
                f"--lora_rank={self.lora_rank} keeps the encoder's weights: "
                "without --init_checkpoint they would be random. Add it, or "
                "omit --lora_rank."
            )

    def with_defaults(self) -> "FineTuningConfig":
        """Returns a copy with the defaults that follow from other fields."""
        return self


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrialsConfig(FineTuningConfig):
    """Settings of one fine-tuning run, or of several runs."""

    # None by default, so that --search can reject explicit values.
    learning_rate: float | None = option(
        None,
        "Peak learning rate. Default: 5e-5.",
        at_least=0.0,
        decides="always",
    )
    train_batch_size: int | None = option(
        None,
        "Examples in one optimizer step, over all replicas. Default: 32.",
        at_least=1,
        at_most=MAX_BATCH_SIZE,
        decides="always",
    )
    num_train_epochs: float | None = option(
        None,
        "Epochs of training. Default: 3.",
        at_least=0.0,
        at_most=MAX_EPOCHS,
    )
    num_restarts: int = option(
        1,
        "Number of runs, with seeds --seed, --seed + 1 and so on, each in its "
        "own folder in trials/; the best model on dev becomes best/. On small "
        "tasks scores vary much between seeds, and some runs learn nothing.",
        at_least=1,
    )
    search: tuple[str, ...] | None = option(
        None,
        "Options and their numbers, such as learning_rate:1e-5..1e-4:log,"
        "train_batch_size:16|32: a run for each setting, --num_restarts times. "
        f"Options: {', '.join(search.SETTINGS)}. paper: the 24 settings of the "
        "paper, with batches of 16 and 32, rates of 5e-5, 4e-5, 3e-5 and 2e-5, "
        "and 2, 3 and 4 epochs.",
        old_name="grid",
    )
    num_trials: int | None = option(
        None,
        "With --search: number of settings, which the TPE sampler of Optuna "
        "suggests, given the mean scores of the earlier ones; each is trained "
        "to its end (no pruner). Default: all, of a search without ranges.",
        at_least=1,
        at_most=10_000,
        needs="search",
    )

    def __post_init__(self):
        super().__post_init__()
        last = self.seed + self.num_restarts - 1
        if last > MAX_SEED:
            raise ValueError(
                f"--num_restarts={self.num_restarts} with --seed={self.seed} "
                f"needs seeds to {last}; the largest is {MAX_SEED}. Lower one."
            )
        ranges = filter(search.is_range, self.space().values())
        if self.num_trials is None and any(ranges):
            raise ValueError(
                f"--search={','.join(self.search)} has a range, from which "
                "settings are drawn. Add their number, --num_trials=20."
            )

    def space(self) -> dict[str, tuple]:
        """Returns `search.parse` of --search; {} without."""
        return search.parse(self.search) if self.search else {}

    def with_defaults(self) -> "TrialsConfig":
        """Returns a copy with defaults for rate, batch size and epochs."""
        missing = {
            name: getattr(FineTuningConfig, name)
            for name in (
                "learning_rate",
                "train_batch_size",
                "num_train_epochs",
            )
            if getattr(self, name) is None
        }
        return dataclasses.replace(self, **missing)
