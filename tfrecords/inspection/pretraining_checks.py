"""Statistics of a sample, its flags -> diagnostics of pairs and masks.

A fraction is reported only if chance does not explain it in a sample of that
size.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from tfrecords.inspection.diagnostics import ERROR, WARNING, Diagnostic
from tfrecords.inspection.sample_statistics import SampleStatistics
from tfrecords.pretraining import masking

# Fractions of random next sentences. Books and Wikipedia have 0.54 to 0.58: a
# chunk of one sentence always gets a random next one.
_USUAL_RANDOM = (0.35, 0.70)
_TOLERABLE_RANDOM = (0.2, 0.8)
# Masked tokens, relative to the number that the flags set; whole words and
# spans that do not fit are omitted.
_LEAST_MASKED, _MAX_MASKED = 0.75, 1.05
_MIX_SLACK = 0.02
_SIGMAS = 4.0
# Tokens per random draw, with spans or without: one draw decides how all tokens
# of a span are shown.
_TOKENS_PER_DRAW = {True: 8, False: 1}


def check_pairs(sample: SampleStatistics, flags: Mapping) -> list[Diagnostic]:
    """Returns a diagnostic if far from half of next sentences are random."""
    labels = sample.pair_labels
    kind = flags.get("pairs", "next_sentence")
    if not labels.sum():
        return []
    share = labels[1] / max(labels.sum(), 1)
    slack = _SIGMAS * (0.25 / max(labels.sum(), 1)) ** 0.5
    if _USUAL_RANDOM[0] - slack <= share <= _USUAL_RANDOM[1] + slack:
        return []
    is_tolerable = (
        _TOLERABLE_RANDOM[0] - slack <= share <= _TOLERABLE_RANDOM[1] + slack
    )
    what = "swapped" if kind == "sentence_order" else "random next"
    advice = "Were these records made by this project or the original?"
    if share > 0.5:
        advice = (
            "Documents of one sentence always get a random one: check "
            "the --input_format of make_pretraining_records, that there are "
            "blank lines only between documents, and that max_seq_length has "
            "room for two sentences."
        )
    text = (
        f"{labels[1]} of {labels.sum()} examples have {what} sentences "
        f"(next_sentence_labels 1), a fraction of {share:.2f}; about half is "
        f"expected, and 0.54 to 0.58 usual. {advice} Make the records again."
    )
    return [Diagnostic(WARNING if is_tolerable else ERROR, "pairs", text)]


def mask_mix(flags: Mapping) -> masking.Mix:
    """Returns the mask mix of a manifest's flags, by default the paper's."""
    words = flags.get("mask_mix")
    return masking.Mix.parse(words) if words else masking.Mix()


def check_masks(sample: SampleStatistics, flags: Mapping) -> list[Diagnostic]:
    """Returns diagnostics if masks do not match the flags.

    Records that are masked when read have no masks yet; their flags are
    checked.
    """
    if sample.counts is None:
        return _check_flags(flags)
    diagnostics = _check_number_of_masks(sample, flags)
    shown = sample.counts.shown
    expected = dataclasses.astuple(mask_mix(flags))
    total = max(shown.sum(), 1)
    shares = shown / total
    is_span = flags.get("masking") == "spans"
    draws = total / _TOKENS_PER_DRAW[is_span]
    off = [
        abs(share - wanted)
        > _MIX_SLACK + _SIGMAS * (wanted * (1 - wanted) / draws) ** 0.5
        for share, wanted in zip(shares, expected, strict=True)
    ]
    if any(off):
        words = " / ".join(f"{share:.3f}" for share in shares)
        wanted = " / ".join(f"{share:.3f}" for share in expected)
        text = (
            f"of {total} masked tokens the fractions shown as [MASK] / a "
            f"random token / unchanged are {words}; expected {wanted}. Make "
            "the records again."
        )
        diagnostics.append(Diagnostic(ERROR, "masks", text))
    return diagnostics


def _check_flags(flags: Mapping) -> list[Diagnostic]:
    names = ("max_seq_length", "masked_lm_prob", "max_predictions_per_seq")
    if not flags.keys() >= set(names):
        return []
    fault = masking.too_few_slots(*(flags[name] for name in names))
    if not fault:
        return []
    return [Diagnostic(WARNING, "masks", f"{fault} Make the records again.")]


def _check_number_of_masks(
    sample: SampleStatistics, flags: Mapping
) -> list[Diagnostic]:
    masked = sample.counts.masked  # [S + 1, P + 1]
    prob = float(flags.get("masked_lm_prob", 0.15))
    num_tokens = np.arange(masked.shape[0])
    num_slots = int(flags.get("max_predictions_per_seq", masked.shape[1] - 1))
    wanted = np.rint(num_tokens * prob).clip(1, num_slots)
    expected = (masked.sum(axis=1) * wanted).sum()
    number = (masked.sum(axis=0) * np.arange(masked.shape[1])).sum()
    tokens = (masked.sum(axis=1) * num_tokens).sum()
    part = number / max(expected, 1)
    counted = (
        f"{number} of {tokens} tokens are masked, a fraction of "
        f"{number / max(tokens, 1):.3f}"
    )
    if not _LEAST_MASKED <= part <= _MAX_MASKED:
        severity = ERROR if "masked_lm_prob" in flags else WARNING
        text = (
            f"{counted}; masked_lm_prob={prob:g} with at most {num_slots} "
            f"slots gives {expected / max(tokens, 1):.3f}. Make the records "
            "again."
        )
        return [Diagnostic(severity, "masks", text)]
    if number < _LEAST_MASKED * prob * tokens:
        fix = int(np.ceil(prob * (masked.shape[0] - 1)))
        text = (
            f"{counted}, less than masked_lm_prob={prob:g}: "
            f"max_predictions_per_seq={num_slots} limits them. Make the "
            f"records again with max_predictions_per_seq={fix}."
        )
        return [Diagnostic(WARNING, "masks", text)]
    return []
