"""random_numbers.py: reproducible from seed and counter, and unbiased."""

import numpy as np
import pytest

from tfrecords import random_numbers


def test_seeds_streams_and_numbers_give_different_draws():
    draws = {
        random_numbers.Stream(seed, stream).at(a, b).random()
        for seed in range(3)
        for stream in range(3)
        for a in range(3)
        for b in range(3)
    }
    assert len(draws) == 81


def test_a_generator_does_not_depend_on_earlier_calls():
    stream = random_numbers.Stream(5, random_numbers.PARTITIONS)
    first = stream.at(1, 2).random(5)
    # 32 of 64 bits are left over and must not be used next.
    stream.at(7).integers(10, dtype=np.uint32)
    np.testing.assert_array_equal(stream.at(1, 2).random(5), first)
    fresh = random_numbers.Stream(5, random_numbers.PARTITIONS)
    np.testing.assert_array_equal(fresh.at(1, 2).random(5), first)


def test_bits_are_those_of_splitmix64():
    # The first outputs of the published generator for seed 1234567.
    counters = np.arange(3, dtype=np.uint64)
    bits = random_numbers.bits(np.array([1234567], np.uint64), counters)
    assert bits[0].tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_every_bit_is_fair():
    seeds = np.arange(20_000, dtype=np.uint64)
    bits = random_numbers.bits(seeds, np.arange(4, dtype=np.uint64))
    for bit in range(64):
        ones = (bits >> np.uint64(bit)) & np.uint64(1)
        assert abs(ones.mean() - 0.5) < 5 * 0.5 / bits.size**0.5


@pytest.mark.parametrize("coins", [0, 1, 2, 63, 64, 65, 200])
def test_heads_are_binomial(coins):
    seeds = np.arange(20_000, dtype=np.uint64)
    heads = random_numbers.binomial(seeds, 1 << 32, np.full(20_000, coins))
    assert heads.min() >= 0 and heads.max() <= coins
    deviation = 5 * np.sqrt(coins / 4 / 20_000)
    assert abs(heads.mean() - coins / 2) <= deviation
    assert abs(heads.var() - coins / 4) <= 0.06 * coins


def test_heads_of_a_row_depend_only_on_its_seed():
    seeds = np.arange(50, dtype=np.uint64)
    coins = np.arange(50) * 7
    whole = random_numbers.binomial(seeds, 3, coins)
    part = random_numbers.binomial(seeds[20:30], 3, coins[20:30])
    np.testing.assert_array_equal(whole[20:30], part)
