"""benchmarks.parts: its functions exist, and an inner part counts once."""

import importlib

import numpy as np

from benchmarks import parts


def test_every_part_is_a_function():
    for module, owner, name in sum(parts.PARTS.values(), []):
        holder = importlib.import_module(module)
        holder = getattr(holder, owner) if owner else holder
        assert callable(getattr(holder, name)), name


def test_a_part_within_another_counts_once(monkeypatch):
    seconds = {name: np.zeros(2) for name in ("evaluation", "saving")}
    monkeypatch.setattr(parts, "seconds", seconds)
    clock = iter(np.array([[0, 0], [1, 10], [3, 15], [6, 18]], float))
    monkeypatch.setattr(parts, "_now", lambda: next(clock))
    inner = parts.timed("saving", lambda: 7)
    assert parts.timed("evaluation", lambda: inner())() == 7
    assert seconds["saving"].tolist() == [2, 5]
    assert seconds["evaluation"].tolist() == [4, 13]
