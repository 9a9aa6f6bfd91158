"""Folder of a model in any format <-> Keras model and tokenizer."""

import dataclasses
import hashlib
import os
import types
from collections.abc import Collection, Mapping, Sequence, Set

import keras
import numpy as np
from absl import logging

from bert_tf.checkpoint import checkpoint as checkpoint_lib
from bert_tf.checkpoint import (
    convert,
    formats,
    model_card,
    model_folders,
    run_models,
    vocabularies,
)
from bert_tf.config import POLICIES
from bert_tf.model import encoder as encoder_lib
from bert_tf.model import models
from tfrecords.io import atomic_files, stored_folders
from tfrecords.options import is_address
from tfrecords.text import vocab
from tfrecords.text.tokenizer import BertTokenizer

# Entries of model.json that also hold for the encoder under another head.
_OF_ENCODER = ("precision", "strip_accents", "tokenize_chinese_chars")
# The same for an encoder that is saved without a head.
_OF_SAVED_ENCODER = (
    "do_lower_case",
    vocabularies.INFERRED_CASE,
    *_OF_ENCODER,
    "source",
    checkpoint_lib.SOURCE_FILES,
)


def load(
    path: str | os.PathLike,
    *,
    task: str | None = None,
    labels: Sequence[str] | None = None,
    dtype: str | None = None,
    accept_tokenizer_differences: bool = False,
) -> tuple[keras.Model, BertTokenizer | None]:
    """Returns the model in a folder, with its weights, and its tokenizer.

    The model is that of its task: BertPretrainer, BertClassifier,
    BertRegressor, BertSpanPredictor, BertTagger or BertMultipleChoice. A BERT
    without a head is a pre-training model whose heads are newly initialized,
    with Keras's seed. It has four attributes more:

      metadata     the content of its model.json: `task`, `labels`,
                   `do_lower_case`, `max_seq_length` and so on
      vocabulary   content of its vocab.txt, bytes; None if there is none
      new_weights  name -> sha256 of each newly initialized weight
      sentence_embedding  steps from hidden states to the vector of a text, a
                   SentenceEmbedding; None unless the folder specifies them, as
                   those of sentence-transformers do

    Args:
      path: a run or model folder of bert_tf, or a checkpoint of Google's BERT,
        Hugging Face, the Model Garden or KerasHub: a folder, the prefix of a
        TensorFlow checkpoint, or the address of either in a store, such as
        gs://.
      task: "pretraining", "classification", "regression", "spans", "tagging"
        or "multiple_choice". A model of another task, or with other labels,
        gets a newly initialized head. Default: its own.
      labels: class names, for classification and tagging, in the order of
        their ids. Without `task` they rename the model's own classes.
      dtype: Keras dtype policy. Default: that of the model's training if
        known, otherwise Keras's global policy.
      accept_tokenizer_differences: whether to load a checkpoint whose own
        tokenizer does more than BERT's, such as keeping added tokens, with a
        warning.

    Returns:
      The model, and its tokenizer, or None if the folder has no vocabulary.
      That of a pre-training model keeps "[MASK]" as a token.

    Raises:
      ValueError: if there is no model at `path`, several, or a damaged one; if
        its tokenizer differs from BERT's; or if `task` and `labels` do not fit.
      OSError: if a file cannot be read.

    Example:
      >>> model, tokenizer = bert_tf.load("runs/sst-2")
      >>> model.metadata["labels"]
      ['0', '1']
      >>> ids = tokenizer(["a fine film"])  # Ragged; no [CLS], [SEP].
      >>> topics, _ = bert_tf.load(
      ...     "runs/sst-2", task="classification", labels=["news", "sport"]
      ... )  # The same encoder under a new head.
    """
    if labels is not None:
        labels = _check_labels(labels)
    path = stored_folders.fetch(_as_str(path))
    given = _with_head(_read(path, accept_tokenizer_differences), task, labels)
    metadata = checkpoint_lib.metadata_of(given)
    model = models.for_task(
        given.task,
        given.config,
        len(given.labels),
        dtype=dtype or POLICIES.get(metadata.get("precision")),
    )
    weights = model_folders.weight_names(model)
    for name, tensor in given.tensors.items():
        weights[name].assign(tensor)
    # Read-only, so that Keras does not take it for a part of the model.
    model.metadata = types.MappingProxyType(metadata)
    model.vocabulary = given.vocabulary
    model.sentence_embedding = given.sentence_embedding
    model.new_weights = types.MappingProxyType(
        {
            name: model_folders.digest_of({name: weights[name]})
            for name in given.missing()
        }
    )
    _describe_encoder(model, given)
    for note in given.notes:
        is_detail = isinstance(note, checkpoint_lib.Detail)
        level = logging.INFO if is_detail else logging.WARNING
        logging.log(level, "%s: %s", path, note)
    _log(path, given, task)
    if given.vocabulary is None:
        logging.warning("%s has no vocabulary, so no tokenizer", path)
        return model, None
    tokenizer = make_tokenizer(
        given.vocabulary,
        vocab.rules_of(metadata),
        [vocab.MASK] if given.task == "pretraining" else [],
        path,
    )
    check_vocabulary(tokenizer, model, path)
    return model, tokenizer


def _describe_encoder(
    model: keras.Model, given: checkpoint_lib.Checkpoint
) -> None:
    """Gives a model's encoder what `save` writes of it, without the head."""
    encoder = model.encoder
    names = list(_OF_SAVED_ENCODER)
    if given.sentence_embedding:  # It is for texts of this length.
        names += ["max_seq_length"]
    metadata = {n: model.metadata.get(n) for n in names}
    metadata |= _untrained_pooler(
        # Weights not in the source are among `new_weights`.
        dataclasses.replace(given, tensors=dict.fromkeys(given.shapes())),
        "pretraining",
    )
    encoder.vocabulary = given.vocabulary
    encoder.sentence_embedding = given.sentence_embedding
    encoder.metadata = types.MappingProxyType(
        {n: x for n, x in metadata.items() if x is not None}
    )
    weights = model_folders.weight_names(encoder)
    names = [name.removeprefix("encoder/") for name in model.new_weights]
    encoder.new_weights = types.MappingProxyType(
        {
            name: model_folders.digest_of({name: weights[name]})
            for name in names
            if name in weights
        }
    )


def _as_str(path) -> str:
    """Returns a path as a str; raises ValueError if it is none, or empty."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ValueError(
            f"path is {path!r} ({type(path).__name__}); give the folder of a "
            "model."
        )
    return os.fspath(path)


def _log(path: str, given: checkpoint_lib.Checkpoint, task: str | None) -> None:
    """Logs a load; a warning if weights are new without being asked for."""
    labels = f"  labels {', '.join(given.labels)}" if given.labels else ""
    layers = set(map(_layer, given.missing()))
    unasked = [x for x in layers if not task or not x.startswith(f"{task}/")]
    logging.log(
        logging.WARNING if unasked else logging.INFO,
        "loaded %s  task %s%s  weights loaded %d  newly initialized %s",
        stored_folders.address(path),
        given.task,
        labels,
        len(given.tensors),
        ", ".join(sorted(layers)) or "none",
    )


def _check_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Returns class names as a tuple; raises ValueError if they are not."""
    # A set has no order.
    wrong = isinstance(labels, str | Set) or not isinstance(labels, Collection)
    names = () if wrong else tuple(labels)
    if wrong or not all(isinstance(name, str) and name for name in names):
        raise ValueError(
            f"labels is {labels!r}; give a list of the class names in the "
            "order of their ids, such as ['negative', 'positive']."
        )
    if len(set(names)) < len(names):
        raise ValueError(
            f"labels has a name twice: {', '.join(names)}. Each class needs a "
            "name of its own."
        )
    return names


def _read(
    path: str, accept_tokenizer_differences: bool
) -> checkpoint_lib.Checkpoint:
    """Reads a checkpoint of any format, without Adam's moments if possible."""
    if formats.detect(path) != formats.OURS:
        return convert.read(
            path, accept_tokenizer_differences=accept_tokenizer_differences
        )
    folder = run_models.find(path)
    given = checkpoint_lib.read(folder, with_slots=False)
    model_folders.check_finite(given.all_tensors(), folder)
    return given


def _with_head(
    given: checkpoint_lib.Checkpoint,
    task: str | None,
    labels: tuple[str, ...] | None,
) -> checkpoint_lib.Checkpoint:
    """Returns a Checkpoint with the task and labels that `load` was given.

    If they need another head, it has only the weights of the encoder.
    """
    if task is not None and task not in models.TASK_MODELS:
        raise ValueError(
            f"task {task!r} is not one of {', '.join(models.TASK_MODELS)}."
        )
    found = task or given.task
    if labels is not None and found not in checkpoint_lib.WITH_LABELS:
        raise ValueError(
            f"labels are for {' and '.join(checkpoint_lib.WITH_LABELS)}, but "
            f"the task is {found!r}. Omit labels, or give task=."
        )
    if task is None:
        return _renamed(given, labels)
    if task == given.task and labels in (None, given.labels):
        checkpoint_lib.check_labels(given)
        return given
    if task in checkpoint_lib.WITH_LABELS and not labels:
        raise ValueError(
            f"{given.source} has task {given.task!r}; a new head for {task} "
            "needs labels=, a list of the class names."
        )
    metadata = {n: x for n, x in given.metadata.items() if n in _OF_ENCODER}
    metadata |= _untrained_pooler(given, task)
    lost = ()
    if embedding := given.sentence_embedding:
        lost = (
            f"its sentence embedding ({embedding}) is not kept under a new "
            "head, which training adapts the encoder to",
        )
    return dataclasses.replace(
        given.without_head(),
        task=task,
        labels=labels or (),
        metadata=metadata,
        sentence_embedding=None,
        notes=(*given.notes, *lost),
    )


def _renamed(
    given: checkpoint_lib.Checkpoint, labels: tuple[str, ...] | None
) -> checkpoint_lib.Checkpoint:
    """Returns a Checkpoint with other names for its classes, if given."""
    if labels is None:
        checkpoint_lib.check_labels(given)
        return given
    head = given.tensors.get(f"{given.task}/dense/bias")
    num_classes = len(given.labels) if head is None else head.size
    if len(labels) != num_classes:
        names = f": {', '.join(given.labels)}" if given.labels else ""
        raise ValueError(
            f"labels has {len(labels)} names, but the head of {given.source} "
            f"has {num_classes} classes{names}. Give as many, or "
            f"task={given.task!r} for a new head."
        )
    return dataclasses.replace(given, labels=labels)


def _untrained_pooler(
    given: checkpoint_lib.Checkpoint, task: str
) -> dict[str, object]:
    """Returns the entries of model.json on a pooler that stays untrained."""
    old = checkpoint_lib.metadata_of(given)
    untrained = model_folders.find_newly_initialized(old, given.config)
    if model_folders.has_pooler(untrained):
        return {}
    return model_folders.newly_initialized_metadata(task, given.config, None)


def metadata_of(model: keras.Model) -> dict[str, object]:
    """Returns the content of model.json for a model in its present state.

    A newly initialized weight is `not_in_source` until training changes its
    layer.

    Raises:
      ValueError: if the model is not from `load`.
    """
    metadata = getattr(model, "metadata", None)
    if metadata is None or isinstance(model, encoder_lib.BertEncoder):
        raise ValueError(
            f"{type(model).__name__} has no metadata, such as its labels. Give "
            "a model that bert_tf.load has returned; bert_tf.save with labels= "
            "writes a folder for it."
        )
    return _present_metadata(model)


def _present_metadata(model: keras.Model) -> dict[str, object]:
    weights = model_folders.weight_names(model)
    unchanged = [
        name
        for name, sha256 in model.new_weights.items()
        if model_folders.digest_of({name: weights[name]}) == sha256
    ]
    # Of a trained layer, one weight may stay the same: the bias of a softmax
    # over choices has no gradient.
    trained = {_layer(name) for name in model.new_weights.keys() - unchanged}
    untrained = [name for name in unchanged if _layer(name) not in trained]
    metadata = dict(model.metadata) | {"not_in_source": untrained}
    return {n: x for n, x in metadata.items() if x not in (None, [])}


def _layer(name: str) -> str:
    return name.rpartition("/")[0]


def make_tokenizer(
    vocabulary: bytes,
    rules: Mapping[str, bool],
    kept_tokens: Sequence[str],
    source: str,
) -> BertTokenizer:
    """Returns the tokenizer of a vocabulary in memory.

    Args:
      vocabulary: content of vocab.txt.
      rules: arguments of BertTokenizer, from `vocab.rules_of`.
      kept_tokens: as for BertTokenizer.
      source: where the vocabulary is from, for messages.

    Raises:
      ValueError: if the vocabulary is malformed.
    """
    entries = vocab.parse(vocabulary, f"the vocabulary of {source}")
    tokenizer = BertTokenizer(entries, kept_tokens=kept_tokens, **rules)
    # Of the file, which may have a byte order mark or spaces.
    tokenizer.sha256 = hashlib.sha256(vocabulary).hexdigest()
    return tokenizer


def check_vocabulary(
    tokenizer: BertTokenizer, model: keras.Model, source: str
) -> None:
    """Raises ValueError if a vocabulary has ids that the model does not."""
    if tokenizer.vocab_size > model.config.vocab_size:
        raise ValueError(
            f"The vocabulary of {source} has {tokenizer.vocab_size} entries, "
            f"but the model has vocab_size={model.config.vocab_size}. Use the "
            "model's own vocabulary."
        )


def save(
    model: keras.Model,
    path: str | os.PathLike,
    tokenizer: BertTokenizer | None = None,
    *,
    labels: Sequence[str] | None = None,
    format: str = formats.OURS,
    license: str | None = None,
    accept_tokenizer_differences: bool = False,
) -> None:
    """Writes a model to a new folder, atomically, in any format.

    README.md is its model card; scores and data of a model in memory are not
    known.

    Other formats are read back and compared.

    Args:
      model: a model of a task, from `load` or not, or a BertEncoder.
      path: folder to write; it may exist if it is empty.
      tokenizer: its tokenizer. Default: that of `load`, also for the encoder
        of a loaded model.
      labels: class names, for classification and tagging. Default: those of
        `load`.
      format: "bert_tf", "google", "hugging_face", "model_garden" or
        "keras_hub".
      license: licence of the weights, for the card: an identifier of Hugging
        Face's list, such as "apache-2.0". Default: unknown.
      accept_tokenizer_differences: whether to write a format that cannot hold
        the rules of the tokenizer.

    Raises:
      ValueError: if `path` is in use, the format is unknown or cannot hold the
        model, or `labels` do not fit it.
      OSError: if a file cannot be written.

    Example:
      >>> model, tokenizer = bert_tf.load("runs/sst-2")
      >>> bert_tf.save(model, "models/sst-2")
      >>> bert_tf.save(model, "models/sst-2_hf", format="hugging_face")
    """
    if format not in formats.CONVERTERS:
        raise ValueError(
            f"format {format!r} is not one of {', '.join(formats.CONVERTERS)}."
        )
    model_card.check_license(license)
    path = _as_str(path)
    if is_address(path):
        raise ValueError(
            f"{path} is in a store; models are written atomically only to a "
            "disk. Give a local folder, and copy it there."
        )
    path = os.path.normpath(path)
    if os.path.exists(path) and not (
        os.path.isdir(path) and not os.listdir(path)
    ):
        raise ValueError(f"{path} already exists. Choose a new folder.")
    weights = _float32_weights(model)
    given = _checkpoint_of(model, weights, tokenizer, labels)
    if format != formats.OURS:
        _check_trained(given, format)
    with atomic_files.atomic_folder(path) as folder:
        if format != formats.OURS:
            _, lines = convert.write(
                given, format, folder, accept_tokenizer_differences
            )
            for line in lines:
                logging.info("%s", line)
        elif isinstance(model, encoder_lib.BertEncoder):
            checkpoint_lib.write(given, folder)
        else:
            # Its newly initialized weights too, with their values.
            if given.sentence_embedding:
                weights |= given.sentence_embedding.tensors()
            model_folders.save_weights(
                folder,
                weights,
                given.config,
                checkpoint_lib.metadata_of(given),
            )
            vocabularies.write(
                given.vocabulary, os.path.join(folder, model_folders.VOCABULARY)
            )
        facts = model_card.of_checkpoint(given, format, license)
        model_card.write(folder, facts)
    logging.info("saved %s as %s  format %s", given.task, path, format)


def _check_trained(given: checkpoint_lib.Checkpoint, format: str) -> None:
    """Raises ValueError if a format would have no weights for the head."""
    missing = given.missing()
    if given.task != "pretraining" and any(
        name.startswith(f"{given.task}/") for name in missing
    ):
        raise ValueError(
            f"The head for {given.task} is newly initialized, and only "
            f"{formats.OURS} has a place for that, not {format}. Train it "
            "first."
        )


def _float32_weights(model: keras.Model) -> dict[str, np.ndarray]:
    return {
        name: weight.numpy().astype(np.float32)
        for name, weight in model_folders.merged_weights(model).items()
    }


def _checkpoint_of(
    model: keras.Model,
    tensors: dict[str, np.ndarray],
    tokenizer: BertTokenizer | None,
    labels: Sequence[str] | None,
) -> checkpoint_lib.Checkpoint:
    """Returns a model and its weights, without those never trained."""
    is_encoder = isinstance(model, encoder_lib.BertEncoder)
    task = "pretraining" if is_encoder else _task_of(model)
    metadata = {}
    if model.metadata is not None:
        metadata = _present_metadata(model)
    untrained = metadata.pop("not_in_source", ())
    config = model.config
    if is_encoder:
        # The LSTM belongs to the head.
        config = dataclasses.replace(config, bilstm_units=0)
        tensors = {f"encoder/{n}": tensor for n, tensor in tensors.items()}
        untrained = [f"encoder/{name}" for name in untrained]
    if task in checkpoint_lib.WITH_LABELS and labels is None:
        labels = metadata.get("labels")
    labels = _labels_of(model, task, labels)
    vocabulary, rules = model.vocabulary, vocab.rules_of(metadata)
    is_case_inferred = bool(metadata.get(vocabularies.INFERRED_CASE))
    if tokenizer is not None:
        check_vocabulary(tokenizer, model, "tokenizer")
        is_case_inferred &= rules == tokenizer.rules
        rules = tokenizer.rules
        own = tokenizer.sha256
        if vocabulary is None or own != hashlib.sha256(vocabulary).hexdigest():
            vocabulary = vocab.to_bytes(tokenizer.vocab)
    # The fields of their own of a Checkpoint.
    known = ("task", "labels", *vocab.RULES, vocabularies.INFERRED_CASE)
    known += (
        "source",
        checkpoint_lib.SOURCE_FILES,
        checkpoint_lib.SOURCE_PATH,
        model_folders.SENTENCE_EMBEDDING,
    )
    do_lower_case = rules.pop("do_lower_case", None)
    return checkpoint_lib.Checkpoint(
        source=metadata.get("source", type(model).__name__),
        config=config,
        task=task,
        tensors={n: x for n, x in tensors.items() if n not in untrained},
        labels=labels,
        vocabulary=vocabulary,
        do_lower_case=do_lower_case,
        is_case_inferred=is_case_inferred,
        metadata={n: x for n, x in metadata.items() if n not in known} | rules,
        sentence_embedding=model.sentence_embedding,
    )


def _task_of(model: keras.Model) -> str:
    """Returns the task of a model by its class."""
    for task, kind in models.TASK_MODELS.items():
        if isinstance(model, kind):
            return task
    kinds = ", ".join(kind.__name__ for kind in models.TASK_MODELS.values())
    raise ValueError(
        f"model is a {type(model).__name__}; expected a BertEncoder or one of "
        f"{kinds}."
    )


def _labels_of(
    model: keras.Model, task: str, labels: Sequence[str] | None
) -> tuple[str, ...]:
    """Returns the class names of a model; raises ValueError if they misfit."""
    if task not in checkpoint_lib.WITH_LABELS:
        if labels is not None:
            raise ValueError(f"labels do not fit task {task!r}. Omit them.")
        return ()
    if labels is None:
        raise ValueError(
            f"The model has {model.num_classes} classes without names; give "
            "labels=, a list of them in the order of their ids."
        )
    labels = _check_labels(labels)
    if len(labels) != model.num_classes:
        raise ValueError(
            f"labels has {len(labels)} names, but the model has "
            f"{model.num_classes} classes."
        )
    return labels
