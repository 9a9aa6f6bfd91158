"""Effects of `import bert_tf`, in fresh processes."""

import ast
import itertools
import pathlib
import re
import subprocess
import sys

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf.training import optimizers

ROOT = pathlib.Path(__file__).parents[2]


def run(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "imports",
    ["bert_tf, keras", "keras, bert_tf", "run_scripts, bert_tf, keras"],
)
def test_a_keras_file_loads_after_import_bert_tf(
    tiny_config, tmp_path, imports
):
    inputs = {
        name: keras.Input((8,), dtype="int32", name=name)
        for name in ("input_word_ids", "input_mask", "input_type_ids")
    }
    outputs = bert_tf.BertEncoder(tiny_config)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(3)(outputs.pooled_output))
    batch = {name: np.ones((2, 8), "int32") for name in inputs}
    rate = optimizers.WarmupDecay(0.1, 9, 3)
    model.compile(keras.optimizers.SGD(rate), "mse")
    model.save(tmp_path / "mine.keras")
    code = f"""
import sys, {imports}, numpy as np
assert "bert_tf.model.encoder" not in sys.modules
model = keras.models.load_model(sys.argv[1])
names = ("input_word_ids", "input_mask", "input_type_ids")
batch = {{name: np.ones((2, 8), "int32") for name in names}}
print(np.array2string(model(batch).numpy(), precision=9))
print(float(model.optimizer.learning_rate))
"""
    *found, learning_rate = run(code, tmp_path / "mine.keras").splitlines()
    expected = np.array2string(model(batch).numpy(), precision=9)
    assert "\n".join(found) == expected
    assert float(learning_rate) == float(rate(0))


def test_every_class_of_keras_files_is_known_before_its_import():
    names = {}
    for path in sorted((ROOT / "bert_tf").rglob("*.py")):
        lines = path.read_text().splitlines()
        for line, following in itertools.pairwise(lines):
            if line.startswith("@keras.saving.register_keras_serializable"):
                own = re.findall(r"class (\w+)", following)[0]
                module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                (name,) = re.findall(r'"bert_tf", "(\w+)"', line) or [own]
                names[name] = (module.removeprefix("bert_tf."), own)
    assert names == bert_tf._KERAS_CLASSES


@pytest.mark.slow
def test_a_class_of_experiments_is_refused_by_its_name(tmp_path):
    code = """
import sys, bert_tf, keras
if len(sys.argv) > 2:
    from experiments.feature_based.feature_tagger import FeatureTagger
    config = bert_tf.BertConfig.from_name("tiny", vocab_size=9)
    FeatureTagger(config, 3, "last", 4).save(sys.argv[1])
try:
    print(type(keras.models.load_model(sys.argv[1])).__name__)
except ValueError as error:
    print(error)
"""
    path = tmp_path / "tagger.keras"
    assert run(code, path, "with its module").strip() == "FeatureTagger"
    message = run(code, path)
    assert "has a FeatureTagger, which is not part of bert_tf" in message
    assert "import experiments.feature_based.feature_tagger, then" in message


@pytest.mark.slow
@pytest.mark.parametrize("first", ["sys", "run_scripts"])
def test_keras_is_imported_only_when_a_model_is_needed(first):
    code = f"""
import sys, {first}
import bert_tf
print("keras" in sys.modules, "BertEncoder" in dir(bert_tf))
print(bert_tf.BertConfig.__name__, hasattr(bert_tf, "BertCar"))
"""
    assert run(code).split() == ["False", "True", "BertConfig", "False"]


def test_other_backends_of_keras_are_refused(monkeypatch):
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(ImportError, match="backend is jax; .*KERAS_BACKEND"):
        bert_tf._register(keras)


def test_python_m_bert_tf_lists_every_command_without_tensorflow():
    code = """
import runpy, sys
runpy.run_module("bert_tf", run_name="__main__")
print({"tensorflow", "keras", "numpy"} & set(sys.modules))
"""
    *lines, imported = run(code).splitlines()
    assert imported == "set()"
    found = dict(re.findall(r"^  bert-(\S+) +(.+)$", "\n".join(lines), re.M))
    commands = re.search(
        r"SCRIPTS = (\[.*?\])", (ROOT / "setup.py").read_text(), re.S
    )
    names = [*ast.literal_eval(commands[1]), "quickstart"]
    assert sorted(found) == sorted(x.replace("_", "-") for x in names)
    assert found["predict"].startswith("A model or SavedModel, lines of")
