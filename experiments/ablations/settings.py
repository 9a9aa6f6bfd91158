"""What all runs of a plan share -> configs of models, steps of checkpoints."""

import dataclasses
import hashlib
import json
import math
import os

from bert_tf.config import BertConfig
from experiments.ablations.plan import Model
from tfrecords.io import atomic_files


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all runs of a plan share; most names are flags of run_ablations.

    Attributes:
      output_dir: folder for all of it.
      corpus: text to pre-train on, as comma-separated globs.
      vocab_file: vocabulary; one in `output_dir` is learnt first.
      is_vocab_given: whether it is there already.
      vocab_size: its entries.
      rate: operations a second of a matrix product here.
      kept: names of models that keep all their checkpoints, for figure 5.
      options: flags that one kind of script takes as they are: "vocabulary",
        "records", "pretraining", "fine_tuning".
    """

    output_dir: str
    corpus: str
    vocab_file: str
    is_vocab_given: bool
    vocab_size: int
    max_seq_length: int
    hidden_dropout_prob: float
    num_train_steps: int
    num_checkpoints: int
    train_batch_size: int
    fine_tuning_batch_size: int
    num_train_epochs: float
    max_train_examples: int
    num_restarts: int
    seed: int
    max_eval_steps: int
    precision: str
    rate: float
    kept: frozenset[str]
    options: dict[str, dict]


def config_of(model: Model, settings: Settings) -> BertConfig:
    """Returns the sizes of a model.

    Narrow models begin with larger weights: the paper's deviation of 0.02 suits
    a width of 768, where an attended context has a like share in the sum of
    the residual; at 128 it leaves thousands of steps at counts of tokens.
    """
    narrow = max(1.0, math.sqrt(768 / model.hidden_size))
    return BertConfig(
        vocab_size=settings.vocab_size,
        hidden_size=model.hidden_size,
        num_hidden_layers=model.num_hidden_layers,
        num_attention_heads=model.num_attention_heads,
        intermediate_size=4 * model.hidden_size,
        max_position_embeddings=settings.max_seq_length,
        initializer_range=round(0.02 * narrow, 4),
        hidden_dropout_prob=settings.hidden_dropout_prob,
        attention_probs_dropout_prob=settings.hidden_dropout_prob,
        is_causal=model.is_causal,
    )


def config_file(model: Model, settings: Settings) -> str:
    """Returns where the bert_config.json of a model is."""
    kind = "_causal" if model.is_causal else ""
    return f"{settings.output_dir}/configs/{model.size}{kind}.json"


def config_sha256(model: Model, settings: Settings) -> str:
    """Returns the sha256 of a model's config, which says whether two are one.

    It is of the values in order of their names, not of a file's bytes.
    """
    values = config_of(model, settings).to_dict()
    content = json.dumps(values, sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()


def check_config(model: Model, settings: Settings) -> None:
    """Raises ValueError if the config that is there is another than is meant.

    Finished runs have been made with it.
    """
    path = config_file(model, settings)
    if not os.path.exists(path):
        return
    found = atomic_files.read_json(path)
    meant = config_of(model, settings).to_dict()
    words = [
        f"{name}={found.get(name)} there, {meant.get(name)} now"
        for name in sorted(set(found) | set(meant))
        if found.get(name) != meant.get(name)
    ]
    if words:
        raise ValueError(
            f"{path} is of runs with another config: {'; '.join(words)}. "
            "Choose another --output_dir, or give the values of then."
        )


def step_of(share: float, settings: Settings) -> int:
    """Returns the step of the checkpoint after a share of the steps."""
    return min(
        settings.num_train_steps,
        round(share * settings.num_checkpoints) * steps_between(settings),
    )


def steps_between(settings: Settings) -> int:
    """Returns the steps from one checkpoint of figure 5 to the next."""
    return math.ceil(settings.num_train_steps / settings.num_checkpoints)


def check_checkpoints(num_train_steps: int, num_checkpoints: int) -> None:
    """Raises ValueError unless checkpoints are at steps of their own."""
    between = math.ceil(num_train_steps / num_checkpoints)
    if (num_checkpoints - 1) * between >= num_train_steps:
        raise ValueError(
            f"--num_train_steps={num_train_steps} and --num_checkpoints="
            f"{num_checkpoints}: one every {between} steps, the last of them "
            "would be one and the same. Take --num_checkpoints="
            f"{math.ceil(num_train_steps / between)} or --num_train_steps="
            f"{num_checkpoints * between}."
        )
