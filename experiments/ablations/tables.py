"""Sizes of a base model -> rows of the paper's tables 5, 6, 8 and figure 5.

Devlin et al. 2018 (arXiv 1810.04805v2), section 5 and appendix C. Each row has
a pre-trained model; rows with the same model share a run. The paper's numbers
are included, in percent except for perplexities.
"""

import dataclasses
import functools
from collections.abc import Sequence

TABLES = {
    "5": "Pre-training tasks (table 5)",
    "6": "Model size (table 6)",
    "8": "Masking mixes (table 8)",
    "figure5": "Pre-training steps (figure 5)",
}
# Kinds of evaluation tasks in the columns of a table, as in the paper.
COLUMNS = {
    "5": ("glue", "squad"),
    "6": ("glue",),
    "8": ("glue", "ner", "ner_features"),
    "figure5": ("glue",),
}
PERPLEXITY = "LM perplexity"
# Scores without pre-training; not a row of the paper.
FROM_SCRATCH = "no pre-training"
MASKED_LM, LEFT_TO_RIGHT = "masked LM", "left-to-right"

# Percent of masked positions with [MASK], the same token, a random token.
MIX = (80, 10, 10)
# Sizes of table 6 relative to base: factors of L, H and A.
_SIZES = {
    (1 / 4, 1, 1): (5.84, 77.9, 79.8, 88.4),
    (1 / 2, 1, 1 / 4): (5.24, 80.6, 82.2, 90.7),
    (1 / 2, 1, 1): (4.68, 81.9, 84.8, 91.3),
    (1, 1, 1): (3.99, 84.4, 86.7, 92.9),
    (1, 4 / 3, 4 / 3): (3.54, 85.7, 86.9, 93.3),
    (2, 4 / 3, 4 / 3): (3.23, 86.6, 87.8, 93.7),
}
_MIN_LAYERS, _MIN_HEADS = 3, 2  # With these or more, all six sizes differ.
_SIZE_COLUMNS = (PERPLEXITY, "MNLI", "MRPC", "SST-2")
_TASKS = {
    "BERT (masked LM, next sentence)": (84.4, 88.4, 86.7, 92.7, 88.5),
    "no next sentence": (83.9, 84.9, 86.5, 92.6, 87.9),
    "left-to-right, no next sentence": (82.1, 84.3, 77.5, 92.1, 77.8),
    "left-to-right, with BiLSTM": (82.1, 84.1, 75.7, 91.6, 84.9),
}
BERT, NO_PAIRS, LTR, LTR_BILSTM = _TASKS
_TASK_COLUMNS = ("MNLI", "QNLI", "MRPC", "SST-2", "SQuAD")
_MIXES = {
    MIX: (84.2, 95.4, 94.9),
    (100, 0, 0): (84.3, 94.9, 94.0),
    (80, 0, 20): (84.1, 95.2, 94.6),
    (80, 20, 0): (84.4, 95.2, 94.7),
    (0, 20, 80): (83.7, 94.8, 94.6),
    (0, 0, 100): (83.6, 94.9, 94.6),
}
_MIX_COLUMNS = ("MNLI", "NER", "NER, feature-based")
# Columns that the paper makes claims about; figure 5 has MNLI only.
PAPER_COLUMNS = {
    "5": _TASK_COLUMNS,
    "6": _SIZE_COLUMNS,
    "8": _MIX_COLUMNS,
    "figure5": ("MNLI",),
}


@dataclasses.dataclass(frozen=True)
class Model:
    """A pre-trained model; equal models share a run.

    Attributes:
      num_hidden_layers: L.
      hidden_size: H; the intermediate size is four times that.
      num_attention_heads: A.
      pairs: --pairs of make_pretraining_records.
      mask_mix: see `MIX`; a left-to-right model, which has no masks, has MIX.
      is_causal: whether it is left-to-right.
    """

    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    pairs: str = "next_sentence"
    mask_mix: tuple[int, int, int] = MIX
    is_causal: bool = False

    @property
    def size(self) -> str:
        """Name of its size."""
        return (
            f"L-{self.num_hidden_layers}_H-{self.hidden_size}"
            f"_A-{self.num_attention_heads}"
        )

    @property
    def records(self) -> str:
        """Name of its records."""
        return f"{self.pairs}_{'-'.join(map(str, self.mask_mix))}"

    @property
    def name(self) -> str:
        """Name of its run."""
        suffix = "left_to_right" if self.is_causal else self.records
        return f"{self.size}_{suffix}"


PAPER_BASE = Model(12, 768, 12)


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a table, or a point of the figure.

    Attributes:
      table: a key of `TABLES`.
      label: name in the report.
      model: the pre-trained model; None for no pre-training.
      paper: column -> the paper's number.
      share: fraction of the pre-training steps, in (0, 1].
      has_bilstm: whether there is a BiLSTM between encoder and head.
    """

    table: str
    label: str
    model: Model | None
    paper: dict[str, float] = dataclasses.field(default_factory=dict)
    share: float = 1.0
    has_bilstm: bool = False


def sizes(base: Model) -> list[Model]:
    """Returns the models of table 6, scaled from the paper's base to `base`.

    The head size is kept; layers and heads are rounded, to at least 1.

    Raises:
      ValueError: if two of them are equal because `base` has too few layers or
        heads.
    """
    head_size = base.hidden_size // base.num_attention_heads
    models = []
    for layers, width, heads in _SIZES:
        heads = max(1, round(base.num_attention_heads * heads))
        hidden_size = base.hidden_size
        if width != 1:
            hidden_size = heads * head_size
        while hidden_size % heads:
            heads -= 1
        num_layers = max(1, round(base.num_hidden_layers * layers))
        models.append(
            dataclasses.replace(
                base,
                num_hidden_layers=num_layers,
                hidden_size=hidden_size,
                num_attention_heads=heads,
            )
        )
    if len(set(models)) < len(models):
        raise ValueError(
            f"--num_hidden_layers={base.num_hidden_layers} "
            f"--num_attention_heads={base.num_attention_heads}: table 6 would "
            f"have the same size twice ({', '.join(m.size for m in models)}). "
            f"Use at least {_MIN_LAYERS} layers and {_MIN_HEADS} heads, or "
            "omit 6 from --tables."
        )
    return models


def _table_5(base: Model) -> list[Row]:
    alone = dataclasses.replace(base, pairs="none")
    causal = dataclasses.replace(alone, is_causal=True)
    models = {BERT: base, NO_PAIRS: alone, LTR: causal, LTR_BILSTM: causal}
    rows = [
        Row(
            "5",
            label,
            models[label],
            dict(zip(_TASK_COLUMNS, numbers, strict=True)),
            has_bilstm=label == LTR_BILSTM,
        )
        for label, numbers in _TASKS.items()
    ]
    return [*rows, Row("5", FROM_SCRATCH, None)]


def _table_6(base: Model) -> list[Row]:
    return [
        Row("6", model.size, model, dict(zip(_SIZE_COLUMNS, x, strict=True)))
        for model, x in zip(sizes(base), _SIZES.values(), strict=True)
    ]


def _table_8(base: Model) -> list[Row]:
    # With pairs, the step at which a small model leaves its plateau depends
    # more on the seed than on the mix.
    base = dataclasses.replace(base, pairs="none")
    return [
        Row(
            "8",
            "{} % [MASK], {} % same, {} % random".format(*mix),
            dataclasses.replace(base, mask_mix=mix),
            dict(zip(_MIX_COLUMNS, numbers, strict=True)),
        )
        for mix, numbers in _MIXES.items()
    ]


def _figure_5(base: Model, num_checkpoints: int) -> list[Row]:
    causal = dataclasses.replace(base, pairs="none", is_causal=True)
    return [
        Row("figure5", label, model, share=number / num_checkpoints)
        for label, model in ((MASKED_LM, base), (LEFT_TO_RIGHT, causal))
        for number in range(1, num_checkpoints + 1)
    ]


def make(tables: Sequence[str], base: Model, num_checkpoints: int) -> list[Row]:
    """Returns the rows of some tables, in the paper's order.

    Args:
      tables: keys of `TABLES`.
      base: the model in place of the paper's BERT-base.
      num_checkpoints: points of figure 5 for each of its two models.

    Raises:
      ValueError: if there is no such table, or `base` is too small.
    """
    unknown = sorted(set(tables) - set(TABLES))
    if unknown or not tables:
        raise ValueError(
            f"--tables={','.join(tables)} should name some of "
            f"{', '.join(TABLES)}."
        )
    make_rows = {
        "5": _table_5,
        "6": _table_6,
        "8": _table_8,
        "figure5": functools.partial(
            _figure_5, num_checkpoints=num_checkpoints
        ),
    }
    wanted = [name for name in TABLES if name in tables]
    return [row for name in wanted for row in make_rows[name](base)]
