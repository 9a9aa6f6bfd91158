"""Checkpoint, model and records of a run -> findings: do they fit together."""

import hashlib
from collections.abc import Sequence

from bert_tf.config import BertConfig
from bert_tf.conversion import checkpoint as checkpoint_lib
from tfrecords.inspection.diagnostics import ERROR, NOTE, WARNING, Diagnostic

_NAMED = 3


def check(
    checkpoint: checkpoint_lib.Checkpoint,
    config: BertConfig,
    task: str,
    vocabulary: dict,
) -> list[Diagnostic]:
    """Returns which weights a model would not get, and whether texts differ.

    Args:
      checkpoint: to begin with.
      config: of the model.
      task: that it is trained for.
      vocabulary: `sha256` and `do_lower_case` of the records; may be empty.
    """
    found = checkpoint_lib.coverage(checkpoint, config, task)
    total = len(found.loaded) + len(found.missing) + len(found.other_shapes)
    text = f"{len(found.loaded)} of the model's {total} weights are in it"
    severity, fix = NOTE, "."
    if found.missing:
        text += f"; missing, so drawn anew: {_some(found.missing)}"
    if found.unused:
        text += f"; not used: {_some(found.unused)}"
    encoder = [name for name in found.missing if name.startswith("encoder/")]
    if found.other_shapes:
        text += f"; of other shapes: {_some(found.other_shapes)}"
        severity = ERROR
        fix = ". Use the bert_config.json that belongs to the checkpoint."
    elif not found.loaded:
        severity, fix = ERROR, ". Give a checkpoint of BERT."
    elif encoder:
        severity, fix = WARNING, ". Is it the checkpoint that you mean?"
    faults = [Diagnostic(severity, "checkpoint", text + fix)]
    sha256 = vocabulary.get("sha256")
    if checkpoint.vocabulary is not None and sha256:
        if hashlib.sha256(checkpoint.vocabulary).hexdigest() != sha256:
            text = (
                "it was trained with another vocabulary than the records "
                f"were made with (sha256 of these: {sha256[:12]}...). Make "
                "the records again with the vocab.txt of the checkpoint."
            )
            faults.append(Diagnostic(ERROR, "checkpoint", text))
    made_with = vocabulary.get("do_lower_case")
    if None not in (made_with, checkpoint.do_lower_case):
        if made_with != checkpoint.do_lower_case:
            text = (
                f"it was trained with do_lower_case={checkpoint.do_lower_case}"
                f", the records were made with {made_with}. Make them again "
                f"with --do_lower_case={str(checkpoint.do_lower_case).lower()}."
            )
            severity = WARNING if checkpoint.is_case_inferred else ERROR
            faults.append(Diagnostic(severity, "case", text))
    return faults


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
