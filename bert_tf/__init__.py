"""Batches -> served model: BERT in Keras 3, its training and its export.

`import bert_tf` registers the models with Keras, so that
`keras.models.load_model` finds them. If `run_scripts` was imported first,
Keras is imported lazily, when a model is first needed, so that `--help`, flag
errors and the scoring scripts start quickly.
"""

import importlib
import sys

from tfrecords import libraries  # noqa: F401  Checked before the rest.

__version__ = "0.2.0.dev0"

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
    "model.lora": (),  # Adds enable_lora to BertEncoder.
    "model.models": (
        "BertClassifier",
        "BertMultipleChoice",
        "BertPretrainer",
        "BertRegressor",
        "BertSpanPredictor",
        "BertTagger",
    ),
    "text_preprocessor": ("TextPreprocessor",),
}
# The same, imported only when one of the names is used: they are not of Keras.
_ON_DEMAND = {
    "checkpoint.keras_models": ("load", "save"),
    "serving.predictor": ("Predictor",),
}
__all__ = sorted(
    name for names in (_MODULES | _ON_DEMAND).values() for name in names
)


def __getattr__(name: str):
    if name not in __all__:
        raise AttributeError(f"module 'bert_tf' has no attribute {name!r}")
    modules = {m: names for m, names in _ON_DEMAND.items() if name in names}
    for module, names in (modules or _MODULES).items():
        loaded = importlib.import_module(f"bert_tf.{module}")
        globals().update({n: getattr(loaded, n) for n in names})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if "run_scripts" not in sys.modules or "keras" in sys.modules:
    __getattr__("BertEncoder")
