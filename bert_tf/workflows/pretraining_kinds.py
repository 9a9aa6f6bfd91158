"""Pre-training records -> their kind: features of a batch, labels of pairs."""

import os
from collections.abc import Mapping, Sequence

from bert_tf.config import BertConfig
from bert_tf.tasks import pretraining
from bert_tf.tasks.task import Task
from tfrecords import schema
from tfrecords.io import records

_NEXT_SENTENCE = "next_sentence"
# Records that a left-to-right model can read: single segments, unmasked.
_LEFT_TO_RIGHT = ("unmasked_segments", "packed_unmasked_segments")


def pairs_of(found: records.Records) -> str:
    """Returns the --pairs that records were made with."""
    flags_of = found.manifest.flags if found.manifest else {}
    return flags_of.get("pairs", _NEXT_SENTENCE)


def schema_of(found: records.Records, on_disk: bool = False) -> schema.Schema:
    """Returns the features of a batch of these records.

    Args:
      found: the records.
      on_disk: those of a record, which may have no masks yet.
    """
    name = found.manifest.schema_name if found.manifest else None
    if name not in schema.PRETRAINING_SCHEMAS:
        # Of records of another task `check` says what they lack.
        return pretraining.TASK.schema
    return schema.SCHEMAS[name] if on_disk else schema.of_batch(name)


def task_of(found: records.Records, config: BertConfig) -> Task:
    """Returns what a model of `config` is to learn of these records."""
    if config.is_causal:
        return pretraining.LEFT_TO_RIGHT
    return pretraining.TASKS[pairs_of(found)]


def features_of(found: records.Records, config: BertConfig) -> schema.Schema:
    """Returns the features of a batch of these records, as `config` reads it.

    A left-to-right model needs no masks, so that records are read as they are.

    Raises:
      ValueError: if such a model cannot read them.
    """
    name = found.manifest.schema_name if found.manifest else "no manifest"
    if config.is_causal and name not in _LEFT_TO_RIGHT:
        raise ValueError(
            f"{os.path.dirname(found.paths[0])} holds {name}; a left-to-right "
            "model reads unmasked single segments. Make the records with "
            "--pairs=none --masking_time=dynamic."
        )
    return schema_of(found, on_disk=config.is_causal)


def check_pairs(all_records: Sequence[records.Records]) -> None:
    """Checks that all that a run reads was made with the same --pairs.

    Raises:
      ValueError: if not, as labels of pairs would mean different things.
    """
    kinds = {pairs_of(found): found.paths[0] for found in all_records}
    if len(kinds) > 1:
        made = " and ".join(
            f"{os.path.dirname(path)} with --pairs={kind}"
            for kind, path in kinds.items()
        )
        raise ValueError(
            f"The records were made differently: {made}. Make all that a run "
            "trains and is evaluated on with the same --pairs."
        )


def papers_of(found: records.Records) -> dict[str, str]:
    """Returns what model.json says of pairs; nothing of next sentences."""
    pairs = pairs_of(found)
    return {} if pairs == _NEXT_SENTENCE else {"pairs": pairs}


def check_labels(papers: Mapping, folder: str, held_out) -> None:
    """Checks that a model was trained for the labels it is evaluated on.

    Args:
      papers: what its model.json says.
      folder: where that is.
      held_out: records to evaluate on.

    Raises:
      ValueError: if not.
    """
    learnt, asked = papers.get("pairs", _NEXT_SENTENCE), pairs_of(held_out)
    if asked not in ("none", learnt):
        raise ValueError(
            f"{folder} was trained on records of --pairs={learnt}, and "
            f"{os.path.dirname(held_out.paths[0])} has the labels of --pairs="
            f"{asked}. Evaluate on records of the first, or of --pairs=none."
        )
