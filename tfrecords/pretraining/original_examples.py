"""Documents -> the pre-training examples of the original, bit for bit.

These are the examples, in the same order, of google-research/bert
create_pretraining_data.py under Python 3. It takes all random numbers from one
`random.Random`, so this module draws them in the same order: documents are
shuffled; for each repetition and document, each pair is chosen, truncated and
masked before the next one; examples are shuffled. Python 3.10 to 3.12 give the
same numbers.

All tokens and examples of the corpus are in memory: this is for small corpora
and comparisons. examples.py makes examples of the same distribution that do
not depend on any order.

N examples, P masked slots.
"""

import array
import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tfrecords.pretraining import examples as examples_lib
from tfrecords.pretraining import masking, sentence_pairs, token_files
from tfrecords.pretraining import settings as settings_lib

# create_pretraining_data.py: probabilities that a token is cut from the front,
# that a masked token becomes [MASK], and that one that does not is kept.
_FRONT_PROB, _MASK_PROB, _KEEP_PROB = 0.5, 0.8, 0.5


class Examples(NamedTuple):
    """N examples, as ranges of tokens and masked positions."""

    pairs: sentence_pairs.Pairs  # Its seeds are 0, as they are not used.
    positions: np.ndarray  # [N, P] uint16, ascending; 0 where unused.
    shown: np.ndarray  # [N, P] int32, replacements of the masked tokens.
    num_masked: np.ndarray  # [N] int64, used slots.


def make_examples(
    documents: token_files.Documents,
    vocabulary: masking.Vocabulary,
    settings: settings_lib.Settings,
    rng: random.Random,
) -> Examples:
    """Returns all examples of a corpus in the order of the original.

    create_pretraining_data.py: create_training_instances, after it has
    shuffled the documents.
    """
    bounds = documents.sentence_bounds.tolist()
    document_bounds = documents.document_bounds.tolist()
    max_num_tokens = settings.max_seq_length - 3  # [CLS], [SEP] and [SEP].
    num_slots = settings.max_predictions_per_seq
    continues = vocabulary.is_continuation.tolist()
    rows, num_masked = array.array("q"), array.array("q")
    positions, shown = array.array("H"), array.array("i")
    unused = [0] * num_slots
    for _ in range(settings.dupe_factor):
        for number in range(len(document_bounds) - 1):
            # A pair is masked before the next one is drawn.
            for row in sentence_pairs.pair(
                bounds,
                document_bounds,
                number,
                max_num_tokens,
                settings.short_seq_prob,
                rng,
            ):
                *pair, is_random_next = row
                _truncate(pair, max_num_tokens, rng)
                ids = _ids(documents.tokens, pair, vocabulary)
                hidden = mask(ids, continues, vocabulary, settings, rng)
                padding = unused[len(hidden) :]
                rows.extend([*pair, is_random_next])
                num_masked.append(len(hidden))
                positions.extend([*hidden, *padding])
                shown.extend([*hidden.values(), *padding])
    order = list(range(len(num_masked)))
    rng.shuffle(order)
    # [N, 5] of a_begin, a_end, b_begin, b_end, is_random_next.
    table = np.frombuffer(rows, np.int64).reshape(-1, 5)[order]
    seeds = np.zeros(len(order), np.uint64)
    return Examples(
        sentence_pairs.Pairs(*table.T, seeds),
        np.frombuffer(positions, np.uint16).reshape(-1, num_slots)[order],
        np.frombuffer(shown, np.int32).reshape(-1, num_slots)[order],
        np.frombuffer(num_masked, np.int64)[order],
    )


def _truncate(pair: list[int], max_num_tokens: int, rng: random.Random) -> None:
    """Truncates a pair in place.

    create_pretraining_data.py: truncate_seq_pair, a token at a time from the
    longer segment.
    """
    a_begin, a_end, b_begin, b_end = pair
    surplus = max(0, a_end - a_begin + b_end - b_begin - max_num_tokens)
    for _ in range(surplus):
        is_front = rng.random() < _FRONT_PROB
        if a_end - a_begin > b_end - b_begin:
            a_begin, a_end = a_begin + is_front, a_end - (not is_front)
        else:
            b_begin, b_end = b_begin + is_front, b_end - (not is_front)
    pair[:] = a_begin, a_end, b_begin, b_end


def _ids(tokens, pair, vocabulary) -> list[int]:
    """Returns [CLS] A [SEP] B [SEP]."""
    a_begin, a_end, b_begin, b_end = pair
    a, b = tokens[a_begin:a_end].tolist(), tokens[b_begin:b_end].tolist()
    return [vocabulary.cls_id, *a, vocabulary.sep_id, *b, vocabulary.sep_id]


def mask(
    ids: Sequence[int],
    continues: Sequence[bool],
    vocabulary: masking.Vocabulary,
    settings: settings_lib.Settings,
    rng: random.Random,
) -> dict[int, int]:
    """Returns the positions to mask, ascending, and their replacements.

    create_pretraining_data.py: create_masked_lm_predictions. `continues` is
    True for vocabulary entries that begin with ##.
    """
    words: list[list[int]] = []
    for position, token in enumerate(ids):
        if token in (vocabulary.cls_id, vocabulary.sep_id):
            continue
        if settings.unit == "words" and words and continues[token]:
            words[-1].append(position)  # Even across a [SEP].
        else:
            words.append([position])
    rng.shuffle(words)
    num_to_predict = min(
        settings.max_predictions_per_seq,
        max(1, round(len(ids) * settings.masked_lm_prob)),
    )
    shown: dict[int, int] = {}
    for word in words:
        if len(shown) == num_to_predict:
            break
        if len(shown) + len(word) > num_to_predict:
            continue  # A shorter word may still fit.
        for position in word:
            if rng.random() < _MASK_PROB:
                shown[position] = vocabulary.mask_id
            elif rng.random() < _KEEP_PROB:
                shown[position] = ids[position]
            else:
                shown[position] = rng.randint(0, vocabulary.size - 1)
    return dict(sorted(shown.items()))


def build(
    examples: Examples,
    rows: np.ndarray,
    tokens: np.ndarray,
    vocabulary: masking.Vocabulary,
    max_seq_length: int,
    statistics: dict[str, int],
) -> dict[str, np.ndarray]:
    """Returns the selected examples as features of `schema.PRETRAINING`.

    `rows` selects the examples: [N] integer or a slice. `tokens` are those of
    the documents given to `make_examples`. Counts are added to `statistics`.
    """
    pairs = examples.pairs.of(rows)
    features = examples_lib.pack(tokens, pairs, vocabulary, max_seq_length)
    ids = features["input_word_ids"]
    positions = examples.positions[rows].astype(np.int32)
    is_used = np.arange(positions.shape[1]) < examples.num_masked[rows, None]
    labels = np.take_along_axis(ids, positions, axis=1)
    shown = examples.shown[rows][is_used]
    ids[np.nonzero(is_used)[0], positions[is_used]] = shown
    masked = masking.Masked(
        input_word_ids=ids,
        positions=positions,
        ids=np.where(is_used, labels, 0),
        weights=is_used.astype(np.float32),
    )
    return examples_lib.merge(features, masked, pairs, statistics)
