"""Encoder inputs -> EncoderOutputs: BERT without a head."""

import base64
import functools
import re
import types
from collections.abc import Mapping
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from safetensors import numpy as safetensors_numpy

from bert_tf import config as bert_config
from bert_tf.model import dropout, embeddings, layers
from tfrecords import schema

# Keys of `ConfiguredModel.get_config`: name of a part -> its `trainable`; and
# "model" or "encoder" -> what `bert_tf.load` has set of it.
_FLAGS = "trainable_parts"
_LOADED = "loaded"
# A weight that any training changes: whether a copy has weights of a model.
POSITIONS = "embeddings/position_embeddings"
# Inputs of models that are integers.
_INTEGERS = (*schema.PACKED_INPUTS, "masked_lm_positions")
# Names of other libraries -> ours.
_TRANSLATIONS = {
    # Hugging Face.
    "input_ids": "input_word_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "input_type_ids",
    # KerasHub, and google-research/bert.
    "token_ids": "input_word_ids",
    "padding_mask": "input_mask",
    "segment_ids": "input_type_ids",
}


class EncoderOutputs(NamedTuple):
    """Hidden states and pooled output, the inputs of the heads.

    `hidden_states` are all L + 1 of them: `embedding_output`, then
    `encoder_outputs`. With `norm_first` those of the last layer alone are
    normalized.

    Attributes:
      sequence_output: [B, S, H] float, of the last layer.
      pooled_output: [B, H] float, tanh (or `pooler_act`) of a projection of
        [CLS], or of the last token if attention is causal. [B, E, H] for packed
        rows.
      encoder_outputs: L times [B, S, H] float, of every layer.
      embedding_output: [B, S, H] float, the input of the first layer.
      attention: L times [B, A, S, S] float32: query position, key position.
        Empty unless `return_attention`.

    Example:
      >>> model, tokenizer = bert_tf.load("runs/sst-2")
      >>> preprocess = bert_tf.TextPreprocessor(tokenizer.vocab)
      >>> outputs = model.encoder(preprocess(["a fine film"]))
      >>> len(outputs.hidden_states)  # L + 1
      3
    """

    sequence_output: tf.Tensor  # [B, S, H]
    pooled_output: tf.Tensor  # [B, H], packed [B, E, H]
    encoder_outputs: tuple[tf.Tensor, ...]  # L times [B, S, H]
    embedding_output: tf.Tensor  # [B, S, H]
    attention: tuple[tf.Tensor, ...] = ()  # L times [B, A, S, S]

    @property
    def hidden_states(self) -> tuple[tf.Tensor, ...]:
        """The embeddings, then every layer; L + 1 times [B, S, H]."""
        return (self.embedding_output, *self.encoder_outputs)


def last_positions(inputs) -> tf.Tensor:
    """Returns the position of each example's last token.

    Args:
      inputs: inputs of the encoder, packed or not.

    Returns:
      [B, 1] int32; [B, E] for packed rows, 0 for unused slots.
    """
    # expand_dims here and in masks, since LiteRT has no dynamic [:, None].
    is_token = tf.expand_dims(inputs["input_mask"], 1)  # [B, 1, S]
    if "cls_positions" in inputs:
        numbers = 1 + tf.range(tf.shape(inputs["cls_positions"])[1])  # [E]
        of_each = inputs["example_numbers"][:, None] == numbers[:, None]
        is_token *= tf.cast(of_each, is_token.dtype)  # [B, E, S]
    positions = tf.range(tf.shape(is_token)[-1], dtype=is_token.dtype)
    return tf.reduce_max(is_token * positions, axis=-1)


def _parts(layer, prefix=""):
    """Yields name, owner and object of layers and weights inside of a layer.

    Owners come before their parts. Layers without weights are omitted: they
    have nothing to train, and their names may be Keras's automatic ones.

      layer_0            encoder  EncoderLayer
      layer_0/attention  layer_0  SelfAttention
    """
    # Without those of its parts; frozen or not.
    for weight in layer._trainable_variables:
        yield prefix + weight.name, layer, weight
    for part in layer._layers:
        if part.weights:
            yield prefix + part.name, layer, part
            yield from _parts(part, f"{prefix}{part.name}/")


def by_path(model: keras.Model, weights) -> dict[str, keras.Variable]:
    """Returns the name in files -> weight: its path in the model.

    Keras's own path has the name of a BertEncoder before it, but not that of
    other models, see `ConfiguredModel`; and that of a `keras.name_scope`.
    """
    scope = f"{model.path}/"
    if not isinstance(model, BertEncoder):
        scope = scope.removesuffix(f"{model.name}/")
    return {weight.path.removeprefix(scope): weight for weight in weights}


def _owners(model) -> dict[str, "ConfiguredModel"]:
    """Returns the models of which `bert_tf.save` can write each alone."""
    encoder = getattr(model, "encoder", None)
    return {"model": model} | ({"encoder": encoder} if encoder else {})


def _loaded_values(model) -> dict:
    """Returns the values that `bert_tf.load` has set, as JSON values."""
    values: dict = {
        "metadata": dict(model.metadata),
        "untrained": dict(model.untrained),
    }
    if model.vocabulary is not None:
        text = model.vocabulary.decode("utf-8", "surrogateescape")
        values["vocabulary"] = text
    if embedding := model.sentence_embedding:
        tensors = safetensors_numpy.save(embedding.tensors())
        values["sentence_embedding"] = {
            "settings": embedding.settings(),
            "tensors": base64.b64encode(tensors).decode(),
        }
    return values


def _set_loaded(model, values: Mapping) -> None:
    """Sets the result of `_loaded_values`; the weights are still new."""
    # Read-only, so that Keras does not take them for parts of the model.
    model.metadata = types.MappingProxyType(values["metadata"])
    model.untrained = types.MappingProxyType(values["untrained"])
    if (text := values.get("vocabulary")) is not None:
        model.vocabulary = text.encode("utf-8", "surrogateescape")
    if embedding := values.get("sentence_embedding"):
        from bert_tf.model import sentence_embedding

        tensors = base64.b64decode(embedding["tensors"])
        model.sentence_embedding = sentence_embedding.from_settings(
            embedding["settings"],
            safetensors_numpy.load(tensors),
            "the config of the model",
        )
    model.drawn = types.MappingProxyType(
        {
            name: weight.numpy()
            for name, weight in by_path(model, model.weights).items()
            if name in model.untrained or name.endswith(POSITIONS)
        }
    )


def _complete(inputs, shape: tf.TensorShape) -> dict[str, tf.Tensor]:
    """Returns the inputs of the encoder, with segment A if types are omitted.

    There is no default for `input_mask`: a guess would attend to padding.

    Raises:
      ValueError: if inputs are missing, or have names of other libraries; or
        if ids, mask or types have not the shape, of numbers.
    """
    ours = (
        "a dict of input_word_ids, input_mask (1 for tokens, 0 for padding) "
        "and, unless all are 0, input_type_ids, each [B, S] int32; "
        "bert_tf.TextPreprocessor makes it from texts"
    )
    if not isinstance(inputs, Mapping):
        given = type(inputs).__name__
        raise ValueError(f"The input is a {given}. Give {ours}.")
    renamed = {
        name: _TRANSLATIONS[name]
        for name in inputs
        if _TRANSLATIONS.get(name, name) not in inputs
    }
    missing = {"input_word_ids", "input_mask"} - set(inputs)
    if missing or renamed:
        advice = "".join(
            f" {theirs} is {name} here." for theirs, name in renamed.items()
        )
        raise ValueError(
            f"The input has {', '.join(map(str, inputs)) or 'no entries'}. "
            f"Give {ours}.{advice}"
        )
    _check_forms(inputs, shape)
    if "input_type_ids" in inputs:
        return inputs
    ids = inputs["input_word_ids"]
    return dict(inputs) | {"input_type_ids": keras.ops.zeros_like(ids)}


def _check_policy(policy: keras.DTypePolicy) -> None:
    """Raises ValueError for a policy that the layers do not follow."""
    is_map = isinstance(policy, keras.dtype_policies.DTypePolicyMap)
    dtypes = ("float32", "bfloat16", "float16")
    if (
        is_map
        or policy.quantization_mode
        or policy.compute_dtype not in dtypes
        or policy.variable_dtype not in dtypes
    ):
        raise ValueError(
            f"dtype={policy.name!r}; a BERT has one policy for all layers: "
            "float32, mixed_bfloat16, mixed_float16, bfloat16 or float16."
        )


def _check_forms(inputs: Mapping, shape: tf.TensorShape) -> None:
    """Raises ValueError for inputs that are no numbers, or of another shape.

    Some broadcast without a word: a mask [S] of one example to all.
    """
    for name in filter(inputs.__contains__, _INTEGERS):
        x = inputs[name]
        given = type(x).__name__
        if isinstance(x, (tf.RaggedTensor, tf.SparseTensor)):
            raise ValueError(
                f"{name} is a {given}; expected rows of one length, padded "
                "with 0 where input_mask is 0: those of segments.pack or "
                "bert_tf.TextPreprocessor."
            )
        dtype = str(getattr(x, "dtype", ""))
        if not re.search("int|float|bool", dtype):
            raise ValueError(
                f"{name} has type {dtype or given}; expected an array or a "
                'tensor of integers: np.array(rows, "int32").'
            )
        if name.endswith("positions"):  # [B, P], or [B, E] of packed rows.
            continue
        if not shape.is_compatible_with(x.shape):
            expected = "[B, S]" if shape.rank == 2 else "[B, choices, S]"
            raise ValueError(
                f"{name} has shape {list(x.shape)}; expected {expected}, the "
                "same for all inputs but positions of masks and of [CLS]."
            )
        shape = tf.TensorShape(x.shape)


def _whole(name: str, x) -> tf.Tensor:
    """Returns int32 of numbers of another type; fails if they are no integers.

    In a `tf.function` it fails with TensorFlow's InvalidArgumentError, but not
    if it is compiled by XLA; and not in a functional model with float inputs.
    """
    message = f"{name} should be integers, but has fractions, or is not finite."
    if isinstance(x, keras.KerasTensor):
        return keras.ops.cast(x, "int32")
    x = tf.convert_to_tensor(x)
    if x.dtype.is_floating:
        is_whole = tf.reduce_all(tf.equal(x, tf.round(x)))
        if not tf.is_symbolic_tensor(x) and not is_whole:
            raise ValueError(message)
        tf.debugging.Assert(is_whole, [message])
    return tf.cast(x, "int32")


def flatten(
    batch: Mapping[str, tf.Tensor], dropout_key: tf.Tensor | None
) -> tuple[dict[str, tf.Tensor], tf.Tensor | None, int | tf.Tensor]:
    """Returns the C sequences of each example as rows, for the encoder.

    Args:
      batch: inputs of the encoder, [B, C, S] int32; others are left out.
      dropout_key: [3] int64 of B rows, see `dropout.make_key`, if any.

    Returns:
      The inputs, [B C, S]; the key of these rows; and C, a tensor if it is not
      static, as in an export.
    """
    count, length = keras.ops.shape(batch["input_mask"])[1:]
    rows = {
        name: tf.reshape(batch[name], [-1, length])
        for name in ("input_word_ids", "input_mask", "input_type_ids")
    }
    if dropout_key is not None:
        # Each is a separate row: those of example b start at C b.
        dropout_key *= tf.constant([1, 1, count], tf.int64)
    return rows, dropout_key, count


class ConfiguredModel(keras.Model):
    """Keras model with a BertConfig, which is saved in `.keras` files.

    Constructors build all weights; no call is needed to create them. They build
    each part before `build`, in which Keras puts the name of the model before
    paths. That is automatic, such as "bert_classifier_1": Keras's Orbax
    checkpoints and `set_state_tree`, which match paths, would find the encoder
    in the next model, but no head, and leave it random without a word.

    The config also has the `trainable` of every layer and weight that differs
    from that of its owner, so that frozen parts stay frozen; and what
    `bert_tf.load` has set, so that an untrained head stays one in a copy.

    Args:
      config: BertConfig, or a dict from `BertConfig.to_dict`.
      **kwargs: `name` and `dtype`, as for every Keras layer.

    Attributes:
      config: a BertConfig.
      metadata: set by `bert_tf.load`; see there.
      vocabulary: the same.
      untrained: the same.
      sentence_embedding: the same.
      drawn: name -> value that `from_config` drew, of the weights by which
        `bert_tf.save` knows that a copy has new ones.
    """

    drawn: Mapping[str, np.ndarray] = types.MappingProxyType({})
    metadata = vocabulary = untrained = sentence_embedding = None

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        if isinstance(config, dict):
            config = bert_config.BertConfig.from_dict(config)
        self.config = config
        _check_policy(self.dtype_policy)

    def __call__(self, inputs, *args, **kwargs):
        """Calls the model, as in Keras; ids may be whole numbers of type float.

        `keras.Input` makes them by default, and so does `fit` on several
        replicas before its first step. They become int32 before Keras casts
        them to the dtype of the model: bfloat16 has no integers above 256.
        Fractions are cut off in functional models of such inputs, and by XLA.

        Raises:
          ValueError: if inputs of the encoder are missing, ragged, sparse, of
            another shape, or have fractions or the names of other libraries.
        """
        shape = self.input_shapes()["input_word_ids"]
        inputs = _complete(inputs, tf.TensorShape(shape))
        inputs = {
            name: _whole(name, x)
            if name in _INTEGERS and x.dtype not in ("int32", "int64")
            else x
            for name, x in inputs.items()
        }
        return super().__call__(inputs, *args, **kwargs)

    def get_config(self):
        """Returns the dict for `from_config`."""
        config = super().get_config() | {"config": self.config.to_dict()}
        flags = {
            name: part.trainable
            for name, owner, part in _parts(self)
            if part.trainable != owner.trainable
        }
        loaded = {
            name: _loaded_values(owner)
            for name, owner in _owners(self).items()
            if owner.metadata is not None
        }
        config |= {_FLAGS: flags} if flags else {}
        return config | ({_LOADED: loaded} if loaded else {})

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Returns a new model with the frozen layers of the config."""
        config = dict(config)
        flags, loaded = config.pop(_FLAGS, {}), config.pop(_LOADED, {})
        model = super().from_config(config, custom_objects)
        for name, values in loaded.items():
            _set_loaded(_owners(model)[name], values)
        if flags or not model.trainable:
            # Each, since Keras ignores a flag that is set to what it was, and
            # otherwise sets those of all parts, too; they come later here.
            for name, owner, part in _parts(model):
                part.trainable = flags.get(name, owner.trainable)
        return model

    def build(self, inputs_shape=None):
        """Does nothing: the constructor has built all layers."""

    def build_from_config(self, config):
        """Does nothing: the constructor has already built the model."""

    def input_shapes(self) -> dict[str, tuple]:
        """Returns name -> shape of the inputs of `export`; None is any size."""
        return dict.fromkeys(schema.ENCODER_INPUTS, (None, None))  # [B, S]

    def export(
        self,
        filepath,
        format="tf_saved_model",
        verbose=None,
        input_signature=None,
        **kwargs,
    ):
        """Exports the network, as in Keras, also one that was never called.

        The input is a dict of int32, by default of any batch size and length.
        The output is that of `call`; of a BertEncoder a dict of
        `sequence_output`, `pooled_output` and the hidden states before the
        last layer, `hidden_state_0` and so on.

        Args, the others as in Keras:
          format: "tf_saved_model", "litert", "onnx" or "openvino".
          input_signature: list of one dict, name -> `keras.InputSpec`.

        Raises:
          ValueError: if `input_signature` has another form or lacks an input,
            or Keras does not export the model.
        """
        signature = input_signature or [
            {
                name: keras.InputSpec(
                    "int32" if name in _INTEGERS else "float32", shape
                )
                for name, shape in self.input_shapes().items()
            }
        ]
        needed = self.input_shapes().keys() - {"input_type_ids"}
        if (
            len(signature) != 1
            or not isinstance(signature[0], Mapping)
            or needed - signature[0].keys()
            or not all(getattr(x, "dtype", 0) for x in signature[0].values())
        ):
            raise ValueError(
                f"input_signature={signature!r}; expected a list of one dict, "
                "name of an input -> keras.InputSpec with a dtype, for each of "
                f"{', '.join(sorted(needed))}."
            )
        # A functional model knows its inputs, and a signature has no tuples.
        specs = {
            name: keras.InputSpec(x.dtype, x.shape, name=name)
            for name, x in signature[0].items()
        }
        inputs = {
            name: keras.Input(batch_shape=x.shape, dtype=x.dtype, name=name)
            for name, x in specs.items()
        }
        outputs = self(inputs)
        if isinstance(outputs, EncoderOutputs):
            *earlier, last = outputs.hidden_states
            outputs = {
                "sequence_output": last,
                "pooled_output": outputs.pooled_output,
            } | {f"hidden_state_{i}": x for i, x in enumerate(earlier)}
        network = keras.Model(inputs, outputs)
        network.export(filepath, format, verbose, [specs], **kwargs)

    def quantize(self, *args, **kwargs):
        """Raises ValueError: Keras cannot quantize the layers of BERT."""
        raise ValueError(f"{type(self).__name__}: {layers.NO_QUANTIZE}")


@keras.saving.register_keras_serializable("bert_tf")
class BertEncoder(ConfiguredModel):
    """BERT: token ids to hidden states (Devlin et al. 2018, section 3).

    Args:
      config: BertConfig; this class and its layers use every field except
        `classifier_pooling`.

    Attributes:
      remat: whether activations are recomputed, see `enable_remat`.

    Call arguments:
      inputs: dict of `input_word_ids`, `input_mask` and `input_type_ids`, each
        [B, S] int32; the last may be omitted if all are 0. Packed rows, of up
        to E examples each, also have `schema.PACKED_INPUTS`: `example_numbers`
        and `position_ids`, [B, S] int32, and `cls_positions`, [B, E] int32.
        `word_vectors`, [B, S, H] float, replace the word embeddings of the ids,
        for gradients with respect to them. Other entries are ignored.
      training: whether to apply dropout.
      dropout_key: [3] int64, see `dropout.make_key`. Without it, as in
        Keras's `fit`, a Keras seed generator makes one for each call.
      return_attention: whether to return the attention probabilities of each
        layer, as they are before dropout. This takes more time and memory:
        they are computed a second time, and kept.

    Returns:
      EncoderOutputs.

    Raises:
      ValueError: if there are no `position_ids` and S exceeds
        `max_position_embeddings`.

    Example:
      >>> encoder = bert_tf.BertEncoder(bert_tf.BertConfig.from_name("tiny"))
      >>> preprocess = bert_tf.TextPreprocessor(
      ...     "bert/vocab.txt", max_seq_length=16
      ... )
      >>> outputs = encoder(preprocess(["The cat sat."]))
      >>> outputs.sequence_output.shape  # [B, S, H]
      TensorShape([1, 16, 128])
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        config, policy = self.config, self.dtype_policy
        self.remat = False
        # 1. Token ids to hidden states.
        self.embeddings = embeddings.Embeddings(
            config, name="embeddings", dtype=policy
        )
        # 2. Hidden states to hidden states, L times.
        self.encoder_layers = [
            layers.EncoderLayer(config, i, name=f"layer_{i}", dtype=policy)
            for i in range(config.num_hidden_layers)
        ]
        # Layers that begin with LayerNorm do not end with one.
        self.final_norm = None
        if config.norm_first:
            self.final_norm = layers.LayerNorm(name="final_norm")
        # 3. Hidden state of [CLS] to the pooled output.
        self.pooler = layers.dense(
            config.hidden_size,
            config,
            activation=config.pooler_act,
            name="pooler",
            dtype=policy,
        )
        self.build()

    def enable_remat(self):
        """Saves memory in training: recomputes activations for the gradient.

        Only the input of each layer is kept. Call it before `fit`, or before
        the first call in a `tf.function`, which are traced once.
        """
        self.remat = True

    def build(self, inputs_shape=None):
        hidden_shape = (None, None, self.config.hidden_size)
        self.embeddings.build()
        for layer in self.encoder_layers:
            layer.build(hidden_shape)
        if self.final_norm:
            self.final_norm.build(hidden_shape)
        self.pooler.build((None, self.config.hidden_size))

    def call(
        self, inputs, training=None, dropout_key=None, return_attention=False
    ):
        if training and dropout_key is None:
            dropout_key = self.draw_key(inputs)
        input_mask = self.attention_mask(inputs)
        embedded = hidden = self.embeddings(
            inputs["input_word_ids"],
            inputs["input_type_ids"],
            inputs.get("position_ids"),
            inputs.get("word_vectors"),
            training=training,
            dropout_key=dropout_key,
        )
        encoder_outputs, attention = [], []
        for layer in self.encoder_layers:
            run = functools.partial(
                layer,
                input_mask=input_mask,
                training=training,
                dropout_key=dropout_key,
                return_attention=return_attention,
            )
            if self.remat and training:
                run = tf.recompute_grad(run)
            hidden = run(hidden)
            if return_attention:
                hidden, weights = hidden
                attention.append(weights)
            encoder_outputs.append(hidden)
        if self.final_norm:
            encoder_outputs[-1] = hidden = self.final_norm(hidden)
        pooled = self.pooler(self.pooled_token(hidden, inputs))
        return EncoderOutputs(
            hidden, pooled, tuple(encoder_outputs), embedded, tuple(attention)
        )

    def attention_mask(self, inputs) -> tf.Tensor:
        """Returns the mask of the attention.

        [B, S] int32, 1 for a token; or [B, S, S] bool, query and key position,
        for packed rows and causal attention.
        """
        mask = inputs["input_mask"]
        if "example_numbers" in inputs:
            mask = layers.packed_attention_mask(inputs["example_numbers"])
        return layers.causal_mask(mask) if self.config.is_causal else mask

    def draw_key(self, inputs) -> tf.Tensor | None:
        """Returns a new key for all dropout of one call; None without dropout.

        Layers would otherwise draw a key each, and another one whenever they
        are recomputed.
        """
        rows = tf.shape(inputs["input_mask"])[0]
        attention = self.encoder_layers[0].attention
        for layer in (self.embeddings.dropout, attention.dropout):
            if layer.rate:
                return dropout.draw_key(layer.seed_generator, rows)
        return None

    def pooled_token(self, hidden, inputs):  # [B, H], packed [B, E, H]
        """Returns the hidden state at [CLS], which represents the example.

        With causal attention, [CLS] attends to no other token, so that of the
        last token is used, as in GPT (Radford et al. 2018, section 3.2).
        """
        is_packed = "cls_positions" in inputs
        if self.config.is_causal:
            last = tf.gather(hidden, last_positions(inputs), batch_dims=1)
            return last if is_packed else last[:, 0]
        if is_packed:
            return tf.gather(hidden, inputs["cls_positions"], batch_dims=1)
        return hidden[:, 0]
