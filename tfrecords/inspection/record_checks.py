"""Statistics of a sample, its flags -> diagnostics of the examples.

A share counts as off only beyond what chance explains in a sample of that size.
"""

from collections.abc import Mapping

import numpy as np

from tfrecords.inspection import pretraining_checks
from tfrecords.inspection.diagnostics import ERROR, WARNING, Diagnostic
from tfrecords.inspection.sample_statistics import Entries, SampleStatistics

# A share of [UNK] above this says that the vocabulary is not the text's. In
# fine-tuning it is the model's and cannot be chosen, so more is borne.
MOST_UNKNOWN = 0.01
MOST_UNKNOWN_FINE_TUNING = 0.1
# Copies of examples beyond what --dupe_factor can explain: a few are of a
# licence or a menu, many spoil a pre-training.
MOST_SURPLUS = 0.01
SPOILING_SURPLUS = 0.05
# Copies of each example in other shards, on average.
MOST_COPIES = 0.1
SPOILING_COPIES = 1.0
_LEAST_SPREAD = 10  # Fewer texts tell nothing of all.
_SIGMAS = 4.0
# Capitals begin about one token in ten of English; none in so many is none.
_WORDS_TO_SEE_CAPITALS = 2000


def check_sample(
    sample: SampleStatistics,
    flags: Mapping,
    entries: Entries | None,
    *,
    first: np.ndarray,
    is_pretraining: bool,
) -> list[Diagnostic]:
    """Checks the examples themselves.

    Args:
      sample: statistics of a sample.
      flags: of the manifest; may be empty.
      entries: of the vocabulary; None if it is not known.
      first: [shards + 1], `Records.first`.
      is_pretraining: whether the examples are of pre-training.
    """
    diagnostics = check_ids(sample)
    if entries:
        diagnostics += check_unknown(sample, is_pretraining)
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
            "masked_lm_positions where no token is. Make the records again."
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
        "vocabulary does not know this text: check --do_lower_case and the "
        "text's language, take another --vocab_file or make one of this text "
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
    """Returns a diagnostic if text and vocabulary are not of the same case.

    Args:
      sample: its statistics; None if its ids are not of this vocabulary.
      entries: of the vocabulary.
      made_with: `do_lower_case` of the manifest; None if it does not say.
      is_uncased: whether the vocabulary is of lower-cased text.
    """
    capitals = int(entries.has_capital.sum())
    size = len(entries.names)
    words = sample.num_words if sample else 0
    # Of a script without capitals, case says nothing.
    has_case = any(name != name.upper() for name in entries.names[5:])
    if made_with is False and is_uncased and has_case:
        is_harmless = words and sample.num_unknown <= MOST_UNKNOWN * words
        severity = WARNING if is_harmless else ERROR
        seen = f", {sample.num_unknown} of {words} tokens" if words else ""
        text = (
            "the records are of cased text (do_lower_case false), and the "
            f"vocabulary of {size} entries is of lower-cased text: {capitals} "
            f"have capitals. So words with capitals are [UNK]{seen}. Make the "
            "records again with --do_lower_case, or with a cased --vocab_file."
        )
        return [Diagnostic(severity, "case", text)]
    lower = made_with
    if made_with is None and words >= _WORDS_TO_SEE_CAPITALS:
        lower = sample.num_capital == 0
    if lower and not is_uncased:
        stated = " (do_lower_case true)" if made_with else ""
        seen = f" ({sample.num_capital} of {words} tokens)" if sample else ""
        text = (
            f"the records are of lower-cased text{stated}, and {capitals} of "
            f"the vocabulary's {size} entries have capitals, so text never "
            f"meets them{seen}. Make the records again with "
            "--do_lower_case=false, or with an uncased --vocab_file."
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

    Examples are the same if all tokens are, before masking. `dupe_factor` = D
    pairs and masks each document D times, which may give the same example up
    to D times, all in one shard. What counts is more than that: copies of one
    example over D, and examples in several shards. The latter show
    in a small part of many records, too: with r copies of each, r n^2 / 2 N of
    n examples of N have another in the sample. Arguments: see `check_sample`.
    """
    factor = int(flags.get("dupe_factor", 1)) if is_pretraining else 1
    num_examples = sample.num_examples
    texts, copies = np.unique(
        sample.digests, return_inverse=True, return_counts=True
    )[1:]
    surplus = int((copies - factor).clip(0).sum())
    # As the original distributes examples, a document's are in any file.
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
        text += f", and dupe_factor={factor} explains {factor} at most"
    if more:
        text += (
            f". {spread} of them are in several shards, which it does not "
            f"explain at all: some {more:.1f} copies of each example in the "
            "whole set"
        )
    text += (
        ". The model learns these by heart. Drop duplicate documents and lines "
        "from the text, and make the records again."
    )
    severity = ERROR if is_pretraining and is_spoilt else WARNING
    return [Diagnostic(severity, "duplicates", text)]


def _num_spread(
    texts: np.ndarray, numbers: np.ndarray, first: np.ndarray
) -> int:
    """Returns how many of the `texts` [N] stand in more than one shard."""
    shards = np.searchsorted(first, numbers, side="right") - 1
    pairs = np.unique(np.stack([texts.ravel(), shards]), axis=1)
    return int((np.bincount(pairs[0]) > 1).sum())


def check_labels(sample: SampleStatistics, flags: Mapping) -> list[Diagnostic]:
    """Returns a diagnostic if a class has no example, or nearly all of them."""
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
        f"the classes of {counts.sum()} examples are far from even: {shares}. "
        "Always saying one of them scores high; check the label column."
    )
    return [Diagnostic(WARNING, "labels", text)]
