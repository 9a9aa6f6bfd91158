"""Batches -> served model: BERT in Keras 3, its training and its export.

`import bert_tf` imports neither TensorFlow nor Keras: they are imported when a
model is first needed, so that commands and their errors come quickly. After it,
`keras.models.load_model` finds the classes of `.keras` files, whichever of the
two was imported first.
"""

import importlib
import sys

from tfrecords import libraries  # Checked before the rest.

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
        "BertMultiLabelClassifier",
        "BertMultipleChoice",
        "BertPretrainer",
        "BertRegressor",
        "BertSpanPredictor",
        "BertTagger",
    ),
    "text_preprocessor": ("TextPreprocessor",),
}
# Modules that are imported only when one of their names is used: Keras does not
# look for these names.
_ON_DEMAND = {
    "checkpoint.keras_models": ("load", "save"),
    "serving.predictor": ("Predictor",),
    "workflows.tables.fine_tune": ("fine_tune",),
    "training.optimizers": ("AdamWeightDecay", "WarmupDecay"),
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


# Name in .keras files, without "bert_tf>" -> module and name of the class.
_KERAS_CLASSES = {
    name: (module, name)
    for module in ("model.encoder", "model.models", "text_preprocessor")
    for name in _MODULES[module]
    if name != "EncoderOutputs"
} | {
    "AdamWeightDecay": ("training.optimizers", "AdamWeightDecay"),
    "BertSentenceEncoder": ("model.sentence_encoder", "BertSentenceEncoder"),
    "WarmupLinearDecay": ("training.optimizers", "WarmupDecay"),
}
# Name in .keras files of classes that are not in this package -> their module.
_EXPERIMENT_CLASSES = {
    "FeatureTagger": "experiments.feature_based.feature_tagger",
    "BiLSTMClassifier": "experiments.bilstm.models",
    "BiLSTMRegressor": "experiments.bilstm.models",
    "BiLSTMSpanPredictor": "experiments.bilstm.models",
    "BiLSTMTagger": "experiments.bilstm.models",
}


class _OnDemand:
    """A class that Keras finds by name, imported when a file has it.

    The import registers the class itself in its place.
    """

    def __init__(self, module: str, name: str):
        self.module = module
        self.name = name

    def from_config(self, config: dict):
        """Returns an instance of the class, which Keras asks for."""
        __getattr__("BertEncoder")
        module = importlib.import_module(f"bert_tf.{self.module}")
        return getattr(module, self.name).from_config(config)


class _ExperimentClass:
    """A class that Keras finds by name, unless its module was imported."""

    def __init__(self, name: str):
        self.name = name

    def from_config(self, config: dict):
        """Raises ValueError, which names the module."""
        raise ValueError(
            f"The file has a {self.name}, which is not part of bert_tf. In a "
            f"clone of its repository import {_EXPERIMENT_CLASSES[self.name]}, "
            "then load the file."
        )


def _register(keras) -> None:
    """Adds the classes to those that Keras knows, unless they are there."""
    if (backend := keras.config.backend()) != "tensorflow":
        raise ImportError(
            f"Keras's backend is {backend}; bert_tf needs tensorflow. Set "
            "KERAS_BACKEND=tensorflow, or the backend in ~/.keras/keras.json."
        )
    known = keras.saving.get_custom_objects()
    for name in _EXPERIMENT_CLASSES:
        known.setdefault(f"bert_tf>{name}", _ExperimentClass(name))
    for name, (module, attribute) in _KERAS_CLASSES.items():
        known.setdefault(f"bert_tf>{name}", _OnDemand(module, attribute))


def _load_and_register(load, keras) -> None:
    load(keras)
    _register(keras)


if "keras" in sys.modules:
    _register(sys.modules["keras"])
else:
    sys.meta_path.insert(0, libraries.Hook("keras", _load_and_register))
