"""Names of recipes for a small budget -> flags and config of a run.

The files are those of run_scripts/recipes.
"""

import pathlib

from absl import flags as absl_flags

import run_scripts
from bert_tf.config import BertConfig

_FOLDER = pathlib.Path(run_scripts.__file__).parent / "recipes"


def pretraining() -> dict[str, str]:
    """Returns the flags of budget_cpu.flags, by name."""
    return _read("budget_cpu")


def records() -> dict[str, str]:
    """Returns the flags of budget_records.flags, by name."""
    return _read("budget_records")


def masked_lm_prob() -> float:
    """Returns the fraction of the tokens that are masked."""
    return float(records()["masked_lm_prob"])


def config() -> BertConfig:
    """Returns the config of budget_bert_config.json."""
    return BertConfig.from_json_file(_FOLDER / "budget_bert_config.json")


def _read(name: str) -> dict[str, str]:
    path = _FOLDER / f"{name}.flags"
    words = absl_flags.FlagValues().read_flags_from_files(
        [f"--flagfile={path}"]
    )
    return dict(word.removeprefix("--").split("=", 1) for word in words)
