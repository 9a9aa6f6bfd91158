"""ExportConfig -> SavedModel of a trained model, with string inputs."""

from collections.abc import Mapping

import keras
from absl import logging

from bert_tf.checkpoint import contents, model_card, model_folders, run_models
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.checkpoint.options import OURS
from bert_tf.config import inference_policy
from bert_tf.model import dropout, layers
from bert_tf.serving import kinds, saved_model
from bert_tf.serving.answers.encoder import Encoder
from bert_tf.serving.answers.kind import TEXT, Kind
from tfrecords.io import stored_folders
from tfrecords.text import tokenizer as tokenizer_lib


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
    if config.kind != "auto" and not kinds.by_name(config.kind).weights:
        _export_preprocessor(config, given, metadata)
        return
    precision = config.precision or metadata.get("precision", "float32")
    model = load_model(given, _make_policy(precision, config.weights_dtype))
    kind = kinds.choose(config, metadata, model)
    is_pooler_trained = contents.is_pooler_trained(metadata, model.config)
    if not is_pooler_trained:
        logging.warning(
            "%s has no trained pooler; pooled_output is left out",
            config.model_dir,
        )
    tokenizer = load_tokenizer(given, kind.kept_tokens)
    length = kinds.choose_length(config, metadata, model.config)
    answers = kind(model, tokenizer, length, metadata, config)
    signatures, parts = answers.make_signatures()
    settings = {
        "kind": kind.name,
        "max_seq_length": length,
        "precision": precision,
        "vocab_size": tokenizer.vocab_size,
        "vocab_sha256": tokenizer.sha256,
        **answers.settings(),
    }
    if metadata["task"] in contents.WITH_LABELS:
        settings["num_classes"] = len(metadata["labels"])
    if config.weights_dtype:
        settings["weights_dtype"] = config.weights_dtype
    saved_model.export_text(
        [model.encoder if kind.task is None else model],
        config.export_dir,
        signatures=signatures,
        parts=parts,
        encoder=model.encoder,
        is_pooler_trained=is_pooler_trained,
        default=saved_model.ENCODER if issubclass(kind, Encoder) else TEXT,
        metadata=metadata | settings,
        card=make_card(config, given, metadata, kind, settings),
        overwrite=config.overwrite,
    )
    logging.info(
        "exported %s as %s to %s  precision %s",
        config.model_dir,
        kind.name,
        config.export_dir,
        precision,
    )


def export_metadata(given: Checkpoint) -> dict[str, object]:
    """Returns the entries of model.json that an export keeps."""
    metadata = given.model_json()
    # Of the model; that of the export is among its own settings.
    metadata.pop(contents.SENTENCE_EMBEDDING, None)
    metadata.pop(contents.SOURCE_SETTINGS, None)
    metadata.pop("source")
    if given.origin:
        metadata["source"] = contents.without_folders(given.origin)
    return metadata


def _export_preprocessor(
    config: kinds.ExportConfig, given: Checkpoint, metadata: Mapping
) -> None:
    kind = kinds.by_name(config.kind)
    kinds.check_options(config, kind)
    for name in ("precision", "weights_dtype"):
        if (value := getattr(config, name)) is not None:
            raise ValueError(
                f"--{name}={value}: a preprocessor has no weights. Omit the "
                "flag."
            )
    tokenizer = load_tokenizer(given)
    length = kinds.choose_length(config, metadata, given.config)
    settings = {
        "kind": kind.name,
        **tokenizer.rules,
        "max_seq_length": length,
        "vocab_size": tokenizer.vocab_size,
        "vocab_sha256": tokenizer.sha256,
    }
    answers = kind(None, tokenizer, length, metadata, config)
    signatures, parts = answers.make_signatures()
    saved_model.export_text(
        [],
        config.export_dir,
        signatures=signatures,
        parts=parts,
        metadata=settings,
        card=make_card(config, given, metadata, kind, settings),
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
    kind: type[Kind],
    settings: Mapping,
    files: str = "SavedModel",
) -> str:
    """Returns the model card of an export.

    Args:
      config: reads `license`.
      given: the model, perhaps of a run.
      metadata: from `export_metadata`.
      kind: what the files compute.
      settings: of the export.
      files: format of the export.

    Raises:
      ValueError: as in `run_models.read_run`.
    """
    is_ours = given.source.startswith(OURS)
    facts = model_card.Facts(
        config=given.config,
        metadata=metadata,
        files=files,
        kind=kind,
        names=kinds.TITLES[kind.name],
        settings=settings,
        license=config.license,
        **(run_models.read_run(given.folder) if is_ours else {}),
    )
    return model_card.text(facts)


def _make_policy(precision: str, weights_dtype: str | None):
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


def load_tokenizer(
    given: Checkpoint, kept_tokens: tuple[str, ...] = ()
) -> tokenizer_lib.BertTokenizer:
    """Returns the tokenizer that the model was trained with."""
    tokenizer = given.tokenizer(kept_tokens)
    if tokenizer is None:
        raise ValueError(
            f"{given.path_of(model_folders.VOCABULARY)} is missing, so text "
            "cannot be tokenized. Copy the vocabulary of the training records "
            "there."
        )
    return tokenizer
