import pathlib
import shutil
import subprocess
import sys

import pytest
from checkpoint_folders import assert_same_bits, write

from bert_tf.checkpoint import detection, options
from bert_tf.checkpoint.checkpoint import Checkpoint


def test_the_model_in_a_run_folder_is_read(tmp_path, given):
    run = tmp_path / "run"
    write(given, run / "checkpoints" / "step-00000003")
    assert detection.detect(str(run)) == "bert_tf"
    found = Checkpoint.open(str(run))
    assert_same_bits(found.tensors, given.tensors)
    assert found.model_json()["source"] == "bert_tf run"


def one_line(path):
    """Returns the message of a refusal, which must be one line."""
    with pytest.raises(ValueError) as error:
        Checkpoint.open(path)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_paths_without_one_model_say_what_was_found(tmp_path, given):
    write(given, tmp_path / "model")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "found: nothing" in one_line(empty)
    (empty / "notes.txt").write_text("")
    message = one_line(empty)
    assert f"{empty} contains no model; found: notes.txt. " in message
    for name in options.FORMATS:
        assert f"{options.EXPECTED_FILES[name]} ({name})" in message
    (empty / "saved_model.pb").write_text("")
    # TensorFlow's folder of weights is no model to give instead.
    write(given, empty / "variables")
    assert "It is a SavedModel" in one_line(empty)
    assert "Give one of the models in it: model" in one_line(tmp_path)
    assert "not-there does not exist. Give" in one_line("not-there")
    file = tmp_path / "model" / "model.safetensors"
    assert "Give the folder of" in one_line(file)


@pytest.mark.parametrize(
    "name, said",
    [
        ("model.zip", "an archive: unpack it"),
        ("model.tar.gz", "an archive: unpack it"),
        ("reviews.csv", "a table or text, not a model"),
        ("train-00000-of-00001.tfrecord", "a file of records"),
        ("models--owner--name", "part of the cache of Hugging Face's hub"),
        ("snapshots", "part of the cache of Hugging Face's hub"),
        ("run.json", "of a run that has saved no model yet"),
        ("vocab.txt", "part of a tokenizer, which has no weights"),
    ],
)
def test_files_of_no_model_are_named(tmp_path, name, said):
    (tmp_path / name).write_text("")
    assert f"{name} is {said}" in one_line(tmp_path)
    assert f"{tmp_path / name} is {said}" in one_line(tmp_path / name)


def test_a_name_on_the_hub_gets_the_command_that_downloads_it(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("bert-base-uncased", "owner/bert-base-uncased"):
        command = f"hf download {name} --local-dir models/bert-base-uncased"
        assert one_line(name).endswith(f": {command}")
    (tmp_path / "owner").mkdir()
    paths = ("owner/bert", "./bert", "/no/bert", "no/owner/bert", "~/bert")
    for name in paths:
        assert "hf download" not in one_line(name)
    (tmp_path / "models" / "bert-base-uncased").mkdir(parents=True)
    for name in ("bert-base-uncased", "owner/bert-base-uncased/"):
        assert one_line(name).endswith(" There is models/bert-base-uncased.")


def test_two_models_in_a_folder_are_named(tmp_path, given):
    google, other = tmp_path / "google", tmp_path / "other"
    write(given, google, "google")
    write(given, other, "hugging_face")
    for file in google.glob("bert_model.ckpt.*"):
        name = file.name.replace("bert_model", "second")
        shutil.copy(file, google / name)
        shutil.copy(file, other / file.name)
    assert len(Checkpoint.open(google / "second.ckpt").labels) == 3
    shutil.copy(google / "bert_config.json", other)
    assert "2 formats: google, hugging_face" in one_line(other)
    assert len(Checkpoint.open(other / "bert_model.ckpt").labels) == 3
    # A config alone is no second model.
    (google / "config.json").write_text((other / "config.json").read_text())
    assert len(Checkpoint.open(google).labels) == 3
    (google / "config.json").unlink()
    # The file that names the newest one.
    (google / "checkpoint").unlink()
    assert "several checkpoints: bert_model.ckpt, second" in one_line(google)


# Imports, in a fresh process.


def imported(program, *args):
    """Returns our modules and some libraries that a program has imported."""
    program += """
names = ("numpy", "tensorflow", "keras", "h5py", "safetensors", "ml_dtypes")
room = "bert_tf.checkpoint."
print(*(n for n in sys.modules if n in names or n.startswith(room)))
"""
    # run_scripts delays the import of Keras.
    program = f"import sys\nimport run_scripts\n{program}"
    command = [sys.executable, "-c", program, *args]
    root = pathlib.Path(__file__).parents[3]
    result = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=True
    )
    return set(result.stdout.splitlines()[-1].split())


def test_options_import_no_converters():
    program = "from bert_tf.checkpoint import options"
    assert imported(program) == {"bert_tf.checkpoint.options"}


@pytest.mark.slow
def test_a_bert_tf_folder_needs_no_converter(tmp_path, given):
    program = """
from bert_tf.checkpoint.checkpoint import Checkpoint
assert Checkpoint.open(sys.argv[1]).task == "classification"
"""
    folder = write(given, tmp_path / "model")
    names = imported(program, folder)
    converters = {detection._MODULES[name] for name in options.FORMATS[1:]}
    assert not names & converters
