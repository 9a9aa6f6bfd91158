"""What every script does with its flags, and with wrong input.

`--help` and mistakes in flags are answered without TensorFlow. Wrong input gets
one line and status 1, and no file is changed: the cases are in tests/hostile.
A new script is found by its `main`.
"""

import fcntl
import importlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from absl import flags
from contracts import script_answers
from hostile import (
    commands,
    damaged_inputs,
    models,
    outputs,
    runs,
    served,
    settings,
    texts,
)

ROOT = script_answers.ROOT
CASES = [
    *damaged_inputs.CASES,
    *models.CASES,
    *outputs.CASES,
    *runs.CASES,
    *served.CASES,
    *settings.CASES,
    *texts.CASES,
]
every_script = pytest.mark.parametrize("script", script_answers.SCRIPTS)


@pytest.fixture(scope="module")
def answers():
    """Script -> its answers to --help and to mistakes, and what it imports."""
    done = subprocess.run(
        [sys.executable, script_answers.__file__],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


# Flags.


@every_script
def test_no_answer_about_flags_needs_tensorflow(script, answers):
    assert answers[script]["imported"] == []


@every_script
def test_help_names_every_flag_once(script, answers):
    status, text, errors = answers[script]["help"]
    assert (status, errors) == (0, "")
    module = importlib.import_module(script)
    assert text.startswith(module.__doc__)
    # A backslash at the end of a line is in the docstring: it is raw.
    assert not re.search(r"\S {5,}--", module.__doc__)
    names = re.findall(r"^ *--(?:\[no\])?(\w+):", text, re.MULTILINE)
    assert sorted(names) == sorted([*module.FLAGS, "flagfile", "undefok"])


@every_script
def test_unknown_missing_and_bad_flags_get_one_line(script, answers):
    mistakes = answers[script]["mistakes"]
    assert len(mistakes) >= 1
    for part, status, text, errors in mistakes:
        line, more = errors.splitlines()
        assert line.startswith("error: ") and part in line, errors
        assert more == "(--traceback: stack trace, --help: flags)"
        assert (status, text) == (1, "")


@every_script
def test_numbers_are_finite_and_names_of_outputs_not_empty(script, folder):
    module = importlib.import_module(script)
    words = commands.COMMANDS.get(script.rpartition(".")[2], "").split()
    before = commands.digests(folder, ())
    for name, more in script_answers.late_mistakes(module.FLAGS):
        with pytest.raises((ValueError, flags.Error), match=rf"\b{name}\b"):
            module.main([script, *words, *more])
    assert commands.digests(folder, ()) == before


# Paths.

_PATH = re.compile(
    r".*(_dirs?|_file|_path|_checkpoint)|png|json|corpus|records"
)
# Paths that are not marked, for all scripts or for one.
UNMARKED = {
    # Text may be in a store, and need not be copied.
    ("run_scripts.make_pretraining_records", "input_file"),
    ("run_scripts.make_vocab", "input_file"),
    ("run_scripts.extend_vocab", "input_file"),
    # A store is written to directly.
    ("run_scripts.make_pretraining_records", "output_dir"),
}
# Scripts whose inputs are local.
LOCAL = ("run_scripts.quickstart", "experiments.ablations", "tools")


@pytest.mark.parametrize(
    "script",
    sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for room in ("run_scripts", "experiments", "tools")
        for path in (ROOT / room).rglob("*.py")
        if re.search(
            r"^FLAGS = .*flags\.", path.read_text("utf-8"), re.MULTILINE
        )
    ),
)
def test_each_path_can_be_in_a_store_or_is_refused_there(script):
    module = importlib.import_module(script)
    fields = script_answers.options_of(module.FLAGS)
    for name in module.FLAGS:
        if not _PATH.fullmatch(name) or (script, name) in UNMARKED:
            continue
        known = fields[name].metadata if name in fields else {}
        found = {x for x in ("reads", "writes", "on_disk") if known.get(x)}
        if not script.startswith(LOCAL) and name != "cache_dir":
            assert len(found) == 1, (name, found)
        elif name == "output_dir":
            assert found == {"on_disk"}


# Wrong input.


@pytest.fixture(scope="session")
def inputs(
    made_once, exported, tiny_config, tiny_vocab_file, pretraining_records
):
    """A folder with all inputs of `commands.COMMANDS`, copied for each case."""

    def make(folder):
        import exports
        import planted_data

        from bert_tf.workflows import conversion

        planted_data.write_all(folder, tiny_config)
        shutil.copytree(pretraining_records, folder / "records")
        shutil.copy(tiny_vocab_file, folder / "vocab.txt")
        tiny_config.to_json_file(folder / "bert_config.json")
        model = exports.make_model("classification")
        exports.save_model(model, "classification", folder / "model")
        # The same model in other formats; model_garden has only pre-training.
        for name in ("google", "hugging_face", "keras_hub"):
            conversion.convert(str(folder / "model"), name, str(folder / name))
        model = exports.make_model("pretraining")
        exports.save_model(model, "pretraining", folder / "pretrained")
        conversion.convert(
            str(folder / "pretrained"),
            "model_garden",
            str(folder / "model_garden"),
        )
        shutil.copytree(exported("classification").path, folder / "export")

    return made_once("hostile_inputs", make)


@pytest.fixture(scope="session")
def load_once():
    """`predictions.load`, which loads equal SavedModels once."""
    from bert_tf.serving import predictions

    load, loaded = predictions.load, {}

    def load_or_reuse(export_dir, signature):
        files = commands.digests(pathlib.Path(export_dir), ())
        key = (signature, *sorted(files.items()))
        if key not in loaded:
            loaded[key] = load(export_dir, signature)
        return loaded[key]

    return load_or_reuse


@pytest.fixture
def folder(inputs, load_once, tmp_path, monkeypatch) -> pathlib.Path:
    """A copy of the inputs, which is the working directory."""
    path = tmp_path / "work"
    # Names of records are absolute in some messages; contents are small.
    shutil.copytree(inputs, path)
    monkeypatch.chdir(path)
    monkeypatch.setenv("BERT_TF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("bert_tf.serving.predictions.load", load_once)
    assert not os.path.exists("out")
    return path


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_wrong_input_gets_one_line(case, folder, monkeypatch, capfd, caplog):
    commands.write(case.files, folder)
    before = commands.digests(folder, case.left)
    assert commands.run(case, monkeypatch) == case.code
    output = capfd.readouterr().err
    printed = output + caplog.text
    assert "Traceback" not in printed
    errors = [line for line in output.splitlines() if line[:7] == "error: "]
    assert len(errors) == bool(case.code), printed
    assert case.message in (errors[0] if errors else printed)
    assert not commands.foreign_flags(case, output)
    assert commands.digests(folder, case.left) == before


@pytest.mark.parametrize(
    "task", ["pretraining", "glue", "squad", "swag", "ner"]
)
def test_records_are_made_by_one_process(task, folder, monkeypatch, capfd):
    case = commands.Case(f"make_{task}_records", "", "")
    os.mkdir("out")
    with open("out/run.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert commands.run(case, monkeypatch) == 1
        error = capfd.readouterr().err
        assert "error: out is in use by another run, which has just" in error
    assert commands.run(case, monkeypatch) == 0
    assert "run.lock" not in os.listdir("out")


def test_every_script_has_a_case():
    names = {case.script.rpartition(".")[2] for case in CASES}
    scripts = {name.rpartition(".")[2] for name in script_answers.SCRIPTS}
    assert scripts <= names
