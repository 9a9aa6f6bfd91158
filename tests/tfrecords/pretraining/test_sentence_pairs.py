"""sentence_pairs.py: pairs are those of plain loops after the paper."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from tfrecords.pretraining import sentence_pairs, token_files

MAX_NUM_TOKENS = 29


def make_documents(lengths):
    """Returns documents of sentences of these lengths; all tokens differ."""
    flat = [length for document in lengths for length in document]
    bounds = np.concatenate([[0], np.cumsum(flat)]).astype(np.int64)
    counts = [len(document) for document in lengths]
    return token_files.Documents(
        tokens=np.arange(bounds[-1]),
        sentence_bounds=bounds,
        document_bounds=np.concatenate([[0], np.cumsum(counts)]),
        numbers=np.arange(len(lengths)),
    )


def random_documents(seed=0, count=30):
    rng = np.random.default_rng(seed)
    return make_documents(
        [rng.integers(1, 15, rng.integers(1, 20)) for _ in range(count)]
    )


def sentences_of(documents, number):
    bounds = documents.sentence_bounds
    first, last = documents.document_bounds[number : number + 2]
    return [
        documents.tokens[bounds[i] : bounds[i + 1]].tolist()
        for i in range(first, last)
    ]


def plain_pairs(documents, number, short_seq_prob, uniform):
    """Yields the pairs of appendix A.2, by lists, with given random numbers."""
    waiting, target = sentences_of(documents, number), MAX_NUM_TOKENS
    if uniform() < short_seq_prob:
        target = 2 + int(uniform() * (MAX_NUM_TOKENS - 1))
    while waiting:
        chunk = []
        while waiting and sum(map(len, chunk)) < target:
            chunk.append(waiting.pop(0))
        num_a = 1
        if len(chunk) > 1:
            num_a = 1 + int(uniform() * (len(chunk) - 1))
        a, rest = sum(chunk[:num_a], []), chunk[num_a:]
        if rest and uniform() >= 0.5:
            yield a, sum(rest, []), 0
            uniform()  # The seed of masking.
            continue
        for _ in range(10):
            other = int(uniform() * len(documents.numbers))
            if other != number:
                break
        candidates = sentences_of(documents, other)
        b = []
        for sentence in candidates[int(uniform() * len(candidates)) :]:
            b += sentence
            if len(b) >= target - len(a):
                break
        yield a, b, 1
        uniform()  # The seed of masking.
        waiting = rest + waiting


def rows_of(
    documents, number, seed=0, short_seq_prob=0.0, cut=sentence_pairs.pair
):
    """Returns segments of a document before truncation, [N, 6]."""
    rows = sentence_pairs.rows(
        cut,
        documents.sentence_bounds.tolist(),
        documents.document_bounds.tolist(),
        number,
        MAX_NUM_TOKENS,
        short_seq_prob,
        rng=np.random.default_rng(seed),
    )
    return np.array(rows, np.int64).reshape(-1, 6)


@pytest.mark.parametrize("number", range(30))
def test_pairs_are_those_of_plain_loops(number):
    documents, seed = random_documents(), [5, number]
    found = rows_of(documents, number, seed, short_seq_prob=0.5)
    draws = iter(np.random.default_rng(seed).random(10_000).tolist())
    expected = plain_pairs(documents, number, 0.5, draws.__next__)
    tokens = documents.tokens
    assert [
        (tokens[a:b].tolist(), tokens[c:d].tolist(), label)
        for a, b, c, d, label, _ in found
    ] == list(expected)


class Constant:
    """Draws one number again and again, and the smallest integer."""

    def __init__(self, number):
        self.random = lambda: number

    def randint(self, least, most):
        return least


@pytest.mark.parametrize(
    "cut", [sentence_pairs.pair, sentence_pairs.sentence_order_pairs]
)
def test_half_of_the_pairs_are_random_or_swapped(cut):
    documents = make_documents([[3, 3], [3, 3]])
    bounds = documents.sentence_bounds, documents.document_bounds
    labels = [
        next(cut(*bounds, 0, MAX_NUM_TOKENS, 0.0, Constant(number)))[4]
        for number in (0.0, 0.4999, 0.5, 0.9999)
    ]
    assert labels == [1, 1, 0, 0]


def order_rows(*arguments):
    return rows_of(*arguments, cut=sentence_pairs.sentence_order_pairs)


def test_sentence_order_pairs_cover_the_document():
    documents = random_documents()
    bounds = documents.sentence_bounds
    num_swapped = num_pairs = 0
    for seed in range(40):
        for number in range(len(documents.numbers)):
            rows = order_rows(documents, number, [seed, number], 0.1)
            is_swapped = rows[:, 4] == 1
            rows[is_swapped, :4] = rows[is_swapped][:, [2, 3, 0, 1]]
            first, last = documents.document_bounds[number : number + 2]
            # B begins where A ends, and the next A where B ends.
            np.testing.assert_array_equal(rows[:, 1], rows[:, 2])
            np.testing.assert_array_equal(rows[1:, 0], rows[:-1, 3])
            assert (rows[:, 0] < rows[:, 1]).all()
            assert (rows[:, 2] < rows[:, 3]).all()
            if len(rows):
                assert rows[0, 0] == bounds[first]
                # A last sentence of one token makes no pair.
                assert bounds[last] - rows[-1, 3] in (0, 1)
            num_swapped += is_swapped.sum()
            num_pairs += len(rows)
    assert abs(num_swapped / num_pairs - 0.5) < 5 * np.sqrt(0.25 / num_pairs)


def test_sentence_order_pairs_are_cut_between_sentences_if_possible():
    documents = random_documents()
    bounds = set(documents.sentence_bounds.tolist())
    num_inside = 0
    for number in range(len(documents.numbers)):
        for a, b, c, d, label, _ in order_rows(documents, number):
            begin, middle, end = (c, d, b) if label else (a, b, d)
            assert {begin, end} <= bounds
            inside = [x for x in bounds if begin < x < end]
            assert middle in inside or not inside
            num_inside += bool(inside)
    assert num_inside > 50


def test_a_single_sentence_is_cut_in_two_and_a_single_token_dropped():
    documents = make_documents([[6], [1], [2]])
    found = {}
    for number in range(3):
        rows = [order_rows(documents, number, seed) for seed in range(200)]
        found[number] = {
            (min(a, c), max(a, c), max(b, d))
            for a, b, c, d, _, _ in np.concatenate(rows)
        }
    assert found[0] == {(0, middle, 6) for middle in range(1, 6)}
    assert found[1] == set()
    assert found[2] == {(7, 8, 9)}


def fill_rows(*arguments):
    return rows_of(*arguments, cut=sentence_pairs.full_sentences)


@pytest.mark.parametrize("longest", [15, 100])
def test_single_segments_are_filled_with_complete_sentences(longest):
    rng = np.random.default_rng(4)
    documents = make_documents(
        [rng.integers(1, longest, rng.integers(1, 20)) for _ in range(30)]
    )
    for number in range(30):
        waiting, expected = sentences_of(documents, number), []
        while waiting:
            segment = []
            while waiting and len(segment + waiting[0]) <= MAX_NUM_TOKENS:
                segment += waiting.pop(0)
            if not segment:  # A sentence that is too long.
                segment = waiting[0][:MAX_NUM_TOKENS]
                waiting[0] = waiting[0][MAX_NUM_TOKENS:]
            expected.append(segment)
        rows = fill_rows(documents, number)
        tokens = documents.tokens
        assert [tokens[a:b].tolist() for a, b, *_ in rows] == expected
        assert not rows[:, 4].any()
        pairs = sentence_pairs.truncate(rows, MAX_NUM_TOKENS)
        np.testing.assert_array_equal(pairs.a_end, rows[:, 1])
        np.testing.assert_array_equal(pairs.b_begin, pairs.b_end)
        assert len(set(pairs.seeds.tolist())) == len(rows)


def test_short_segments_have_the_given_probability():
    documents = make_documents([[1] * 300])
    for prob, share in ((0.0, 0.0), (0.3, 0.3)):
        first = [
            np.diff(fill_rows(documents, 0, seed, prob)[0, :2]).item()
            for seed in range(1000)
        ]
        is_short = np.array(first) < MAX_NUM_TOKENS
        assert abs(is_short.mean() - share) <= 5 * np.sqrt(share * 0.7 / 1000)
        assert max(first) == MAX_NUM_TOKENS and min(first) >= 2


def test_a_single_document_is_its_own_random_next():
    documents = make_documents([[4]])
    assert rows_of(documents, 0)[:, :5].tolist() == [[0, 4, 0, 4, 1]]


def make_rows(a_lengths, b_lengths):
    """Returns pairs of these lengths, with different seeds, [N, 6]."""
    zeros = np.zeros_like(a_lengths)
    seeds = np.arange(len(zeros)) + 1
    return np.stack([zeros, a_lengths, zeros, b_lengths, zeros, seeds], 1)


lengths = strategies.lists(
    strategies.tuples(strategies.integers(1, 90), strategies.integers(1, 90)),
    min_size=1,
    max_size=20,
)


@hypothesis.settings(deadline=None)
@hypothesis.given(lengths=lengths, maximum=strategies.integers(2, 60))
def test_truncation_gives_the_lengths_of_cutting_token_by_token(
    lengths, maximum
):
    pairs = sentence_pairs.truncate(make_rows(*np.array(lengths).T), maximum)
    for k, (a_length, b_length) in enumerate(lengths):
        while a_length + b_length > maximum:
            if a_length > b_length:
                a_length -= 1
            else:
                b_length -= 1
        assert pairs.a_end[k] - pairs.a_begin[k] == a_length
        assert pairs.b_end[k] - pairs.b_begin[k] == b_length
        assert 0 <= pairs.a_begin[k] and pairs.a_end[k] <= lengths[k][0]
        assert 0 <= pairs.b_begin[k] and pairs.b_end[k] <= lengths[k][1]


def test_truncation_cuts_front_and_back_with_equal_probability():
    lengths = np.full(20_000, 50), np.full(20_000, 10)
    pairs = sentence_pairs.truncate(make_rows(*lengths), 40)
    # The front of A loses a binomial number of the 20 tokens.
    assert abs(pairs.a_begin.mean() - 10) < 5 * np.sqrt(5 / 20_000)
    assert abs(pairs.a_begin.var() - 5) < 0.3
    assert (pairs.b_end - pairs.b_begin == 10).all()
