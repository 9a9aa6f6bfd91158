"""Answers of a model -> a network of ids and numbers, and its settings.

Other runtimes have no string operations. So a network begins at token ids and
ends at numbers; predict.py, which is copied beside it, does the rest. That of a
Hugging Face folder has the inputs and outputs of transformers.

Shapes: B batch, S sequence, N choices, C classes, H hidden, V vocabulary.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from bert_tf.checkpoint import contents
from bert_tf.config import BertConfig
from bert_tf.serving import batches
from bert_tf.serving.answers.kind import Kind, Tensors
from tfrecords import schema

# Kind -> its inputs beside those of the encoder.
_MORE_INPUTS = {
    "fill_mask": ("masked_lm_positions",),
    "pseudo_log_likelihood": ("masked_lm_positions", "masked_lm_ids"),
}

# Input of transformers' BERT -> ours.
_HUGGING_FACE = {
    "input_ids": "input_word_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "input_type_ids",
}


def hugging_face(config: BertConfig) -> dict[str, str]:
    """Returns the inputs of transformers' model -> ours."""
    names = dict(_HUGGING_FACE)
    if not config.type_vocab_size:
        del names["token_type_ids"]
    return names


def inputs(kind: str) -> tuple[str, ...]:
    """Returns the inputs of the network of a kind, each [B, n] int32."""
    return (*schema.ENCODER_INPUTS, *_MORE_INPUTS.get(kind, ()))


def make(answers: Kind) -> batches.Function:
    """Returns the function from token ids to numbers, with its signature."""
    names = inputs(answers.name)
    call = _CALLS.get(answers.name, _call)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int32, name) for name in names
        ],
        autograph=False,
    )
    def network(*values):
        return call(answers, dict(zip(names, values, strict=True)))

    return network


def make_hugging_face(model, kind: type[Kind]) -> batches.Function:
    """Returns the network that transformers has for a task, with its signature.

    Args:
      model: a model of ours.
      kind: kind of the answers.

    Returns:
      A function of `hugging_face`'s inputs, [B, S] or of choices [B, N, S]
      int64. Its outputs are, by the kind's task, float32:

        texts, choices   logits [B, C], [B, N]; of a score [B, 1]
        tags             logits [B, S, C]
        answers          start_logits, end_logits [B, S]
        [MASK]           logits [B, S, V]
        none (vectors)   last_hidden_state [B, S, H]
    """
    rank = 2 + (kind.name == "multiple_choice")
    names = hugging_face(model.config)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None] * rank, tf.int64, x) for x in names
        ],
        autograph=False,
    )
    def network(*values):
        ours = (tf.cast(x, tf.int32) for x in values)
        batch = dict(zip(names.values(), ours, strict=True))
        if kind.task not in (None, "pretraining"):
            numbers = model(batch, training=False)
            if "predictions" in numbers:
                return {"logits": numbers["predictions"][:, tf.newaxis]}
            return numbers
        hidden = model.encoder(batch, training=False).sequence_output
        if kind.task is None:
            return {"last_hidden_state": hidden}
        words = model.encoder.embeddings.word_embeddings.value
        return {"logits": model.masked_lm(hidden, None, words, training=False)}

    return network


def _call(answers: Kind, batch: Tensors) -> Tensors:
    return dict(answers.network(batch))


def _call_rows(answers: Kind, batch: Tensors) -> Tensors:
    """Calls the network of rows, which predict.py makes of a text."""
    return answers.rows_network(batch)


def _call_choices(answers: Kind, batch: Tensors) -> Tensors:
    """Returns `logits` [B] float32, for endings [B, S]."""
    return answers.network({n: x[:, tf.newaxis] for n, x in batch.items()})


def _call_encoder(answers: Kind, batch: Tensors) -> Tensors:
    """Returns `sequence_output` and, if it is trained, `pooled_output`."""
    numbers = answers.network(batch)
    names = ("sequence_output", "pooled_output")
    return {name: numbers[name] for name in names if name in numbers}


_CALLS = {
    "ranking": _call_rows,
    "pseudo_log_likelihood": _call_rows,
    "multiple_choice": _call_choices,
    "encoder": _call_encoder,
}


def settings(answers: Kind) -> dict[str, Any]:
    """Returns the entries of a kind in the model.json beside predict.py."""
    found = {}
    if answers.task in contents.WITH_LABELS:
        found["labels"] = answers.labels
        found["num_classes"] = len(answers.labels)
    more = _SETTINGS.get(answers.name)
    return found | (more(answers) if more else {})


def _stride(answers: Kind) -> dict[str, Any]:
    if stride := answers.doc_stride:
        from tfrecords.text import word_windows

        word_windows.check_stride(answers.max_seq_length, stride)
    return {"doc_stride": stride}


def _prompts(answers: Kind) -> dict[str, Any]:
    return {contents.PROMPTS: answers.prompts} if answers.prompts else {}


_SETTINGS = {
    "multi_label": lambda answers: {"thresholds": answers.thresholds},
    "tagging": _stride,
    "question_answering": lambda answers: dataclasses.asdict(answers.windows),
    "sentence_embedding": _prompts,
}
