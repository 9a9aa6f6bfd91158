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
# Paths that are not marked, for all scripts or for one.
UNMARKED = {
    # Text may be in a store, and need not be copied.
    ("run_scripts.make_pretraining_records", "input_file"),
    ("run_scripts.make_vocab", "input_file"),
    # A store is written to directly.
    ("run_scripts.make_pretraining_records", "output_dir"),
}
# Scripts whose inputs are local.
LOCAL = ("run_scripts.quickstart", "experiments", "tools")


def marks(values, name):
    """Returns the marks of a flag's option; none if no dataclass defines it."""
    owner = values.find_module_defining_flag(name)
    found, todo = set(), [options.Options]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        fields = cls.__dataclass_fields__
        if cls.__name__ == owner and name in fields:
            metadata = fields[name].metadata
            kinds = ("reads", "writes", "on_disk")
            found |= {kind for kind in kinds if metadata[kind]}
    return found


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_path_can_be_in_a_store_or_is_refused_there(script):
    module = importlib.import_module(script)
    for name in module.FLAGS:
        if not _PATH.fullmatch(name) or (script, name) in UNMARKED:
            continue
        found = marks(module.FLAGS, name)
        if not script.startswith(LOCAL) and name != "cache_dir":
            assert len(found) == 1, (name, found)
        elif name == "output_dir":
            assert found == {"on_disk"}
