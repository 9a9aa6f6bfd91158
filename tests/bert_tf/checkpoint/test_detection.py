import pathlib
import subprocess
import sys

import pytest
from checkpoint_folders import assert_same_bits, pretraining, write

from bert_tf.checkpoint import detection, options
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.checkpoint.formats.google import tf_files

# Detection.


@pytest.mark.parametrize("name", options.FORMATS)
def test_the_format_of_a_folder_is_detected(tmp_path, given, name):
    if name in ("model_garden", "keras_hub"):
        given = pretraining(given)
    folder = write(given, tmp_path / "model", name)
    assert detection.detect(folder) == name
    assert Checkpoint.open(folder).source == f"{name} {folder}"
    if name == "bert_tf":  # Its weight file is named like Hugging Face's.
        return
    detected = {
        "bert_tf": detection.is_ours(folder),
        "google": bool(tf_files.prefixes(folder, "TF1")),
        "hugging_face": detection.is_hugging_face(folder),
        "model_garden": bool(tf_files.prefixes(folder, "TF2")),
        "keras_hub": detection.is_keras_hub(folder),
    }
    assert detected == {other: other == name for other in options.FORMATS}


def test_the_model_in_a_run_folder_is_read(tmp_path, given):
    run = tmp_path / "run"
    write(given, run / "checkpoints" / "step-00000003")
    assert detection.detect(str(run)) == "bert_tf"
    assert_same_bits(Checkpoint.open(str(run)).tensors, given.tensors)


def test_every_format_has_expected_files_and_a_peer():
    assert set(options.FORMATS) <= set(options.EXPECTED_FILES)
    for name in options.FORMATS:
        if name != "bert_tf":
            peer = detection.format_module(name).PEER
            assert isinstance(peer, str) and peer


def test_a_path_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="bert-base-uncased does not exist. G"):
        Checkpoint.open("bert-base-uncased")


def test_a_folder_without_a_model_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("none")
    with pytest.raises(ValueError) as raised:
        Checkpoint.open(str(tmp_path))
    message = str(raised.value)
    assert f"{tmp_path} contains no model; found: notes.txt. " in message
    for name in options.FORMATS:
        assert f"{options.EXPECTED_FILES[name]} ({name})" in message


def test_a_folder_with_two_models_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    for suffix in ("index", "data-00000-of-00001"):
        (tmp_path / f"bert_model.ckpt.{suffix}").write_bytes(b"")
    with pytest.raises(ValueError, match="2 formats: google, hugging_face"):
        Checkpoint.open(str(tmp_path))


def test_a_model_that_is_not_bert_is_named(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "roberta"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match="(?i)roberta"):
        Checkpoint.open(str(tmp_path))


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
