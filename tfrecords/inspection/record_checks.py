"""Statistics of a sample, its flags -> diagnostics of the examples.

A fraction is reported only if chance does not explain it in a sample of that
size.
"""

from collections.abc import Mapping

import numpy as np

from tfrecords.inspection import pretraining_checks
from tfrecords.inspection.diagnostics import ERROR, WARNING, Diagnostic
from tfrecords.inspection.sample_statistics import Entries, SampleStatistics

# A larger fraction of [UNK] means that the vocabulary does not fit the text. In
# fine-tuning the model determines the vocabulary, so more is tolerated.
MOST_UNKNOWN = 0.01
MOST_UNKNOWN_FINE_TUNING = 0.1
# Fraction of examples that are copies beyond what --dupe_factor explains: a few
# come from licenses or menus, many make pre-training useless.
MOST_SURPLUS = 0.01
SPOILING_SURPLUS = 0.05
# Average number of copies of an example in other shards.
MOST_COPIES = 0.1
SPOILING_COPIES = 1.0
# create_pretraining_data.py: FLAGS.dupe_factor. Its records do not state it.
_ORIGINAL_DUPE_FACTOR = 10
_LEAST_SPREAD = 10  # Fewer texts are too few for an estimate.
_SIGMAS = 4.0
# About one English token in ten begins with a capital; if none of this many
# does, the text is lower-cased.
_MIN_WORDS_FOR_CASE = 2000


def check_sample(
    sample: SampleStatistics,
    flags: Mapping,
    entries: Entries | None,
    *,
    first: np.ndarray,
    is_pretraining: bool,
) -> list[Diagnostic]:
    """Returns the diagnostics of the examples in a sample.

    Args:
      sample: statistics of the sample.
      flags: flags of the manifest; may be empty.
      entries: properties of the vocabulary; None if it is not known.
      first: [shards + 1], `Records.first`.
      is_pretraining: whether the examples are for pre-training.
    """
    diagnostics = check_ids(sample)
    if entries:
        diagnostics += check_unknown(sample, is_pretraining)
    # Lists of passages of one query share those of low grades, and a text may
    # belong to several others.
    if not {"passages_per_query", "texts_of_a_row"} & flags.keys():
        diagnostics += check_duplicates(sample, flags, first, is_pretraining)
    if is_pretraining:
        diagnostics += pretraining_checks.check_pairs(sample, flags)
        diagnostics += pretraining_checks.check_masks(sample, flags)
    return diagnostics + check_labels(sample, flags)


def check_ids(sample: SampleStatistics) -> list[Diagnostic]:
    """Checks the range of ids, and that masked positions hold tokens."""
    diagnostics = []
    if sample.num_wrong_ids:
        text = (
            f"{sample.num_wrong_ids} of {sample.num_examples} examples have "
            "ids that are not below vocab_size, such as "
            f"{'; '.join(sample.wrong_ids)}. Use the vocabulary and the "
            "bert_config.json that the records were made for, or make the "
            "records again."
        )
        diagnostics.append(Diagnostic(ERROR, "ids", text))
    if sample.misplaced_masks:
        text = (
            f"{sample.misplaced_masks} of {sample.num_examples} examples have "
            "masked_lm_positions without a token. Make the records again."
        )
        diagnostics.append(Diagnostic(ERROR, "masks", text))
    return diagnostics


def check_unknown(
    sample: SampleStatistics, is_pretraining: bool
) -> list[Diagnostic]:
    """Returns a diagnostic if too many words are [UNK]."""
    share = sample.num_unknown / max(sample.num_words, 1)
    least = sample.num_unknown - _SIGMAS * sample.num_unknown**0.5
    if least <= MOST_UNKNOWN * sample.num_words:
        return []
    most = MOST_UNKNOWN if is_pretraining else MOST_UNKNOWN_FINE_TUNING
    severity = ERROR if least > most * sample.num_words else WARNING
    text = (
        f"{100 * share:.1f} % of the tokens are [UNK] ({sample.num_unknown} of "
        f"{sample.num_words}); up to {100 * MOST_UNKNOWN:g} % is usual. The "
        "vocabulary does not fit this text: check do_lower_case and the "
        "text's language, use another vocabulary or make one from this text "
        "with run_scripts.make_vocab, and make the records again."
    )
    return [Diagnostic(severity, "[UNK]", text)]


def check_case(
    sample: SampleStatistics | None,
    entries: Entries,
    *,
    made_with: bool | None,
    is_uncased: bool,
) -> list[Diagnostic]:
    """Returns a diagnostic if text and vocabulary differ in case.

    Args:
      sample: its statistics; None if its ids are not of this vocabulary.
      entries: properties of the vocabulary.
      made_with: `do_lower_case` of the manifest; None if it is not known.
      is_uncased: whether the vocabulary is for lower-cased text.
    """
    capitals = int(entries.has_capital.sum())
    size = len(entries.names)
    words = sample.num_words if sample else 0
    # Scripts without capitals have no case.
    has_case = any(name != name.upper() for name in entries.names[5:])
    if made_with is False and is_uncased and has_case:
        is_harmless = words and sample.num_unknown <= MOST_UNKNOWN * words
        severity = WARNING if is_harmless else ERROR
        seen = f", {sample.num_unknown} of {words} tokens" if words else ""
        text = (
            "the records have cased text (do_lower_case false), but the "
            f"vocabulary is uncased: {capitals} of its {size} entries have "
            f"capitals. So words with capitals are [UNK]{seen}. Make the "
            "records again with do_lower_case true, or with a cased vocabulary."
        )
        return [Diagnostic(severity, "case", text)]
    lower = made_with
    if made_with is None and words >= _MIN_WORDS_FOR_CASE:
        lower = sample.num_capital == 0
    if lower and not is_uncased:
        stated = " (do_lower_case true)" if made_with else ""
        seen = f" ({sample.num_capital} of {words} tokens)" if sample else ""
        text = (
            f"the records have lower-cased text{stated}, but {capitals} of "
            f"the vocabulary's {size} entries have capitals, so they are never "
            f"used{seen}. Make the records again with "
            "do_lower_case false, or with an uncased vocabulary."
        )
        return [Diagnostic(ERROR if made_with else WARNING, "case", text)]
    return []


def check_duplicates(
    sample: SampleStatistics,
    flags: Mapping,
    first: np.ndarray,
    is_pretraining: bool,
) -> list[Diagnostic]:
    """Returns a diagnostic if examples repeat.

    Examples are equal if all their tokens before masking are. `dupe_factor` = D
    pairs and masks each document D times, which may give the same example up
    to D times, all in one shard. Only more than that is reported: copies of an
    example beyond D, and examples in several shards. The latter are visible
    even in a small sample: with r copies of each of N examples, r n^2 / 2 N
    examples of a sample of n have a copy in it. If D is unknown, the original's
    default is assumed, and copies are only a warning. The arguments are those
    of `check_sample`.
    """
    is_known = "dupe_factor" in flags
    factor = int(flags.get("dupe_factor", _ORIGINAL_DUPE_FACTOR))
    factor = factor if is_pretraining else 1
    num_examples = sample.num_examples
    texts, copies = np.unique(
        sample.digests, return_inverse=True, return_counts=True
    )[1:]
    surplus = int((copies - factor).clip(0).sum())
    # The original distributes the examples of a document over all files.
    is_by_document = bool(flags) and "compat" not in flags
    spread = _num_spread(texts, sample.numbers, first) if is_by_document else 0
    each = num_examples / max(len(np.unique(sample.numbers)), 1)
    more = 2.0 * spread * first[-1] * each / max(num_examples, 1) ** 2
    if spread < _LEAST_SPREAD:
        more = 0.0
    if surplus <= max(MOST_SURPLUS * num_examples, 1) and more < MOST_COPIES:
        return []
    is_spoilt = (
        surplus > SPOILING_SURPLUS * num_examples or more > SPOILING_COPIES
    )
    text = (
        f"{copies[copies > 1].sum()} of {num_examples} examples of the sample "
        "have the same tokens as another, before masking; one occurs "
        f"{copies.max()} times"
    )
    if is_pretraining:
        text += f", and dupe_factor={factor} explains at most {factor}"
        text += "" if is_known else " (assumed, as the records do not state it)"
    if more:
        text += (
            f". {spread} of them are in several shards: an estimated "
            f"{more:.1f} copies of each example in the complete set"
        )
    text += (
        ". The model memorizes these. Drop duplicate documents and lines from "
        "the text, and make the records again."
    )
    is_error = is_pretraining and is_known and is_spoilt
    return [Diagnostic(ERROR if is_error else WARNING, "duplicates", text)]


def _num_spread(
    texts: np.ndarray, numbers: np.ndarray, first: np.ndarray
) -> int:
    """Returns the number of distinct `texts` [N] in more than one shard."""
    shards = np.searchsorted(first, numbers, side="right") - 1
    pairs = np.unique(np.stack([texts.ravel(), shards]), axis=1)
    return int((np.bincount(pairs[0]) > 1).sum())


def check_labels(sample: SampleStatistics, flags: Mapping) -> list[Diagnostic]:
    """Returns a diagnostic if a class has no examples, or nearly all."""
    labels, names = sample.labels, list(flags.get("labels") or ())
    if not labels.sum():
        return []
    if names and len(labels) > len(names):
        text = (
            f"label_ids go up to {len(labels) - 1}; there are only "
            f"{len(names)} labels, {', '.join(names)}. Make the records again."
        )
        return [Diagnostic(ERROR, "labels", text)]
    counts = np.pad(labels, (0, max(0, len(names) - len(labels))))
    if counts.max() < 0.95 * counts.sum() and counts.min() > 0:
        return []
    shares = ", ".join(
        f"{names[i] if names else i} {count}" for i, count in enumerate(counts)
    )
    text = (
        f"the classes of {counts.sum()} examples are unbalanced: {shares}. The "
        "majority-class baseline scores high; check the label column."
    )
    return [Diagnostic(WARNING, "labels", text)]
