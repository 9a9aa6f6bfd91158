"""Which examples share a row: against first-fit-decreasing one by one."""

import time

import numpy as np
import pytest

from tfrecords.pretraining import masking, packing


def rows_of(found):
    """Lists of examples, one for each row."""
    return [
        part.tolist()
        for part in np.split(found.order, np.cumsum(found.counts)[:-1])
    ]


def one_by_one(lengths, max_seq_length, max_examples):
    """First-fit-decreasing as the textbooks have it: lengths of each row."""
    rows = []
    for length in sorted(lengths.tolist(), reverse=True):
        for row in rows:
            fits = sum(row) + length <= max_seq_length
            if fits and len(row) < max_examples:
                row.append(length)
                break
        else:
            rows.append([length])
    return sorted(rows)


def random_lengths(rng, count, max_seq_length):
    """Many full rows, as of books, and shorter ones of every length."""
    lengths = rng.integers(3, max_seq_length + 1, count)
    return np.where(rng.random(count) < 0.3, max_seq_length, lengths)


def test_the_longest_goes_to_the_first_row_that_it_fits():
    found = packing.assign(np.array([5, 3, 8, 2, 2]), 8, 3)
    assert rows_of(found) == [[0, 1], [2], [3, 4]]


@pytest.mark.parametrize("max_examples", [1, 2, 3, 8, 100])
@pytest.mark.parametrize("max_seq_length", [12, 40, 128])
def test_rows_are_those_of_first_fit_decreasing(max_seq_length, max_examples):
    rng = np.random.default_rng(max_seq_length)
    for count in (1, 7, 400):
        lengths = random_lengths(rng, count, max_seq_length)
        found = packing.assign(lengths, max_seq_length, max_examples)
        rows = rows_of(found)
        assert sorted(sum(rows, [])) == list(range(count))
        expected = one_by_one(lengths, max_seq_length, max_examples)
        assert sorted(lengths[row].tolist() for row in rows) == expected


def test_rows_are_as_shuffled_as_the_examples():
    lengths = random_lengths(np.random.default_rng(1), 10_000, 128)
    rows = rows_of(packing.assign(lengths, 128, 8))
    longest = [row[0] for row in rows]
    assert longest == sorted(longest)
    # Not first the rows of one example, which are first-fit's first ones.
    counts = np.array([len(row) for row in rows])
    halves = np.array_split(counts, 2)
    assert abs(halves[0].mean() - halves[1].mean()) < 0.1


def test_nothing_makes_no_row():
    found = packing.assign(np.zeros(0, int), 8, 3)
    assert len(found.order) == len(found.counts) == 0


def test_a_shard_takes_a_moment():
    lengths = random_lengths(np.random.default_rng(2), 100_000, 512)
    begin = time.process_time()
    packing.assign(lengths, 512, 8)
    assert time.process_time() - begin < 2  # 0.05 s; the rest is for others.


@pytest.mark.parametrize("length", [0, 9, -1])
def test_a_length_that_fits_no_row_is_refused(length):
    with pytest.raises(ValueError, match=f"{length} tokens.*max_seq_length=8"):
        packing.assign(np.array([3, length]), 8, 2)


@pytest.mark.parametrize("prob", [0.05, 0.15, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("most", [1, 5, 12])
def test_no_row_has_more_masked_tokens_than_slots(prob, most):
    size, max_examples = 40, 4
    slots = packing.max_predictions_per_row(size, most, prob, max_examples)
    # Of each length; then the most of k examples in so many places.
    lengths = np.arange(3, size + 1)
    masked = np.rint(lengths * prob).astype(int).clip(1, most)
    best = np.zeros(size + 1, int)
    for _ in range(max_examples):
        best = np.array(
            [
                max(
                    [
                        best[places],
                        *(
                            best[places - length] + count
                            for length, count in zip(
                                lengths, masked, strict=True
                            )
                            if length <= places
                        ),
                    ]
                )
                for places in range(size + 1)
            ]
        )
    assert best[-1] <= slots <= best[-1] + max_examples or slots == size


def test_slots_are_those_of_usual_flags():
    assert packing.max_predictions_per_row(512, 80, 0.15, 6) == 80
    assert packing.max_predictions_per_row(128, 20, 0.15, 3) == 20
    assert packing.max_predictions_per_row(128, 20, 0.15, 1) == 19


def test_masking_stays_within_what_slots_are_reckoned_from():
    """masking.mask hides max(1, round(n p)) of n tokens at most."""
    rng = np.random.default_rng(3)
    lengths = np.arange(3, 41)
    ids = np.where(
        np.arange(40) < lengths[:, None], rng.integers(5, 50, (38, 40)), 0
    )
    vocabulary = masking.Vocabulary(50, 1, 2, 3, np.zeros(50, bool))
    found = masking.mask(
        ids,
        lengths,
        rng.integers(0, 1 << 63, 38).astype(np.uint64),
        vocabulary,
        masking.Rules(max_predictions_per_seq=20, masked_lm_prob=0.3),
    )
    limit = np.rint(lengths * 0.3).clip(1)
    assert (found.weights.sum(axis=1) <= limit).all()
