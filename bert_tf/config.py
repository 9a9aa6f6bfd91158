"""bert_config.json -> BertConfig; released sizes and precisions by name."""

import dataclasses
import math
import os
from collections.abc import Mapping

from tfrecords.io import json_files
from tfrecords.options import quoted

# Devlin et al. 2018, section 3, and Turc et al. 2019, table 1: L layers, H
# hidden units, H / 64 heads, intermediate size 4 H.
NAMED_SHAPES = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
} | {
    f"L-{layers}_H-{hidden}": (layers, hidden)
    for layers in (2, 4, 6, 8, 10, 12)
    for hidden in (128, 256, 512, 768)
}

# Sizes of the released vocabularies.
UNCASED_VOCAB_SIZE = 30522
NAMED_VOCAB_SIZES = {
    "": UNCASED_VOCAB_SIZE,
    "-uncased": UNCASED_VOCAB_SIZE,
    "-cased": 28996,
    "-multilingual-cased": 119547,
    "-multilingual-uncased": 105879,
    "-chinese": 21128,
}

# Precision of matrix products -> dtype policy of Keras.
POLICIES = {
    "float32": "float32",
    "bfloat16": "mixed_bfloat16",
    "float16": "mixed_float16",
}

# How the learning rate falls, see `training.optimizers.WarmupDecay`.
LEARNING_RATE_SCHEDULES = ("linear", "constant", "cosine", "one_cycle")

# Environment variable of TensorFlow, for processes in which no weights change.
FROZEN_WEIGHTS = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"

# Products of a layer that can have adapters, see `model.lora`.
LORA_TARGETS = (
    *("query", "key", "value", "attention_output", "intermediate", "output"),
)

# Value of initializer_range that stands for a number.
SMALL_INIT = "small_init"

# What a student can learn from a teacher, see `tasks.distillation`.
DISTILLATION_LOSSES = (
    "soft_targets",
    "attention_relations",
    "hidden_relations",
)

# How a text's vectors become one, see `model.sentence_embedding`. Names and
# order are those of sentence-transformers, Pooling.POOLING_MODES.
POOLING_MODES = (
    *("cls", "max", "mean", "mean_sqrt_len_tokens"),
    *("weightedmean", "lasttoken"),
)

# Keys of some released files that no BERT code uses; the first and the third
# are the Model Garden's, legacy/bert/configs.py.
_IGNORED_KEYS = frozenset(
    (
        *("backward_compatible", "directionality", "embedding_size"),
        *("pooler_fc_size", "pooler_num_attention_heads"),
        *("pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"),
    )
)
# Keys that only bert_tf knows. They are written only when set: other BERT code
# would ignore them and treat the weights as those of an ordinary BERT.
_KEYS_OF_OURS = ("is_causal", "norm_first", "classifier_pooling", "pooler_act")
# How a head reads the tokens of a text, see `classifier_pooling`.
CLASSIFIER_POOLING = ("cls", "max", "mean")
_SIZES = (
    *("vocab_size", "hidden_size", "num_hidden_layers"),
    *("num_attention_heads", "intermediate_size"),
    *("max_position_embeddings", "type_vocab_size"),
)
# Fields by which DistilBERT differs (Sanh et al. 2019, arXiv 1910.01108).
DISTILBERT = {"type_vocab_size": 0, "pooler_act": "relu"}
# Kinds of the other keys, see `json_files.check`.
_FORMS = {
    "hidden_act": str,
    "hidden_dropout_prob": float,
    "attention_probs_dropout_prob": float,
    "initializer_range": float,
    "is_causal": bool,
    "norm_first": bool,
    "classifier_pooling": str,
    "pooler_act": str,
}
# Models that only commands of experiments/ train and evaluate, by their task in
# model.json or a key of bert_config.json -> the commands.
EXPERIMENTS = {
    "feature_tagging": "experiments.feature_based.run_ner_features",
    "bilstm_units": "experiments.bilstm.run_glue and run_squad",
}
# Far beyond any BERT: a config with more has an error.
_MAX_LAYERS = 1_333  # `heads.DROPOUT_ID` is above 3 for each layer.
_MAX_WEIGHTS = 10**12


def inference_policy(precision: str) -> str:
    """Returns the dtype policy for models that are not trained.

    Their weights are stored in the precision of matrix products, except for
    embeddings and LayerNorm. In training this would lose small updates.
    """
    return POLICIES[precision].removeprefix("mixed_")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertConfig:
    """Sizes and dropout rates of a BERT encoder; keys as in bert_config.json.

    Defaults are those of `modeling.BertConfig` in the original code.

    Attributes:
      vocab_size: number of tokens in the vocabulary (V).
      hidden_size: width of every layer (H).
      num_hidden_layers: number of layers (L).
      num_attention_heads: heads in each layer (A); must divide `hidden_size`.
      intermediate_size: width of the feed-forward layer (I).
      hidden_act: "gelu" (the tanh approximation of the original), "gelu_erf"
        (exact), "relu" or "tanh".
      hidden_dropout_prob: dropout of embeddings, projections and heads.
      attention_probs_dropout_prob: dropout of attention weights.
      max_position_embeddings: maximum sequence length.
      type_vocab_size: number of segment types; 0 for no embedding of them, as
        in DistilBERT.
      initializer_range: standard deviation of the truncated normal; or
        "small_init" for sqrt(2 / (5 H)), which suits every width (Nguyen and
        Salazar 2019, arXiv 1910.05895, section 2.2): 0.056 for H = 128, and
        0.023 for 768, where BERT has 0.02.
      is_causal: whether attention is causal (left-to-right), as in the models
        of the paper's section 5.1.
      norm_first: whether LayerNorm precedes each sublayer, with one more after
        the last layer (pre-LN), instead of following it. Deep models then
        train at higher rates and without warmup (Xiong et al. 2020, arXiv
        2002.04745). The paper's BERT has post-LN.
      classifier_pooling: what a head of texts reads instead of the pooler's
        output, of the last layer: "mean" or "max" over the tokens, or "cls",
        the vector at [CLS]; "" for the pooler, as in the paper. It is for
        vectors that no loss has reached through the pooler.
      pooler_act: activation of the pooler, "tanh", or "relu" as in the
        classifiers of DistilBERT (Sanh et al. 2019, arXiv 1910.01108).

    Raises:
      ValueError: if a value is out of its range.

    Example:
      >>> config = bert_tf.BertConfig(vocab_size=8000, hidden_size=768)
      >>> config = bert_tf.BertConfig.from_name("tiny", vocab_size=8000)
      >>> config.num_hidden_layers, config.hidden_size
      (2, 128)
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float | str = 0.02
    is_causal: bool = False
    norm_first: bool = False
    classifier_pooling: str = ""
    pooler_act: str = "tanh"

    def __post_init__(self):
        for name in _SIZES:
            self._check_form(name, range(name != "type_vocab_size", 2**31))
        if self.initializer_range == SMALL_INIT:
            value = math.sqrt(2 / (5 * self.hidden_size))
            object.__setattr__(self, "initializer_range", value)
        elif isinstance(self.initializer_range, str):
            raise ValueError(
                f"BERT config: initializer_range is {self.initializer_range!r};"
                f" it should be a number, or {SMALL_INIT!r}. Correct it."
            )
        for name, form in _FORMS.items():
            self._check_form(name, form)
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size={self.hidden_size} is not a multiple of "
                f"num_attention_heads={self.num_attention_heads}; all heads "
                "have the same size."
            )
        # NaN is in no interval.
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"{name}={getattr(self, name)} should be in [0, 1)."
                )
        if not 0 <= self.initializer_range < math.inf:
            raise ValueError(
                f"initializer_range={self.initializer_range} should be a "
                "finite number of at least 0."
            )
        if self.hidden_act not in ("gelu", "gelu_erf", "relu", "tanh"):
            raise ValueError(
                f"hidden_act={quoted(self.hidden_act)} should be gelu, "
                "gelu_erf, relu or tanh."
            )
        if self.pooler_act not in ("tanh", "relu"):
            raise ValueError(
                f"pooler_act={quoted(self.pooler_act)} should be tanh or relu."
            )
        if self.classifier_pooling not in ("", *CLASSIFIER_POOLING):
            raise ValueError(
                f"classifier_pooling={quoted(self.classifier_pooling)} should "
                f"be {', '.join(CLASSIFIER_POOLING)}, or empty for BERT's "
                "pooler."
            )
        self._check_num_weights()

    def _check_form(self, name: str, form) -> None:
        json_files.check(getattr(self, name), form, "BERT config", name)

    def _check_num_weights(self) -> None:
        """Raises ValueError if the model is larger than any machine's memory.

        Arithmetic only: a wrong size is found before anything is allocated.
        """
        width = self.hidden_size
        layer = 4 * width * width + 2 * width * self.intermediate_size
        rows = self.vocab_size + self.max_position_embeddings
        rows += self.type_vocab_size
        num_weights = rows * width + self.num_hidden_layers * layer
        if num_weights > _MAX_WEIGHTS or self.num_hidden_layers > _MAX_LAYERS:
            raise ValueError(
                f"A BERT of {self.num_hidden_layers} layers with "
                f"{num_weights:.1e} weights; at most {_MAX_LAYERS:,} layers "
                f"and {_MAX_WEIGHTS:.0e} weights are supported. Correct "
                + ", ".join(f"{name}={getattr(self, name)}" for name in _SIZES)
                + "."
            )

    @classmethod
    def from_dict(cls, values: dict) -> "BertConfig":
        """Returns the config with these values.

        Raises:
          ValueError: if a key is unknown, or `vocab_size` is missing.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = set(values) - known - _IGNORED_KEYS
        for name in unknown & EXPERIMENTS.keys():
            raise ValueError(
                f"{name}={quoted(values[name])} in a BERT config: such a model "
                f"is of {EXPERIMENTS[name]} alone."
            )
        if unknown:
            raise ValueError(
                f"Unknown keys {sorted(unknown)} in a BERT config; expected "
                f"only {sorted(known)}. Correct or remove them."
            )
        if "vocab_size" not in values:
            raise ValueError(
                "A BERT config needs vocab_size, the number of lines of its "
                "vocab.txt."
            )
        return cls(**{key: values[key] for key in values if key in known})

    @classmethod
    def from_json_file(cls, path: str | os.PathLike) -> "BertConfig":
        """Reads a bert_config.json.

        Raises:
          ValueError: if the file is not a JSON object, or has unknown keys or
            values out of range; the message names the file.
        """
        values = json_files.read(os.fspath(path))
        try:
            return cls.from_dict(values)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    @classmethod
    def from_name(cls, name: str, **changes) -> "BertConfig":
        """Returns the config of a released size, e.g. "base" or "L-2_H-128".

        Args:
          name: a key of `NAMED_SHAPES`, with or without "-uncased", "-cased",
            "-multilingual-cased", "-multilingual-uncased" or "-chinese"; or
            "multilingual", which is "base-multilingual-cased".
          **changes: fields that replace the released values, e.g.
            `vocab_size`.

        Raises:
          ValueError: if no released model has that name.
        """
        full_name = name
        if name == "multilingual":
            full_name = "base-multilingual-cased"
        for suffix, vocab_size in NAMED_VOCAB_SIZES.items():
            shape = NAMED_SHAPES.get(full_name.removesuffix(suffix))
            if shape and full_name.endswith(suffix):
                layers, hidden = shape
                values = dict(
                    vocab_size=vocab_size,
                    hidden_size=hidden,
                    num_hidden_layers=layers,
                    num_attention_heads=hidden // 64,
                    intermediate_size=4 * hidden,
                )
                return cls(**(values | changes))
        raise ValueError(
            f"No released BERT is named {name!r}; the names are "
            f"{', '.join(NAMED_SHAPES)}, each also with "
            f"{', '.join(s for s in NAMED_VOCAB_SIZES if s)}, and multilingual."
        )

    @staticmethod
    def ignored_keys(path: str | os.PathLike) -> dict[str, object]:
        """Returns the keys of a bert_config.json that no BERT code uses."""
        values = json_files.read(os.fspath(path))
        return {n: x for n, x in values.items() if n in _IGNORED_KEYS}

    @property
    def is_distilbert(self) -> bool:
        """Whether transformers has these layers as DistilBERT's."""
        return DISTILBERT.items() <= self.to_dict().items()

    def keys_of_ours(self) -> dict[str, int | bool | str]:
        """Returns the keys that only bert_tf knows, if they are set."""
        ours = (*_KEYS_OF_OURS, *([] if self.type_vocab_size else DISTILBERT))
        return {n: x for n, x in self.to_dict().items() if n in ours}

    def to_dict(self) -> dict:
        """Returns a dict for `from_dict`."""
        return {
            name: value
            for name, value in dataclasses.asdict(self).items()
            if name not in _KEYS_OF_OURS or value != getattr(BertConfig, name)
        }

    def to_json_file(
        self, path: str | os.PathLike, more: Mapping[str, object] = {}
    ) -> None:
        """Writes a bert_config.json atomically, with `more` keys."""
        json_files.write(os.fspath(path), self.to_dict() | dict(more))
