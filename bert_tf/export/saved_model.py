"""Model, preprocessing -> SavedModel: strings or token ids in, answers out.

Letters: N texts, B batch, S sequence, H hidden.

Nothing of Keras goes into a SavedModel. With a Keras model attached to the
exported object, `tf.saved_model.load` works and the C++ loader of TensorFlow
Serving does not find the variables (keras 20095). So the variables stand in a
plain list, and the functions close over the model.
"""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import keras
import tensorflow as tf
from absl import logging

from tfrecords import schema
from tfrecords.io import atomic_files

SAVED_MODEL = "saved_model.pb"
# TensorFlow Serving passes over this folder: it is for people and clients.
EXTRA = "assets.extra"
DESCRIPTION = "model.json"

# Names of signatures; serving_default is one of the two others.
DEFAULT = "serving_default"
TEXT = "text"
ENCODER = "encoder"
# Those that TensorFlow Serving's Classify and Regress APIs ask for; they have
# its names of inputs and outputs (its classifier.cc, regressor.cc).
CLASSIFY = "classify"
REGRESS = "regress"
_METHODS = {
    CLASSIFY: tf.saved_model.CLASSIFY_METHOD_NAME,
    REGRESS: tf.saved_model.REGRESS_METHOD_NAME,
}


def encoder_interface(
    outputs, has_pooler: bool = True
) -> dict[str, tf.Tensor | list[tf.Tensor]]:
    """Returns encoder outputs as the interface of TF Hub names them.

    "Common SavedModel APIs for text tasks", transformer text encoders.

    Args:
      outputs: record of `sequence_output` [B, S, H], `pooled_output` [B, H]
        and `encoder_outputs`, [B, S, H] of every layer.
      has_pooler: whether anybody trained what gives `pooled_output`.

    Returns:
      Those by name, float32, and `default`, which is `pooled_output`; neither
      without a pooler.
    """
    values = tf.nest.map_structure(
        lambda x: tf.cast(x, tf.float32), outputs._asdict()
    )
    values["encoder_outputs"] = list(values["encoder_outputs"])
    pooled = values.pop("pooled_output")
    if not has_pooler:
        return values
    return values | {"pooled_output": pooled, "default": pooled}


def flatten(outputs: Mapping) -> dict[str, tf.Tensor]:
    """Returns what a signature can give: a list's parts by `name_<number>`."""
    flat = {}
    for name, value in outputs.items():
        if isinstance(value, (list, tuple)):
            flat |= {f"{name}_{i}": part for i, part in enumerate(value)}
        else:
            flat[name] = value
    return flat


def _encoder_functions(encoder: keras.Model, has_pooler: bool):
    """Returns the callable of TF Hub and its signature, of any S."""
    specs = schema.batch_signature(
        schema.ENCODER_INPUTS, {"max_seq_length": None}
    )

    @tf.function(autograph=False)
    def call(inputs, training=False):
        return encoder_interface(encoder(inputs, training=training), has_pooler)

    # Traced here, since what has no trace is not saved.
    for training in (False, True):
        call.get_concrete_function(specs, training=training)

    @tf.function(input_signature=list(specs.values()), autograph=False)
    def signature(input_word_ids, input_mask, input_type_ids):
        inputs = (input_word_ids, input_mask, input_type_ids)
        return flatten(call(dict(zip(specs, inputs, strict=True))))

    return call, signature


def _root(*models: keras.Model, **parts) -> tf.train.Checkpoint:
    """Returns an object to export, with variables and no Keras."""
    # By identity, since a model may be a part of another.
    variables = {id(v): v for model in models for v in model.variables}
    root = tf.train.Checkpoint(**parts)
    root.variables = [v.value for v in variables.values()]
    root.trainable_variables = [
        v.value for v in variables.values() if v.trainable
    ]
    return root


@contextlib.contextmanager
def _new_export(path: str, overwrite: bool) -> Iterator[str]:
    """Yields a folder to fill that becomes `path` when it is whole."""
    path = os.path.normpath(path)
    in_the_way = os.path.exists(path) and not (
        os.path.isdir(path) and not os.listdir(path)
    )
    is_export = os.path.isfile(os.path.join(path, SAVED_MODEL))
    if in_the_way and not (overwrite and is_export):
        hint = (
            "pass overwrite to replace it"
            if is_export
            else "it holds something other than a SavedModel; move it away"
        )
        raise ValueError(
            f"{path} is there already; give a new folder, or {hint}."
        )
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with atomic_files.atomic_folder(path) as folder:
        try:
            yield folder
        except tf.errors.ResourceExhaustedError as error:
            # What TensorFlow calls a full disk.
            message = os.strerror(errno.ENOSPC)
            raise OSError(errno.ENOSPC, message) from error


def _name_methods(folder: str, signatures: Iterable[str]) -> None:
    """Says which signatures are not of the Predict API, as all are at first."""
    methods = {name: _METHODS[name] for name in signatures if name in _METHODS}
    if not methods:
        return
    updater = tf.compat.v1.saved_model.signature_def_utils.MethodNameUpdater(
        folder
    )
    for name, method in methods.items():
        updater.replace_method_name(name, method)
    updater.save()
    # It is of the file before. Nothing needs one, and a wrong one is worse.
    os.remove(os.path.join(folder, "fingerprint.pb"))


def _save(root, folder: str, signatures: Mapping, description: Mapping) -> None:
    verbosity = logging.get_verbosity()
    # TensorFlow says how many microseconds some callback took.
    logging.set_verbosity(logging.WARNING)
    try:
        tf.saved_model.save(root, folder, signatures=dict(signatures))
        _name_methods(folder, signatures)
    finally:
        logging.set_verbosity(verbosity)
    os.makedirs(os.path.join(folder, EXTRA), exist_ok=True)
    atomic_files.write_json(
        os.path.join(folder, EXTRA, DESCRIPTION), description
    )


def export_text(
    models: Sequence[keras.Model],
    path: str,
    *,
    signatures: Mapping[str, tf.types.experimental.PolymorphicFunction],
    parts: Mapping,
    encoder: keras.Model | None = None,
    has_pooler: bool = True,
    default: str = TEXT,
    description: Mapping | None = None,
    overwrite: bool = False,
) -> None:
    """Writes a SavedModel that takes strings; the tokenizer is inside.

    Signatures are those given; `encoder`, if one is given, with the
    text-encoder interface of TF Hub; and `serving_default`, which is one of
    them. `classify` and `regress` get the method names of TensorFlow Serving's
    APIs, the others that of its Predict API.

    When loaded, `loaded(inputs, training=False)` is the encoder, dicts in and
    out; as a signature it gives `encoder_outputs` as `encoder_outputs_0` and so
    on. `trainable_variables` are there for fine-tuning. Each other signature is
    an attribute too, as `loaded.text(...)`, whose inputs may have defaults.

    Args:
      models: whose variables the signatures use.
      path: folder to write, whole or not at all.
      signatures: name -> function with an `input_signature`; it returns named
        tensors with the batch as first dimension.
      parts: attribute -> what else to save: tables that the signatures look
        things up in, further functions.
      encoder: the encoder inside the models, if it shall be there for itself: a
        dict of `schema.ENCODER_INPUTS` -> a record as `encoder_interface` takes
        it.
      has_pooler: as for `encoder_interface`.
      default: which signature is `serving_default`.
      description: what to say in `assets.extra/model.json`.
      overwrite: whether to replace a SavedModel that is there.

    Raises:
      ValueError: if `path` is taken.
      OSError: if it cannot be written.
    """
    with _new_export(path, overwrite) as folder:
        root = _root(*models, *filter(None, [encoder]), **parts, **signatures)
        signatures = dict(signatures)
        if encoder is not None:
            root.__call__, signatures[ENCODER] = _encoder_functions(
                encoder, has_pooler
            )
        signatures[DEFAULT] = signatures[default]
        _save(root, folder, signatures, description or {})
