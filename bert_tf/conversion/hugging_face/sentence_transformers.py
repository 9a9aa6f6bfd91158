"""sentence-transformers folder -> folder of its BERT, notes on other modules.

`modules.json` lists the modules: a Transformer, a Pooling and possibly more.
Each has its own subfolder; the Transformer may be in the folder itself.
"""

import os

from bert_tf.conversion.hugging_face import config_json
from tfrecords.io import json_files

MODULES = "modules.json"
_POOLING_PREFIX = "pooling_mode_"


def is_there(path: str) -> bool:
    """Returns whether a folder is a sentence-transformers model."""
    return os.path.isfile(os.path.join(path, MODULES))


def _modules(path: str) -> list[tuple[str, str]]:
    """Returns the kind and the folder of each module, in order."""
    file = os.path.join(path, MODULES)
    listed = json_files.read(file, [{"type": str, "path?": str}])
    modules = []
    for module in listed:
        relative = os.path.normpath(module.get("path") or ".")
        if os.path.isabs(relative) or relative.startswith(".."):
            raise ValueError(
                f"{file}: path {module['path']!r} is outside the folder; it "
                "should be the name of a subfolder."
            )
        kind = module["type"].rpartition(".")[2]
        modules.append((kind, os.path.normpath(os.path.join(path, relative))))
    return modules


def _pooling(folder: str) -> str:
    """Returns a short description of a Pooling module's mode."""
    values = config_json.read_object(folder, config_json.CONFIG)
    modes = [
        name.removeprefix(_POOLING_PREFIX)
        for name, value in values.items()
        if name.startswith(_POOLING_PREFIX) and value is True
    ]
    if not modes and "pooling_mode" in values:
        modes = [str(values["pooling_mode"])]
    return " and ".join(modes) or "of an unknown mode"


def find(path: str) -> tuple[str, list[str]]:
    """Returns the folder of the BERT, and notes on the modules after it.

    Raises:
      ValueError: if the first module is not a Transformer.
    """
    modules = _modules(path)
    kinds = [kind for kind, _ in modules]
    if kinds[:1] != ["Transformer"]:
        raise ValueError(
            f"{os.path.join(path, MODULES)} lists {', '.join(kinds)}; the "
            "first should be a Transformer (the BERT). Give the folder of a "
            "model that starts with one."
        )
    steps = [
        f"pooling {_pooling(folder)}" if kind == "Pooling" else kind
        for kind, folder in modules[1:]
    ]
    note = (
        "sentence-transformers computes its embeddings from sequence_output by "
        f"{', then '.join(steps) or 'no further step'}; only the BERT is read, "
        "and pooled_output is not such an embedding"
    )
    return modules[0][1], [note]
