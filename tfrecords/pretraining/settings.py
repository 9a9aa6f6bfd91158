"""Options of pre-training examples -> checked Settings, masking rules."""

import dataclasses
from collections.abc import Mapping

from tfrecords import options
from tfrecords.options import Options, option
from tfrecords.pretraining import masking as masking_lib
from tfrecords.pretraining import packing

# Devlin et al. 2018; Liu et al. 2019 (RoBERTa); Lan et al. 2020 (ALBERT).
PAIRS = ("next_sentence", "none", "sentence_order")
# Whether tokens are masked when records are written, or when they are read.
MASKING_TIMES = ("static", "dynamic")
# SpanBERT, section 3.1.
_MAX_NGRAM = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(Options):
    """Settings of examples; most names and defaults are the original's flags.

    Raises:
      ValueError: if a number is out of range, or two settings contradict each
        other.
    """

    max_seq_length: int = option(
        128, "Tokens in an example, [CLS], [SEP] and padding included."
    )
    random_seed: int = option(
        12345, "Random seed of all choices.", at_least=0, at_most=2**63 - 1
    )
    dupe_factor: int | None = option(
        None,
        "Number of times each document is paired and masked, each time "
        "differently. Default: 10; 1 with --masking_time=dynamic, where more "
        "copies differ in their pairs only.",
        at_least=1,
        at_most=1000,
    )
    pairs: str = option(
        "next_sentence",
        "next_sentence: in half of the pairs B follows A, in the others B "
        "comes from another document. none: single segments of complete "
        "sentences, filled up to the maximum length, as in RoBERTa. "
        "sentence_order: consecutive segments, swapped in half of the pairs, "
        "as in ALBERT.",
        choices=PAIRS,
    )
    short_seq_prob: float | None = option(
        None,
        "Probability that a document is cut into examples shorter than the "
        "maximum. Default: 0.1; 0 with --pairs=none.",
        at_least=0.0,
        at_most=1.0,
    )
    max_examples_per_row: int = option(
        1,
        "Maximum number of short examples that share a row of --max_seq_length "
        "instead of being padded; they do not affect each other. 3 to 8 work "
        "well. A training batch then counts rows, and holds more examples.",
    )
    masking_time: str = option(
        "static",
        "static: tokens are masked when records are written. dynamic: when "
        "they are read, differently in each epoch, as in RoBERTa; the records "
        "hold unmasked tokens.",
        choices=MASKING_TIMES,
    )
    max_predictions_per_seq: int = option(
        20,
        "Maximum number of masked tokens in an example: at least "
        "--max_seq_length times --masked_lm_prob, or fewer are masked.",
    )
    masked_lm_prob: float = option(
        0.15, "Fraction of tokens to mask.", at_least=0.0, at_most=1.0
    )
    masking: str | None = option(
        None,
        "Unit of masking. tokens (the default): single word pieces. words: "
        "all pieces of a word or none. spans: a random number of consecutive "
        "complete words, as in SpanBERT.",
        choices=masking_lib.UNITS,
    )
    do_whole_word_mask: bool = option(
        False, "The original's name for --masking=words."
    )
    max_ngram: int | None = option(
        None,
        "With --masking=spans: maximum number of words in a span. Default: "
        f"{_MAX_NGRAM}. The probability of k words is proportional to 0.8^k.",
        at_least=1,
    )
    mask_mix: tuple[str, ...] = option(
        ("mask:0.8", "random:0.1", "same:0.1"),
        "What replaces a masked token, as probabilities that sum to 1: mask "
        "for [MASK], random for a random token, same for the token itself. "
        "Those not given are 0.",
    )

    def __post_init__(self):
        super().__post_init__()
        # Resolved here, as manifests record the resolved defaults.
        if self.dupe_factor is None:
            dupe_factor = 1 if self.masking_time == "dynamic" else 10
            object.__setattr__(self, "dupe_factor", dupe_factor)
        if self.short_seq_prob is None:
            short_seq_prob = 0.0 if self.pairs == "none" else 0.1
            object.__setattr__(self, "short_seq_prob", short_seq_prob)
        self._check_sizes()
        self._check_masking()

    def _check_sizes(self):
        if not 5 <= self.max_seq_length <= options.MAX_SEQ_LENGTH:
            raise ValueError(
                f"max_seq_length={self.max_seq_length} should be from 5 "
                "([CLS], two tokens and two [SEP]) to "
                f"{options.MAX_SEQ_LENGTH}."
            )
        for name, usual in (
            (
                "max_predictions_per_seq",
                "about max_seq_length * masked_lm_prob is usual",
            ),
            ("max_examples_per_row", "3 to 8 leave little padding"),
        ):
            if not 1 <= getattr(self, name) <= self.max_seq_length:
                raise ValueError(
                    f"{name}={getattr(self, name)} should be from 1 to "
                    f"max_seq_length={self.max_seq_length}; {usual}."
                )

    def _check_masking(self):
        if self.do_whole_word_mask and self.unit != "words":
            raise ValueError(
                f"masking={self.masking} contradicts do_whole_word_mask, which "
                "means masking=words. Omit one of the two."
            )
        if self.max_ngram is not None and self.unit != "spans":
            raise ValueError(
                f"--max_ngram={self.max_ngram} is the length of spans, and "
                f"--masking={self.unit} has no spans. Add --masking=spans, or "
                "omit --max_ngram."
            )
        masking_lib.Mix.parse(self.mask_mix)

    def describe(self) -> dict:
        """Returns all settings by name, for the manifest."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, flags: Mapping) -> "Settings":
        """Returns the settings recorded in a manifest's `flags`."""
        names = {field.name for field in dataclasses.fields(cls)} & set(flags)
        named = {name: flags[name] for name in names}
        if "mask_mix" in named:
            named["mask_mix"] = tuple(named["mask_mix"])
        return cls(**named)

    @property
    def unit(self) -> str:
        """Unit of masking, one of `masking.UNITS`."""
        return self.masking or (
            "words" if self.do_whole_word_mask else "tokens"
        )

    @property
    def rules(self) -> masking_lib.Rules:
        """Masking rules of the examples."""
        return masking_lib.Rules(
            max_predictions_per_seq=self.max_predictions_per_seq,
            masked_lm_prob=self.masked_lm_prob,
            unit=self.unit,
            max_ngram=self.max_ngram or _MAX_NGRAM,
            mix=masking_lib.Mix.parse(self.mask_mix),
        )

    @property
    def is_packed(self) -> bool:
        """Whether examples share rows."""
        return self.max_examples_per_row > 1

    @property
    def schema_name(self) -> str:
        """Name of the records' schema, a key of `schema.SCHEMAS`."""
        is_single = self.pairs == "none"
        if self.masking_time == "dynamic":
            name = "unmasked_segments" if is_single else "unmasked_pairs"
        else:
            name = "masked_lm" if is_single else "pretraining"
        return f"packed_{name}" if self.is_packed else name

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of the schema's dimensions, by name."""
        sizes = {
            "max_seq_length": self.max_seq_length,
            "max_predictions_per_seq": self.max_predictions_per_seq,
        }
        if self.is_packed:
            sizes |= {
                "max_examples_per_row": self.max_examples_per_row,
                "max_predictions_per_row": packing.max_predictions_per_row(
                    **sizes,
                    masked_lm_prob=self.masked_lm_prob,
                    max_examples_per_row=self.max_examples_per_row,
                ),
            }
        return sizes
