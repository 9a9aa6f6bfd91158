"""Batches -> a served model: BERT in Keras 3, its training and its export.

`bert_tf.BertEncoder` and the other names of `__all__` load Keras when they are
first used, so that `import bert_tf`, a script's `--help` and the scorers do
without it.
"""

import importlib

_MODULES = {
    "config": ("BertConfig",),
    "model.encoder": ("BertEncoder", "EncoderOutputs"),
    "model.heads": (
        "ClassificationHead",
        "MaskedLMHead",
        "NextSentenceHead",
        "SpanHead",
        "TaggingHead",
    ),
    "model.models": (
        "BertClassifier",
        "BertMultipleChoice",
        "BertPretrainer",
        "BertRegressor",
        "BertSpanPredictor",
        "BertTagger",
    ),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_HOMES)


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'bert_tf' has no attribute {name!r}")
    return getattr(importlib.import_module(f"bert_tf.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
