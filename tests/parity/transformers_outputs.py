"""Hugging Face folder and a batch -> outputs of transformers.

Shapes: B batch, N choices, S sequence, H hidden, P predictions, V vocabulary.
"""

from collections.abc import Mapping

import numpy as np

from bert_tf.checkpoint.formats import renaming
from bert_tf.checkpoint.formats.hugging_face import (
    config_json,
    pretrained,
    sentence_transformers,
)
from tfrecords.options import some

_INPUTS = {
    "input_ids": "input_word_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "input_type_ids",
}
# Class -> its output -> our output. "logits" depends on the class.
_HEADS = {
    "BertForPreTraining": {
        "prediction_logits": "masked_lm_logits",
        "seq_relationship_logits": "next_sentence_logits",
    },
    "BertForMaskedLM": {"logits": "masked_lm_logits"},
    "BertForNextSentencePrediction": {"logits": "next_sentence_logits"},
    "BertForQuestionAnswering": {
        "start_logits": "start_logits",
        "end_logits": "end_logits",
    },
    "BertModel": {},
}


def _load(folder: str, architecture: str, add_pooling_layer: bool):
    """Returns a model with all weights loaded from the folder.

    Raises:
      ValueError: if weights, which the message names, are not in the folder.
    """
    import transformers

    settings = {}
    if architecture == "BertModel":
        settings["add_pooling_layer"] = add_pooling_layer
    model, info = getattr(transformers, architecture).from_pretrained(
        folder,
        output_loading_info=True,
        local_files_only=True,
        attn_implementation="eager",
        **settings,
    )
    if info["missing_keys"]:
        raise ValueError(
            f"transformers {transformers.__version__} does not find "
            f"{some(sorted(info['missing_keys']))} in {folder}, and "
            "would newly initialize them"
        )
    return model.eval().float()


def _heads(
    architecture: str, task: str, outputs, batch: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Returns the outputs of a class's heads by our names."""
    name = architecture.removeprefix("Distil")
    names = _HEADS.get(name, {"logits": "logits"})
    heads = {ours: outputs[theirs].numpy() for theirs, ours in names.items()}
    if "masked_lm_logits" in heads:
        # transformers computes them for every token, [B, S, V].
        positions = batch["masked_lm_positions"][..., None]
        heads["masked_lm_logits"] = np.take_along_axis(
            heads["masked_lm_logits"], positions, axis=1
        )  # [B, P, V]
    if task == "regression":
        return {"predictions": heads["logits"][:, 0]}  # [B]
    return heads


def _outputs(
    folder: str,
    architecture: str,
    task: str,
    add_pooling_layer: bool,
    batch: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Returns the outputs of transformers in float32, without dropout."""
    import torch

    model = _load(folder, architecture, add_pooling_layer)
    inputs = {
        theirs: torch.from_numpy(batch[ours]).long()
        for theirs, ours in _INPUTS.items()
    }
    if architecture.startswith("DistilBert"):
        del inputs["token_type_ids"]
    rows = {name: x.reshape(-1, x.shape[-1]) for name, x in inputs.items()}
    with torch.no_grad():
        encoded = model.base_model(**rows, output_hidden_states=True)
        results = model(**inputs)
        if hasattr(model, "pre_classifier"):  # The pooler of DistilBERT.
            first = model.pre_classifier(encoded.last_hidden_state[:, 0])
            encoded["pooler_output"] = torch.relu(first)
    values = {
        f"encoder_outputs_{i}": layer.numpy()
        for i, layer in enumerate(encoded.hidden_states[1:])
    } | {"sequence_output": encoded.last_hidden_state.numpy()}
    if encoded.get("pooler_output") is not None:
        values["pooled_output"] = encoded.pooler_output.numpy()
    return values | _heads(architecture, task, results, batch)


def of_folder(
    path: str, batch: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Returns the outputs that the class of a folder has, by our names.

    Args:
      path: a Hugging Face folder.
      batch: from `outputs.batch`.
    """
    checkpoint, folder = pretrained.read(path), sentence_transformers.read(path)
    parts = pretrained._complete_parts(checkpoint)
    start = config_json.class_start(checkpoint.config)
    architecture = config_json.architecture_for(checkpoint.task, parts, start)
    return _outputs(
        folder.folder,
        architecture,
        checkpoint.task,
        renaming.POOLER in parts,
        batch,
    )
