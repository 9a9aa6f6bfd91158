"""Turns, rounds and ratios, with fake workers."""

from benchmarks import turns


class Fake:
    """A worker whose steps take a given number of seconds."""

    num_parameters = 7

    def __init__(self, name, log, seconds):
        self.name, self.log, self.seconds = name, log, seconds
        self.loss = 10.0

    def ask(self, question):
        if question == "peak":
            return 1000
        self.log.append((self.name, question))
        losses = []
        for _ in range(question):
            losses.append(self.loss)
            self.loss -= 1.0
        return [self.seconds] * question, losses

    def cpu_seconds(self):
        return 0.0


def test_each_turn_has_about_the_same_duration():
    log = []
    workers = {"a": Fake("a", log, 0.5), "b": Fake("b", log, 2.0)}
    warm = {n: turns.warm_up(w, seconds=1.5) for n, w in workers.items()}
    found = turns.take(workers, 2, warm)
    # Two steps and one more to warm up, then as many as fill 1.5 seconds.
    assert log[:4] == [("a", 2), ("a", 1), ("b", 2), ("b", 1)]
    assert log[4:] == [("a", 3), ("b", 1), ("b", 1), ("a", 3)]
    assert found["b"].seconds == [2.0, 2.0]
    # The last loss is the ninth.
    expected = turns.Times([0.5, 0.5], [0.5] * 6, 10.0, 2.0, 1000, 7)
    assert found["a"] == expected


def test_ratios_are_computed_within_rounds():
    ratios = turns.ratios([2.0, 8.0, 4.0], [1.0, 2.0, 4.0])
    assert ratios == [2.0, 4.0, 1.0]
    assert turns.spread(ratios) == (2.0, 1.0, 4.0)


def test_ours_is_in_each_group():
    names = ["ours", "a", "b", "c"]
    assert turns.groups(names, 2) == [["ours", x] for x in "abc"]
    assert turns.groups(names, 3) == [["ours", "a", "b"], ["ours", "c"]]
    assert turns.groups(names, 9) == [names]
    assert turns.groups(["ours"], 2) == [["ours"]]
