"""Folder of a model in any format <-> Keras model and tokenizer."""

import dataclasses
import hashlib
import os
from collections.abc import Mapping, Sequence

import keras
import numpy as np
from absl import logging

from bert_tf import config as bert_config
from bert_tf.checkpoint import contents, model_folders, tensor_files
from bert_tf.checkpoint.checkpoint import (
    Checkpoint,
    as_labels,
    check_vocabulary,
)
from bert_tf.checkpoint.options import OURS
from bert_tf.model import encoder as encoder_lib
from bert_tf.model import models
from tfrecords.io import stored_folders
from tfrecords.options import some
from tfrecords.text import vocab
from tfrecords.text.tokenizer import BertTokenizer


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
      untrained    name -> sha256 of each newly initialized weight, which no
                   loss has reached
      sentence_embedding  steps from hidden states to the vector of a text, a
                   SentenceEmbedding; None unless the folder specifies them, as
                   those of sentence-transformers do

    Args:
      path: a run or model folder of bert_tf, or a checkpoint of Google's BERT,
        Hugging Face, the Model Garden or KerasHub: a folder, the prefix of a
        TensorFlow checkpoint, or the address of either in a store, such as
        gs://.
      task: "pretraining", "classification", "multi_label", "regression",
        "spans", "tagging" or "multiple_choice". A model of another task, or
        with other labels, gets a newly initialized head. Default: its own.
      labels: class names, for classification, multi_label and tagging, in the
        order of their ids. Without `task` they rename the model's own classes.
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
    given = Checkpoint.open(
        path, accept_tokenizer_differences=accept_tokenizer_differences
    ).with_head(task, labels)
    model = given.build(dtype=dtype)
    _log(path, given, task)
    if given.vocabulary is None:
        logging.warning("%s has no vocabulary, so no tokenizer", path)
        return model, None
    kept_tokens = [vocab.MASK] if given.task == "pretraining" else []
    return model, given.tokenizer(kept_tokens)


def _log(path: str | os.PathLike, given: Checkpoint, task: str | None) -> None:
    """Logs a load; a warning if weights are new without being asked for."""
    labels = f"  labels {', '.join(given.labels)}" if given.labels else ""
    layers = set(map(_layer, given.missing()))
    unasked = [x for x in layers if not task or not x.startswith(f"{task}/")]
    logging.log(
        logging.WARNING if unasked else logging.INFO,
        "loaded %s  task %s%s  weights loaded %d  newly initialized %s",
        stored_folders.address(os.fspath(path)),
        given.task,
        labels,
        len(given.tensors),
        ", ".join(sorted(layers)) or "none",
    )


def metadata_of(model: keras.Model) -> dict[str, object]:
    """Returns the content of model.json for a model in its present state.

    A newly initialized weight is `untrained` until training changes its layer.

    Raises:
      ValueError: if the model is not from `load`, or is a copy without its
        weights.
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
    weights = model_folders.merged_weights(model)
    # A copy of keras.models.clone_model draws all weights anew.
    drawn = [
        name
        for name, value in model.drawn.items()
        if np.array_equal(weights[name].numpy(), value)
    ]
    if any(name.endswith(encoder_lib.POSITIONS) for name in drawn):
        raise ValueError(
            f"This {type(model).__name__} is a copy of a loaded model without "
            "its weights: keras.models.clone_model and from_config initialize "
            "new ones. Give the loaded model, or copy its weights first: "
            "copy.set_weights(model.get_weights())."
        )
    unchanged = [
        name
        for name, sha256 in model.untrained.items()
        if name in drawn
        or tensor_files.digest_of({name: weights[name]}) == sha256
    ]
    # Of a trained layer, one weight may stay the same: the bias of a softmax
    # over choices has no gradient.
    trained = {_layer(name) for name in model.untrained.keys() - unchanged}
    untrained = [name for name in unchanged if _layer(name) not in trained]
    metadata, key = dict(model.metadata), contents.UNTRAINED
    metadata[key] = untrained + [
        name for name in metadata.get(key, ()) if name not in model.untrained
    ]
    return {n: x for n, x in metadata.items() if x not in (None, [])}


def _layer(name: str) -> str:
    return name.rpartition("/")[0]


def save(
    model: keras.Model,
    path: str | os.PathLike,
    tokenizer: BertTokenizer | None = None,
    *,
    labels: Sequence[str] | None = None,
    format: str = OURS,
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
      labels: class names, for classification, multi_label and tagging.
        Default: those of `load`.
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
    given, untrained = _of_model(model, tokenizer, labels)
    given.save(
        path,
        format,
        untrained=untrained,
        license=license,
        accept_tokenizer_differences=accept_tokenizer_differences,
    )


def _of_model(
    model: keras.Model,
    tokenizer: BertTokenizer | None,
    labels: Sequence[str] | None,
) -> tuple[Checkpoint, dict[str, np.ndarray]]:
    """Returns a model, and apart its newly initialized weights."""
    is_encoder = isinstance(model, encoder_lib.BertEncoder)
    task = "pretraining" if is_encoder else _task_of(model)
    metadata = {} if model.metadata is None else _present_metadata(model)
    config, prefix = model.config, ""
    if is_encoder:
        # What its inputs pass through belongs to the head.
        config = dataclasses.replace(config, classifier_pooling="")
        prefix = "encoder/"
    tensors = {
        prefix + name: weight.numpy().astype(np.float32)
        for name, weight in model_folders.merged_weights(model).items()
    }
    _check_weights(model, task, config, tensors, prefix)
    untrained = {
        prefix + name: tensors.pop(prefix + name)
        for name in contents.pop_untrained(metadata)
    }
    if task in contents.WITH_LABELS and labels is None:
        labels = metadata.get("labels")
    labels = _labels_of(model, task, labels)
    vocabulary, rules = model.vocabulary, vocab.rules_of(metadata)
    is_case_inferred = bool(metadata.get(contents.INFERRED_CASE))
    if tokenizer is not None:
        check_vocabulary(tokenizer, model, "tokenizer")
        is_case_inferred &= rules == tokenizer.rules
        rules = tokenizer.rules
        own = vocabulary and hashlib.sha256(vocabulary).hexdigest()
        if own != tokenizer.sha256:
            vocabulary = vocab.to_bytes(tokenizer.vocab)
    do_lower_case = rules.pop("do_lower_case", None)
    known = (*contents.OWN_FIELDS, *vocab.RULES)
    given = Checkpoint(
        source=metadata.get("source", type(model).__name__),
        config=config,
        task=task,
        tensors=tensors,
        labels=labels,
        vocabulary=vocabulary,
        do_lower_case=do_lower_case,
        is_case_inferred=is_case_inferred,
        metadata={n: x for n, x in metadata.items() if n not in known} | rules,
        sentence_embedding=model.sentence_embedding,
    )
    # Beside the newly initialized heads of an encoder, all are drawn anew.
    return given, {} if is_encoder else untrained


def _check_weights(
    model: keras.Model,
    task: str,
    config: bert_config.BertConfig,
    tensors: Mapping[str, np.ndarray],
    prefix: str,
) -> None:
    """Raises ValueError if weights are not those that a model folder has.

    A layer that took the place of one of ours may have weights of the same
    names and shapes, and computes something else with them.
    """
    replaced = [
        part.path
        for part in model._flatten_layers(include_self=False)
        if part.weights and not type(part).__module__.startswith("bert_tf.")
    ]
    expected = contents.shapes(config, task, getattr(model, "num_classes", 0))
    found = tensor_files.shapes_of(tensors)
    names = replaced or sorted(
        name
        for name in expected.keys() | found.keys()
        if name.startswith(prefix) and expected.get(name) != found.get(name)
    )
    if names:
        raise ValueError(
            f"This {type(model).__name__} has other weights than BERT: "
            f"{some(names)}. Layers that were quantized or replaced, and "
            "adapters of other layers than Dense, cannot be written. Save the "
            "model without them."
        )


def _task_of(model: keras.Model) -> str:
    """Returns the task of a model by its class."""
    for task, model_class in models.TASK_MODELS.items():
        if isinstance(model, model_class):
            return task
    names = ", ".join(
        model_class.__name__ for model_class in models.TASK_MODELS.values()
    )
    raise ValueError(
        f"model is a {type(model).__name__}; expected a BertEncoder or one of "
        f"{names}."
    )


def _labels_of(
    model: keras.Model, task: str, labels: Sequence[str] | None
) -> tuple[str, ...]:
    """Returns the class names of a model; raises ValueError if they misfit."""
    if task not in contents.WITH_LABELS:
        if labels is not None:
            raise ValueError(f"labels do not fit task {task!r}. Omit them.")
        return ()
    if labels is None:
        raise ValueError(
            f"The model has {model.num_classes} classes without names; give "
            "labels=, a list of them in the order of their ids."
        )
    labels = as_labels(labels)
    if len(labels) != model.num_classes:
        raise ValueError(
            f"labels has {len(labels)} names, but the model has "
            f"{model.num_classes} classes."
        )
    return labels
