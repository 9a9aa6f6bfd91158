"""Model, --kind -> signatures of its SavedModel: strings in, answers out."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from absl import flags

from bert_tf.config import BertConfig
from bert_tf.export import (
    choice_signatures,
    embedding_signatures,
    mask_signatures,
    question_signatures,
    saved_model,
    tag_signatures,
    text_signatures,
)
from bert_tf.model import layer_outputs
from bert_tf.training import model_folders
from tfrecords.tasks import question_windows

# By task of the model; the first is the default.
KINDS = {
    "pretraining": ("fill_mask", "encoder", "sentence_embedding"),
    "classification": ("classification", "encoder", "sentence_embedding"),
    "regression": ("regression", "encoder", "sentence_embedding"),
    "spans": ("question_answering", "encoder", "sentence_embedding"),
    "tagging": ("tagging", "encoder", "sentence_embedding"),
    "multiple_choice": ("multiple_choice", "encoder", "sentence_embedding"),
}
# What model.json must name for these.
NEED_LABELS = ("classification", "tagging")

# By kind: the starts of the weights that it answers with.
NEEDED = {
    "classification": ("classification/", model_folders.POOLER),
    "regression": ("regression/", model_folders.POOLER),
    "question_answering": ("spans/",),
    "tagging": ("tagging/",),
    "multiple_choice": ("multiple_choice/", model_folders.POOLER),
    "fill_mask": ("masked_lm/",),
    "encoder": ("encoder/layer",),
    "sentence_embedding": ("encoder/layer",),
}


class Texts(NamedTuple):
    """What `export.export_text` needs to know of a kind.

    Attributes:
      signatures: name -> function of strings.
      parts: attribute of the SavedModel -> tables and further functions.
    """

    signatures: Mapping[str, text_signatures.Function]
    parts: Mapping[str, Any]


def find_kind(
    values: flags.FlagValues,
    task: str,
    absent: tuple[str, ...],
    config: BertConfig,
) -> str:
    """Returns the kind of export, from the flag or else by the task.

    Args:
      values: flags of `export_flags.define`.
      task: of the model.
      absent: from `untrained.find`.
      config: of the model. A left-to-right one fills no masks, and its [CLS]
        has read nothing.

    Raises:
      ValueError: if the model has no such head, or one that was never trained
        since the checkpoint that it came from has none.
    """

    def is_trained(kind: str) -> bool:
        needed = NEEDED[kind]
        if not model_folders.reads_pooler(task, config):
            needed = tuple(n for n in needed if n != model_folders.POOLER)
        return not any(name.startswith(needed) for name in absent)

    kinds = [
        kind
        for kind in KINDS[task]
        if is_trained(kind) and not (config.is_causal and kind == "fill_mask")
    ]
    wanted = values.kind, values.pooling
    if config.is_causal and wanted == ("sentence_embedding", "cls"):
        raise ValueError(
            "--pooling=cls does not fit a left-to-right model, whose [CLS] has "
            "read nothing of the text. Take --pooling=mean."
        )
    if config.is_causal and values.kind == "fill_mask":
        raise ValueError(
            "--kind=fill_mask does not fit a left-to-right model, which "
            "predicts the next token; it can be exported as "
            f"{' or '.join(kinds)}."
        )
    if values.kind not in ("auto", *kinds):
        lacking = f" without {', '.join(absent)}" if absent else ""
        raise ValueError(
            f"--kind={values.kind} does not fit a model of task {task!r}"
            f"{lacking}; it can be exported as {' or '.join(kinds)}."
        )
    return kinds[0] if values.kind == "auto" else values.kind


def _of_labels(model, preprocess, description) -> Texts:
    """Returns the signatures of a classifier."""
    labels = description["labels"]
    answer = text_signatures.make_answer(
        model, preprocess, text_signatures.make_classify(labels)
    )

    def classify(*texts):
        return text_signatures.classes_of(answer(*texts), labels)

    return Texts(
        {
            saved_model.TEXT: text_signatures.of_pairs(answer),
            saved_model.CLASSIFY: text_signatures.of_examples(classify),
        },
        {"preprocess": text_signatures.of_pairs(preprocess)},
    )


def _of_scores(model, preprocess, description) -> Texts:
    """Returns the signatures of a regressor."""
    answer = text_signatures.make_answer(
        model,
        preprocess,
        text_signatures.make_score(description.get("score_range")),
    )

    def regress(*texts):
        return {"outputs": answer(*texts)["score"]}

    return Texts(
        {
            saved_model.TEXT: text_signatures.of_pairs(answer),
            saved_model.REGRESS: text_signatures.of_examples(regress),
        },
        {"preprocess": text_signatures.of_pairs(preprocess)},
    )


def _of_questions(values, model, tokenizer, length, description) -> Texts:
    """Returns the signature of a model of spans."""
    given = {name: values[name].value for name in values}
    settings = question_signatures.find_settings(length, given, description)
    # Beside a question stand [CLS], [SEP], [SEP] and a token at least.
    if settings.max_query_length + question_windows.SPECIAL_TOKENS >= length:
        raise ValueError(
            f"--max_query_length={settings.max_query_length} leaves no place "
            f"for a passage in --max_seq_length={length}, which also holds "
            f"{question_windows.SPECIAL_TOKENS} special tokens. Take fewer "
            "tokens of questions, or longer windows."
        )
    answer = question_signatures.make_answer(model, tokenizer, settings)
    return Texts(
        {saved_model.TEXT: question_signatures.of_questions(answer)}, {}
    )


def _of_tags(values, model, tokenizer, length, description) -> Texts:
    """Returns the signatures of a tagger."""
    tag = tag_signatures.make_tag(
        model,
        tokenizer,
        description["labels"],
        length,
        values.doc_stride or description.get("doc_stride"),
    )
    return Texts(
        {
            saved_model.TEXT: tag_signatures.tag_texts(tag),
            "words": tag_signatures.tag_words(tag),
        },
        {},
    )


def _of(function, model, preprocess, answer) -> Texts:
    """Returns one signature, for what `function` takes."""
    return Texts(
        {
            saved_model.TEXT: function(
                text_signatures.make_answer(model, preprocess, answer)
            )
        },
        {"preprocess": function(preprocess)},
    )


def make(
    values: flags.FlagValues,
    kind: str,
    model: keras.Model,
    tokenizer: tf.Module,
    max_seq_length: int,
    description: Mapping,
    has_pooler: bool = True,
) -> Texts:
    """Returns what a kind of export answers to strings.

    Args:
      values: flags of `export_flags.define`.
      kind: from `find_kind`.
      model: of the task.
      tokenizer: a BertTokenizer; for fill_mask it keeps [MASK].
      max_seq_length: S, at which texts are cut.
      description: model.json of the model.
      has_pooler: whether anybody trained the pooler.

    Raises:
      ValueError: if a flag does not fit the model.
    """
    pairs = text_signatures.Pairs(tokenizer, max_seq_length)
    if kind == "classification":
        texts = _of_labels(model, pairs, description)
    elif kind == "regression":
        texts = _of_scores(model, pairs, description)
    elif kind == "tagging":
        texts = _of_tags(values, model, tokenizer, max_seq_length, description)
    elif kind == "question_answering":
        texts = _of_questions(
            values, model, tokenizer, max_seq_length, description
        )
    elif kind == "encoder":
        encode = text_signatures.make_encode(has_pooler)
        texts = _of(text_signatures.of_pairs, model.encoder, pairs, encode)
    elif kind == "sentence_embedding":
        layers = layer_outputs.parse(
            values.layers, model.config.num_hidden_layers
        )
        embed = embedding_signatures.make_embed(values.pooling, layers)
        texts = _of(text_signatures.of_texts, model.encoder, pairs, embed)
    elif kind == "fill_mask":
        masked = mask_signatures.MaskedTexts(tokenizer, max_seq_length)
        fill = mask_signatures.make_fill(tokenizer, values.top_k)
        texts = _of(text_signatures.of_texts, model, masked, fill)
    else:
        choices = choice_signatures.Choices(tokenizer, max_seq_length)
        choose = choice_signatures.choose
        texts = _of(choice_signatures.of_choices, model, choices, choose)
    return texts._replace(parts=texts.parts | {"tokenizer": tokenizer})
