"""ExportConfig -> SavedModel of a trained model, with string inputs."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf
from absl import logging

from bert_tf.checkpoint import (
    contents,
    model_card,
    model_folders,
    run_models,
)
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.checkpoint.options import OURS
from bert_tf.config import POLICIES, BertConfig, inference_policy
from bert_tf.model import dropout, layers
from bert_tf.serving import kinds, saved_model
from bert_tf.serving.answers import (
    choice_signatures,
    encoder_signatures,
    mask_signatures,
    preprocessor,
    question_signatures,
    tag_signatures,
    text_signatures,
)
from tfrecords.io import stored_folders
from tfrecords.text import tokenizer as tokenizer_lib
from tfrecords.text import vocab

# Tasks whose model.json must name the labels.
_NEED_LABELS = ("classification", "tagging")
# Kinds that need no head.
_OF_ENCODER = ("encoder", "sentence_embedding")


def export(config: kinds.ExportConfig) -> None:
    """Writes the SavedModel of a run, model folder or converted checkpoint.

    README.md in it is the model card.

    Raises:
      ValueError: if a setting does not apply to the model, or no model exists.
      OSError: if the SavedModel cannot be written.
    """
    model_card.check_license(config.license)
    stored_folders.check_kept(config.model_dir, config.export_dir)
    saved_model.check_free(config.export_dir, config.overwrite)
    given = Checkpoint.open(
        config.model_dir,
        accept_tokenizer_differences=config.accept_tokenizer_differences,
    )
    metadata = export_metadata(given)
    if config.kind == kinds.PREPROCESSOR:
        _export_preprocessor(config, given, metadata)
        return
    precision = _find_precision(config, given, metadata)
    model = load_model(given, _find_policy(precision, config.weights_dtype))
    kind = kinds.find_kind(config, metadata, model)
    is_pooler_trained = contents.is_pooler_trained(metadata, model.config)
    if not is_pooler_trained:
        logging.warning(
            "%s has no trained pooler; pooled_output is left out",
            config.model_dir,
        )
    tokenizer = load_tokenizer(given, kind)
    length = find_length(config, metadata, model.config)
    signatures, parts = make_signatures(
        config, kind, model, tokenizer, length, metadata
    )
    settings = {
        "kind": kind,
        "max_seq_length": length,
        "precision": precision,
        "vocab_size": tokenizer.vocab_size,
        "vocab_sha256": tokenizer.sha256,
    }
    settings |= embedding_settings(config, kind, model)
    if metadata["task"] in _NEED_LABELS:
        settings["num_classes"] = len(metadata["labels"])
    if config.weights_dtype:
        settings["weights_dtype"] = config.weights_dtype
    saved_model.export_text(
        [model.encoder if kind in _OF_ENCODER else model],
        config.export_dir,
        signatures=signatures,
        parts=parts,
        encoder=model.encoder,
        is_pooler_trained=is_pooler_trained,
        default=saved_model.ENCODER if kind == "encoder" else saved_model.TEXT,
        metadata=metadata | settings,
        card=make_card(config, given, metadata, settings),
        overwrite=config.overwrite,
    )
    logging.info(
        "exported %s as %s to %s  precision %s",
        config.model_dir,
        kind,
        config.export_dir,
        precision,
    )


def export_metadata(given: Checkpoint) -> dict[str, object]:
    """Returns the entries of model.json that an export keeps."""
    metadata = given.model_json()
    # Of the model; that of the export is among its own settings.
    metadata.pop(contents.SENTENCE_EMBEDDING, None)
    metadata.pop("source")
    if given.origin:
        metadata["source"] = contents.without_folders(given.origin)
    return metadata


def _export_preprocessor(
    config: kinds.ExportConfig, given: Checkpoint, metadata: Mapping
) -> None:
    kinds.check_settings(config, config.kind)
    tokenizer = load_tokenizer(given, config.kind)
    length = find_length(config, metadata, given.config)
    settings = {
        "kind": config.kind,
        **tokenizer.rules,
        "max_seq_length": length,
        "vocab_size": tokenizer.vocab_size,
        "vocab_sha256": tokenizer.sha256,
    }
    signature, parts = preprocessor.make(tokenizer, length)
    saved_model.export_text(
        [],
        config.export_dir,
        signatures={saved_model.TEXT: signature},
        parts=parts,
        metadata=settings,
        card=make_card(config, given, metadata, settings),
        overwrite=config.overwrite,
    )
    logging.info(
        "exported the preprocessor of %s to %s",
        config.model_dir,
        config.export_dir,
    )


def make_card(
    config: kinds.ExportConfig,
    given: Checkpoint,
    metadata: Mapping,
    settings: Mapping,
    files: str = "SavedModel",
) -> str:
    """Returns the model card of an export.

    Args:
      config: reads `license`.
      given: the model, perhaps of a run.
      metadata: from `export_metadata`.
      settings: of the export, at least `kind`.
      files: format of the export.

    Raises:
      ValueError: as in `run_models.read_run`.
    """
    is_ours = given.source.startswith(OURS)
    facts = model_card.Facts(
        config=given.config,
        metadata=metadata,
        files=files,
        kind=settings["kind"],
        settings=settings,
        license=config.license,
        **(run_models.read_run(given.folder) if is_ours else {}),
    )
    return model_card.text(facts)


def _find_precision(config, given: Checkpoint, metadata: Mapping) -> str:
    """Returns the configured precision; by default, that of training."""
    precision = config.precision or metadata.get("precision", "float32")
    if precision not in POLICIES:
        policies = ", ".join(POLICIES)
        raise ValueError(
            f"{given.path_of(model_folders.METADATA)} has precision "
            f"{precision!r}; expected one of {policies}."
        )
    return precision


def embedding_settings(
    config: kinds.ExportConfig, kind: str, model: keras.Model
) -> dict[str, dict]:
    """Returns the entry of an export's model.json on its vectors, if any."""
    if kind != "sentence_embedding":
        return {}
    embedding = encoder_signatures.find_embedding(model, config.pooling)
    return {contents.SENTENCE_EMBEDDING: embedding.settings()}


def _find_policy(precision: str, weights_dtype: str | None):
    """Returns the dtype policy of a model that computes in `precision`."""
    policy = inference_policy(precision)
    if weights_dtype == "bfloat16":
        return layers.StoredInBfloat16(policy)
    return policy


def load_model(given: Checkpoint, policy) -> keras.Model:
    """Returns the model of a checkpoint, with its weights.

    The seeds of its dropout layers are fixed, so that two exports of it are the
    same bytes.
    """
    model = given.build(dtype=policy)
    for layer in model._flatten_layers():
        if isinstance(layer, dropout.Dropout) and layer.seed_generator:
            layer.seed_generator.state.assign([layer.dropout_id, 0])
    return model


def load_tokenizer(given: Checkpoint, kind: str) -> tokenizer_lib.BertTokenizer:
    """Returns the tokenizer that the model was trained with."""
    kept_tokens = [vocab.MASK] if kind == "fill_mask" else []
    tokenizer = given.tokenizer(kept_tokens)
    if tokenizer is None:
        raise ValueError(
            f"{given.path_of(model_folders.VOCABULARY)} is missing, so text "
            "cannot be tokenized. Copy the vocabulary of the training records "
            "there."
        )
    return tokenizer


def find_length(config, metadata: Mapping, model_config: BertConfig) -> int:
    """Returns the configured sequence length; by default, that of training."""
    limit = model_config.max_position_embeddings
    length = config.max_seq_length or metadata.get("max_seq_length", limit)
    if length > limit:
        raise ValueError(
            f"--max_seq_length={length} exceeds the model's "
            f"max_position_embeddings={limit}."
        )
    return length


def make_signatures(
    config: kinds.ExportConfig,
    kind: str,
    model: keras.Model,
    tokenizer: tokenizer_lib.BertTokenizer,
    max_seq_length: int,
    metadata: Mapping,
) -> tuple[dict[str, text_signatures.Function], dict[str, Any]]:
    """Returns the signatures with string inputs, and other attributes to save.

    The signatures also run in this process, with the weights of the moment. For
    fill_mask, `tokenizer` must keep [MASK] as a token.
    """
    if kind == "question_answering":
        settings = question_signatures.find_settings(
            max_seq_length, dataclasses.asdict(config), metadata
        )
        answer = question_signatures.make_answer(model, tokenizer, settings)
        return {saved_model.TEXT: answer}, {"tokenizer": tokenizer}
    if kind == "tagging":
        tag = tag_signatures.make_tag(
            model,
            tokenizer,
            metadata["labels"],
            max_seq_length,
            config.doc_stride or metadata.get("doc_stride"),
        )
        signatures = {
            saved_model.TEXT: tag_signatures.tag_texts(tag),
            "words": tag_signatures.tag_words(tag),
        }
        return signatures, {"tokenizer": tokenizer}
    make_signature = text_signatures.of_pairs
    pack = text_signatures.pack_pairs
    if kind == "sentence_embedding":
        make_signature = text_signatures.of_texts
    if kind == "fill_mask":
        make_signature = text_signatures.of_texts
        pack = mask_signatures.pack_masked
    if kind == "multiple_choice":
        make_signature = choice_signatures.of_choices
        pack = choice_signatures.pack_choices
    # tf.functions, which are traced only once for all signatures.
    preprocess = tf.function(
        functools.partial(pack, tokenizer, max_seq_length), autograph=False
    )
    postprocess = _make_postprocess(config, kind, model, tokenizer, metadata)
    network = model.encoder if kind in _OF_ENCODER else model

    @functools.partial(tf.function, autograph=False)
    def answer(*texts):
        batch = preprocess(*texts)
        return dict(postprocess(network(batch, training=False), batch))

    signatures = {saved_model.TEXT: make_signature(answer)}
    if kind == "classification":
        signatures[saved_model.CLASSIFY] = text_signatures.of_examples(
            lambda *texts: text_signatures.classes_of(
                answer(*texts), metadata["labels"]
            )
        )
    if kind == "regression":
        signatures[saved_model.REGRESS] = text_signatures.of_examples(
            lambda *texts: {"outputs": answer(*texts)["score"]}
        )
    count = functools.partial(text_signatures.count_tokens, tokenizer)
    return signatures, {
        "preprocess": make_signature(preprocess),
        "num_tokens": make_signature(count),
        "tokenizer": tokenizer,
    }


def _make_postprocess(
    config, kind, model, tokenizer, metadata
) -> Callable[..., text_signatures.Answers]:
    """Returns a function (model outputs, batch) -> answers."""
    if kind == "classification":
        return functools.partial(
            text_signatures.classify, labels=metadata["labels"]
        )
    if kind == "regression":
        return functools.partial(
            text_signatures.score, score_range=metadata.get("score_range")
        )
    if kind == "encoder":
        return functools.partial(
            encoder_signatures.encode,
            is_pooler_trained=contents.is_pooler_trained(
                metadata, model.config
            ),
        )
    if kind == "sentence_embedding":
        return encoder_signatures.make_embed(
            model, config.pooling, config.layers
        )
    if kind == "fill_mask":
        return functools.partial(
            mask_signatures.fill,
            tokenizer=tokenizer,
            top_k=config.top_k or kinds.TOP_K,
        )
    return choice_signatures.choose
