"""Configs of an experiment's models -> bert_config.json files for its runs."""

import os
from collections.abc import Mapping

from bert_tf.config import BertConfig
from bert_tf.training import run_folder
from tfrecords.io import json_files


def check(configs: Mapping[str, BertConfig]) -> None:
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


def write(configs: Mapping[str, BertConfig]) -> None:
    """Writes the files; if `check` raises an error, it writes none."""
    check(configs)
    for path, config in configs.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        config.to_json_file(path)
