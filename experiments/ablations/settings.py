"""Flags of run_ablations -> Settings: configs of models, checkpoint steps."""

import dataclasses
import math

from bert_tf.config import SMALL_INIT, BertConfig
from bert_tf.training.config import MAX_SEED
from experiments import recipes
from experiments.ablations import tables
from experiments.ablations.tables import Model
from experiments.commands import PlanOptions
from experiments.evaluation_tasks import TaskFiles
from tfrecords.options import REQUIRED, option
from tfrecords.text.vocab_learning import MAX_ENTRIES


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(PlanOptions, TaskFiles):
    """Settings shared by all runs: the flags of run_ablations."""

    tables: tuple[str, ...] = option(
        tuple(tables.TABLES), "Tables to make, of 5, 6, 8 and figure5."
    )
    corpus: str = option(
        REQUIRED, "Text to pre-train on, as comma-separated globs."
    )
    vocab_file: str | None = option(
        None, "WordPiece vocabulary. Default: learned from the corpus."
    )
    vocab_size: int = option(
        8000,
        "Without --vocab_file: number of entries of the vocabulary.",
        at_least=1,
        at_most=MAX_ENTRIES,
    )
    do_lower_case: bool = option(
        True,
        "Lower-case text and strip accents; false for cased vocabularies.",
    )

    num_hidden_layers: int = option(
        4, "Number of layers of the base model (L).", at_least=1
    )
    hidden_size: int = option(
        128, "Hidden size of the base model (H).", at_least=1
    )
    num_attention_heads: int = option(
        4, "Number of attention heads of the base model (A).", at_least=1
    )

    max_seq_length: int = option(
        128,
        "Tokens in an example, [CLS], [SEP] and padding included.",
        at_least=5,
    )
    num_train_steps: int = option(
        10000, "Optimizer steps of each pre-training.", at_least=1
    )
    train_batch_size: int = option(
        32, "Examples in one step of pre-training.", at_least=1
    )
    num_checkpoints: int = option(
        5, "Number of points in figure 5, evenly spaced.", at_least=1
    )
    max_eval_steps: int = option(
        30, "Number of batches of 64 held-out examples to evaluate.", at_least=1
    )
    seed: int = option(
        12345,
        "First seed, of weights and data order.",
        at_least=1,
        at_most=MAX_SEED,
    )
    num_seeds: int = option(
        2,
        "Runs of each row with different seeds, from pre-training on; with 1, "
        "standard errors are unknown.",
        at_least=1,
    )
    masked_lm_prob: float = option(
        0.25,
        "Fraction of tokens to mask.",
        at_least=0.01,
        at_most=0.9,
    )
    held_out_prob: float = option(
        0.01,
        "Fraction of documents to hold out for measuring perplexity.",
        at_least=0.0001,
        at_most=0.5,
    )
    precision: str = option(
        "float32",
        "Type of matrix products.",
        choices=("float32", "bfloat16", "float16"),
    )

    fine_tuning_batch_size: int = option(
        32, "Examples in one step of fine-tuning.", at_least=1
    )
    fine_tuning_learning_rate: float = option(
        3e-4,
        "Peak learning rate of fine-tuning; 2e-5 to 5e-5 in the paper.",
        at_least=0.0,
    )
    num_train_epochs: float = option(
        3.0, "Epochs of each fine-tuning.", at_least=0.01
    )
    max_train_examples: int = option(
        0,
        "Maximum number of examples in a fine-tuning, counted over all "
        "epochs; if exceeded, epochs are reduced. 0 for no limit.",
        at_least=0,
    )

    @property
    def base(self) -> Model:
        """The base model."""
        return Model(
            self.num_hidden_layers, self.hidden_size, self.num_attention_heads
        )

    @property
    def vocab_path(self) -> str:
        """Path of the vocabulary in use, given or learned."""
        return self.vocab_file or f"{self.output_dir}/vocab.txt"

    def __post_init__(self):
        super().__post_init__()
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"--hidden_size={self.hidden_size} is not a multiple of "
                f"--num_attention_heads={self.num_attention_heads}. Change one "
                "of the two."
            )
        steps, checkpoints = self.num_train_steps, self.num_checkpoints
        interval = self.checkpoint_interval
        if (checkpoints - 1) * interval >= steps:
            raise ValueError(
                f"--num_train_steps={steps} and --num_checkpoints="
                f"{checkpoints}: with one every {interval} steps, the last "
                "ones would have the same step. Use --num_checkpoints="
                f"{math.ceil(steps / interval)} or --num_train_steps="
                f"{checkpoints * interval}."
            )

    @property
    def checkpoint_interval(self) -> int:
        """Steps from one checkpoint of figure 5 to the next."""
        return math.ceil(self.num_train_steps / self.num_checkpoints)

    def checkpoint_step(self, share: float) -> int:
        """Returns the step of the checkpoint after a fraction of the steps."""
        number = round(share * self.num_checkpoints)
        return min(self.num_train_steps, number * self.checkpoint_interval)

    def model_config(self, model: Model) -> BertConfig:
        """Returns the config of a model: the recipe's, but for its size."""
        return dataclasses.replace(
            recipes.config(),
            vocab_size=self.vocab_size,
            hidden_size=model.hidden_size,
            num_hidden_layers=model.num_hidden_layers,
            num_attention_heads=model.num_attention_heads,
            intermediate_size=4 * model.hidden_size,
            max_position_embeddings=self.max_seq_length,
            # The recipe has the number for its own width.
            initializer_range=SMALL_INIT,
            is_causal=model.is_causal,
        )

    def config_file(self, model: Model) -> str:
        """Returns the path of a model's bert_config.json."""
        suffix = "_causal" if model.is_causal else ""
        return f"{self.output_dir}/configs/{model.size}{suffix}.json"
