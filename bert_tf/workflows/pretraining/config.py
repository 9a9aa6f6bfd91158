"""Flags of pre-training -> PretrainingConfig, without TensorFlow."""

import dataclasses

from bert_tf.training.config import OptimizerOptions
from bert_tf.workflows.configs import ModelSource, RunOptions, TeacherOptions
from tfrecords.options import MAX_SEQ_LENGTH, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingConfig(
    TeacherOptions, RunOptions, OptimizerOptions, ModelSource
):
    """Settings of pre-training and its evaluation."""

    input_file: str | None = option(
        None,
        "Records to train on: a folder written by make_pretraining_records, "
        "or TFRecord files of the original, as comma-separated globs. Several "
        "folders, separated by commas: see --phases.",
        reads=True,
    )
    phases: tuple[str, ...] | None = option(
        None,
        "With several folders in --input_file: the length of the examples in "
        "each, in the order of training, and its fraction of the optimizer "
        "steps, such as 128:0.9,512:0.1. Default for two folders: the shorter "
        "for 0.9 of the steps, then the longer for 0.1, as in the paper.",
    )
    batch_size_ramp: tuple[str, ...] | None = option(
        None,
        "Smaller batches first: their sizes and fractions of the optimizer "
        "steps, such as 32:0.2,128:0.3. The rest has --train_batch_size. Needs "
        "one folder in --input_file.",
    )
    eval_input_file: str | None = option(
        None,
        "Records to evaluate on, every --save_checkpoints_steps and at the end "
        "of the run.",
        reads=True,
    )
    max_seq_length: int | None = option(
        None,
        "Tokens in an example. Default: as in the manifest of the records.",
        at_least=5,
        at_most=MAX_SEQ_LENGTH,
    )
    max_predictions_per_seq: int | None = option(
        None,
        "Maximum masked tokens in an example. Default: as in the manifest.",
        at_least=1,
    )
    objective: str | None = option(
        None,
        "masked_lm, with next-sentence or sentence-order prediction if the "
        "records have pairs; or left_to_right, which predicts the next token "
        "from those before it (section 5.1 of the paper) and needs records "
        "made with --pairs=none --masking_time=dynamic. Default: as in "
        "bert_config.json.",
        choices=("masked_lm", "left_to_right"),
    )
    masked_lm_candidates: int | None = option(
        None,
        "Sampled softmax, for small models: a training step predicts masked "
        "tokens among this many entries of the vocabulary, such as 4096, those "
        "of its batch and a sample of the others. More than the slots of a "
        "batch for masked tokens. Default: all, as in evaluation.",
        at_least=2,
        instead_of="teacher",
        decides="unless_default",
    )
    num_train_steps: int | None = option(
        None,
        "Optimizer steps of the complete run. Default: 100000.",
        at_least=1,
    )
    train_hours: float | None = option(
        None,
        "Instead of --num_train_steps: hours of training on this machine, "
        "above 0. A few steps are timed first, and the number of steps is "
        "written to run.json; evaluations and checkpoints take extra time.",
        above=0.0,
        instead_of="num_train_steps",
    )
    num_warmup_steps: int | None = option(
        None,
        "Optimizer steps in which the learning rate rises to its peak. "
        "Default: 10000, for the paper's million steps; with --train_hours a "
        "tenth of the steps.",
        at_least=0,
    )
    warmup_proportion: float | None = option(
        None,
        "Instead of --num_warmup_steps: fraction of the optimizer steps in "
        "which the learning rate rises to its peak.",
        at_least=0.0,
        at_most=1.0,
        instead_of="num_warmup_steps",
    )
    max_eval_steps: int = option(
        0, "Maximum number of evaluation batches; 0 for all.", at_least=0
    )
    do_train: bool = option(True, "Whether to train.")
    do_eval: bool = option(True, "Whether to evaluate.")

    def __post_init__(self):
        super().__post_init__()
        evaluations = self.early_stopping_evaluations
        if evaluations and not (self.do_eval and self.eval_input_file):
            raise ValueError(
                f"--early_stopping_evaluations={evaluations} needs "
                "--eval_input_file, and not --nodo_eval. Add it, or omit the "
                "flag."
            )

        if self.masked_lm_candidates and self.gradient_accumulation_steps > 1:
            raise ValueError(
                f"--masked_lm_candidates={self.masked_lm_candidates} cannot be "
                "combined with --gradient_accumulation_steps="
                f"{self.gradient_accumulation_steps}: the candidates are those "
                "of a complete batch. Omit one of them."
            )

    def with_steps(self, num_train_steps: int | None) -> "PretrainingConfig":
        """Returns a copy with the numbers of steps, of training and warmup.

        Args:
          num_train_steps: the number that fits `train_hours`, if that is set.
        """
        steps = num_train_steps or self.num_train_steps or 100_000
        warmup, proportion = self.num_warmup_steps, self.warmup_proportion
        if proportion is None and self.train_hours is not None:
            proportion = 0.1
        if warmup is None:
            warmup = 10_000 if proportion is None else int(steps * proportion)
        return dataclasses.replace(
            self,
            num_train_steps=steps,
            train_hours=None,
            num_warmup_steps=warmup,
            warmup_proportion=None,
        )
