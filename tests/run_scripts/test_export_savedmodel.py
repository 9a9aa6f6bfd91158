"""Exports of export_savedmodel, loaded in Python and in the C++ loader."""

import os

import c_loader
import huggingface_hub
import numpy as np
import pytest
import tensorflow as tf
from exports import (
    MAX_SEQ_LENGTH,
    ROUNDING,
    VOCAB_FILE,
    make_model,
    save_model,
    write,
)

from bert_tf.checkpoint import checksums
from bert_tf.config import POLICIES
from bert_tf.serving import warmup
from tfrecords import schema
from tfrecords.io import json_files
from tfrecords.text import segments, tokenizer

TEXTS = ["The cat sat on the warm stone.", "", "old bread " * 40]
PAIRS = ["It was told.", "a ship", ""]


@pytest.fixture(scope="module")
def words():
    return tokenizer.BertTokenizer(VOCAB_FILE)


def batch_of(words, text_a, text_b):
    """Returns these texts as training packs them, with all the padding."""
    return segments.pack(
        words(tf.constant(text_a, tf.string)),
        words(tf.constant(text_b, tf.string)),
        MAX_SEQ_LENGTH,
        words.cls_id,
        words.sep_id,
    )


def test_the_second_text_may_be_omitted(exported, words):
    model, _, loaded = exported("classification")
    expected = model(batch_of(words, TEXTS, [""] * 3))["logits"]
    for answers in (
        loaded.text(TEXTS),
        loaded.text(TEXTS, ["", "", ""]),
        loaded.signatures["serving_default"](
            text_a=tf.constant(TEXTS), text_b=tf.constant([], tf.string)
        ),
    ):
        np.testing.assert_allclose(answers["logits"], expected, **ROUNDING)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="as many strings as text_a"
    ):
        loaded.text(TEXTS, ["one"])


def test_a_model_of_single_texts_needs_no_second_one(words, tmp_path):
    model, folder = make_model("classification"), tmp_path / "model"
    save_model(model, "classification", folder, num_texts=1)
    write(str(folder), str(tmp_path / "export"))
    loaded = tf.saved_model.load(str(tmp_path / "export"))
    expected = model(batch_of(words, TEXTS, [""] * 3))["logits"]
    answers = loaded.signatures["serving_default"](text_a=tf.constant(TEXTS))
    np.testing.assert_allclose(answers["logits"], expected, **ROUNDING)
    found = warmup.signatures_of(str(tmp_path / "export"))
    for name, signature in found.items():
        wanted = {"classify": {"inputs"}, "encoder": {*schema.ENCODER_INPUTS}}
        assert {*signature.inputs} == wanted.get(name, {"text_a"})
    # An Example has no text_b either; one that it has is not read.
    example = tf.train.Example()
    for name in ("text_a", "text_b"):
        example.features.feature[name].bytes_list.value.append(b"a ship")
    scores = loaded.signatures["classify"](
        inputs=tf.constant([example.SerializeToString()])
    )["scores"]
    expected = loaded.text(["a ship"])["probabilities"]
    np.testing.assert_array_equal(scores, expected)


@pytest.mark.parametrize("kind", ["encoder", "classification"])
def test_every_export_has_an_encoder_signature(exported, words, kind):
    model, _, loaded = exported(kind)
    inputs = loaded.preprocess(TEXTS, PAIRS)
    batch = batch_of(words, TEXTS, PAIRS)
    for name, values in batch.items():
        np.testing.assert_array_equal(inputs[name], values)
    answers = [loaded.signatures["encoder"](**batch)]
    if kind == "encoder":
        answers.append(loaded.text(TEXTS, PAIRS))
    expected = model.encoder(batch).pooled_output
    for answer in answers:
        np.testing.assert_allclose(
            answer["pooled_output"], expected, **ROUNDING
        )


def test_a_loaded_encoder_can_be_trained(exported, words):
    loaded = exported("encoder").loaded
    with tf.GradientTape() as tape:
        outputs = loaded(batch_of(words, TEXTS, PAIRS), training=True)
        loss = tf.reduce_sum(outputs["pooled_output"] ** 2)
    gradients = tape.gradient(loss, loaded.trainable_variables)
    assert len(gradients) == 5 + 2 * 16 + 2
    assert all(gradient is not None for gradient in gradients)


@pytest.mark.slow
def test_the_encoder_in_the_loader_of_tensorflow_serving(exported, c_program):
    _, path, loaded = exported("encoder")
    batch = loaded.preprocess(TEXTS, PAIRS)
    c_loader.check(
        c_program, path, batch, loaded.signatures["serving_default"](**batch)
    )
    c_loader.check(
        c_program,
        path,
        {"text_a": TEXTS, "text_b": PAIRS},
        loaded.text(TEXTS, PAIRS),
        signature="text",
    )


@pytest.mark.slow
def test_the_card_of_a_run_has_its_scores_and_licence(tmp_path):
    best = tmp_path / "run" / "best"
    save_model(make_model("classification"), "classification", best)
    checksums.write_checksums(str(best), {"step": 3})
    results = {"task_name": "MRPC", "step": 3, "best_metric": "f1"}
    results |= {"dev": {"f1": 0.8}, "majority_baseline": {"dev": {"f1": 0.5}}}
    json_files.write(str(tmp_path / "run" / "eval_results.json"), results)
    write(tmp_path / "run", tmp_path / "out", "--license=mit")
    path = tmp_path / "out" / "README.md"
    card = huggingface_hub.ModelCard.load(path)
    assert card.data.license == "mit"
    (score,) = card.data.eval_results
    assert (score.metric_type, score.metric_value) == ("f1", 0.8)
    assert "| dev | f1 | 0.8 | 0.5 |" in card.content


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flag", "precision"),
    [("--overwrite", "bfloat16"), ("--precision=float32", "float32")],
)
def test_the_default_precision_is_that_of_the_run(tmp_path, flag, precision):
    logits = {}
    for name, dtype in POLICIES.items():
        if name != "float16":
            model = make_model("classification", dtype=dtype)
            logits[name] = tf.function(lambda x, m=model: m(x)["logits"])
    folder = tmp_path / "model"
    save_model(model, "classification", folder, precision="bfloat16")
    write(folder, tmp_path / "out", flag)
    loaded = tf.saved_model.load(str(tmp_path / "out"))
    batch = loaded.preprocess(TEXTS, PAIRS)
    # Same weights; the difference exceeds the tolerance of the comparison.
    expected = {name: of(batch).numpy() for name, of in logits.items()}
    assert np.abs(expected["bfloat16"] - expected["float32"]).max() > 1e-3
    np.testing.assert_allclose(
        loaded.text(TEXTS, PAIRS)["logits"], expected[precision], **ROUNDING
    )
    for signature in loaded.signatures.values():
        types = {x.dtype for x in signature.structured_outputs.values()}
        assert types <= {tf.float32, tf.string}
    metadata = tmp_path / "out" / "assets.extra" / "model.json"
    assert json_files.read(str(metadata))["precision"] == precision


def stored(path):
    """Returns the bytes of the weights in a SavedModel, and their types."""
    reader = tf.train.load_checkpoint(os.path.join(path, "variables/variables"))
    shapes = reader.get_variable_to_shape_map()
    types = reader.get_variable_to_dtype_map()
    # The others are seeds of dropout and a counter.
    names = [name for name in shapes if types[name].is_floating]
    sizes = [types[name].size * np.prod(shapes[name]) for name in names]
    return sum(sizes), {types[name] for name in names}


def test_each_weight_is_stored_once_for_all_signatures(exported):
    model, path, _ = exported("classification")
    assert stored(path) == (4 * model.count_params(), {tf.float32})


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("task", ["classification", "pretraining"])
def test_weights_may_be_stored_in_bfloat16(tmp_path, task, precision):
    model = make_model(task)
    folder, path = tmp_path / "model", str(tmp_path / "out")
    save_model(model, task, folder)
    words = ["--weights_dtype=bfloat16", f"--precision={precision}"]
    write(folder, path, *words)
    num_bytes, types = stored(path)
    assert types == {tf.bfloat16, tf.float32}
    single = ("norm", "classification", "next_sentence", "masked_lm/bias")
    assert num_bytes == sum(
        np.prod(x.shape) * (4 if any(n in x.path for n in single) else 2)
        for x in model.weights
    )
    # The weights are rounded, and with bfloat16 the products, too.
    loaded = tf.saved_model.load(path)
    answers = loaded.text([TEXTS[0] + " [MASK]"])
    batch = loaded.preprocess([TEXTS[0] + " [MASK]"])
    for weight in model.weights:
        rounded = tf.cast(weight, tf.bfloat16)
        if not any(name in weight.path for name in single):
            weight.assign(tf.cast(rounded, tf.float32))
    name = {"classification": "logits", "pretraining": "masked_lm_logits"}[task]
    expected = tf.nn.softmax(model(batch)[name])
    if task == "pretraining":
        expected = tf.math.top_k(expected, 5)[0]
    bound = {"float32": 1e-5, "bfloat16": 0.02}[precision]
    np.testing.assert_allclose(answers["probabilities"], expected, atol=bound)
    found = json_files.read(os.path.join(path, "assets.extra", "model.json"))
    assert found["weights_dtype"] == "bfloat16"
    assert found["precision"] == precision


def test_an_unknown_precision_is_refused(tmp_path):
    model, folder = make_model("classification"), tmp_path / "model"
    save_model(model, "classification", folder, precision="int8")
    with pytest.raises(ValueError, match="model.json: precision is 'int8';"):
        write(folder, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "metadata_changes"),
    [
        ("encoder", {"untrained": ["encoder/pooler/kernel"]}),
        ("fill_mask", {"pairs": "none"}),
    ],
)
def test_an_untrained_pooler_is_not_served(tmp_path, kind, metadata_changes):
    folder = tmp_path / "model"
    save_model(
        make_model("pretraining"), "pretraining", folder, **metadata_changes
    )
    write(folder, tmp_path / "out", f"--kind={kind}")
    loaded = tf.saved_model.load(str(tmp_path / "out"))
    for name, signature in loaded.signatures.items():
        outputs = set(signature.structured_outputs)
        assert outputs and not outputs & {"pooled_output", "default"}, name
    assert "sequence_output" in (
        loaded.signatures["encoder"].structured_outputs
    )
