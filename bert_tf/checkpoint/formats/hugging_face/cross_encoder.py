"""Folder of a CrossEncoder <-> the activation that makes a score of its logit.

Source: sentence-transformers 6.2, cross_encoder/model.py.
"""

import os
from collections.abc import Mapping

from bert_tf.checkpoint import contents
from bert_tf.checkpoint.formats.hugging_face import config_json
from bert_tf.checkpoint.formats.hugging_face.sentence_transformers import (
    ACTIVATIONS,
    IDENTITY,
    MODULES,
    SIGMOID,
    TEXTS_FILE,
    activation,
)
from tfrecords.io import json_files
from tfrecords.options import quoted

# Keys of the activation of a cross-encoder's score: in config_sentence_
# transformers.json, which CrossEncoder 6 reads beside modules.json alone, and
# in `_SCORES` of config.json, from version 4 on; in config.json, before.
_ACTIVATION = "activation_fn"
_SCORES = "sentence_transformers"
_OLD_ACTIVATION = "sbert_ce_default_activation_function"
_CROSS_ENCODER = {
    f"{_ACTIVATION}?": str,
    f"{_SCORES}?": {f"{_ACTIVATION}?": str},
    f"{_OLD_ACTIVATION}?": str,
}


def read(
    path: str, folder: str, values: Mapping, num_labels: int
) -> tuple[str | None, list[str]]:
    """Returns how the score of a cross-encoder follows from its logit.

    As cross_encoder/model.py: get_default_activation_fn.

    Args:
      path: the folder.
      folder: that of the BERT, which may be inside of it.
      values: its config.json.
      num_labels: number of logits.

    Returns:
      One of `sentence_embedding.ACTIVATIONS`, of several logits "linear", and
      notes. None if nothing says that the model is of a CrossEncoder.

    Raises:
      ValueError: if the library would give other scores than we can.
    """
    file, given = os.path.join(folder, config_json.CONFIG), {}
    if os.path.lexists(os.path.join(path, MODULES)):
        given = config_json.read_object(path, TEXTS_FILE, _CROSS_ENCODER)
        _check_no_prompt(given, os.path.join(path, TEXTS_FILE))
    json_files.check(values, _CROSS_ENCODER, file)
    own = values.get(_SCORES)
    if given.get(_ACTIVATION):
        file, name = os.path.join(path, TEXTS_FILE), given[_ACTIVATION]
    elif own and _ACTIVATION in own:
        name = own[_ACTIVATION]
    else:
        name = values.get(_OLD_ACTIVATION)
    is_known = name or own or _OLD_ACTIVATION in values
    if not is_known and given.get("model_type") != "CrossEncoder":
        note = (
            "one logit, which is the score here; a CrossEncoder of "
            "sentence-transformers would return its sigmoid"
        )
        return None, [contents.Detail(note)] if num_labels == 1 else []
    # It runs no code of others by default.
    if name is None or not name.startswith("torch."):
        name = IDENTITY if num_labels > 1 else SIGMOID
    if num_labels > 1:
        note = f"CrossEncoder returns {name} of the logits, and here they are"
        note += " those of classes"
        return "linear", [] if activation(name) == "linear" else [note]
    if activation(name) is None:
        raise ValueError(
            f"{file}: the score's activation {quoted(name)} is not supported; "
            f"supported are {', '.join(ACTIVATIONS)}. To read logits, "
            "remove it."
        )
    note = f"the score is {name} of the logit, as CrossEncoder returns it"
    return activation(name), [contents.Detail(note)]


def _check_no_prompt(values: Mapping, file: str) -> None:
    """Raises ValueError if a cross-encoder puts a prompt before each query."""
    contents.check_prompts(values, file)
    name = values.get(contents.DEFAULT_PROMPT)
    if name is not None and values[contents.PROMPTS][name]:
        raise ValueError(
            f"{file}: {contents.DEFAULT_PROMPT}={quoted(name)} puts "
            f"{quoted(values[contents.PROMPTS][name])} before the first text "
            "of each pair, which is not supported for scores. Remove the "
            "entry, and put the prompt before your queries."
        )


def keys_of(task: str, metadata: Mapping) -> dict[str, object]:
    """Returns the key of config.json by which CrossEncoder gives our score.

    Without it, CrossEncoder returns the sigmoid of the logit: the probability
    that a passage is relevant, after a binary ranking loss. It is not added to
    the config.json of others, either.
    """
    own = metadata.get(contents.SCORE_ACTIVATION)
    settings = metadata.get(contents.SOURCE_SETTINGS, {})
    is_logit = config_json.CONFIG in settings
    is_logit |= metadata.get("ranking_loss") == "binary"
    if task != "regression" or (own is None and is_logit):
        return {}
    names = {ours: theirs for theirs, ours in ACTIVATIONS.items()}
    return {_SCORES: {_ACTIVATION: names[own or "linear"]}}
