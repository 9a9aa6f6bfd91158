"""Attributions: known integrals, a NumPy BERT, completeness, characters."""

import logging

import exports
import numpy as np
import oracle
import pytest
import reference_bert

import bert_tf
from bert_tf.contrib.apps import attributions

TEXT = "The old cat, naïve, sat on zzz stones."


def line(function, gradient, x):
    """Returns `slopes` of a function of x, on the line from 0 to x."""

    def slopes(t):
        points = t[:, None] * x
        return function(points), gradient(points) * x

    return slopes


def test_of_a_linear_function_each_input_gets_its_term():
    x, w = np.array([2.0, -1.0, 0.5]), np.array([0.3, 4.0, -1.0])
    found = attributions.integrate(
        line(lambda p: p @ w + 7, lambda p: np.tile(w, (len(p), 1)), x)
    )
    np.testing.assert_allclose(found.values, w * x, rtol=1e-12)
    assert (found.baseline, found.steps) == (7.0, 32)
    assert found.output == 7 + w @ x and found.error < 1e-12


def test_a_product_is_shared_and_an_unused_input_gets_nothing():
    x = np.array([3.0, 5.0, 9.0])

    def gradient(p):
        return np.stack([p[:, 1], p[:, 0], 0 * p[:, 2]], axis=1)

    found = attributions.integrate(
        line(lambda p: p[:, 0] * p[:, 1], gradient, x)
    )
    np.testing.assert_allclose(found.values, [7.5, 7.5, 0], atol=1e-12)


def test_steps_are_raised_until_the_sum_fits():
    def sigmoid(t):
        return 1 / (1 + np.exp(-200 * (t - 0.4003)))

    def slopes(t):
        y = sigmoid(t)
        return y, (200 * y * (1 - y))[:, None]

    found = attributions.integrate(slopes)
    assert found.steps > 32 and found.error < attributions.TOLERANCE
    assert abs(found.values.sum() - 1) < attributions.TOLERANCE


def test_a_jump_is_reported_as_not_reached():
    found = attributions.integrate(
        lambda t: ((t > 0.5) * 1.0, np.zeros([len(t), 2]))
    )
    assert (found.error, found.steps) == (1.0, 512)


@pytest.fixture
def explainer(tmp_path, eagerly):
    """(task, dtype) -> Explainer of a random model with two layers."""

    def make(task="classification", dtype=None, **settings):
        model = exports.make_model(task, num_hidden_layers=2)
        exports.save_model(model, task, tmp_path / task)
        model, tokenizer = bert_tf.load(tmp_path / task, dtype=dtype)
        source = bert_tf.Predictor(model, tokenizer, **settings)
        return attributions.Explainer(source)

    return make


def check(found):
    """Checks what holds for every explanation."""
    total = sum(piece.value for piece in found.pieces)
    assert abs(total - (found.output - found.baseline)) < 1e-3
    np.testing.assert_allclose(
        abs(total - (found.output - found.baseline)), found.error, atol=1e-9
    )
    assert np.isclose(total, sum(word.value for word in found.words))
    for part in (*found.pieces, *found.words):
        assert part.text == found.texts[part.name][part.start : part.end]


def test_attributions_add_up_to_the_probability(explainer):
    explain = explainer()
    for value in (TEXT, ("the cat", TEXT), "cat", ("a", ""), "mat " * 14):
        found = explain(value)
        check(found)
        assert found.answer == explain.predictor(value)
        assert found.answer.label in exports.LABELS
        np.testing.assert_allclose(
            found.output, found.answer.probability, rtol=1e-5
        )
        assert any(abs(word.value) > 0.01 for word in found.words)


def test_the_likeliest_of_several_labels_is_explained(explainer):
    explain = explainer("multi_label")
    for value in (TEXT, ("the cat", TEXT)):
        found = explain(value)
        check(found)
        np.testing.assert_allclose(
            found.output, max(found.answer.probabilities.values()), rtol=1e-5
        )
        assert any(abs(word.value) > 0.01 for word in found.words)


def test_texts_of_equal_length_have_one_baseline(explainer):
    explain = explainer("regression")
    cat, sat, two = map(explain, ("cat", "sat", "cat sat"))
    assert cat.baseline == sat.baseline != two.baseline
    assert cat.output != sat.output
    check(two)


def test_scores_in_half_precision_are_explained_in_float32(explainer):
    half = explainer("regression", dtype="mixed_bfloat16")
    full = explainer("regression")
    found, expected = half(TEXT), full(TEXT)
    check(found)
    assert found.pieces == expected.pieces
    assert found.output == expected.output != found.answer.score
    np.testing.assert_allclose(found.output, found.answer.score, atol=0.1)


def test_attributions_are_those_of_a_bert_in_numpy(explainer):
    explain = explainer()
    found = explain("the naïve cat sat")
    model, tokenizer = explain.predictor.model, explain.predictor.tokenizer
    weights = {
        weight.path.removeprefix(f"{model.name}/"): weight.numpy()
        for weight in model.weights
    }
    encoder = {
        name.removeprefix("encoder/"): value.astype(np.float64)
        for name, value in weights.items()
    }
    table = encoder["embeddings/word_embeddings"]
    inner = tokenizer(["the naïve cat sat"]).numpy()[0]
    ids = np.array([tokenizer.cls_id, *inner, tokenizer.sep_id])
    baseline = np.array(
        [tokenizer.cls_id, *[tokenizer.mask_id] * len(inner), tokenizer.sep_id]
    )
    target = exports.LABELS.index(found.answer.label)

    def probability(vectors):
        # A vocabulary of the tokens of this text.
        tokens = encoder | {"embeddings/word_embeddings": vectors}
        _, pooled = oracle.encode_one(
            np.arange(len(ids)),
            np.ones(len(ids)),
            np.zeros(len(ids), int),
            tokens,
            model.config,
        )
        logits = reference_bert.dense(pooled, weights, "classification/dense")
        return np.exp(reference_bert.log_softmax(logits))[target]

    start, way = table[baseline], table[ids] - table[baseline]
    assert found.baseline == pytest.approx(probability(start), abs=1e-5)
    # Each token's part of the derivative on the way, by central differences
    # and the midpoint rule.
    points, h = (np.arange(200) + 0.5) / 200, 1e-5
    expected = []
    for i in range(1, len(ids) - 1):
        only = way * (np.arange(len(ids)) == i)[:, None]
        slopes = [
            probability(start + t * way + h * only)
            - probability(start + t * way - h * only)
            for t in points
        ]
        expected.append(np.mean(slopes) / (2 * h))
    values = [piece.value for piece in found.pieces]
    np.testing.assert_allclose(values, expected, atol=1e-4)
    assert np.ptp(expected) > 0.01


def test_cut_pieces_have_no_attributions(explainer, caplog):
    explain = explainer(max_seq_length=8)
    with caplog.at_level(logging.WARNING, logger="absl"):
        found = explain(("the cat sat on the mat", "old stone"))
    check(found)
    tokens = explain.predictor.tokenizer(["the cat sat on the mat old stone"])
    assert found.num_cut == tokens.numpy().shape[1] - 5 > 0
    assert "1 of 1 texts have more than max_seq_length=8" in caplog.text
    assert [(p.name, p.text) for p in found.pieces] == [
        ("text_a", "the"),
        ("text_a", "cat"),
        ("text_a", "sat"),
        ("text_b", "old"),
        ("text_b", "stone"),
    ]
    assert explain("").pieces == explain("").words == ()


def test_an_output_that_ignores_the_text_has_attributions_of_zero(explainer):
    explain = explainer()
    kernel, bias = explain.predictor.model.head.weights
    kernel.assign(np.zeros_like(kernel))
    bias.assign([0.0, np.log(2), 0.0])
    found = explain(TEXT)
    assert (found.answer.label, found.output) == ("good", 0.5)
    assert {piece.value for piece in found.pieces} == {0.0}


def test_other_kinds_are_refused(tmp_path):
    exports.save_model(exports.make_model("tagging"), "tagging", tmp_path / "m")
    with pytest.raises(ValueError, match="kind 'tagging' have no attributions"):
        attributions.Explainer(bert_tf.Predictor(tmp_path / "m"))


def test_a_sum_that_does_not_fit_is_a_warning(explainer, monkeypatch, caplog):
    monkeypatch.setattr(attributions, "TOLERANCE", 0.0)
    monkeypatch.setattr(attributions, "_STEPS", (1, 2))
    with caplog.at_level(logging.WARNING, logger="absl"):
        found = explainer()(TEXT)
    assert (found.steps, found.error > 0) == (2, True)
    assert "only within" in caplog.text and "after 2 steps" in caplog.text
