"""Flags that say what pre-training examples to make -> their Settings."""

import dataclasses

from absl import flags

from run_scripts.flags import common_flags
from tfrecords.pretraining import masking
from tfrecords.pretraining import settings as settings_lib

# Words of --mask_mix, in the order of its default.
_KINDS = tuple(field.name for field in dataclasses.fields(masking.Mix))


def define_examples(values: flags.FlagValues) -> None:
    """Adds the flags of what an example is."""
    common_flags.define_max_seq_length(values)
    flags.DEFINE_integer(
        "random_seed", 12345, "Seed of all that is random.", flag_values=values
    )
    flags.DEFINE_integer(
        "dupe_factor",
        None,
        "Times that each document is paired and masked anew; by default 10, "
        "and 1 with --masking_time=dynamic, where more only cut other pairs.",
        flag_values=values,
    )
    flags.DEFINE_enum(
        "pairs",
        "next_sentence",
        settings_lib.PAIRS,
        "next_sentence: half of the segments B follow A, the others come from "
        "elsewhere. none: single segments of whole sentences, filled to "
        "length, as in RoBERTa. sentence_order: neighbours, half of them "
        "swapped, as in ALBERT.",
        flag_values=values,
    )
    flags.DEFINE_float(
        "short_seq_prob",
        None,
        "Chance that a document is cut for examples shorter than the maximum; "
        "by default 0.1, and 0 with --pairs=none.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "max_examples_per_row",
        1,
        "Short examples that may share a row of --max_seq_length, each for "
        "itself, in place of padding; 3 to 8 are good. A training batch then "
        "counts rows, and holds more examples.",
        flag_values=values,
    )
    _define_masking(values)


def _define_masking(values):
    flags.DEFINE_enum(
        "masking_time",
        "static",
        settings_lib.MASKING_TIMES,
        "static: tokens are masked when records are written. dynamic: when "
        "they are read, anew in each epoch, as in RoBERTa; the records hold "
        "tokens as they are.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "max_predictions_per_seq",
        20,
        "Masked tokens in an example, at most.",
        flag_values=values,
    )
    flags.DEFINE_float(
        "masked_lm_prob", 0.15, "Share of tokens to mask.", flag_values=values
    )
    flags.DEFINE_enum(
        "masking",
        None,
        masking.UNITS,
        "What is masked together. tokens: word pieces, the default. words: all "
        "pieces of a word or none. spans: contiguous whole words of random "
        "number, as in SpanBERT.",
        flag_values=values,
    )
    flags.DEFINE_bool(
        "do_whole_word_mask",
        False,
        "The original's name of --masking=words.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "max_ngram",
        10,
        "Words in a span, at most; shorter ones are likelier, of length k in "
        "proportion to 0.8^k.",
        flag_values=values,
    )
    flags.DEFINE_list(
        "mask_mix",
        ["mask:0.8", "random:0.1", "same:0.1"],
        "What stands at masked places, as shares that are 1 in all: [MASK], a "
        "random token, the token itself. What is not named has no share.",
        flag_values=values,
    )


def settings(values: flags.FlagValues) -> settings_lib.Settings:
    """Returns what the flags of `define_examples` say.

    Raises:
      ValueError: if a flag is out of range, or two contradict.
    """
    named = {
        field.name: values[field.name].value
        for field in dataclasses.fields(settings_lib.Settings)
    }
    named["mask_mix"] = _mask_mix(values.mask_mix)
    if values.dupe_factor is None:
        named["dupe_factor"] = 1 if values.masking_time == "dynamic" else 10
    if values.short_seq_prob is None:
        named["short_seq_prob"] = 0.0 if values.pairs == "none" else 0.1
    found = settings_lib.Settings(**named)
    if values["max_ngram"].present and found.unit != "spans":
        raise ValueError(
            f"--max_ngram={values.max_ngram} is the length of spans, and "
            f"--masking={found.unit} has none. Add --masking=spans, or leave "
            "it away."
        )
    return found


def _mask_mix(words: list[str]) -> masking.Mix:
    """Returns the mix of words such as `mask:0.8`."""
    given = ",".join(words)
    try:
        pairs = [word.split(":") for word in words]
        shares = {kind.strip(): float(share) for kind, share in pairs}
    except ValueError:
        shares = {}
    if not shares or set(shares) - set(_KINDS) or len(shares) < len(words):
        raise ValueError(
            f"--mask_mix={given} should be like mask:0.8,random:0.1,same:0.1: "
            f"shares of {', '.join(_KINDS)}, each named once."
        )
    return masking.Mix(**(dict.fromkeys(_KINDS, 0.0) | shares))


def check_compat(found: settings_lib.Settings) -> None:
    """Raises ValueError if the original cannot make such examples."""
    allowed = {
        "mask_mix": [masking.Mix()],
        "unit": ["tokens", "words"],
        "max_examples_per_row": [1],
        "pairs": ["next_sentence"],
        "masking_time": ["static"],
    }
    for name, values in allowed.items():
        if getattr(found, name) not in values:
            flag = {"unit": "masking"}.get(name, name)
            raise ValueError(
                f"--{flag} as given does not go with --compat=original, which "
                "makes what create_pretraining_data.py makes: next sentences, "
                "tokens or words masked 80/10/10 when they are written. Leave "
                "one of the two flags away."
            )
