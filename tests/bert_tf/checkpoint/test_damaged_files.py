"""Files of checkpoints with changed bytes -> read, or an error with a path."""

import json
import shutil

import exports
import hypothesis
import pytest
from hypothesis import strategies

from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.workflows import conversion

# Format -> its files that hypothesis changes.
FILES = [
    ("bert_tf", "model.safetensors"),
    ("bert_tf", "model.json"),
    ("bert_tf", "bert_config.json"),
    ("google", "bert_model.ckpt.index"),
    ("google", "bert_model.ckpt.data-00000-of-00001"),
    ("model_garden", "bert_model.ckpt.index"),
    ("hugging_face", "config.json"),
    ("hugging_face", "tokenizer_config.json"),
    ("keras_hub", "config.json"),
    ("keras_hub", "model.weights.h5"),
]
fuzz = hypothesis.settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
VALUES = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers(-(10**20), 10**20)
    | strategies.floats()
    | strategies.text(max_size=5),
    lambda inner: (
        strategies.lists(inner, max_size=2)
        | strategies.dictionaries(strategies.text(max_size=3), inner)
    ),
    max_leaves=3,
)


@pytest.fixture(scope="session")
def originals(tmp_path_factory):
    """A folder with a tiny pre-training model in each format."""
    folder = tmp_path_factory.mktemp("formats")
    model = exports.make_model("pretraining")
    exports.save_model(model, "pretraining", folder / "bert_tf", labels=[])
    for name in ("google", "model_garden", "hugging_face", "keras_hub"):
        conversion.convert(str(folder / "bert_tf"), name, str(folder / name))
    return folder


def check(folder):
    """Reads a checkpoint; the only errors are those that name a path."""
    try:
        Checkpoint.open(str(folder))
    except (ValueError, OSError) as error:
        assert str(folder) in str(error)


@pytest.mark.parametrize(("name", "file"), FILES)
def test_changed_bytes_are_read_or_named(originals, tmp_path, name, file):
    shutil.copytree(originals / name, tmp_path / name)
    path = tmp_path / name / file
    content = path.read_bytes()
    places = strategies.integers(0, len(content) - 1)

    @fuzz
    @hypothesis.given(
        strategies.dictionaries(
            places, strategies.integers(0, 255), max_size=20
        ),
        strategies.none() | places,
    )
    def run(changes, end):
        changed = bytearray(content)
        for place, value in changes.items():
            changed[place] = value
        path.write_bytes(changed[:end])
        check(tmp_path / name)

    run()


@pytest.mark.parametrize(
    ("name", "file"), [row for row in FILES if row[1].endswith(".json")]
)
def test_other_values_in_json_are_read_or_named(
    originals, tmp_path, name, file
):
    shutil.copytree(originals / name, tmp_path / name)
    path = tmp_path / name / file
    content = json.loads(path.read_text())

    @fuzz
    @hypothesis.given(strategies.sampled_from(sorted(content)), VALUES)
    def run(key, value):
        changed = content | {key: value}
        if isinstance(content[key], dict) and content[key]:
            first = sorted(content[key])[len(str(value)) % len(content[key])]
            changed = content | {key: content[key] | {first: value}}
        path.write_text(json.dumps(changed))
        check(tmp_path / name)

    run()
