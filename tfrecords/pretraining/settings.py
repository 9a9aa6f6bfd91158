"""Flags of pre-training examples -> checked Settings, and rules of masking."""

import dataclasses
from collections.abc import Mapping

from tfrecords.pretraining import masking as masking_lib
from tfrecords.pretraining import packing

# What a model learns of segments besides masked tokens: whether B follows A
# or comes from elsewhere (Devlin et al. 2019); nothing, of single segments
# (Liu et al. 2019); which of two neighbours came first (Lan et al. 2020).
PAIRS = ("next_sentence", "none", "sentence_order")
# Whether tokens are masked when records are written, or when they are read.
MASKING_TIMES = ("static", "dynamic")
# Settings that every manifest has.
_FIRST_VERSION = (
    "max_seq_length",
    "max_predictions_per_seq",
    "random_seed",
    "dupe_factor",
    "masked_lm_prob",
    "short_seq_prob",
    "do_whole_word_mask",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What examples to make; most names and defaults are the original's flags.

    Attributes:
      masking: what is masked together, one of `masking.UNITS`. By default
        words with `do_whole_word_mask`, and tokens without.
      max_ngram: words in a span, at most.
      mask_mix: what stands at masked places.
      max_examples_per_row: short examples that may share a row; with 1 each
        has its own, as in the original.
      pairs: one of `PAIRS`.
      masking_time: one of `MASKING_TIMES`.

    Raises:
      ValueError: if a number is out of range, or two settings contradict.
    """

    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    random_seed: int = 12345
    dupe_factor: int = 10
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    do_whole_word_mask: bool = False
    masking: str | None = None
    max_ngram: int = 10
    mask_mix: masking_lib.Mix = masking_lib.Mix()
    max_examples_per_row: int = 1
    pairs: str = "next_sentence"
    masking_time: str = "static"

    def __post_init__(self):
        if not 5 <= self.max_seq_length < 1 << 16:
            raise ValueError(
                f"max_seq_length={self.max_seq_length} should be from 5, for "
                "[CLS], two tokens and two [SEP], to 65535."
            )
        if not 1 <= self.max_predictions_per_seq <= self.max_seq_length:
            raise ValueError(
                f"max_predictions_per_seq={self.max_predictions_per_seq} "
                f"should be from 1 to max_seq_length={self.max_seq_length}; "
                "about max_seq_length * masked_lm_prob is usual."
            )
        if self.dupe_factor < 1 or self.random_seed < 0:
            raise ValueError(
                f"dupe_factor={self.dupe_factor} should be 1 or more and "
                f"random_seed={self.random_seed} 0 or more."
            )
        for name in ("masked_lm_prob", "short_seq_prob"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(
                    f"{name}={getattr(self, name)} should be from 0 to 1; it "
                    "is a probability."
                )
        if not 1 <= self.max_examples_per_row <= self.max_seq_length:
            raise ValueError(
                f"max_examples_per_row={self.max_examples_per_row} should be "
                f"from 1 to max_seq_length={self.max_seq_length}; 3 to 8 leave "
                "little padding."
            )
        self._check_masking()
        self._check_pairs()

    def _check_pairs(self):
        _check_choice("pairs", self.pairs, PAIRS)
        _check_choice("masking_time", self.masking_time, MASKING_TIMES)

    def _check_masking(self):
        _check_choice("masking", self.unit, masking_lib.UNITS)
        if self.do_whole_word_mask and self.unit != "words":
            raise ValueError(
                f"masking={self.masking} contradicts do_whole_word_mask, which "
                "means masking=words. Leave one of the two away."
            )
        if self.max_ngram < 1:
            raise ValueError(
                f"max_ngram={self.max_ngram} should be 1 or more; SpanBERT "
                "takes 10."
            )

    def describe(self) -> dict:
        """Returns all settings by name, for the manifest.

        Those that the first version had not are left out at their default, so
        that a folder which it began goes on.
        """
        described = dataclasses.asdict(self)
        return {
            field.name: described[field.name]
            for field in dataclasses.fields(self)
            if field.name in _FIRST_VERSION
            or getattr(self, field.name) != field.default
        }

    @classmethod
    def of(cls, flags: Mapping) -> "Settings":
        """Returns the settings that a manifest's `flags` say, as `describe`."""
        names = {field.name for field in dataclasses.fields(cls)}
        named = {name: flags[name] for name in names & set(flags)}
        if "mask_mix" in named:
            named["mask_mix"] = masking_lib.Mix(**named["mask_mix"])
        return cls(**named)

    @property
    def unit(self) -> str:
        """What is masked together, one of `masking.UNITS`."""
        return self.masking or (
            "words" if self.do_whole_word_mask else "tokens"
        )

    @property
    def rules(self) -> masking_lib.Rules:
        """How examples are masked."""
        return masking_lib.Rules(
            max_predictions_per_seq=self.max_predictions_per_seq,
            masked_lm_prob=self.masked_lm_prob,
            unit=self.unit,
            max_ngram=self.max_ngram,
            mix=self.mask_mix,
        )

    @property
    def is_packed(self) -> bool:
        """Whether examples share rows."""
        return self.max_examples_per_row > 1

    @property
    def schema_name(self) -> str:
        """What a record holds, a key of `schema.SCHEMAS`."""
        is_alone = self.pairs == "none"
        if self.masking_time == "dynamic":
            name = "unmasked_segments" if is_alone else "unmasked_pairs"
        else:
            name = "masked_lm" if is_alone else "pretraining"
        return f"packed_{name}" if self.is_packed else name

    @property
    def sizes(self) -> dict[str, int]:
        """Number for each dimension name of the schema."""
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


def _check_choice(name, value, choices):
    if value not in choices:
        raise ValueError(
            f"{name}={value} should be one of {', '.join(choices)}."
        )
