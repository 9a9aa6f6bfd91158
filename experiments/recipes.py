"""Names of files in run_scripts/recipes -> flags and configs of runs."""

import os
import pathlib
from collections.abc import Mapping

from absl import flags as absl_flags

import run_scripts
from bert_tf.config import BertConfig
from bert_tf.training import run_folder
from tfrecords.io import json_files

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


def config() -> BertConfig:
    """Returns the config of budget_bert_config.json."""
    return BertConfig.from_json_file(_FOLDER / "budget_bert_config.json")


def check_configs(configs: Mapping[str, BertConfig]) -> None:
    """Raises ValueError if one of the files holds another config.

    Finished runs may have used the file.

    Args:
      configs: path -> config.
    """
    for path, config in configs.items():
        if not os.path.exists(path):
            continue
        before = json_files.read(path)
        changed = run_folder.differences(before, config.to_dict())
        if changed:
            raise ValueError(
                f"{path} belongs to runs with another config: "
                f"{'; '.join(changed)}. Choose another --output_dir, or "
                "give the earlier values."
            )


def write_configs(configs: Mapping[str, BertConfig]) -> None:
    """Writes the files; if `check_configs` raises an error, it writes none."""
    check_configs(configs)
    for path, config in configs.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        config.to_json_file(path)
