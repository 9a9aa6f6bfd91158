"""Flags -> CheckpointOptions; names of formats and activations.

Scripts need them for `--help`, so nothing here imports TensorFlow.
"""

import dataclasses

from tfrecords.options import Options, option

OURS = "bert_tf"
# Format -> the files that are expected in its folder.
EXPECTED_FILES = {
    OURS: "model.safetensors, model.json and bert_config.json, or the "
    "output_dir of a run",
    "google": "bert_model.ckpt.index, bert_model.ckpt.data-00000-of-00001 "
    "(or those of another prefix), bert_config.json and vocab.txt",
    "hugging_face": "config.json, model.safetensors, pytorch_model.bin or "
    "tf_model.h5, and vocab.txt or tokenizer.json",
    "model_garden": "a TensorFlow 2 checkpoint, ckpt-1.index and "
    "ckpt-1.data-00000-of-00001",
    "keras_hub": "config.json, model.weights.h5 and the tokenizer's assets",
}
FORMATS = tuple(EXPECTED_FILES)
# In messages.
ACCEPT = (
    "Pass --accept_tokenizer_differences, or in Python "
    "accept_tokenizer_differences=True,"
)
# Values of hidden_act: "gelu" is not the same function everywhere.
ACTIVATIONS = {
    "gelu": "tanh approximation of GELU, the original's gelu",
    "gelu_erf": "exact GELU by erf, called gelu by Hugging Face",
    "relu": "ReLU",
    "tanh": "tanh",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointOptions(Options):
    """How to read a checkpoint of any format."""

    accept_tokenizer_differences: bool = option(
        False,
        "Use a checkpoint although its own tokenizer does what BERT's does "
        "not, such as keeping tokens that were added to the vocabulary.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class WriteOptions(CheckpointOptions):
    """Also how to write it, as another checkpoint or as an export."""

    overwrite: bool = option(
        False, "Replace an existing model or export in the output folder."
    )
    license: str | None = option(
        None,
        "Licence of the weights, for the model card: an identifier of Hugging "
        "Face's list, such as apache-2.0. Default: unknown.",
    )
