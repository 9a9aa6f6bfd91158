"""Scores of documents -> the best of each query -> nDCG, MRR and recall.

Definitions are those of trec_eval (measures ndcg_cut, recip_rank and recall).

Shapes: Q queries, C documents of a chunk, E size of a vector.
"""

import heapq
from collections.abc import Mapping, Sequence

import numpy as np

NDCG_DEPTH = 10
RECALL_DEPTHS = (10, 100)
DEPTH = max(NDCG_DEPTH, *RECALL_DEPTHS)  # Documents of a ranking.

# How vectors are compared, as in sentence-transformers.
SIMILARITIES = ("cosine", "dot")

# Document -> grade; relevant from 1.
Grades = Mapping[str, int]


class Ranking:
    """The best documents of each query, of any number of documents.

    Of equal scores, the document with the higher id is better, as in trec_eval.

    Args:
      num_queries: Q.
      depth: maximum number of documents of a query.

    Attributes:
      best: for each query (score, id of a document), the best first.
    """

    def __init__(self, num_queries: int, depth: int = DEPTH):
        self.depth = depth
        self.best: list[list[tuple[float, str]]] = [
            [] for _ in range(num_queries)
        ]

    def add(self, scores: np.ndarray, ids: Sequence[str]) -> None:
        """Adds documents.

        Args:
          scores: [Q, C] float, higher is better.
          ids: [C], each different from all others.

        Raises:
          ValueError: if a score is not finite.
        """
        if not np.isfinite(scores).all():
            raise ValueError(
                "A score is not a finite number: the model's weights are "
                "damaged, or its training diverged."
            )
        order = sorted(range(len(ids)), key=ids.__getitem__, reverse=True)
        rank = np.argsort(order)  # 0 for the highest id.
        for best, row in zip(self.best, scores, strict=True):
            least = best[-1][0] if len(best) == self.depth else -np.inf
            if len(row) > self.depth:
                nth = len(row) - self.depth
                least = max(least, np.partition(row, nth)[nth])
            chosen = np.flatnonzero(row >= least)
            if len(chosen) > 2 * self.depth:  # Many are equal, such as 0.
                equal = chosen[row[chosen] == least]
                equal = equal[np.argsort(rank[equal])[: self.depth]]
                chosen = np.concatenate([chosen[row[chosen] > least], equal])
            new = [(float(row[i]), ids[i]) for i in chosen]
            best[:] = heapq.nlargest(self.depth, best + new)

    def ids(self) -> list[list[str]]:
        """Returns the ids of each query's documents, the best first."""
        return [[name for _, name in best] for best in self.best]


def comparable(vectors: np.ndarray, similarity: str) -> np.ndarray:
    """Returns vectors [N, E] whose dot products are the similarities.

    Args:
      vectors: [N, E] float32; a cosine of zeros is 0.
      similarity: one of `SIMILARITIES`.
    """
    return normalized(vectors) if similarity == "cosine" else vectors


def choose_similarity(metadata: Mapping) -> str:
    """Returns how the vectors of a model are compared, by its model.json.

    Raises:
      ValueError: if that is not one of `SIMILARITIES`.
    """
    found = metadata.get("similarity_fn_name", "cosine")
    if found not in SIMILARITIES:
        raise ValueError(
            f"The model's vectors are compared by {found} "
            "(similarity_fn_name), which is not supported. score_retrieval "
            "--similarity=cosine or dot compares them so."
        )
    return found


def normalized(vectors: np.ndarray) -> np.ndarray:
    """Returns vectors [N, E] of length 1, but zeros for zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-12)


def scores(
    ranked: Sequence[Sequence[str]], judged: Sequence[Grades]
) -> dict[str, float]:
    """Returns the means over queries of "ndcg@10", "mrr" and "recall@10".

    And "recall@100". A query without relevant documents has scores of 0.

    Args:
      ranked: for each query the ids of its documents, the best first.
      judged: for each query its judgements.

    Raises:
      ValueError: if there are no queries.
    """
    if not judged:
        raise ValueError("There are no queries with judgements.")
    found = [_of_query(*x) for x in zip(ranked, judged, strict=True)]
    return {
        name: float(np.mean([of_query[name] for of_query in found]))
        for name in found[0]
    }


def _of_query(ranked: Sequence[str], judged: Grades) -> dict[str, float]:
    gains = np.maximum([judged.get(name, 0) for name in ranked], 0)
    ideal = np.sort(np.maximum([*judged.values()], 0))[::-1]
    relevant, num_relevant = gains > 0, np.count_nonzero(ideal)
    found = {
        f"ndcg@{NDCG_DEPTH}": _ratio(_dcg(gains), _dcg(ideal)),
        "mrr": 1 / (1 + relevant.argmax()) if relevant.any() else 0.0,
    }
    for depth in RECALL_DEPTHS:
        number = np.count_nonzero(relevant[:depth])
        found[f"recall@{depth}"] = _ratio(number, num_relevant)
    return found


def _dcg(gains: np.ndarray) -> float:
    """Returns the discounted gain of the first `NDCG_DEPTH` documents."""
    gains = gains[:NDCG_DEPTH]
    return float(np.sum(gains / np.log2(2 + np.arange(len(gains)))))


def _ratio(value: float, whole: float) -> float:
    return value / whole if whole else 0.0
