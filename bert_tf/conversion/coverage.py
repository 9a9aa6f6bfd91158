"""Checkpoint, sizes and task of a model -> which of its weights it gives."""

from typing import NamedTuple

from bert_tf.config import BertConfig
from bert_tf.conversion import checkpoint as checkpoint_lib

_HEADS_BEGIN_ANEW = "encoder/"


class Coverage(NamedTuple):
    """Names of the model's weights, by what a checkpoint has for them.

    Attributes:
      found: those that it gives, of the same shape.
      missing: those that begin anew.
      other_shapes: those of another shape, each as "name: there, wanted".
      unused: the checkpoint's own, which the model has no place for.
    """

    found: list[str]
    missing: list[str]
    other_shapes: list[str]
    unused: list[str]


def of(
    checkpoint: checkpoint_lib.Checkpoint, config: BertConfig, task: str
) -> Coverage:
    """Compares a checkpoint's weights with those of a model.

    As the runners load it: of a checkpoint of another task, and by
    fine-tuning, only the encoder is taken.

    Args:
      checkpoint: in memory.
      config: sizes of the model.
      task: a key of `models.TASK_MODELS`.
    """
    labels = len(checkpoint.labels) or 2
    wanted = checkpoint_lib.shapes(config, task, labels)
    has_heads = task == checkpoint.task == "pretraining"
    there = {
        name: tensor.shape
        for name, tensor in checkpoint.tensors.items()
        if has_heads or name.startswith(_HEADS_BEGIN_ANEW)
    }
    return Coverage(
        found=[n for n in wanted if there.get(n) == wanted[n]],
        missing=[n for n in wanted if n not in there],
        other_shapes=[
            f"{name}: {there[name]} there, {wanted[name]} in the model"
            for name in wanted
            if name in there and there[name] != wanted[name]
        ],
        unused=[
            *(name for name in checkpoint.tensors if name not in wanted),
            *checkpoint.unused,
        ],
    )
