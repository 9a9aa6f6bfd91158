"""Every flag of every script that names a file or folder has a known use."""

import importlib
import pathlib
import re

import pytest

from tfrecords import options

ROOT = pathlib.Path(__file__).parents[3]
SCRIPTS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for folder in ("run_scripts", "experiments", "tools")
    for path in (ROOT / folder).rglob("*.py")
    if re.search(r"^FLAGS = ", path.read_text("utf-8"), re.MULTILINE)
)
_PATH = re.compile(
    r".*(_dirs?|_file|_path|_checkpoint)|png|json|corpus|records"
)
# A flag that is neither here nor marked as an output fails the test.
INPUTS = {
    "bert_config_file",
    "corpus",
    "data_dir",
    "data_file",
    "dev_file",
    "eval_input_file",
    "glue_dir",
    "init_checkpoint",
    "input_file",
    "model_dir",
    "na_prob_file",
    "ner_dev_file",
    "ner_train_file",
    "other_input_file",
    "predict_file",
    "predictions_file",
    "records",
    "run_dir",
    "run_dirs",
    "squad_dev_file",
    "squad_train_file",
    "test_file",
    "train_file",
    "vocab_file",
}


# The only output that may be in a store.
IN_STORES = ("run_scripts.make_pretraining_records", "output_dir")


def is_on_disk(values, name):
    """Whether a flag is marked; not if no dataclass defines it."""
    owner = values.find_module_defining_flag(name)
    marks, todo = set(), [options.Options]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        fields = cls.__dataclass_fields__
        if cls.__name__ == owner and name in fields:
            marks.add(fields[name].metadata["on_disk"])
    return marks == {True}


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_path_is_an_input_or_marked_as_an_output(script):
    module = importlib.import_module(script)
    for name in module.FLAGS:
        if not _PATH.fullmatch(name):
            continue
        is_marked = is_on_disk(module.FLAGS, name)
        if script.endswith(".predict") and name == "export_dir":
            continue  # Read there, written by export_savedmodel.
        is_other = name in INPUTS or (script, name) == IN_STORES
        assert is_marked != is_other, name
