"""Pre-training batches -> losses and accuracies of masked tokens and pairs.

B batch, S sequence, P predictions, E examples in a packed row, V vocabulary,
C candidates.
"""

import math
import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.model import models
from bert_tf.tasks.losses import MASKED_LM_EPSILON
from bert_tf.tasks.task import Batch, Outputs, Target, Task
from tfrecords import schema as schema_lib
from tfrecords.io import records as records_lib

_NEXT_SENTENCE = "next_sentence"
_MAX_LOSS = 700.0  # math.exp overflows above 709.
# Schemas for left-to-right models: unmasked single segments.
_LEFT_TO_RIGHT = ("unmasked_segments", "packed_unmasked_segments")


class PretrainingTask(Task):
    """Masked LM and sentence pairs (Devlin et al. 2018, section 3.1).

    Args:
      pairs: the --pairs of the records: "next_sentence", "sentence_order" of
        Lan et al. 2020, or "none". The model does not depend on it: its
        next-sentence head also predicts the order of two segments. Without
        pairs, this head and the pooler are not trained.
      schema: the features of a batch; default: those of unpacked records.

    Attributes:
      num_candidates: C, the number of `choose_candidates` among which training
        predicts masked tokens; None for the complete vocabulary.
    """

    name = "pretraining"
    num_candidates: int | None = None

    def __init__(
        self,
        pairs: str = _NEXT_SENTENCE,
        schema: schema_lib.Schema | None = None,
    ):
        self.pairs = pairs
        is_single = pairs == "none"
        default = schema_lib.MASKED_LM if is_single else schema_lib.PRETRAINING
        self.schema = schema or default

    def build_model(self, config: BertConfig, dtype=None):
        """Returns a new BertPretrainer."""
        return models.BertPretrainer(config, dtype=dtype)

    def outputs(self, model, batch: Batch, dropout_key: tf.Tensor) -> Outputs:
        """Returns the inputs of the losses; see the base class."""
        if not self.num_candidates:
            return super().outputs(model, batch, dropout_key)
        vocab_size = model.config.vocab_size
        seed = dropout_key[:2]  # Seed and step, the same on every replica.
        ids, log_weights = choose_candidates(
            batch, vocab_size, self.num_candidates, seed
        )
        inputs = {**batch, "masked_lm_candidates": ids}
        outputs = super().outputs(model, inputs, dropout_key)
        numbers = tf.range(self.num_candidates)
        index_of = tf.scatter_nd(ids[:, None], numbers, [vocab_size])
        return outputs | {
            "masked_lm_logits": outputs["masked_lm_logits"] + log_weights,
            "candidate_labels": tf.gather(index_of, batch["masked_lm_ids"]),
        }

    def targets(self, batch: Batch) -> dict[str, Target]:
        """Returns the targets of a batch by name, masked LM first."""
        targets = {
            "masked_lm": Target(
                "masked_lm_logits",
                batch["masked_lm_ids"],
                batch["masked_lm_weights"],
                epsilon=MASKED_LM_EPSILON,
            )
        }
        if self.num_candidates:
            targets["masked_lm"] = targets["masked_lm"]._replace(
                labels="candidate_labels", accuracy_name="candidate_accuracy"
            )
        if "next_sentence_labels" in batch:
            targets[self.pairs] = Target(
                "next_sentence_logits",
                batch["next_sentence_labels"],
                # Packed rows have [B, E], which is 0 in rows that pad a batch.
                batch.get("next_sentence_weights", batch["is_real_example"]),
            )
        return targets

    def metadata(self) -> dict[str, str]:
        """Returns entries of model.json; none for next-sentence pairs."""
        return {} if self.pairs == _NEXT_SENTENCE else {"pairs": self.pairs}


class LeftToRightTask(PretrainingTask):
    """Next-token prediction, without pairs ("LTR", Devlin et al. 2018, 5.1)."""

    def __init__(
        self, pairs: str = "none", schema=schema_lib.UNMASKED_SEGMENTS
    ):
        super().__init__(pairs, schema)

    def targets(self, batch: Batch) -> dict[str, Target]:
        """Returns the next token at each position."""
        return {"next_token": Target("next_token_logits", *next_tokens(batch))}


TASK = PretrainingTask()


def choose_candidates(
    batch: Batch, vocab_size: int, num_candidates: int, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns entries of the vocabulary for the softmax of a training step.

    Those of the labels and of the texts, K in all, and a uniform sample of the
    others, without replacement, of which each stands for (V - K) / (C - K)
    entries. With the log of this added to its logit, the sum of softmax over
    the candidates is on average that over the vocabulary (Jean et al. 2015,
    arXiv 1412.2007, section 3; the log Q of `tf.nn.sampled_softmax_loss`). If
    labels and texts have C words or more, K are those of the labels.

    Args:
      batch: `masked_lm_ids` [B, P] and `input_word_ids` [B, S] of this replica;
        the candidates are those of all replicas.
      vocab_size: V.
      num_candidates: C, more than the labels of all replicas, and at most V.
      seed: [2] int64, another one in each step.

    Returns:
      The candidates, [C] int32, and what to add to their logits, [C] float32.
    """
    counts = [  # For tf.math.bincount XLA would need its length, from the ids.
        tf.math.unsorted_segment_sum(
            tf.ones_like(ids, tf.float32), ids, vocab_size
        )
        for ids in (batch["masked_lm_ids"], batch["input_word_ids"])
    ]
    replica = tf.distribute.get_replica_context()
    counts = replica.all_reduce("sum", tf.stack(counts))
    labels, texts = tf.unstack(counts)  # [V] each.
    in_batch = labels + texts > 0
    fits = tf.math.count_nonzero(in_batch) < num_candidates
    known = tf.cast(tf.where(fits, in_batch, labels > 0), tf.float32)
    # Integers, since XLA draws other floats than TensorFlow's kernel.
    draws = tf.random.stateless_uniform(
        [vocab_size], seed, None, None, tf.int32, alg="philox"
    )
    order = 2.0**33 * known + tf.cast(draws, tf.float32)
    ids = tf.math.top_k(order, num_candidates).indices
    num_known = tf.reduce_sum(known)  # K
    weight = (vocab_size - num_known) / (num_candidates - num_known)
    return ids, (1.0 - tf.gather(known, ids)) * tf.math.log(weight)


def next_tokens(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the token after each position, and whether it is predicted.

    No token is predicted from another example of a packed row.

    Args:
      batch: has the encoder's inputs, [B, S] int32.

    Returns:
      [B, S - 1] int32, and [B, S - 1] float32 weights.
    """
    is_predicted = batch["input_mask"][:, 1:] > 0
    if "example_numbers" in batch:
        numbers = batch["example_numbers"]
        is_predicted &= numbers[:, 1:] == numbers[:, :-1]
    return batch["input_word_ids"][:, 1:], tf.cast(is_predicted, tf.float32)


def perplexity(means: Mapping[str, float]) -> float:
    """Returns exp(mean loss per token); infinity if the loss is 700 or more.

    It is "LM (ppl)" in table 6 of Devlin et al. 2018.

    Args:
      means: means of an evaluation, with `masked_lm_loss` or `next_token_loss`.
    """
    names = ("masked_lm_loss", "next_token_loss")
    (loss,) = (means[name] for name in names if name in means)
    return math.exp(loss) if loss < _MAX_LOSS else math.inf


def unigram_accuracy(
    batches: Iterable[Batch], vocab_size: int, task: PretrainingTask = TASK
) -> float:
    """Returns the accuracy of the best constant prediction, in [0, 1].

    That is the share of the most frequent token among the tokens to predict,
    which a model reaches by learning only token frequencies.
    """
    counts = np.zeros(vocab_size, np.int64)
    for batch in batches:
        tokens = next(iter(task.targets(batch).values()))
        ids = np.asarray(tokens.labels)[np.asarray(tokens.weights) > 0]
        counts += np.bincount(ids, minlength=vocab_size)
    return float(counts.max() / max(counts.sum(), 1))


def pairs_of(records: records_lib.Records) -> str:
    """Returns the value of --pairs that records were made with."""
    flags = records.manifest.flags if records.manifest else {}
    return flags.get("pairs", _NEXT_SENTENCE)


def schema_of(
    records: records_lib.Records, *, on_disk: bool = False
) -> schema_lib.Schema:
    """Returns the features of a batch of these records.

    Args:
      records: pre-training records. For those of another task this returns
        PRETRAINING, so that `Records.check` reports what they lack.
      on_disk: return the features of a record instead, which may be unmasked.
    """
    name = records.manifest.schema_name if records.manifest else None
    if name not in schema_lib.PRETRAINING_SCHEMAS:
        return schema_lib.PRETRAINING
    return schema_lib.SCHEMAS[name] if on_disk else schema_lib.of_batch(name)


def task_of(
    records: records_lib.Records, config: BertConfig
) -> PretrainingTask:
    """Returns the task of a model with `config` on these records.

    Raises:
      ValueError: if the model is left-to-right and the records are not unmasked
        single segments.
    """
    pairs = pairs_of(records)
    if not config.is_causal:
        return PretrainingTask(pairs, schema_of(records))
    manifest = records.manifest
    name = manifest.schema_name if manifest else "unknown (no manifest)"
    if name not in _LEFT_TO_RIGHT:
        raise ValueError(
            f"The schema of {os.path.dirname(records.paths[0])} is {name}; a "
            "left-to-right model needs unmasked single segments. Make the "
            "records with make_pretraining_records --pairs=none "
            "--masking_time=dynamic."
        )
    # No masks are needed, so records are read without masking.
    return LeftToRightTask(pairs, schema_of(records, on_disk=True))


def check_pairs(all_records: Sequence[records_lib.Records]) -> None:
    """Raises ValueError unless all of a run's records have the same --pairs.

    Otherwise labels of pairs would have different meanings.
    """
    folders = {
        pairs_of(records): os.path.dirname(records.paths[0])
        for records in all_records
    }
    if len(folders) > 1:
        made = " and ".join(
            f"{folder} with pairs={pairs}" for pairs, folder in folders.items()
        )
        raise ValueError(
            f"The records were made differently: {made}. Make all records of a "
            "run, for training and evaluation, with the same --pairs of "
            "make_pretraining_records."
        )


def check_labels(
    metadata: Mapping, folder: str, held_out: records_lib.Records
) -> None:
    """Raises ValueError if a model cannot be evaluated on records' --pairs.

    Args:
      metadata: content of the model's model.json.
      folder: folder of the model.
      held_out: records to evaluate on.
    """
    trained = metadata.get("pairs", _NEXT_SENTENCE)
    evaluated = pairs_of(held_out)
    if evaluated not in ("none", trained):
        raise ValueError(
            f"The model in {folder} was trained with pairs={trained}, and "
            f"{os.path.dirname(held_out.paths[0])} has the labels of pairs="
            f"{evaluated}. Evaluate on records of pairs={trained} or "
            "pairs=none."
        )
