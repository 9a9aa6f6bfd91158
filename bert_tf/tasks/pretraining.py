"""Pre-training batches -> losses and accuracies of masked tokens and pairs.

Letters: B batch, S sequence, P predictions, E examples that share a row.
"""

import math
import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.model import models
from bert_tf.tasks.losses import MASKED_LM_EPSILON
from bert_tf.tasks.task import Batch, Target, Task
from tfrecords import schema as schema_lib
from tfrecords.io import records as records_lib

_NEXT_SENTENCE = "next_sentence"
_MOST_LOSS = 700.0  # Of more, e to it is no float.
# Records that a left-to-right model can read: single segments, unmasked.
_LEFT_TO_RIGHT = ("unmasked_segments", "packed_unmasked_segments")


class PretrainingTask(Task):
    """Masked LM, with pairs of sentences (Devlin et al. 2018, section 3.1).

    Args:
      pairs: the --pairs of the records: "next_sentence", "sentence_order" of
        Lan et al. 2020, or "none". The model is the same: its next-sentence
        head learns the order of two sentences too, and nothing, as the pooler
        does, where there are no pairs.
      schema: the features of a batch; default: those of unpacked records.
    """

    name = "pretraining"

    def __init__(
        self,
        pairs: str = _NEXT_SENTENCE,
        schema: schema_lib.Schema | None = None,
    ):
        self.pairs = pairs
        alone = pairs == "none"
        default = schema_lib.MASKED_LM if alone else schema_lib.PRETRAINING
        self.schema = schema or default

    def build_model(self, config: BertConfig, dtype=None):
        """Returns a new BertPretrainer."""
        return models.BertPretrainer(config, dtype=dtype)

    def targets(self, batch: Batch) -> dict[str, Target]:
        """Returns the targets of a batch by name in logs, tokens first."""
        targets = {
            "masked_lm": Target(
                "masked_lm_logits",
                batch["masked_lm_ids"],
                batch["masked_lm_weights"],
                MASKED_LM_EPSILON,
            )
        }
        if "next_sentence_labels" in batch:
            targets[self.pairs] = Target(
                "next_sentence_logits",
                batch["next_sentence_labels"],
                # [B, E] of packed rows, 0 in rows that fill a batch, too.
                batch.get("next_sentence_weights", batch["is_real_example"]),
            )
        return targets

    def metadata(self) -> dict[str, str]:
        """Returns the entries of model.json; none for next sentences."""
        return {} if self.pairs == _NEXT_SENTENCE else {"pairs": self.pairs}


class LeftToRightTask(PretrainingTask):
    """Next tokens, "LTR" of section 5.1, without next sentences."""

    def __init__(
        self, pairs: str = "none", schema=schema_lib.UNMASKED_SEGMENTS
    ):
        super().__init__(pairs, schema)

    def targets(self, batch: Batch) -> dict[str, Target]:
        """Returns the next token of each position."""
        return {"next_token": Target("next_token_logits", *next_tokens(batch))}


TASK = PretrainingTask()
LEFT_TO_RIGHT = LeftToRightTask()


def next_tokens(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the token after each position, and whether it is predicted.

    Packed examples end where the next one begins.

    Args:
      batch: with the encoder's inputs, [B, S] int32.

    Returns:
      [B, S - 1] int32, and [B, S - 1] float32 weights.
    """
    is_predicted = batch["input_mask"][:, 1:] > 0
    if "example_numbers" in batch:
        numbers = batch["example_numbers"]
        is_predicted &= numbers[:, 1:] == numbers[:, :-1]
    return batch["input_word_ids"][:, 1:], tf.cast(is_predicted, tf.float32)


# Metrics of an evaluation.


def perplexity(means: Mapping[str, float]) -> float:
    """Returns e to the loss of a token, the "LM (ppl)" of the paper's table 6.

    Args:
      means: of an evaluation, with `masked_lm_loss` or `next_token_loss`.
    """
    names = ("masked_lm_loss", "next_token_loss")
    (loss,) = (means[name] for name in names if name in means)
    return math.exp(loss) if loss < _MOST_LOSS else math.inf


def unigram_accuracy(
    batches: Iterable[Batch], vocab_size: int, task: PretrainingTask = TASK
) -> float:
    """Returns the accuracy of the best constant guess, in [0, 1].

    That is the share of the most frequent token among those to predict, which
    a model that has learnt no more than token counts can reach.
    """
    counts = np.zeros(vocab_size, np.int64)
    for batch in batches:
        tokens = next(iter(task.targets(batch).values()))
        ids = np.asarray(tokens.labels)[np.asarray(tokens.weights) > 0]
        counts += np.bincount(ids, minlength=vocab_size)
    return float(counts.max() / max(counts.sum(), 1))


# The task of records.


def pairs_of(records: records_lib.Records) -> str:
    """Returns the --pairs that records were made with."""
    flags = records.manifest.flags if records.manifest else {}
    return flags.get("pairs", _NEXT_SENTENCE)


def schema_of(
    records: records_lib.Records, *, on_disk: bool = False
) -> schema_lib.Schema:
    """Returns the features of a batch of these records.

    Args:
      records: of pre-training. Of those of another task the result is
        PRETRAINING, so that `Records.check` says what they lack.
      on_disk: those of a record, which may have no masks yet.
    """
    name = records.manifest.schema_name if records.manifest else None
    if name not in schema_lib.PRETRAINING_SCHEMAS:
        return schema_lib.PRETRAINING
    return schema_lib.SCHEMAS[name] if on_disk else schema_lib.of_batch(name)


def task_of(
    records: records_lib.Records, config: BertConfig
) -> PretrainingTask:
    """Returns the task that a model of `config` learns from these records.

    Raises:
      ValueError: if it is left to right, and cannot read them.
    """
    pairs = pairs_of(records)
    if not config.is_causal:
        return PretrainingTask(pairs, schema_of(records))
    manifest = records.manifest
    name = manifest.schema_name if manifest else "no manifest"
    if name not in _LEFT_TO_RIGHT:
        raise ValueError(
            f"{os.path.dirname(records.paths[0])} holds {name}; a "
            "left-to-right model reads unmasked single segments. Make the "
            "records with --pairs=none --masking_time=dynamic."
        )
    # It needs no masks, so that records are read as they are.
    return LeftToRightTask(pairs, schema_of(records, on_disk=True))


def check_pairs(all_records: Sequence[records_lib.Records]) -> None:
    """Raises ValueError unless all of a run's records have the same --pairs.

    Otherwise labels of pairs would mean different things.
    """
    folders = {
        pairs_of(records): os.path.dirname(records.paths[0])
        for records in all_records
    }
    if len(folders) > 1:
        made = " and ".join(
            f"{folder} with --pairs={pairs}"
            for pairs, folder in folders.items()
        )
        raise ValueError(
            f"The records were made differently: {made}. Make all that a run "
            "trains and is evaluated on with the same --pairs."
        )


def check_labels(
    metadata: Mapping, folder: str, held_out: records_lib.Records
) -> None:
    """Raises ValueError if a model is evaluated on labels of other pairs.

    Args:
      metadata: of its model.json.
      folder: where that is.
      held_out: records to evaluate on.
    """
    trained = metadata.get("pairs", _NEXT_SENTENCE)
    evaluated = pairs_of(held_out)
    if evaluated not in ("none", trained):
        raise ValueError(
            f"{folder} was trained on records of --pairs={trained}, and "
            f"{os.path.dirname(held_out.paths[0])} has the labels of --pairs="
            f"{evaluated}. Evaluate on records of the first, or of "
            "--pairs=none."
        )
