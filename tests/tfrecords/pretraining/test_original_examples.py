"""original_examples.py: random numbers are drawn in the original's order.

test_original_records.py compares the resulting records with the original's:
what differs there is not tested here.
"""

import numpy as np

from tfrecords.pretraining import (
    masking,
    original_examples,
    token_files,
)
from tfrecords.pretraining import settings as settings_lib

CLS, SEP, MASK = 1, 2, 3
VOCAB_SIZE = 40
# Every third entry continues a word.
VOCABULARY = masking.Vocabulary(
    VOCAB_SIZE, CLS, SEP, MASK, np.arange(VOCAB_SIZE) % 3 == 0
)
CONTINUES = VOCABULARY.is_continuation.tolist()


class Script:
    """A random generator that returns given numbers, and records the calls.

    `shuffle` reverses. Tests check that no number is left.
    """

    def __init__(self, *draws):
        self.draws = list(draws)
        self.asked = []

    def random(self):
        self.asked.append("random")
        return self.draws.pop(0)

    def randint(self, low, high):
        self.asked.append((low, high))
        found = self.draws.pop(0)
        assert low <= found <= high
        return found

    def shuffle(self, items):
        self.asked.append(f"shuffle {len(items)}")
        items.reverse()


def settings(**changes):
    values = {
        "max_seq_length": 13,
        "max_predictions_per_seq": 4,
        "dupe_factor": 1,
        "short_seq_prob": 0.1,
    } | changes
    return settings_lib.Settings(**values)


def documents(*lengths):
    """Returns documents with sentences of these lengths; all ids differ."""
    flat = [length for document in lengths for length in document]
    return token_files.Documents(
        tokens=np.arange(4, 4 + sum(flat)).astype(np.uint16),
        sentence_bounds=np.concatenate([[0], np.cumsum(flat)]),
        document_bounds=np.cumsum([0, *map(len, lengths)]),
        numbers=np.arange(len(lengths)),
    )


def mask(ids, rng, **changes):
    return original_examples.mask(
        ids, CONTINUES, VOCABULARY, settings(**changes), rng
    )


def make(found, rng, **changes):
    """Returns features of all examples, [N, ...]."""
    given = settings(**changes)
    examples = original_examples.make_examples(found, VOCABULARY, given, rng)
    return original_examples.build(
        examples,
        np.arange(len(examples.num_masked)),
        found.tokens,
        VOCABULARY,
        given.max_seq_length,
        {},
    )


def test_masking_draws_shuffle_then_kind_then_word():
    ids = [CLS, 10, 11, SEP, 13, 14, 16, SEP]
    # Reversed: 6, 5, 4, 2, 1. A quarter of eight is two tokens.
    rng = Script(0.79, 0.8, 0.49)
    assert mask(ids, rng, masked_lm_prob=0.25) == {5: 14, 6: MASK}
    assert rng.asked == ["shuffle 5", "random", "random", "random"]
    rng = Script(0.9, 0.5, 39, 0.0)
    assert mask(ids, rng, masked_lm_prob=0.25) == {5: MASK, 6: 39}
    assert rng.asked == [
        "shuffle 5",
        "random",
        "random",
        (0, VOCAB_SIZE - 1),
        "random",
    ]


def test_at_least_one_token_is_masked_and_no_more_than_slots():
    ids = [CLS, 10, SEP, 11, SEP]
    assert mask(ids, Script(0.0), masked_lm_prob=0.0) == {3: MASK}
    slots = {"masked_lm_prob": 1.0, "max_predictions_per_seq": 1}
    assert mask(ids, Script(0.0), **slots) == {3: MASK}


def test_if_no_word_fits_none_is_masked():
    rng = Script()
    ids = [CLS, 10, 12, SEP, 15, SEP]
    found = mask(ids, rng, masked_lm_prob=0.0, do_whole_word_mask=True)
    assert found == {}


def test_draws_of_an_actual_next_pair_then_of_a_single_sentence():
    found = documents([5, 6], [1])
    rng = Script(
        *(0.1, 1, 0.5, 0.4, 0.0, 0.0),
        *(0.1, 0, 1, 0.0, 0.0),
    )
    features = make(found, rng)
    assert rng.draws == []
    assert rng.asked == [
        "random",  # Is the document cut for short examples? No: 10 tokens.
        (1, 1),  # How many sentences go to A?
        "random",  # Is B random? No.
        "random",  # One token of B, the longer one, is cut: from the front?
        "shuffle 10",
        "random",  # [MASK] for the last of these,
        "random",  # and for the last but one.
        "random",
        (0, 1),  # A single sentence, so B is random: from which document?
        (0, 1),  # From which sentence?
        "shuffle 7",
        "random",
        "random",  # 1.5 tokens are rounded to 2.
        "shuffle 2",
    ]
    assert features["input_word_ids"].tolist() == [
        [CLS, 15, SEP, 9, 10, 11, 12, MASK, MASK, SEP, 0, 0, 0],
        [CLS, 4, 5, 6, 7, 8, SEP, 10, 11, 12, MASK, MASK, SEP],
    ]
    assert features["masked_lm_positions"].tolist() == [
        [7, 8, 0, 0],
        [10, 11, 0, 0],
    ]
    assert features["masked_lm_ids"].tolist() == [
        [13, 14, 0, 0],
        [13, 14, 0, 0],
    ]
    assert features["next_sentence_labels"].tolist() == [1, 0]


def test_a_single_document_is_its_own_random_next_after_ten_tries():
    rng = Script(0.1, *[0] * 10, 0, 0.0)
    features = make(documents([3]), rng)
    assert rng.asked[1:11] == [(0, 0)] * 10
    assert features["input_word_ids"][0, :9].tolist() == [
        *(CLS, 4, 5, 6, SEP, 4, 5, MASK, SEP)
    ]


def test_a_document_cut_short_draws_its_target_once():
    rng = Script(
        # A target of 3: the first two sentences reach it; then the third.
        *(0.09, 3, 1, 0.5, 0.0),
        *(1, 0, 0.0),
        *(0.1, 0, 2, 0.0),  # The other document has the full target.
    )
    features = make(documents([2, 2, 1], [1]), rng)
    assert rng.draws == []
    assert rng.asked[1] == (2, 10)
    assert features["input_mask"].sum(axis=1).tolist() == [5, 5, 7]
