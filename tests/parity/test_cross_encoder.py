"""Scores, rankings and losses equal those of sentence-transformers.

A CrossEncoder reads our folder, with one label, and we read what it writes.
"""

import json

import exports
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.tasks import losses
from bert_tf.workflows import conversion

QUERY = "who sat on the warm stone"
WORDS = "the cat sat on a warm ship and it rained on old bread".split()
PASSAGES = [" ".join(WORDS[i % 7 : i % 7 + 1 + i // 3]) for i in range(20)]
PASSAGES.append("old bread " * 20)
# Two texts that are cut to 14 tokens have 7 each. Of an odd number, the library
# tokenizers gives one more to the text that was longer, and BERT to the first.
MAX_SEQ_LENGTH = 17
BOUND = dict(atol=2e-5, rtol=2e-5)


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    """Our folder, and the CrossEncoder of it, which returns logits."""
    library = pytest.importorskip("sentence_transformers")
    import torch

    folder = tmp_path_factory.mktemp("cross_encoder")
    source = folder / "source"
    exports.save_model(
        exports.make_for("ranking"),
        "regression",
        source,
        max_seq_length=MAX_SEQ_LENGTH,
    )
    model, _ = bert_tf.load(source)
    bert_tf.save(model, folder / "peer", format="hugging_face")
    theirs = library.CrossEncoder(
        str(folder / "peer"),
        num_labels=1,
        max_length=MAX_SEQ_LENGTH,
        device="cpu",
        activation_fn=torch.nn.Identity(),
    )
    return source, theirs


def test_scores_and_ranking_are_equal(peer):
    source, theirs = peer
    expected = theirs.rank(QUERY, PASSAGES)
    found = bert_tf.Predictor(source, kind="ranking")((QUERY, PASSAGES))
    scores = [row["score"] for row in expected]
    np.testing.assert_allclose(found.scores, scores, **BOUND)
    assert np.ptp(scores) > 0.5
    assert list(found.order) == [row["corpus_id"] for row in expected]


def test_a_folder_of_a_cross_encoder_ranks(peer, tmp_path):
    source, theirs = peer
    theirs.save_pretrained(str(tmp_path / "saved"))
    expected = bert_tf.Predictor(source, kind="ranking")((QUERY, PASSAGES))
    found = bert_tf.Predictor(
        tmp_path / "saved",
        kind="ranking",
        max_seq_length=MAX_SEQ_LENGTH,
    )((QUERY, PASSAGES))
    np.testing.assert_allclose(found.scores, expected.scores, **BOUND)
    assert found.order == expected.order


@pytest.mark.parametrize("activation", ["Identity", "Sigmoid", "Tanh"])
@pytest.mark.parametrize("version", [4, 6])
def test_scores_have_the_activation_of_the_folder(
    peer, tmp_path, activation, version
):
    library = pytest.importorskip("sentence_transformers")
    import torch

    source, theirs = peer
    folder = tmp_path / "saved"
    function = getattr(torch.nn, activation)()
    if version == 6:
        theirs.activation_fn, own = function, theirs.activation_fn
        theirs.save_pretrained(str(folder))
        theirs.activation_fn = own
    else:
        bert_tf.save(bert_tf.load(source)[0], folder, format="hugging_face")
        name = f"{type(function).__module__}.{activation}"
        values = json.loads((folder / "config.json").read_text())
        values["sentence_transformers"] = {"activation_fn": name}
        (folder / "config.json").write_text(json.dumps(values))
    expected = library.CrossEncoder(str(folder), device="cpu").rank(
        QUERY, PASSAGES
    )
    found = bert_tf.Predictor(folder, kind="ranking")((QUERY, PASSAGES))
    scores = [row["score"] for row in expected]
    np.testing.assert_allclose(found.scores, scores, **BOUND)
    # Converted, it has the same scores there.
    conversion.convert(str(folder), "bert_tf", str(tmp_path / "ours"))
    again = str(tmp_path / "again")
    conversion.convert(str(tmp_path / "ours"), "hugging_face", again)
    rows = library.CrossEncoder(again, device="cpu").rank(QUERY, PASSAGES)
    np.testing.assert_allclose([x["score"] for x in rows], scores, **BOUND)


@pytest.mark.parametrize("loss", ["binary", "listwise"])
def test_the_library_gives_our_score_or_the_probability(tmp_path, loss):
    library = pytest.importorskip("sentence_transformers")
    exports.save_model(
        exports.make_for("ranking"),
        "regression",
        tmp_path / "source",
        max_seq_length=MAX_SEQ_LENGTH,
        ranking_loss=loss,
    )
    folder = tmp_path / "written"
    conversion.convert(str(tmp_path / "source"), "hugging_face", str(folder))
    found = bert_tf.Predictor(folder)((QUERY, PASSAGES))
    scores = np.array(found.scores)
    expected = library.CrossEncoder(str(folder), device="cpu").rank(
        QUERY, PASSAGES
    )
    if loss == "binary":
        scores = 1 / (1 + np.exp(-scores))
    np.testing.assert_allclose([x["score"] for x in expected], scores, **BOUND)


def test_two_logits_rank_by_the_second(tmp_path, monkeypatch):
    library = pytest.importorskip("sentence_transformers")
    monkeypatch.setattr(exports, "LABELS", ["not relevant", "relevant"])
    model = exports.make_for("classification")
    exports.save_model(
        *(model, "classification", tmp_path / "source"),
        max_seq_length=MAX_SEQ_LENGTH,
    )
    folder = tmp_path / "written"
    conversion.convert(str(tmp_path / "source"), "hugging_face", str(folder))
    found = bert_tf.Predictor(folder, kind="ranking")((QUERY, PASSAGES))
    logits = library.CrossEncoder(str(folder), device="cpu").predict(
        [(QUERY, x) for x in found.passages]
    )
    np.testing.assert_allclose(
        found.scores, logits[:, 1] - logits[:, 0], **BOUND
    )


def test_losses_are_equal(peer):
    import torch
    from sentence_transformers.cross_encoder import losses as their_losses

    source, theirs = peer
    ranked = bert_tf.Predictor(source, kind="ranking")((QUERY, PASSAGES))
    scores = np.array([s for _, s in sorted(zip(*ranked[:0:-1], strict=True))])
    scores = scores.astype(np.float32)
    labels = (np.arange(len(PASSAGES)) % 3 == 0).astype(np.float32)
    inputs = [[QUERY] * len(PASSAGES), PASSAGES]
    with torch.no_grad():
        expected = their_losses.BinaryCrossEntropyLoss(theirs)(
            inputs, torch.tensor(labels)
        )
    ones = tf.ones(len(PASSAGES))
    found = losses.relevance(scores, labels, ones).value()
    np.testing.assert_allclose(found, float(expected), **BOUND)
    # Their labels of lists are logits: those of these shares.
    grades = labels * np.float32(1 + np.arange(len(labels)) % 2)
    shares = np.log(np.maximum(grades, 1e-30))
    with torch.no_grad():
        expected = their_losses.ListNetLoss(theirs)(
            [[QUERY], [PASSAGES]], [torch.tensor(shares)]
        )
    found = losses.listwise(
        scores[None], grades[None], tf.ones(1), is_passage=ones[None]
    ).value()
    np.testing.assert_allclose(found, float(expected), **BOUND)
