"""Settings of model and fine-tuning -> frozen dataclasses, no TensorFlow."""

import dataclasses

from bert_tf.training.config import TrainingConfig
from tfrecords.options import REQUIRED, option
from tfrecords.text.vocab import VocabularyOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelSource(VocabularyOptions):
    """Which model to begin with, of which sizes, and how it reads text."""

    bert_config_file: str | None = option(
        None, "bert_config.json with the sizes of the model."
    )
    bert_config_name: str | None = option(
        None,
        "A released size by name, such as base or L-2_H-128; the vocabulary "
        "size comes from --vocab_file. Instead of --bert_config_file.",
    )
    init_checkpoint: str | None = option(
        None,
        "Model whose weights to start from: folder of an earlier run or of "
        "one of its checkpoints, or a checkpoint of any format that "
        "convert_checkpoint reads; that is converted to init_checkpoint/ in "
        "--output_dir, once.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningConfig(TrainingConfig, ModelSource):
    """What a fine-tuning runner does, whatever the task."""

    do_train: bool = option(False, "Whether to train.")
    do_eval: bool = option(
        False,
        "Whether to evaluate on dev, and to keep the best model in training.",
    )
    do_predict: bool = option(False, "Whether to predict the test sets.")
    max_seq_length: int | None = option(
        None,
        "Tokens in an example, [CLS], [SEP] and padding included. Default: "
        "the task's, 384 for SQuAD and 128 for others; without --do_train "
        "the model's.",
        at_least=5,
    )
    bucket_lengths: tuple[str, ...] = option(
        ("auto",),
        "Static lengths that rows of similar length are cut to, such as "
        "16,32,64, instead of padding all to --max_seq_length; auto chooses up "
        "to six by the rows; none pads, as the original does, which takes "
        "several times longer. In training with --steps_per_loop above 1, "
        "none.",
    )
    num_train_epochs: float = option(
        3.0, "Times that the training rows are seen.", at_least=0.0
    )
    warmup_proportion: float = option(
        0.1,
        "Share of the optimizer steps in which the learning rate rises.",
        at_least=0.0,
        at_most=1.0,
    )
    save_checkpoints_steps: int | None = option(
        None,
        "Optimizer steps between checkpoints. Default: once an epoch.",
        at_least=1,
    )
    precision: str | None = option(
        None,
        "Type of matrix products; weights and scores stay float32. float16 "
        "scales the loss, and skips steps whose gradients overflow. Default: "
        "float32; without --do_train the model's.",
        choices=("float32", "bfloat16", "float16"),
    )
    bilstm_units: int | None = option(
        None,
        "Units of each direction of an LSTM between encoder and head, newly "
        "initialized, as in section 5.1 of the paper; 0 for none. Default: as "
        "the model's bert_config.json has it.",
        at_least=0,
    )
    records_dir: str | None = option(
        None, "Folder for the records; default: records in --output_dir."
    )
    doctor: bool = option(
        True,
        "Look at a sample of the records before a training begins, and refuse "
        "what would spoil it; run_scripts.doctor says more.",
    )

    def with_defaults(self) -> "FineTuningConfig":
        """Returns a copy with the defaults that follow from other fields."""
        return self


def _fill(config: FineTuningConfig, **defaults) -> FineTuningConfig:
    """Returns the config with values for those of its options that are None."""
    missing = {n: v for n, v in defaults.items() if getattr(config, n) is None}
    return dataclasses.replace(config, **missing)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrialsConfig(FineTuningConfig):
    """The same, done once or with several seeds and settings."""

    # None, so that a grid is refused beside a value of its own for them.
    learning_rate: float | None = option(
        None, "Peak learning rate. Default: 5e-5."
    )
    train_batch_size: int | None = option(
        None,
        "Examples in one optimizer step, over all replicas. Default: 32.",
        at_least=1,
    )
    num_train_epochs: float | None = option(
        None,
        "Times that the training rows are seen. Default: 3.",
        at_least=0.0,
    )
    num_restarts: int = option(
        1,
        "Runs with seeds --seed, --seed + 1 and so on, each in its own folder "
        "in trials/; the model that is best on dev becomes best/. On small "
        "tasks scores vary much between seeds, and some learn nothing.",
        at_least=1,
    )
    grid: str = option(
        "none",
        "paper: runs with batches of 16 and 32, learning rates 5e-5, 4e-5, "
        "3e-5 and 2e-5, and 2, 3 and 4 epochs: 24, each --num_restarts times.",
        choices=("none", "paper"),
    )

    def with_defaults(self) -> "TrialsConfig":
        """Returns the same with the rate, batch and epochs of run_glue."""
        return _fill(
            self,
            learning_rate=5e-5,
            train_batch_size=32,
            num_train_epochs=3.0,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class NerConfig(FineTuningConfig):
    """The same for a tagger, or for a BiLSTM on a frozen encoder's features."""

    learning_rate: float | None = option(
        None, "Peak learning rate. Default: 5e-5; with --feature_layers 1e-3."
    )
    train_batch_size: int | None = option(
        None,
        "Examples in one optimizer step, over all replicas: windows, or with "
        "--feature_layers sentences. Default: 16; with --feature_layers 32.",
        at_least=1,
    )
    num_train_epochs: float | None = option(
        None,
        "Times that the training rows are seen. Default: 3; with "
        "--feature_layers 20.",
        at_least=0.0,
    )
    feature_layers: tuple[str, ...] | None = option(
        None,
        "Instead of fine-tuning, train a two-layer BiLSTM on hidden states of "
        "the frozen encoder (table 7 of the paper), once for each of these "
        "choices of layers, in a folder of its own: embeddings, "
        "second_to_last, last, weighted_sum_last_four, concat_last_four, "
        "weighted_sum_all; or all.",
    )
    features_dir: str | None = option(
        None,
        "With --feature_layers: folder for the files of features, to share "
        "between runs; default: features in --output_dir.",
    )
    lstm_units: int | None = option(
        None,
        "With --feature_layers: units of each direction of each BiLSTM. "
        "Default: 768.",
        at_least=1,
    )

    def __post_init__(self):
        super().__post_init__()
        if self.feature_layers is None:
            for name in ("features_dir", "lstm_units"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"--{name}={getattr(self, name)} needs "
                        "--feature_layers. Add it, or omit the flag."
                    )

    def with_defaults(self) -> "NerConfig":
        """Returns the same with the rate, batch and epochs of its kind."""
        if self.feature_layers is None:
            return _fill(
                self,
                learning_rate=5e-5,
                train_batch_size=16,
                num_train_epochs=3.0,
            )
        return _fill(
            self,
            learning_rate=1e-3,
            train_batch_size=32,
            num_train_epochs=20.0,
            lstm_units=768,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingConfig(TrainingConfig, ModelSource):
    """What to pre-train on, for how long, and what to evaluate on."""

    input_file: str | None = option(
        None,
        "Records to train on: a folder that make_pretraining_records wrote, or "
        "TFRecord files of the original as comma-separated globs. Several "
        "folders with a comma between: see --phases.",
    )
    phases: tuple[str, ...] | None = option(
        None,
        "With several folders in --input_file: which of them to read first, by "
        "the length of its examples, and for which share of the optimizer "
        "steps. Default for two folders: the shorter for 0.9 of the steps, the "
        "longer for 0.1, as in the paper, that is 128:0.9,512:0.1.",
    )
    eval_input_file: str | None = option(
        None, "Records to evaluate on, at every checkpoint and at the end."
    )
    max_seq_length: int | None = option(
        None, "Tokens in an example; default: that of the records' manifest."
    )
    max_predictions_per_seq: int | None = option(
        None, "Masked slots of an example; default: that of the manifest."
    )
    objective: str | None = option(
        None,
        "masked_lm, with pairs where the records have them; or left_to_right: "
        "each token reads those before it and predicts the next one, as in "
        "section 5.1 of the paper, of records of --pairs=none "
        "--masking_time=dynamic. Default: that of the bert_config.json.",
        choices=("masked_lm", "left_to_right"),
    )
    learning_rate: float = option(1e-4, "Peak learning rate.")
    num_train_steps: int = option(
        100000, "Optimizer steps at the end of the run.", at_least=1
    )
    num_warmup_steps: int = option(
        10000,
        "Optimizer steps until the peak of the learning rate.",
        at_least=0,
    )
    max_eval_steps: int = option(
        0, "Evaluation batches to stop after; 0 for all.", at_least=0
    )
    do_train: bool = option(True, "Whether to train.")
    do_eval: bool = option(True, "Whether to evaluate.")
    doctor: bool = option(
        True,
        "Look at a sample of the records before a training begins, and refuse "
        "what would spoil it; run_scripts.doctor says more.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DoctorConfig(TrainingConfig, ModelSource):
    """Records to diagnose, and the run that they are meant for."""

    records: str = option(
        REQUIRED,
        "Records to diagnose: a folder that a make_*_records script wrote, or "
        "TFRecord files of the original as comma-separated globs.",
    )
    all: bool = option(
        False, "Read every record and every shard, not a sample."
    )
    output_dir: str | None = option(
        None, "As the run will have it; nothing is written there."
    )
    learning_rate: float = option(1e-4, "Peak learning rate.")
    max_seq_length: int | None = option(
        None, "As the run will have it; default: not compared."
    )
    max_predictions_per_seq: int | None = option(
        None, "As the run will have it; default: not compared."
    )
    num_train_steps: int | None = option(
        None, "As the run will have it; default: not compared."
    )
