import dataclasses
import logging as python_logging
import os
import pathlib
import resource
import weakref

import pytest
import tensorflow as tf
from checkpoint_folders import assert_same_bits, moments, pretraining, write

from bert_tf.checkpoint import (
    detection,
    model_folders,
    options,
    tensor_files,
)
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.checkpoint.formats.google import tf1_checkpoint
from bert_tf.model import models
from bert_tf.workflows import conversion

# The activation.


def test_the_activation_is_kept_unless_overridden(tmp_path, given, caplog):
    folder = write(given, tmp_path / "google", "google")
    with caplog.at_level(python_logging.INFO, logger="absl"):
        assert Checkpoint.open(folder).config.hidden_act == "gelu"
        report = conversion.convert(
            folder, "bert_tf", str(tmp_path / "ours"), "gelu_erf"
        )
    assert "hidden_act gelu_erf instead of the source's gelu: " in caplog.text
    assert "task classification, hidden_act gelu_erf" in report
    found = model_folders.read(str(tmp_path / "ours"))
    assert found.config.hidden_act == "gelu_erf"
    assert_same_bits(found.tensors, given.tensors)
    with pytest.raises(ValueError, match="hidden_act 'relu7' is not one of ge"):
        Checkpoint.open(folder, hidden_act="relu7")


# Conversion.


def test_a_tokenizer_that_does_more_than_ours_is_refused(tmp_path, given):
    folder = write(given, tmp_path / "hf", "hugging_face")
    (tmp_path / "hf" / "added_tokens.json").write_text('{"<e>": 7}')
    difference = "tokens are added to the vocabulary: <e>"
    message = f"^{folder}: {difference}. The .* Pass --accept_tokenizer_diffe"
    target = str(tmp_path / "ours")
    with pytest.raises(ValueError, match=message):
        conversion.convert(folder, "bert_tf", target)
    with pytest.raises(ValueError, match=message):
        Checkpoint.open(folder)
    opened = Checkpoint.open(folder, accept_tokenizer_differences=True)
    assert opened.vocabulary == given.vocabulary
    report = conversion.convert(
        folder, "bert_tf", target, accept_tokenizer_differences=True
    )
    assert f"note on the source: {difference}" in report
    assert Checkpoint.open(target).task == given.task  # Once accepted.


def test_the_report_lists_paths_losses_and_notes(tmp_path, given):
    folder = write(given, tmp_path / "ours")
    target = str(tmp_path / "google")
    report = conversion.convert(folder, "google", target)
    assert report[0] == f"bert_tf {folder} -> google {target}"
    assert "not kept by this format: labels ('no', 'maybe', 'yes')" in report
    back = conversion.convert(target, "bert_tf", str(tmp_path / "back"))
    note = "a TF1 checkpoint does not name its classes; they are called 0 to 2"
    for lines, side in ((report, "target"), (back, "source")):
        assert f"note on the {side}: {note}" in lines


def test_a_lossy_conversion_writes_nothing(tmp_path, given, monkeypatch):
    folder = write(given, tmp_path / "ours")
    read = tf1_checkpoint.read

    def lossy(path):
        found = read(path)
        name = "encoder/pooler/bias"
        twice = {name: found.tensors[name] * 2}
        return dataclasses.replace(found, tensors=dict(found.tensors) | twice)

    monkeypatch.setattr(tf1_checkpoint, "read", lossy)
    with pytest.raises(ValueError, match="changed:  encoder/pooler/bias"):
        conversion.convert(folder, "google", str(tmp_path / "google"))
    assert os.listdir(tmp_path) == ["ours"]


def test_a_full_disk_leaves_the_old_files(tmp_path, given, monkeypatch):
    folder = write(given, tmp_path / "ours")
    target = write(given, tmp_path / "google", "google")
    before = sorted(os.listdir(target))

    def fail(tensors, aside):
        with open(os.path.join(aside, "half"), "w") as file:
            file.write("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tf1_checkpoint, "write_tensors", fail)
    with pytest.raises(OSError, match="nothing half-written is left"):
        conversion.convert(folder, "google", target, overwrite=True)
    assert sorted(os.listdir(target)) == before
    assert sorted(os.listdir(tmp_path)) == ["google", "ours"]


def test_existing_folders_are_not_replaced_by_mistake(tmp_path, given):
    folder = write(given, tmp_path / "ours")
    target = write(given, tmp_path / "google", "google")
    with pytest.raises(ValueError, match="already exists. Choose a new fold"):
        conversion.convert(folder, "google", target)
    other = tmp_path / "documents"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="documents contains no model"):
        conversion.convert(folder, "google", str(other), overwrite=True)
    assert (other / "thesis.tex").exists()
    for inside in (folder, str(tmp_path)):
        with pytest.raises(
            ValueError, match="contains the source, .*Choose anoth"
        ):
            conversion.convert(folder, "google", inside, overwrite=True)
    conversion.convert(folder, "google", target, overwrite=True)
    assert detection.detect(target) == "google"


@pytest.mark.parametrize(
    "extra", ["data.db", ".git/HEAD", "assets/mine.txt", "onnx/model.onnx"]
)
@pytest.mark.parametrize("name", ["hugging_face", "keras_hub"])
def test_a_model_folder_with_other_files_is_not_replaced(
    tmp_path, given, name, extra
):
    source = write(given, tmp_path / "ours")
    target = tmp_path / "target"
    write(pretraining(given), target, name)
    path = target / extra
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    shown = extra
    if name == "hugging_face" or not extra.startswith("assets"):
        shown = extra.partition("/")[0]
    with pytest.raises(
        ValueError, match=f"contains {shown}.* a conversion to {name} never"
    ):
        conversion.convert(source, "google", str(target), overwrite=True)
    assert path.read_text() == "mine"
    assert detection.detect(str(target)) == name


def test_runs_and_apps_are_not_replaced(tmp_path, given):
    source = write(given, tmp_path / "ours")
    run = tmp_path / "run"
    write(given, run / "checkpoints" / "step-00000003")
    (run / "run.json").write_text("{}")
    app = tmp_path / "app"
    app.mkdir()
    for name in ("config.json", "data.db", "a.py", "b.py", "c.py"):
        (app / name).write_text("{}")
    for folder, message in (
        (run, "run contains checkpoints/, run.json, which a conversion to"),
        (app, "app contains a.py, b.py, c.py and 1 more, which a conversion"),
    ):
        before = sorted(folder.rglob("*"))
        with pytest.raises(ValueError, match=message):
            conversion.convert(source, "google", str(folder), overwrite=True)
        assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("name", options.FORMATS)
def test_a_real_checkpoint_survives_each_format_unchanged(
    shared_data, tmp_path, name
):
    source = str(shared_data / "golden" / "tiny_tf1_checkpoint")
    there, back = str(tmp_path / "there"), str(tmp_path / "back")
    conversion.convert(source, name, there)
    conversion.convert(there, "google", back)
    given, found = (
        Checkpoint.open(path, with_slots=True) for path in (source, back)
    )
    assert_same_bits(found.tensors, given.tensors)
    assert found.vocabulary == given.vocabulary
    assert_same_bits(found.slots, given.slots)
    assert found.step == given.step == 20
    for path in (tmp_path / "back").glob("bert_model.ckpt.*"):
        expected = pathlib.Path(source, path.name).read_bytes()
        assert path.read_bytes() == expected


@pytest.mark.parametrize("name", sorted(options.FORMATS))
@pytest.mark.parametrize("limit", [100, 20_000])
def test_a_full_disk_leaves_nothing(tmp_path, tiny_config, name, limit):
    # A limit on the size of files fails like a full disk, without its root
    # rights. HDF5 once ended the process with a segmentation fault.
    sizes = dataclasses.replace(tiny_config, num_hidden_layers=4)
    model = models.for_task("pretraining", sizes)
    given = tmp_path / "given"
    given.mkdir()
    model_folders.save_model(
        str(given), model, metadata={"task": "pretraining"}
    )
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limits[1]))
    try:
        with pytest.raises((OSError, tf.errors.OpError), match="too large"):
            conversion.convert(str(given), name, str(tmp_path / "out"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path) == ["given"]


@pytest.mark.parametrize("source", sorted(options.FORMATS))
@pytest.mark.parametrize("target", ["bert_tf", "hugging_face"])
def test_a_conversion_has_few_tensors_in_memory(
    tmp_path, make_checkpoint, monkeypatch, source, target
):
    given = make_checkpoint("pretraining", step=3)
    given = dataclasses.replace(given, slots=moments(given))
    folder = write(given, tmp_path / "given", source)
    counts, read = [0, 0], tensor_files.StoredTensor.numpy

    def freed():
        counts[0] -= 1

    def counted(self):
        tensor = read(self)
        counts[0] += 1
        counts[1] = max(counts)
        weakref.finalize(tensor, freed)
        return tensor

    monkeypatch.setattr(tensor_files.StoredTensor, "numpy", counted)
    conversion.convert(folder, target, str(tmp_path / "out"))
    # Of 138; as read, renamed and converted, before and after.
    assert 0 < counts[1] <= 6


def test_a_class_name_that_occurs_twice_is_refused(tmp_path, given):
    given = dataclasses.replace(given, labels=("a", "b", "a"))
    folder = write(given, tmp_path / "x")
    with pytest.raises(ValueError, match="class name twice: a"):
        conversion.convert(folder, "google", str(tmp_path / "google"))
