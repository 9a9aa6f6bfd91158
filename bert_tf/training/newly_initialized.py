"""What model.json says of a model -> its weights that nobody has trained.

Draws that no loss has ever reached are no answer to anything: an export leaves
out what is computed with them.
"""

import os
from collections.abc import Mapping

from bert_tf.config import BertConfig
from bert_tf.training import model_folders

POOLER = "encoder/pooler/"
_KEY = "untrained"


def find(description: Mapping, config: BertConfig) -> tuple[str, ...]:
    """Returns the starts of names of weights that nobody trained.

    Args:
      description: model.json of the model.
      config: its sizes.
    """
    absent = (*description.get("not_in_source", ()), *description.get(_KEY, ()))
    has_pairs = description.get("pairs") != "none" and not config.is_causal
    if description["task"] == "pretraining" and not has_pairs:
        # Only the loss of next sentences, or of their order, reaches it.
        absent += (POOLER,)
    return absent


def has_pooler(absent: tuple[str, ...]) -> bool:
    """Returns whether the pooler is trained, by what `find` returns."""
    return not any(name.startswith(POOLER) for name in absent)


def reads_pooler(task: str, config: BertConfig) -> bool:
    """Returns whether the head of a fine-tuned model reads the pooler."""
    tasks = ("classification", "regression", "multiple_choice")
    return task in tasks and not config.bilstm_units


def after_fine_tuning(
    task: str, config: BertConfig, source: str | None
) -> dict[str, list[str]]:
    """Returns what a fine-tuned model's model.json says of this, if anything.

    Args:
      task: that is trained, a key of `task_models.TASK_MODELS`.
      config: of the model that is trained.
      source: model folder that it begins with; None for none.

    Raises:
      ValueError: as `model_folders.read_description`.
    """
    if reads_pooler(task, config):
        return {}
    if source:
        path = os.path.join(source, model_folders.CONFIG)
        description = model_folders.read_description(source)
        config = BertConfig.from_json_file(path)
        if has_pooler(find(description, config)):
            return {}
    return {_KEY: [POOLER]}
