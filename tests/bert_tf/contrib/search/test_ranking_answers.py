"""Passages of a query: sorted by the scores of their pairs."""

import functools

import exports
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.contrib.search.ranking_answers import Ranked

QUERY = "who sat on the warm stone"
WORDS = "the cat sat on a warm ship and it rained on old bread".split()
# More than a call of the model has; with "" and a passage that is cut.
PASSAGES = [
    *(" ".join(WORDS[i % 9 : i % 9 + 1 + i // 9]) for i in range(40)),
    "",
    "old bread " * 20,
]


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    """Kind, metadata -> Predictor of one model."""

    @functools.cache
    def make(kind, **metadata):
        folder = tmp_path_factory.mktemp(kind) / "model"
        model = exports.make_for("ranking")
        exports.save_model(model, "regression", folder, **metadata)
        return bert_tf.Predictor(folder, kind=kind)

    return make


def test_scores_are_those_of_pairs_sorted_and_not_limited(load):
    present = [x for x in PASSAGES if x]
    found = load("ranking", score_range=(-0.1, 0.1))((QUERY, present))
    pairs = load("regression")([(QUERY, x) for x in present])
    expected = np.array([x.score for x in pairs])
    order = np.argsort(-expected, kind="stable")
    assert isinstance(found, Ranked)
    np.testing.assert_allclose(found.scores, expected[order], atol=1e-5)
    np.testing.assert_allclose(
        expected[list(found.order)], found.scores, atol=1e-5
    )
    assert list(found.passages) == [present[i] for i in found.order]
    assert np.ptp(found.scores) > 0.2


def test_equal_scores_stay_in_order(load):
    """Scores are given: those of equal passages may differ by rounding."""
    ranking = load("ranking").answers
    batch = ranking.encode([QUERY], [["a ship", "the cat"] * 3])
    scores = tf.constant([0.25, 0.5] * 3)
    outputs = ranking.decode({"score": scores}, batch)
    assert outputs["order"].numpy().tolist() == [[1, 3, 5, 0, 2, 4]]
    ranked = outputs["ranked"].numpy()[0].tolist()
    assert ranked == [b"the cat"] * 3 + [b"a ship"] * 3
    found = load("ranking")((QUERY, ["a ship", "the cat"] * 3))
    assert len(set(found.passages[:3])) == len(set(found.passages[3:])) == 1


def test_missing_passages_are_last_and_have_no_row(load):
    ranking = load("ranking")
    outputs = ranking.signatures["text"](
        query=tf.constant([QUERY, "a", "b"]),
        passages=tf.constant(
            [["", "cat", "a ship"], ["", "", ""], ["sat", "", ""]]
        ),
    )
    outputs = {name: x.numpy() for name, x in outputs.items()}
    assert sorted(outputs["order"][0]) == [-1, 1, 2]
    assert outputs["order"][1:].tolist() == [[-1, -1, -1], [0, -1, -1]]
    ranked = outputs["ranked"]
    assert (ranked[1] == b"").all() and ranked[2].tolist() == [b"sat", b"", b""]
    lowest = outputs["scores"] == tf.float32.min
    np.testing.assert_array_equal(lowest, outputs["order"] == -1)
    rows = ranking.answers.encode(["a", "b"], [["", "cat"], ["", ""]])
    assert len(rows["input_word_ids"]) == 1


def test_passages_without_a_query_are_refused(load):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="one row for each query"
    ):
        load("ranking").signatures["text"](
            query=tf.constant(["a", "b"]), passages=tf.constant([["c"]])
        )


@pytest.mark.parametrize("kind", ["ranking", "regression"])
def test_a_score_has_the_activation_of_its_folder(load, kind):
    texts = (QUERY, PASSAGES[:9]), [(QUERY, x) for x in PASSAGES[:9]]
    rows = texts[kind == "regression"]
    logits = load(kind)(rows)
    found = load(kind, score_activation="sigmoid")(rows)
    if kind == "ranking":
        logits, found = logits.scores, found.scores
    expected = tf.sigmoid(np.ravel(logits))
    np.testing.assert_allclose(np.ravel(found), expected, atol=1e-6)


def test_two_classes_rank_by_the_probability_of_the_second(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(exports, "LABELS", ["not relevant", "relevant"])
    folder = tmp_path / "model"
    exports.save_model(
        exports.make_for("classification"), "classification", folder
    )
    exports.write(folder, tmp_path / "export", "--kind=ranking")
    found = bert_tf.Predictor(folder, kind="ranking")((QUERY, PASSAGES[:40]))
    classes = bert_tf.Predictor(folder)([(QUERY, x) for x in found.passages])
    expected = [x.probabilities["relevant"] for x in classes]
    assert sorted(expected, reverse=True) == expected and np.ptp(expected) > 0.1
    np.testing.assert_allclose(tf.sigmoid(found.scores), expected, atol=1e-6)
    served = tf.saved_model.load(str(tmp_path / "export")).signatures["text"](
        query=tf.constant([QUERY]), passages=tf.constant([PASSAGES[:40]])
    )
    np.testing.assert_allclose(served["scores"][0], found.scores, atol=1e-5)
    assert served["order"].numpy()[0].tolist() == list(found.order)


@pytest.mark.parametrize(
    ("labels", "more"), [(["a", "b", "c"], {}), (["a", "b"], {"num_texts": 1})]
)
def test_other_classes_rank_nothing(tmp_path, monkeypatch, labels, more):
    monkeypatch.setattr(exports, "LABELS", labels)
    folder = tmp_path / "model"
    model = exports.make_model("classification")
    exports.save_model(model, "classification", folder, **more)
    message = "^kind=ranking does not fit a model with task 'classification'"
    with pytest.raises(ValueError, match=message):
        bert_tf.Predictor(folder, kind="ranking")
