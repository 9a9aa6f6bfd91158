"""Queries and passages whose answer is planted: a shared word is relevant."""

import csv
import pathlib

import numpy as np

NOUNS = ("captain", "ship", "sea", "crew")
HEADER = ("query", "passage", "grade", "topic")


def rows(
    num_queries: int, seed: int, grade: float = 1.0
) -> list[tuple[str, str, str, str]]:
    """Returns rows of `HEADER`: a passage with each noun for each query.

    A passage is relevant, of grade 1, if it has the query's noun. Queries are
    different from each other by their topic.
    """
    rng = np.random.default_rng(seed)
    found = []
    for number in range(num_queries):
        noun = NOUNS[rng.integers(len(NOUNS))]
        for other in rng.permutation(NOUNS):
            text = " ".join(["the"] * rng.integers(1, 3) + [str(other)])
            label = f"{grade * (other == noun):g}"
            found.append((noun, text, label, f"topic {seed} {number}"))
    return found


def write(path: pathlib.Path, table: list[tuple[str, ...]]) -> None:
    """Writes rows of `HEADER` as CSV."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([HEADER, *table])
