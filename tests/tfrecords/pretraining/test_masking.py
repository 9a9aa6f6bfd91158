"""masking.py: how many tokens are masked, which, and their replacements."""

import hashlib

import numpy as np
import pytest

from tfrecords.pretraining import masking

CLS, SEP, MASK = 1, 2, 3
VOCAB_SIZE = 500
# Every third word piece continues a word.
VOCABULARY = masking.Vocabulary(
    VOCAB_SIZE, CLS, SEP, MASK, np.arange(VOCAB_SIZE) % 3 == 0
)
S, P = 64, 9
SPAN_S = 40


def make_rows(count=4000, seed=0):
    """Returns ids [N, S] of `[CLS] A [SEP] B [SEP]`, and their lengths."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(4, VOCAB_SIZE, (count, S))
    num_tokens = rng.integers(5, S + 1, count)
    rows = np.arange(count)
    ids[:, 0] = CLS
    ids[rows, rng.integers(2, num_tokens - 2)] = SEP
    ids[rows, num_tokens - 1] = SEP
    ids[np.arange(S) >= num_tokens[:, None]] = 0
    return ids, num_tokens


def mask(ids, num_tokens, seed=1, **changes):
    seeds = np.random.default_rng(seed).integers(
        1 << 64, size=len(ids), dtype=np.uint64
    )
    return masking.mask(ids, num_tokens, seeds, VOCABULARY, rules(**changes))


def rules(**changes):
    settings = {"max_predictions_per_seq": P, "masked_lm_prob": 0.15}
    return masking.Rules(**(settings | changes))


@pytest.fixture(params=masking.UNITS)
def masked(request):
    ids, num_tokens = make_rows()
    result = mask(ids, num_tokens, unit=request.param)
    return ids, num_tokens, result, request.param


@pytest.mark.parametrize(
    ("unit", "digest"),
    [
        (
            "tokens",
            "c8a6bac07d5579aa8d3528888c7e5c4f8469b00124afff8b3b94a8674be0b6f2",
        ),
        (
            "words",
            "80d09be30072522f1f7080544d9281df139e1133bf0273b4401aa02adbbfaac3",
        ),
    ],
)
def test_masks_are_those_of_the_first_version(unit, digest):
    ids, num_tokens = make_rows(500)
    found = hashlib.sha256()
    for array in mask(ids, num_tokens, unit=unit):
        found.update(array.tobytes())
    assert found.hexdigest() == digest


@pytest.mark.parametrize("unit", masking.UNITS)
def test_more_predictions_than_positions_are_refused(unit):
    ids, num_tokens = make_rows(2)
    assert mask(ids, num_tokens, unit=unit, max_predictions_per_seq=S)
    with pytest.raises(ValueError, match="seq=65 exceeds the row length, 64"):
        mask(ids, num_tokens, unit=unit, max_predictions_per_seq=S + 1)


def test_the_number_of_predictions_is_that_of_the_original(masked):
    _, num_tokens, result, unit = masked
    expected = [min(P, max(1, int(round(n * 0.15)))) for n in num_tokens]
    found = result.weights.sum(axis=1)
    if unit != "tokens":  # A word that does not fit is skipped.
        assert (found <= expected).all()
        assert found.sum() > 0.97 * sum(expected)
    else:
        assert found.tolist() == expected


@pytest.mark.parametrize("unit", masking.UNITS)
def test_at_least_one_token_is_masked(unit):
    ids = np.array([[CLS, 4, SEP, 0]])  # 0.45 of its 3 tokens.
    result = mask(ids, np.array([3]), unit=unit, max_predictions_per_seq=2)
    assert result.weights.tolist() == [[1.0, 0.0]]
    assert result.positions.tolist() == [[1, 0]]


def test_halves_round_to_even_as_in_python():
    ids, _ = make_rows(2)
    # 10 * 0.25 and 14 * 0.25 are exact halves: 2 and 4.
    result = mask(ids, np.array([10, 14]), masked_lm_prob=0.25)
    assert result.weights.sum(axis=1).tolist() == [2, 4]


def test_positions_ascend_and_ids_are_the_original_tokens(masked):
    ids, num_tokens, result, _ = masked
    for row in range(len(ids)):
        count = int(result.weights[row].sum())
        positions = result.positions[row, :count]
        assert (np.diff(positions) > 0).all()
        assert (positions < num_tokens[row]).all()
        assert (ids[row, positions] == result.ids[row, :count]).all()
        assert not result.positions[row, count:].any()
        assert not result.ids[row, count:].any()
        assert (result.weights[row, :count] == 1).all()


def test_only_masked_positions_change_and_none_is_special(masked):
    ids, _, result, _ = masked
    rows, slots = np.nonzero(result.weights)
    is_masked = np.zeros(ids.shape, bool)
    is_masked[rows, result.positions[rows, slots]] = True
    assert (result.input_word_ids == ids)[~is_masked].all()
    assert not np.isin(ids[is_masked], (CLS, SEP, 0)).any()


def check_mix(ids, result, mix, tokens_of_a_draw=1):
    rows = np.arange(len(ids))[:, None]
    is_used = result.weights > 0
    shown = result.input_word_ids[rows, result.positions][is_used]
    labels = result.ids[is_used]
    count = len(shown) / tokens_of_a_draw
    # A random token is [MASK] or the same token with a probability of 1/V each.
    extra = mix.random / VOCAB_SIZE
    for share, expected in (
        ((shown == MASK).mean(), mix.mask + extra),
        ((shown == labels).mean(), mix.same + extra),
    ):
        deviation = np.sqrt(expected * (1 - expected) / count)
        assert abs(share - expected) <= 5 * deviation + 1e-12


@pytest.mark.parametrize(
    ("mask_share", "same", "random"),
    [  # Appendix C.2, table 8.
        (0.8, 0.1, 0.1),
        (1.0, 0.0, 0.0),
        (0.8, 0.0, 0.2),
        (0.8, 0.2, 0.0),
        (0.0, 0.2, 0.8),
        (0.0, 0.0, 1.0),
    ],
)
@pytest.mark.parametrize("unit", masking.UNITS)
def test_replacements_have_the_shares_of_the_mix(
    mask_share, same, random, unit
):
    ids, num_tokens = make_rows()
    mix = masking.Mix(mask=mask_share, same=same, random=random)
    result = mask(ids, num_tokens, mix=mix, unit=unit)
    check_mix(ids, result, mix, 5 if unit == "spans" else 1)
    # The mix does not change masked positions and original ids.
    plain = mask(ids, num_tokens, unit=unit)
    np.testing.assert_array_equal(result.positions, plain.positions)
    np.testing.assert_array_equal(result.ids, plain.ids)


@pytest.mark.parametrize(
    "shares", [(0.8, 0.1, 0.2), (0.5, 0.1, 0.1), (1.2, -0.2, 0), (np.nan, 0, 1)]
)
def test_shares_that_are_negative_or_do_not_sum_to_1_raise(shares):
    message = r"mask_mix=mask:.*,random:.*,same:.* sums to .*; .* sum to 1"
    with pytest.raises(ValueError, match=message):
        masking.Mix(*shares)


def test_random_tokens_come_from_the_whole_vocabulary():
    ids, num_tokens = make_rows(20_000)
    result = mask(ids, num_tokens)
    rows = np.arange(len(ids))[:, None]
    shown = result.input_word_ids[rows, result.positions]
    is_random = (result.weights > 0) & (shown != MASK) & (shown != result.ids)
    counts = np.bincount(shown[is_random], minlength=VOCAB_SIZE)
    assert len(counts) == VOCAB_SIZE
    expected = is_random.sum() / (VOCAB_SIZE - 1)
    others = np.delete(counts, MASK)
    assert (abs(others - expected) < 5.5 * np.sqrt(expected)).all()


def test_every_position_is_equally_likely():
    count = 40_000
    ids = np.tile(np.arange(10, 10 + S), (count, 1))
    ids[:, 0], ids[:, 20], ids[:, -1] = CLS, SEP, SEP
    result = mask(ids, np.full(count, S))
    is_used = result.weights > 0
    counts = np.bincount(result.positions[is_used], minlength=S)
    others = np.delete(counts, [0, 20, S - 1])
    expected = is_used.sum() / (S - 3)
    assert (abs(others - expected) < 5 * np.sqrt(expected)).all()
    assert counts[[0, 20, S - 1]].tolist() == [0, 0, 0]


def test_pairs_of_positions_are_independent():
    count = 40_000
    ids = np.tile(np.arange(10, 10 + S), (count, 1))
    result = mask(ids, np.full(count, S))
    is_masked = np.zeros((count, S))
    is_masked[np.arange(count)[:, None], result.positions] = 1
    both = is_masked.T @ is_masked / count
    expected = is_masked.mean() * (P - 1) / (S - 1)
    off = both[~np.eye(S, dtype=bool)]
    assert abs(off - expected).max() < 6 * np.sqrt(expected / count)


@pytest.mark.parametrize("unit", ["words", "spans"])
def test_words_are_masked_with_all_their_pieces(unit):
    ids, num_tokens = make_rows(500)
    result = mask(ids, num_tokens, unit=unit)
    for row in range(len(ids)):
        words = [[]]
        for position in range(num_tokens[row]):
            if ids[row, position] in (CLS, SEP):
                # create_pretraining_data.py joins words across [SEP].
                if unit == "spans":
                    words.append([])
            elif words[-1] and VOCABULARY.is_continuation[ids[row, position]]:
                words[-1].append(position)
            else:
                words.append([position])
        words = [set(word) for word in words if word]
        count = int(result.weights[row].sum())
        chosen = set(result.positions[row, :count].tolist())
        assert all(word <= chosen or not word & chosen for word in words)
        left = [len(word) for word in words if not chosen & word]
        wanted = min(P, max(1, round(num_tokens[row] * 0.15)))
        # None of the remaining words would still fit.
        if unit == "words":
            assert not left or min(left) > wanted - count


def test_all_tokens_of_a_span_get_the_same_kind_of_replacement():
    count = 2000
    # Words of one piece, three of them masked: most often one span, or two
    # separate ones. Spans that are adjacent by chance look like one.
    ids = np.tile(3 * np.arange(10, 10 + S) + 1, (count, 1))
    mix = masking.Mix(mask=0.5, random=0.0, same=0.5)
    result = mask(
        ids, np.full(count, S), unit="spans", mix=mix, masked_lm_prob=3 / S
    )
    positions = result.positions[:, :3]
    is_run = (np.diff(positions, axis=1) == 1).all(axis=1)
    rows = np.arange(count)[:, None]
    num_masks = (result.input_word_ids[rows, positions] == MASK).sum(axis=1)
    # Three single words would be adjacent in one of 200 rows.
    assert is_run.mean() > 0.5
    # If the kind were drawn for each token, this would be a quarter.
    assert np.isin(num_masks[is_run], (0, 3)).mean() > 0.9


@pytest.mark.parametrize("unit", masking.UNITS)
def test_masks_of_a_row_depend_only_on_its_seed(unit):
    ids, num_tokens = make_rows(50)
    seeds = np.arange(50, dtype=np.uint64)
    whole = masking.mask(ids, num_tokens, seeds, VOCABULARY, rules(unit=unit))
    part = masking.mask(
        ids[20:23],
        num_tokens[20:23],
        seeds[20:23],
        VOCABULARY,
        rules(unit=unit),
    )
    for one, other in zip(whole, part, strict=True):
        np.testing.assert_array_equal(one[20:23], other)


def test_arguments_are_not_changed():
    ids, num_tokens = make_rows(20)
    before = ids.copy()
    mask(ids, num_tokens)
    np.testing.assert_array_equal(ids, before)


def test_vocabulary_finds_special_tokens_and_continuations(tiny_vocab_file):
    with open(tiny_vocab_file, encoding="utf-8") as file:
        entries = file.read().split()
    found = masking.Vocabulary.of(entries)
    assert entries[found.mask_id] == "[MASK]"
    assert entries[found.cls_id] == "[CLS]"
    assert entries[found.sep_id] == "[SEP]"
    assert found.size == len(entries)
    is_piece, continues = np.split(found.is_continuation, 2)
    assert is_piece.tolist() == [x.startswith("##") for x in entries]
    assert continues.all()


def random_bits(shape, seed=0):
    return np.random.default_rng(seed).integers(
        1 << 64, size=shape, dtype=np.uint64
    )


def test_span_lengths_are_geometric_up_to_the_maximum():
    found = masking.span_lengths(random_bits((400, 500)), 10)
    chances = 0.2 * 0.8 ** np.arange(10)
    chances /= chances.sum()
    shares = np.bincount(found.ravel(), minlength=12)[1:] / found.size
    deviation = np.sqrt(chances * (1 - chances) / found.size)
    assert (abs(shares[:10] - chances) < 5 * deviation).all()
    assert shares[10] == 0
    # Joshi et al. 2020, section 3.1: "a mean span length of mean(l) = 3.8".
    assert round(found.mean(), 1) == 3.8


def test_span_lengths_are_1_if_the_maximum_is_1():
    assert (masking.span_lengths(random_bits((5, 7)), 1) == 1).all()


def make_span_rows(count, seed=0):
    """Returns candidates, continuations [N, SPAN_S] bool, tokens to mask."""
    rng = np.random.default_rng(seed)
    is_candidate = rng.random((count, SPAN_S)) < 0.93  # Some special tokens.
    is_candidate[:, 0] = False
    is_candidate &= (
        np.arange(SPAN_S) < rng.integers(3, SPAN_S + 1, count)[:, None]
    )
    continues = is_candidate & (rng.random((count, SPAN_S)) < 0.3)
    return is_candidate, continues, rng.integers(1, 20, count)


def plain_spans(keys, lengths, is_candidate, continues, wanted):
    """Returns {position: first word of its span} of a row, by plain loops."""
    segments, number = [[]], {}
    for position in range(SPAN_S):
        if not is_candidate[position]:
            segments.append([])
        elif continues[position] and segments[-1]:
            segments[-1][-1].append(position)
        else:
            segments[-1].append([position])
    words = [word for segment in segments for word in segment]
    for s, segment in enumerate(segments):
        number |= {tuple(word): (s, i) for i, word in enumerate(segment)}
    taken = {}
    order = sorted(range(len(words)), key=lambda w: keys[w])
    for index, first in enumerate(order):
        s, i = number[tuple(words[first])]
        for word in segments[s][i : i + lengths[index]]:
            if word[0] in taken or len(taken) + len(word) > wanted:
                break
            taken |= dict.fromkeys(word, first)
    return taken


@pytest.mark.parametrize("max_ngram", [1, 3, 10, 1000])
def test_spans_are_those_of_plain_loops(max_ngram):
    rows = make_span_rows(300)
    keys = random_bits((300, SPAN_S), seed=1)
    lengths = masking.span_lengths(
        random_bits((300, SPAN_S), seed=2), max_ngram
    )
    is_candidate, continues, wanted = rows
    follows = np.pad(is_candidate[:, :-1], ((0, 0), (1, 0)))
    positions, first_slots = masking.choose_spans(
        keys, lengths, is_candidate, continues & follows, wanted
    )
    for row in range(300):
        expected = plain_spans(
            keys[row], lengths[row], *(column[row] for column in rows)
        )
        count = len(expected)
        assert positions[row, :count].tolist() == sorted(expected)
        assert (positions[row, count:] == SPAN_S).all()
        spans = [expected[position] for position in sorted(expected)]
        firsts = [spans.index(span) for span in spans]
        assert first_slots[row, :count].tolist() == firsts
