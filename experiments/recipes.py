"""Names of files in run_scripts/recipes -> flags and configs of runs."""

import pathlib

from absl import flags as absl_flags

import run_scripts
from bert_tf.config import BertConfig

_FOLDER = pathlib.Path(run_scripts.__file__).parent / "recipes"


def read(name: str) -> dict[str, str]:
    """Returns the values of a recipe's flags; "true" of those without one."""
    words = absl_flags.FlagValues().read_flags_from_files(
        [f"--flagfile={_FOLDER / f'{name}.flags'}"]
    )
    flags = {}
    for word in words:
        flag, _, value = word.removeprefix("--").partition("=")
        flags[flag] = value or "true"
    return flags


def masked_lm_prob() -> float:
    """Returns the fraction of tokens masked in budget_records.flags."""
    return float(read("budget_records")["masked_lm_prob"])


def config(name: str = "budget") -> BertConfig:
    """Returns the config of NAME_bert_config.json."""
    return BertConfig.from_json_file(_FOLDER / f"{name}_bert_config.json")
