"""Networks equal the models that they are made from."""

import exports
import numpy as np
import pytest
import tensorflow as tf
from exports import ROUNDING

from bert_tf.checkpoint import contents
from bert_tf.contrib.runtimes import networks
from bert_tf.serving import kinds
from tfrecords import schema
from tfrecords.text import tokenizer

TOKENS = 11


def batch_of(vocab_size, kind):
    rng = np.random.default_rng(0)
    mask = np.arange(TOKENS) < np.array([[TOKENS], [7], [3]])
    inputs = {
        "input_word_ids": rng.integers(1, vocab_size, mask.shape) * mask,
        "input_mask": mask,
        "input_type_ids": (np.arange(TOKENS) > 4) * mask,
        "masked_lm_positions": np.array([[1, 2], [3, 4], [0, 1]]),
    }
    names = networks.inputs(kind)
    return {name: tf.constant(inputs[name], tf.int32) for name in names}


def answers_of(model, kind, vocab_size=50, metadata=None, **settings):
    """Returns the answers of a kind, whose vocabulary has fewer entries."""
    kind, metadata = (
        kinds.by_name(kind),
        {"labels": exports.LABELS} | (metadata or {}),
    )
    with open(exports.VOCAB_FILE, encoding="utf-8") as file:
        entries = file.read().split("\n")[:vocab_size]
    words = tokenizer.BertTokenizer(entries, kept_tokens=kind.kept_tokens)
    options = kinds.AnswerOptions(**settings)
    return kind(model, words, exports.MAX_SEQ_LENGTH, metadata, options)


def make(model, kind, **settings):
    """Returns the network of the answers of a kind."""
    return networks.make(answers_of(model, kind, **settings))


def outputs_of(task, kind, metadata=None, **settings):
    """Model, batch, and the outputs of the network of a kind."""
    model = exports.make_model(task, num_hidden_layers=2)
    network = make(model, kind, metadata=metadata, **settings)
    batch = batch_of(model.config.vocab_size, kind)
    outputs = network(*batch.values())
    return model, batch, {name: x.numpy() for name, x in outputs.items()}


def test_inputs_have_any_size():
    network = make(exports.make_model("pretraining"), "fill_mask")
    assert [(s.name, s.dtype) for s in network.input_signature] == [
        (name, tf.int32)
        for name in (*schema.ENCODER_INPUTS, "masked_lm_positions")
    ]
    assert all(s.shape.as_list() == [None] * 2 for s in network.input_signature)


def test_classification():
    model, batch, outputs = outputs_of("classification", "classification")
    logits = model(batch)["logits"]
    np.testing.assert_allclose(outputs["logits"], logits, **ROUNDING)
    np.testing.assert_allclose(
        outputs["probabilities"], tf.nn.softmax(logits), **ROUNDING
    )


def test_scores_are_clipped():
    model, batch, free = outputs_of("regression", "regression")
    np.testing.assert_allclose(
        free["score"], model(batch)["predictions"], **ROUNDING
    )
    low, high = np.sort(free["score"])[[0, 2]] + [0.1, -0.1]
    _, _, outputs = outputs_of(
        "regression", "regression", {"score_range": (low, high)}
    )
    np.testing.assert_allclose(
        outputs["score"], np.clip(free["score"], low, high), **ROUNDING
    )


@pytest.mark.parametrize(
    ("task", "kind"), [("spans", "question_answering"), ("tagging", "tagging")]
)
def test_logits_of_tokens(task, kind):
    model, batch, outputs = outputs_of(task, kind, {"max_query_length": 4})
    expected = model(batch)
    assert set(outputs) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(outputs[name], values, **ROUNDING)


@pytest.mark.parametrize(
    ("kind", "ours", "theirs"),
    [
        ("classification", "logits", "logits"),
        ("multi_label", "logits", "logits"),
        ("regression", "predictions", "logits"),
        ("ranking", "predictions", "logits"),
        ("tagging", "logits", "logits"),
        ("question_answering", "start_logits", "start_logits"),
        ("question_answering", "end_logits", "end_logits"),
        ("multiple_choice", "logits", "logits"),
        ("fill_mask", "masked_lm_logits", "logits"),
        ("encoder", "sequence_output", "last_hidden_state"),
        ("sentence_embedding", "sequence_output", "last_hidden_state"),
    ],
)
def test_a_network_of_hugging_face_has_the_numbers_of_the_model(
    kind, ours, theirs
):
    model = exports.make_model(exports.TASKS.get(kind, kind))
    batch = batch_of(model.config.vocab_size, "encoder")
    if kind == "multiple_choice":
        batch = {name: x[None] for name, x in batch.items()}
    network = networks.make_hugging_face(model, kinds.by_name(kind))
    assert [(x.name, x.dtype) for x in network.input_signature] == [
        (name, tf.int64)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    outputs = network(
        *(tf.cast(batch[x], tf.int64) for x in schema.ENCODER_INPUTS)
    )
    everywhere = tf.tile(tf.range(TOKENS)[None], [3, 1])
    if ours == "sequence_output":
        expected = model.encoder(batch).sequence_output
    else:
        expected = model(batch | {"masked_lm_positions": everywhere})[ours]
    if ours == "predictions":
        expected = expected[:, None]  # One logit, [B, 1].
    np.testing.assert_allclose(outputs[theirs], expected, **ROUNDING)
    assert len(outputs) == 1 + (kind == "question_answering")


def test_a_network_of_distilbert_takes_no_token_type_ids():
    model = exports.make_model("classification", type_vocab_size=0)
    kind = kinds.by_name("classification")
    signature = networks.make_hugging_face(model, kind).input_signature
    assert [x.name for x in signature] == ["input_ids", "attention_mask"]


def test_rows_of_choices():
    model, batch, outputs = outputs_of("multiple_choice", "multiple_choice")
    expected = model({name: x[None] for name, x in batch.items()})["logits"]
    np.testing.assert_allclose(outputs["logits"], expected[0], **ROUNDING)


def test_masks_are_filled_from_the_vocabulary():
    model, batch, outputs = outputs_of("pretraining", "fill_mask", top_k=4)
    logits = model(batch)["masked_lm_logits"][..., :50]
    probabilities = tf.nn.softmax(logits).numpy()
    best = np.argsort(-probabilities, axis=-1)[..., :4]
    np.testing.assert_array_equal(outputs["token_ids"], best)
    np.testing.assert_allclose(
        outputs["probabilities"],
        np.take_along_axis(probabilities, best, -1),
        **ROUNDING,
    )


@pytest.mark.parametrize("pooling", ["cls", "max", None])
def test_vectors_have_the_given_pooling_and_layers_or_the_mean_of_the_last(
    pooling,
):
    from bert_tf.model.sentence_embedding import SentenceEmbedding

    model, batch, outputs = outputs_of(
        "pretraining",
        "sentence_embedding",
        pooling=pooling,
        layers=("-1", "-2") if pooling else None,
    )
    first, last = model.encoder(batch).encoder_outputs
    expected = SentenceEmbedding((pooling or "mean",))(
        tf.concat([last, first], -1) if pooling else last, batch["input_mask"]
    )
    np.testing.assert_allclose(outputs["embedding"], expected, **ROUNDING)


def test_prompts_are_settings_of_vectors():
    prompts = {"query": "the ", "text": ""}
    answers = answers_of(
        exports.make_model("pretraining"),
        "sentence_embedding",
        metadata={"prompts": prompts},
    )
    assert networks.settings(answers) == {"prompts": prompts}


@pytest.mark.parametrize("is_pooler_trained", [True, False])
def test_the_encoder(is_pooler_trained):
    untrained = [] if is_pooler_trained else [contents.POOLER + "kernel"]
    model, batch, outputs = outputs_of(
        "regression", "encoder", {"task": "regression", "untrained": untrained}
    )
    expected = model.encoder(batch)
    assert ("pooled_output" in outputs) == is_pooler_trained
    for name, values in outputs.items():
        np.testing.assert_allclose(values, getattr(expected, name), **ROUNDING)
