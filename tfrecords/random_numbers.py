"""Seeds and counters -> random numbers that depend on nothing else."""

import numpy as np

# Independent streams of random numbers.
EXAMPLES, SHUFFLE, PARTITIONS, HELD_OUT = range(4)


class Stream:
    """Random generators of one seed, one for each pair of numbers.

    Philox (Salmon et al. 2011) has a 256-bit counter: two of its four words are
    the numbers. Setting them is ten times as fast as making a new generator.
    """

    def __init__(self, random_seed: int, stream: int):
        key = np.array([random_seed, stream], np.uint64)
        self._philox = np.random.Philox(key=key)
        self._state = self._philox.state
        self._generator = np.random.Generator(self._philox)

    def at(self, *numbers: int) -> np.random.Generator:
        """Returns the generator for up to two numbers.

        Every call resets and returns the same object, so finish using it first.
        """
        counter = [0, 0, *numbers, *[0] * (2 - len(numbers))]
        self._state["state"]["counter"][:] = counter
        self._philox.state = self._state
        return self._generator


def bits(seeds: np.ndarray, counters: np.ndarray) -> np.ndarray:
    """Returns [N, P] uint64: 64 random bits for each seed and counter.

    SplitMix64 (Steele, Lea and Flood 2014), whose state at a counter has a
    closed form, so that arrays are computed at once. NumPy's generators take
    one seed each.

    Args:
      seeds: [N] uint64.
      counters: [P] uint64.
    """
    steps = (counters + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = seeds[:, None] + steps
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    return mixed ^ mixed >> np.uint64(31)


def binomial(
    seeds: np.ndarray, counter: int, num_coins: np.ndarray
) -> np.ndarray:
    """Returns [N] binomial samples: heads among `num_coins` [N] fair coins.

    Args:
      seeds: [N] uint64.
      counter: the first counter; each gives 64 coins.
      num_coins: [N] int64.
    """
    count = np.zeros(len(seeds), np.int64)
    rows = np.flatnonzero(num_coins > 0)
    thrown = 0
    while len(rows):
        # Surplus bits are shifted out.
        surplus = 64 - np.minimum(num_coins[rows] - thrown, 64)
        counters = np.array([counter], np.uint64)
        coins = bits(seeds[rows], counters)[:, 0] >> surplus.astype(np.uint64)
        count[rows] += np.bitwise_count(coins)
        counter, thrown = counter + 1, thrown + 64
        rows = rows[num_coins[rows] > thrown]
    return count
