"""Flags of pre-training examples -> checked Settings, and rules of masking."""

import dataclasses

from tfrecords import masking as masking_lib


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What examples to make; most names and defaults are the original's flags.

    Attributes:
      masking: what is masked together, one of `masking.UNITS`. By default
        words with `do_whole_word_mask`, and tokens without.
      max_ngram: words in a span, at most.
      mask_mix: what stands at masked places.

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
        self._check_masking()

    def _check_masking(self):
        _check_choice("masking", self.unit, masking_lib.UNITS)
        if self.do_whole_word_mask and self.unit != "words":
            raise ValueError(
                f"masking={self.masking} contradicts do_whole_word_mask, which "
                "means masking=words. Leave one of the two away."
            )
        if not 1 <= self.max_ngram <= self.max_seq_length:
            raise ValueError(
                f"max_ngram={self.max_ngram} should be from 1 to "
                f"max_seq_length={self.max_seq_length}; SpanBERT takes 10."
            )

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
    def sizes(self) -> dict[str, int]:
        """Number for each dimension name of `schema.PRETRAINING`."""
        return {
            "max_seq_length": self.max_seq_length,
            "max_predictions_per_seq": self.max_predictions_per_seq,
        }


def _check_choice(name, value, choices):
    if value not in choices:
        raise ValueError(
            f"{name}={value} should be one of {', '.join(choices)}."
        )
