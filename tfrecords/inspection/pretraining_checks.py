"""Statistics of a sample, its flags -> diagnostics on pairs and masks.

A share counts as off only beyond what chance explains in a sample of that size.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from tfrecords.inspection.diagnostics import ERROR, WARNING, Diagnostic
from tfrecords.inspection.sample_statistics import SampleStatistics
from tfrecords.pretraining import masking

# Shares of random next sentences. Books and Wikipedia have 0.54 to 0.58: a
# chunk of one sentence always gets a random one.
_USUAL_RANDOM = (0.35, 0.70)
_BEARABLE_RANDOM = (0.2, 0.8)
# Masked tokens, relative to what the flags ask for; whole words and spans that
# do not fit are omitted.
_LEAST_MASKED, _MOST_MASKED = 0.75, 1.05
_MIX_SLACK = 0.02
_SIGMAS = 4.0
# Tokens of a span, which are all shown alike, so that fewer draws are made.
_TOKENS_A_DRAW = {True: 8, False: 1}


def check_pairs(sample: SampleStatistics, flags: Mapping) -> list[Diagnostic]:
    """Returns a diagnostic if random next sentences are far from half."""
    labels = sample.pair_labels
    kind = flags.get("pairs", "next_sentence")
    if not labels.sum():
        return []
    share = labels[1] / max(labels.sum(), 1)
    slack = _SIGMAS * (0.25 / max(labels.sum(), 1)) ** 0.5
    if _USUAL_RANDOM[0] - slack <= share <= _USUAL_RANDOM[1] + slack:
        return []
    is_bearable = (
        _BEARABLE_RANDOM[0] - slack <= share <= _BEARABLE_RANDOM[1] + slack
    )
    what = "swapped" if kind == "sentence_order" else "random next"
    advice = "Are these records of this project or of the original?"
    if share > 0.5:
        advice = (
            "Documents of one sentence always get a random one: check "
            "--input_format, that blank lines stand between documents alone, "
            "and that --max_seq_length has room for two sentences."
        )
    text = (
        f"{labels[1]} of {labels.sum()} examples have {what} sentences "
        f"(next_sentence_labels 1), a share of {share:.2f}; about half is "
        f"right, and 0.54 to 0.58 usual. {advice} Make the records again."
    )
    return [Diagnostic(WARNING if is_bearable else ERROR, "pairs", text)]


def mask_mix(flags: Mapping) -> masking.Mix:
    """Returns the mix of a manifest's flags; of others, that of the paper."""
    words = flags.get("mask_mix")
    return masking.Mix.parse(words) if words else masking.Mix()


def check_masks(sample: SampleStatistics, flags: Mapping) -> list[Diagnostic]:
    """Returns diagnostics if masks are not what the flags ask for.

    Records that are masked when they are read have none to check.
    """
    if sample.counts is None:
        return []
    diagnostics = _check_number_of_masks(sample, flags)
    shown = sample.counts.shown
    expected = dataclasses.astuple(mask_mix(flags))
    total = max(shown.sum(), 1)
    shares = shown / total
    is_span = flags.get("masking") == "spans"
    draws = total / _TOKENS_A_DRAW[is_span]
    off = [
        abs(share - wanted)
        > _MIX_SLACK + _SIGMAS * (wanted * (1 - wanted) / draws) ** 0.5
        for share, wanted in zip(shares, expected, strict=True)
    ]
    if any(off):
        words = " / ".join(f"{share:.3f}" for share in shares)
        wanted = " / ".join(f"{share:.3f}" for share in expected)
        text = (
            f"of {total} masked tokens the shares shown as [MASK] / a random "
            f"token / themselves are {words}; {wanted} was asked for. Make the "
            "records again."
        )
        diagnostics.append(Diagnostic(ERROR, "masks", text))
    return diagnostics


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
        f"{number} of {tokens} tokens are masked, a share of "
        f"{number / max(tokens, 1):.3f}"
    )
    if not _LEAST_MASKED <= part <= _MOST_MASKED:
        severity = ERROR if "masked_lm_prob" in flags else WARNING
        text = (
            f"{counted}; masked_lm_prob={prob:g} with {num_slots} slots at "
            f"most gives {expected / max(tokens, 1):.3f}. Make the records "
            "again."
        )
        return [Diagnostic(severity, "masks", text)]
    if number < _LEAST_MASKED * prob * tokens:
        fix = int(np.ceil(prob * (masked.shape[0] - 1)))
        text = (
            f"{counted}, where masked_lm_prob={prob:g}: "
            f"max_predictions_per_seq={num_slots} cuts them. Make the records "
            f"again with --max_predictions_per_seq={fix}."
        )
        return [Diagnostic(WARNING, "masks", text)]
    return []
