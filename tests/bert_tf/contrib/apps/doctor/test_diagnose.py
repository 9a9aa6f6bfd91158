"""diagnose.py: mismatches of weights, vocabulary and case."""

import dataclasses
import hashlib

import numpy as np
import pytest

from bert_tf.checkpoint import contents
from bert_tf.contrib.apps.doctor import diagnose
from tfrecords.text import vocab


@pytest.fixture
def given(tiny_config):
    shapes = contents.shapes(tiny_config, "pretraining")
    return contents.Contents(
        source="test",
        config=tiny_config,
        task="pretraining",
        tensors={n: np.zeros(shape, np.float32) for n, shape in shapes.items()},
        vocabulary=b"[PAD]\n[UNK]\n",
        do_lower_case=True,
    )


def check(given, config=None, task="pretraining", **vocabulary):
    return [
        (diagnostic.severity, diagnostic.check, diagnostic.text)
        for diagnostic in diagnose.check_checkpoint(
            given, config or given.config, task, vocabulary
        )
    ]


def only(given, *arguments, **keywords):
    """Returns severity and text of the only diagnostic."""
    ((severity, name, text),) = check(given, *arguments, **keywords)
    assert name == "checkpoint"
    return severity, text


def test_a_matching_checkpoint_is_a_note(given):
    total = len(given.shapes())
    text = f"has {total} of the model's {total} weights."
    assert only(given) == ("note", text)


def test_missing_heads_are_a_note(given):
    severity, text = only(given, task="classification")
    assert severity == "note"
    assert "newly initialized: classification/dense/kernel, class" in text
    assert "not used: masked_lm/bias, masked_lm/transform/kernel, " in text
    assert text.endswith("and 4 more.")


def test_pre_training_loads_the_encoder_of_a_classifier(given):
    shapes = contents.shapes(given.config, "classification", 2)
    tensors = {n: np.zeros(shape, np.float32) for n, shape in shapes.items()}
    given = dataclasses.replace(
        given, task="classification", tensors=tensors, unused=("step",)
    )
    severity, text = only(given)
    assert severity == "note"
    assert "newly initialized: masked_lm/bias, " in text
    heads = "classification/dense/kernel, classification/dense/bias"
    assert text.endswith(f"not used: {heads}, step.")


def test_missing_encoder_weights_are_a_warning(given):
    del given.tensors["encoder/layer_1/intermediate/kernel"]
    severity, text = only(given)
    assert severity == "warning"
    assert (
        "newly initialized: encoder/layer_1/intermediate/kernel. Check" in text
    )


def test_a_checkpoint_without_matching_weights_is_an_error(given):
    given.tensors.clear()
    severity, text = only(given)
    assert severity == "error"
    assert text.startswith("has 0 of the model's")
    assert text.endswith("Give a BERT checkpoint.")


def test_different_shapes_are_an_error(given):
    other = dataclasses.replace(
        given.config, hidden_size=32, intermediate_size=64
    )
    severity, text = only(given, other)
    assert severity == "error"
    assert "different shapes: encoder/embeddings/word_embeddings: (" in text
    assert text.endswith(
        "Use the bert_config.json that belongs to the checkpoint."
    )


def test_another_vocabulary_is_an_error(given):
    sha256 = hashlib.sha256(given.vocabulary).hexdigest()
    assert len(check(given, sha256=sha256)) == 1
    _, (severity, name, text) = check(given, sha256="ab" * 32)
    assert (severity, name) == ("error", "checkpoint")
    assert "another vocabulary than that of the records" in text


def test_records_may_replace_unused_entries(given):
    entries = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n[unused0]\n"
    given = dataclasses.replace(given, vocabulary=entries)
    for name, number in ((b"[unused0]", 1), (b"the", 2)):
        changed = entries.replace(name, b"anfield")
        vocabulary = vocab.Vocabulary(changed, "vocab.txt")
        made_with = {"sha256": vocabulary.sha256()}
        found = diagnose.check_checkpoint(
            given, given.config, "pretraining", made_with, vocabulary
        )
        assert len(found) == number


def test_another_case_is_an_error_unless_it_was_inferred(given):
    assert len(check(given, do_lower_case=True)) == 1
    _, (severity, name, text) = check(given, do_lower_case=False)
    assert (severity, name) == ("error", "case")
    assert text.endswith("with --do_lower_case=true.")
    inferred = dataclasses.replace(given, is_case_inferred=True)
    assert check(inferred, do_lower_case=False)[1][0] == "warning"
    _, (_, _, text) = check(given, do_lower_case=True, strip_accents=False)
    assert text.endswith("with --strip_accents=true.")
    kept = {"do_lower_case": True, "split_special_tokens": False}
    _, (severity, _, text) = check(given, **kept)
    assert severity == "warning" and text.endswith("have that of the records.")
