import dataclasses
import json
import logging as python_logging
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from checkpoint_folders import VOCABULARY, assert_same_bits, pretraining, write

from bert_tf.checkpoint import checkpoint, convert, formats
from bert_tf.checkpoint.google import tf_files

# Detection.


@pytest.mark.parametrize("name", formats.CONVERTERS)
def test_the_format_of_a_folder_is_detected(tmp_path, given, name):
    if name in ("model_garden", "keras_hub"):
        given = pretraining(given)
    folder = write(given, tmp_path / "model", name)
    assert formats.detect(folder) == name
    assert convert.read(folder).source == f"{name} {folder}"
    if name == "bert_tf":  # Its weight file is named like Hugging Face's.
        return
    detected = {
        "bert_tf": formats.is_ours(folder),
        "google": bool(tf_files.prefixes(folder, "TF1")),
        "hugging_face": formats.is_hugging_face(folder),
        "model_garden": bool(tf_files.prefixes(folder, "TF2")),
        "keras_hub": formats.is_keras_hub(folder),
    }
    assert detected == {other: other == name for other in formats.CONVERTERS}


def test_the_model_in_a_run_folder_is_read(tmp_path, given):
    run = tmp_path / "run"
    write(given, run / "checkpoints" / "step-00000003")
    assert formats.detect(str(run)) == "bert_tf"
    assert_same_bits(convert.read(str(run)).tensors, given.tensors)


def test_every_format_has_expected_files_and_a_peer():
    assert set(formats.CONVERTERS) <= set(formats.EXPECTED)
    for name in formats.CONVERTERS:
        if name != "bert_tf":
            peer = formats.converter(name).PEER
            assert isinstance(peer, str) and peer


def test_a_path_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="bert-base-uncased does not exist. G"):
        convert.read("bert-base-uncased")


def test_a_folder_without_a_model_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("none")
    with pytest.raises(ValueError) as raised:
        convert.read(str(tmp_path))
    message = str(raised.value)
    assert f"{tmp_path} contains no model; found: notes.txt. " in message
    for name in formats.CONVERTERS:
        assert f"{formats.EXPECTED[name]} ({name})" in message


def test_a_folder_with_two_models_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    for suffix in ("index", "data-00000-of-00001"):
        (tmp_path / f"bert_model.ckpt.{suffix}").write_bytes(b"")
    with pytest.raises(ValueError, match="2 formats: google, hugging_face"):
        convert.read(str(tmp_path))


def test_a_model_that_is_not_bert_is_named(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "roberta"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match="(?i)roberta"):
        convert.read(str(tmp_path))


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


def test_formats_do_not_import_their_converters():
    program = "from bert_tf.checkpoint import formats"
    assert imported(program) == {"bert_tf.checkpoint.formats"}


@pytest.mark.slow
def test_a_bert_tf_folder_needs_no_converter(tmp_path, given):
    program = """
from bert_tf.checkpoint import formats
assert formats.as_model_folder(sys.argv[1], sys.argv[2]) == sys.argv[1]
"""
    folder = write(given, tmp_path / "model")
    names = imported(program, folder, str(tmp_path / "aside"))
    assert {n for n in names if n.startswith("bert_tf.checkpoint.")} == {
        f"bert_tf.checkpoint.{module}"
        for module in ("checksums", "formats", "model_folders", "run_models")
    }


# For training and export.


def test_bert_tf_folders_are_used_without_conversion(tmp_path, given):
    folder = write(given, tmp_path / "run" / "best")
    aside = str(tmp_path / "aside")
    run = str(tmp_path / "run")
    assert formats.as_model_folder(run, aside) == folder
    assert formats.as_model_folder(folder, aside) == folder
    assert not os.path.exists(aside)


def test_other_formats_are_converted_once_per_source(tmp_path, given, caplog):
    first = write(given, tmp_path / "first", "google")
    second = write(given, tmp_path / "second", "hugging_face")
    folder = str(tmp_path / "run" / "init_checkpoint")
    assert formats.as_model_folder(first, folder) == folder
    assert_same_bits(checkpoint.read(folder).tensors, given.tensors)
    weights = os.path.join(folder, "model.safetensors")
    before = os.stat(weights).st_mtime_ns
    with caplog.at_level(python_logging.INFO, logger="absl"):
        # Even if the source has since been moved away.
        shutil.move(first, tmp_path / "moved")
        assert formats.as_model_folder(first, folder) == folder
    assert f"converted earlier from {first}; remove it to" in caplog.text
    assert os.stat(weights).st_mtime_ns == before
    formats.as_model_folder(second, folder)
    with open(os.path.join(folder, "model.json")) as file:
        content = file.read()
    assert json.loads(content)["source"] == "hugging_face second"
    assert str(tmp_path) not in content
    assert checkpoint.read(folder).labels == given.labels


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("google", ""), ("google", "/bert_model.ckpt"), ("keras_hub", "")],
)
def test_a_source_that_changed_is_converted_again(
    tmp_path, given, caplog, name, prefix
):
    given = pretraining(given)
    source = str(tmp_path / "source")
    path = source + prefix
    folder = str(tmp_path / "init_checkpoint")
    write(given, source, name)
    formats.as_model_folder(path, folder)
    weight = "encoder/pooler/bias"
    other = dataclasses.replace(
        given, tensors=given.tensors | {weight: given.tensors[weight] + 1}
    )
    write(other, source, name)
    with caplog.at_level(python_logging.INFO, logger="absl"):
        formats.as_model_folder(path, folder, again=False)
    assert f"converted earlier from {path}, which has changed" in caplog.text
    assert_same_bits(checkpoint.read(folder).tensors, given.tensors)
    with caplog.at_level(python_logging.INFO, logger="absl"):
        formats.as_model_folder(path, folder)
    assert f"{path} has changed since its conversion" in caplog.text
    assert_same_bits(checkpoint.read(folder).tensors, other.tensors)
    before = os.stat(folder).st_ino
    formats.as_model_folder(path, folder)
    assert os.stat(folder).st_ino == before
    vocabulary = os.path.join(source, "vocab.txt")
    if name == "keras_hub":
        vocabulary = os.path.join(source, "assets/tokenizer/vocabulary.txt")
    with open(vocabulary, "ab") as file:
        file.write(b"more\n")
    formats.as_model_folder(path, folder)
    assert checkpoint.read(folder).vocabulary == VOCABULARY + b"more\n"


def test_a_conversion_that_fails_leaves_no_model_folder(tmp_path, given):
    source = write(given, tmp_path / "source", "google")
    os.remove(os.path.join(source, "bert_config.json"))
    folder = tmp_path / "run" / "init_checkpoint"
    with pytest.raises(ValueError, match="bert_config.json is missing"):
        formats.as_model_folder(source, str(folder))
    assert not folder.exists()


def test_missing_heads_are_newly_initialized_with_a_warning(
    tmp_path, make_checkpoint, caplog
):
    bare = make_checkpoint("pretraining", lacking=["masked_lm", "next_sen"])
    source = write(bare, tmp_path / "google", "google")
    folder = str(tmp_path / "ours")
    with caplog.at_level(python_logging.WARNING, logger="absl"):
        formats.as_model_folder(source, folder)
    assert "has no masked_lm/bias" in caplog.text
    found = checkpoint.read(folder)
    assert_same_bits(found.tensors, bare.tensors)
    assert set(found.missing()) == set(bare.missing())
    assert np.abs(checkpoint.build_model(found).masked_lm.bias).max() == 0


# Detection of changed sources.


FILES = ("model.ckpt-9.index", "bert_config.json", "0_BERT/model.safetensors")


@pytest.fixture
def source(tmp_path):
    for name in FILES:
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "source"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", ["time", "size", "name", "gone"])
def test_each_change_changes_the_digest(source, name, change):
    before = formats.source_digest(str(source))
    assert formats.source_digest(str(source)) == before
    path, state = source / name, (source / name).stat()
    if change == "size":
        path.write_text("longer than it was before")
    if change in ("size", "time"):
        later = state.st_mtime_ns + (change == "time")
        os.utime(path, ns=(state.st_atime_ns, later))
    elif change == "name":
        path.rename(path.with_name("other"))
    else:
        path.unlink()
    assert formats.source_digest(str(source)) not in (before, None)


def test_run_folders_and_hidden_files_do_not_change_the_digest(source):
    paths = [str(source), str(source / "model.ckpt-9")]
    before = [formats.source_digest(path) for path in paths]
    assert before[0] != before[1]
    for name in ("run/run.json", "run/logs/a", ".git/HEAD", ".notes"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).touch()
    (source / "gone").symlink_to("nowhere")
    assert [formats.source_digest(path) for path in paths] == before


def test_the_digest_of_a_prefix_includes_its_folder(source, monkeypatch):
    monkeypatch.chdir(source)
    before = formats.source_digest("model.ckpt-9")
    assert before == formats.source_digest(str(source / "model.ckpt-9.index"))
    (source / "vocab.txt").write_text("the")
    assert formats.source_digest("model.ckpt-9") not in (before, None)


def test_the_digest_of_a_missing_source_is_none(source):
    assert formats.source_digest(str(source / "nowhere")) is None
    assert formats.source_digest(str(source / "model.ckpt-10")) is None
    (source.parent / "empty").mkdir()
    assert formats.source_digest(str(source.parent / "empty")) is None
