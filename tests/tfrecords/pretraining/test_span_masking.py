"""span_masking.py: lengths of spans, and which words they take."""

import numpy as np
import pytest

from tfrecords.pretraining import span_masking

S = 40


def random_bits(shape, seed=0):
    return np.random.default_rng(seed).integers(
        1 << 64, size=shape, dtype=np.uint64
    )


def test_lengths_are_geometric_up_to_the_largest():
    found = span_masking.lengths(random_bits((400, 500)), 10)
    chances = 0.2 * 0.8 ** np.arange(10)
    chances /= chances.sum()
    shares = np.bincount(found.ravel(), minlength=12)[1:] / found.size
    deviation = np.sqrt(chances * (1 - chances) / found.size)
    assert (abs(shares[:10] - chances) < 5 * deviation).all()
    assert shares[10] == 0
    # Joshi et al. 2020, section 3.1: "a mean span length of mean(l) = 3.8".
    assert round(found.mean(), 1) == 3.8


def test_a_largest_length_of_one_is_one():
    assert (span_masking.lengths(random_bits((5, 7)), 1) == 1).all()


def make_rows(count, seed=0):
    """Returns candidates and continuations, [N, S] bool, and tokens wanted."""
    rng = np.random.default_rng(seed)
    is_candidate = rng.random((count, S)) < 0.93  # Some special tokens.
    is_candidate[:, 0] = False
    is_candidate &= np.arange(S) < rng.integers(3, S + 1, count)[:, None]
    continues = is_candidate & (rng.random((count, S)) < 0.3)
    return is_candidate, continues, rng.integers(1, 20, count)


def plain_spans(keys, lengths, is_candidate, continues, wanted):
    """The same for one row, on lists of words."""
    segments, number = [[]], {}
    for place in range(S):
        if not is_candidate[place]:
            segments.append([])
        elif continues[place] and segments[-1]:
            segments[-1][-1].append(place)
        else:
            segments[-1].append([place])
    words = [word for segment in segments for word in segment]
    for s, segment in enumerate(segments):
        number |= {tuple(word): (s, i) for i, word in enumerate(segment)}
    taken = {}
    order = sorted(range(len(words)), key=lambda w: keys[w])
    for turn, first in enumerate(order):
        s, i = number[tuple(words[first])]
        for word in segments[s][i : i + lengths[turn]]:
            if word[0] in taken or len(taken) + len(word) > wanted:
                break
            taken |= dict.fromkeys(word, first)
    return taken


@pytest.mark.parametrize("max_ngram", [1, 3, 10, 1000])
def test_spans_are_those_of_a_plain_reading(max_ngram):
    rows = make_rows(300)
    keys = random_bits((300, S), seed=1)
    lengths = span_masking.lengths(random_bits((300, S), seed=2), max_ngram)
    positions, first_slots = span_masking.choose(keys, lengths, *rows)
    for row in range(300):
        expected = plain_spans(
            keys[row], lengths[row], *(column[row] for column in rows)
        )
        count = len(expected)
        assert positions[row, :count].tolist() == sorted(expected)
        assert (positions[row, count:] == S).all()
        spans = [expected[place] for place in sorted(expected)]
        firsts = [spans.index(span) for span in spans]
        assert first_slots[row, :count].tolist() == firsts


def test_words_of_one_token_use_up_what_is_wanted():
    is_candidate, continues, wanted = make_rows(200)
    continues[:] = False
    keys = random_bits((200, S), seed=1)
    lengths = span_masking.lengths(random_bits((200, S), seed=2), 10)
    positions, _ = span_masking.choose(
        keys, lengths, is_candidate, continues, wanted
    )
    expected = np.minimum(wanted, is_candidate.sum(axis=1))
    assert ((positions < S).sum(axis=1) == expected).all()
