"""Model and preprocessing -> SavedModel with string or token-id inputs.

The SavedModel contains no Keras objects. With a Keras model attached to the
exported object, `tf.saved_model.load` works, but the C++ loader of TensorFlow
Serving does not find the variables (keras issue 20095). So the variables are
attached as a plain list, and the functions close over the model.
"""

import contextlib
import errno
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence

import keras
import tensorflow as tf
from absl import logging
from tensorflow.core.protobuf import fingerprint_pb2

from bert_tf.checkpoint import model_card
from bert_tf.serving import batches, warmup
from bert_tf.serving.answers import encoder as encoder_lib
from bert_tf.serving.answers.kind import TEXT
from tfrecords.io import atomic_files, json_files

SAVED_MODEL = "saved_model.pb"
# For users and clients; TensorFlow Serving reads only `warmup.PATH` in it.
EXTRA = "assets.extra"
_FINGERPRINT = "fingerprint.pb"
METADATA = "model.json"

# Names of signatures; serving_default is an alias of one of the others.
DEFAULT = "serving_default"
ENCODER = "encoder"
# TensorFlow Serving's classifier.cc and regressor.cc expect their names of
# inputs and outputs.
_METHODS = {
    batches.CLASSIFY: tf.saved_model.CLASSIFY_METHOD_NAME,
    batches.REGRESS: tf.saved_model.REGRESS_METHOD_NAME,
}


def _root(*models: keras.Model, **parts) -> tf.train.Checkpoint:
    """Returns an object to export with the variables but no Keras objects."""
    # Keyed by identity, so that a model that is part of another counts once.
    variables = {id(v): v for model in models for v in model.variables}
    root = tf.train.Checkpoint(**parts)
    root.variables = [v.value for v in variables.values()]
    root.trainable_variables = [
        v.value for v in variables.values() if v.trainable
    ]
    return root


def check_free(
    path: str,
    overwrite: bool,
    file: str = SAVED_MODEL,
    title: str = "a SavedModel",
) -> None:
    """Raises ValueError if a folder exists and may not be replaced.

    Args:
      path: the folder; an existing one that is not empty must have `file`.
      overwrite: whether it may be replaced.
      file: name of the model's file.
      title: what such a folder is, for messages.
    """
    path = os.path.normpath(path)
    is_empty = os.path.isdir(path) and not os.listdir(path)
    is_export = os.path.isfile(os.path.join(path, file))
    if os.path.exists(path) and not is_empty and not (overwrite and is_export):
        fault, fix = f"exists and is not {title}", "move it away"
        if is_export:
            fault, fix = "already exists", "add --overwrite to replace it"
        raise ValueError(f"{path} {fault}; give a new folder, or {fix}.")


@contextlib.contextmanager
def new_export(path: str, overwrite: bool, **marks: str) -> Iterator[str]:
    """Yields a folder to write to, which becomes `path` when complete.

    Args:
      path: the folder.
      overwrite: whether an existing one may be replaced.
      **marks: `file` and `title` of `check_free`.

    Raises:
      ValueError: as in `check_free`.
      OSError: if it cannot be written.
    """
    path = os.path.normpath(path)
    check_free(path, overwrite, **marks)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with atomic_files.atomic_folder(path) as folder:
        try:
            yield folder
        except tf.errors.ResourceExhaustedError as error:
            # TensorFlow's error for a full disk.
            message = os.strerror(errno.ENOSPC)
            raise OSError(errno.ENOSPC, message) from error


def _name_methods(folder: str, signatures: Iterable[str]) -> None:
    """Sets the method names of signatures that do not use the Predict API."""
    names = [name for name in signatures if name in _METHODS]
    if not names:
        return
    updater = tf.compat.v1.saved_model.signature_def_utils.MethodNameUpdater(
        folder
    )
    for name in names:
        updater.replace_method_name(name, _METHODS[name])
    updater.save()
    # The fingerprint no longer fits; a missing one is better than a wrong one.
    os.remove(os.path.join(folder, _FINGERPRINT))


def _fix_uuid(folder: str) -> None:
    """Derives the fingerprint's UUID from its digests; it is random before.

    So that two SavedModels of one model are the same bytes.
    """
    path = os.path.join(folder, _FINGERPRINT)
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        fingerprint = fingerprint_pb2.FingerprintDef.FromString(file.read())
    fingerprint.uuid = ""
    digests = fingerprint.SerializeToString(deterministic=True).hex()
    fingerprint.uuid = str(uuid.uuid5(uuid.NAMESPACE_OID, digests))
    with open(path, "wb") as file:
        file.write(fingerprint.SerializeToString(deterministic=True))


@contextlib.contextmanager
def without_logs() -> Iterator[None]:
    """Suppresses TensorFlow's log lines about the duration of callbacks."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def _save(root, folder: str, signatures: Mapping, metadata: Mapping) -> None:
    with without_logs():
        tf.saved_model.save(root, folder, signatures=dict(signatures))
        _name_methods(folder, signatures)
        _fix_uuid(folder)
    os.makedirs(os.path.join(folder, EXTRA), exist_ok=True)
    json_files.write(os.path.join(folder, EXTRA, METADATA), metadata)
    if "max_seq_length" in metadata:
        warmup.write(folder, metadata["max_seq_length"])


def export_text(
    models: Sequence[keras.Model],
    path: str,
    *,
    signatures: Mapping[str, tf.types.experimental.PolymorphicFunction],
    parts: Mapping,
    encoder: keras.Model | None = None,
    is_pooler_trained: bool = True,
    default: str = TEXT,
    metadata: Mapping | None = None,
    card: str | None = None,
    overwrite: bool = False,
) -> None:
    """Writes a SavedModel with string inputs, including the tokenizer.

    After loading, `loaded(inputs, training=False)` calls the encoder, which
    maps a dict to a dict; the signature `encoder` returns `encoder_outputs` as
    `encoder_outputs_0` and so on. `trainable_variables` allows fine-tuning.
    Each other signature is also an attribute, such as `loaded.text(...)`, whose
    inputs may have defaults.

    Args:
      models: the models whose variables the signatures use.
      path: folder to write, atomically.
      signatures: name -> function with an `input_signature`; it returns named
        tensors with the batch as first dimension. `classify` and `regress` get
        the method names of TensorFlow Serving's Classify and Regress APIs,
        others that of Predict.
      parts: attribute -> other object to save, such as lookup tables of the
        signatures or further functions.
      encoder: if given, adds the signature `encoder` of
        `answers.encoder.make_functions`.
      is_pooler_trained: whether the pooler is trained.
      default: name of the signature that is also `serving_default`.
      metadata: content of `assets.extra/model.json`. If it has
        `max_seq_length`, requests of this length are written, with which
        TensorFlow Serving warms up.
      card: content of README.md.
      overwrite: whether to replace an existing SavedModel.

    Raises:
      ValueError: if `path` exists and may not be replaced.
      OSError: if it cannot be written.
    """
    with new_export(path, overwrite) as folder:
        root = _root(*models, *filter(None, [encoder]), **parts, **signatures)
        signatures = dict(signatures)
        if encoder is not None:
            root.__call__, signatures[ENCODER] = encoder_lib.make_functions(
                encoder, is_pooler_trained
            )
        signatures[DEFAULT] = signatures[default]
        _save(root, folder, signatures, metadata or {})
        if card is not None:
            model_card.write(folder, card)
