"""ranking.py: a full sort, and trec_eval's scores."""

import numpy as np
import pytest

from bert_tf.contrib.search import ranking

IDS = [f"d{i}" for i in range(57)]


def sorted_ids(row, depth):
    pairs = sorted(zip(row.tolist(), IDS, strict=True), reverse=True)
    return [name for _, name in pairs[:depth]]


@pytest.mark.parametrize("chunk", [1, 4, 10, 57])
@pytest.mark.parametrize("num_values", [3, 1000])
def test_the_best_are_those_of_a_full_sort(chunk, num_values):
    # Of three values, nearly all scores are equal to others.
    rng = np.random.default_rng(chunk)
    scores = rng.integers(0, num_values, (5, len(IDS))).astype(np.float32)
    found = ranking.Ranking(5, depth=10)
    for first in range(0, len(IDS), chunk):
        part = slice(first, first + chunk)
        found.add(scores[:, part], IDS[part])
    assert found.ids() == [sorted_ids(row, 10) for row in scores]


def test_fewer_documents_than_the_depth_are_all_ranked():
    found = ranking.Ranking(1, depth=10)
    found.add(np.array([[1.0, 3.0, 2.0]]), ["a", "b", "c"])
    assert found.best == [[(3.0, "b"), (2.0, "c"), (1.0, "a")]]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scores_that_are_not_finite_are_refused(value):
    with pytest.raises(ValueError, match="is not a finite number: the model's"):
        ranking.Ranking(1).add(np.array([[1.0, value]]), ["a", "b"])


def test_cosines_are_those_of_a_loop():
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(3, 4)), rng.normal(size=(5, 4))
    second[2] = 0
    a, b = (ranking.comparable(x, "cosine") for x in (first, second))
    found = a @ b.T
    for i, x in enumerate(first):
        for j, y in enumerate(second):
            norm = np.sqrt((x**2).sum() * (y**2).sum())
            expected = (x * y).sum() / norm if norm else 0.0
            assert found[i, j] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [({}, "cosine"), ({"similarity_fn_name": "dot"}, "dot")],
)
def test_a_model_says_how_its_vectors_are_compared(metadata, expected):
    assert ranking.choose_similarity(metadata) == expected
    first, second = np.array([[3.0, 4.0]]), np.array([[1.0, 0.0], [0.0, 2.0]])
    first, second = (ranking.comparable(x, expected) for x in (first, second))
    found = first @ second.T
    wanted = {"cosine": [[0.6, 0.8]], "dot": [[3.0, 8.0]]}[expected]
    np.testing.assert_allclose(found, wanted)


def test_other_similarities_are_refused():
    with pytest.raises(ValueError, match="compared by manhattan"):
        ranking.choose_similarity({"similarity_fn_name": "manhattan"})


def test_scores_of_a_query_by_hand():
    ranked = [["x", "b", "y", "a"] + ["z"] * 20]
    judged = [{"a": 1, "b": 3, "c": 2, "x": 0, "y": -1}]
    dcg = 3 / np.log2(3) + 1 / np.log2(5)
    ideal = 3 + 2 / np.log2(3) + 1 / 2
    assert ranking.scores(ranked, judged) == {
        "ndcg@10": pytest.approx(dcg / ideal),
        "mrr": 0.5,
        "recall@10": pytest.approx(2 / 3),
        "recall@100": pytest.approx(2 / 3),
    }


def test_a_query_without_relevant_documents_counts_as_zero():
    judged = [{"a": 1}, {"a": 0}]
    assert ranking.scores([["a"], ["a"]], judged) == {
        "ndcg@10": 0.5,
        "mrr": 0.5,
        "recall@10": 0.5,
        "recall@100": 0.5,
    }


def test_no_queries_are_refused():
    with pytest.raises(ValueError, match="no queries with judgements"):
        ranking.scores([], [])


def test_scores_are_those_of_trec_eval():
    trec_eval = pytest.importorskip(
        "pytrec_eval", reason="make parity installs it"
    )
    rng = np.random.default_rng(7)
    judged, run, found = [], {}, ranking.Ranking(40)
    ids = [f"d{i}" for i in range(300)]
    # Few values, so that ties decide.
    scores = rng.integers(0, 40, (40, 300)).astype(np.float32)
    found.add(scores, ids)
    for number in range(40):
        names = rng.choice(ids, 25, replace=False)
        grades = rng.integers(-1, 4, 25)
        judged.append(dict(zip(names, map(int, grades), strict=True)))
        # Only the documents of our ranking, as trec_eval ranks by itself.
        run[str(number)] = {name: score for score, name in found.best[number]}
    measures = {"ndcg_cut.10", "recip_rank", "recall.10,100"}
    of_query = {str(i): x for i, x in enumerate(judged)}
    evaluator = trec_eval.RelevanceEvaluator(of_query, measures)
    theirs = evaluator.evaluate(run).values()
    names = {
        "ndcg@10": "ndcg_cut_10",
        "mrr": "recip_rank",
        "recall@10": "recall_10",
        "recall@100": "recall_100",
    }
    expected = {
        ours: pytest.approx(np.mean([x[name] for x in theirs]), abs=1e-9)
        for ours, name in names.items()
    }
    assert ranking.scores(found.ids(), judged) == expected
