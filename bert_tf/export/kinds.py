"""Model, configuration -> the kind of its export, and what that serves.

It loads no TensorFlow, so that flags can be defined by these names.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

# Task of the model -> kinds of export; the first is the default.
KINDS = {
    "pretraining": ("fill_mask", "encoder", "sentence_embedding"),
    "classification": ("classification", "encoder", "sentence_embedding"),
    "regression": ("regression", "encoder", "sentence_embedding"),
    "spans": ("question_answering", "encoder", "sentence_embedding"),
    "tagging": ("tagging", "encoder", "sentence_embedding"),
    "multiple_choice": ("multiple_choice", "encoder", "sentence_embedding"),
}
# Tasks whose model.json must name the labels.
NEED_LABELS = ("classification", "tagging")

_POOLER = "encoder/pooler/"
# Kind -> prefixes of the names of weights that its answers depend on.
WEIGHTS = {
    "classification": ("classification/", _POOLER),
    "regression": ("regression/", _POOLER),
    "question_answering": ("spans/",),
    "tagging": ("tagging/",),
    "multiple_choice": ("multiple_choice/", _POOLER),
    "fill_mask": ("masked_lm/",),
    "encoder": ("encoder/layer",),
    "sentence_embedding": ("encoder/layer",),
}
POOLINGS = ("cls", "mean")
