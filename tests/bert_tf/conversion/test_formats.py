import dataclasses
import json
import logging as python_logging
import os
import shutil

import numpy as np
import pytest

from bert_tf.conversion import checkpoint, formats
from bert_tf.conversion.google import convert as google
from bert_tf.model import models
from tfrecords.io import atomic_files

VOCABULARY = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nof\n"


def write(given, folder, name="bert_tf"):
    with atomic_files.atomic_folder(str(folder)) as aside:
        formats.FORMATS[name].write(given, aside)
    return str(folder)


@pytest.fixture
def given(make_checkpoint):
    return make_checkpoint(
        "classification", vocabulary=VOCABULARY, do_lower_case=True, step=3
    )


def pretraining(given):
    """Its encoder alone, which every format has a place for."""
    return dataclasses.replace(
        given,
        task="pretraining",
        labels=(),
        tensors={
            n: t for n, t in given.tensors.items() if n.startswith("encoder/")
        },
    )


def assert_same_bits(found, expected):
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].tobytes() == tensor.tobytes(), name


# Told apart by looking.


@pytest.mark.parametrize("name", formats.FORMATS)
def test_a_folder_of_each_format_is_known(tmp_path, given, name):
    if name in ("model_garden", "keras_hub"):
        given = pretraining(given)
    folder = write(given, tmp_path / "model", name)
    assert formats.detect(folder) == name
    assert formats.read(folder).source == f"{name} {folder}"
    if name == "bert_tf":  # Its weights file is named as Hugging Face's is.
        return
    for other, module in formats.FORMATS.items():
        assert module.is_there(folder) == (other == name), other


def test_a_run_folder_is_read_where_its_model_is(tmp_path, given):
    run = tmp_path / "run"
    write(given, run / "checkpoints" / "step-00000003")
    assert formats.detect(str(run)) == "bert_tf"
    assert_same_bits(formats.read(str(run)).tensors, given.tensors)


def test_every_format_says_what_it_expects():
    assert set(formats.FORMATS) <= set(formats.EXPECTED)
    for name, module in formats.FORMATS.items():
        if name != "bert_tf":
            assert isinstance(module.PEER, str) and module.PEER


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match="bert-base-uncased is not there. Giv"):
        formats.read("bert-base-uncased")


def test_what_is_no_model_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("none")
    with pytest.raises(ValueError) as raised:
        formats.read(str(tmp_path))
    message = str(raised.value)
    assert f"{tmp_path} holds no model: expected one of" in message
    for name in formats.FORMATS:
        assert f"  {name}: {formats.EXPECTED[name]}" in message


def test_another_model_is_refused_by_name(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "roberta"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match="(?i)roberta"):
        formats.read(str(tmp_path))


# The activation.


def test_the_activation_of_the_source_is_kept_and_said(tmp_path, given, caplog):
    folder = write(given, tmp_path / "google", "google")
    with caplog.at_level(python_logging.INFO, logger="absl"):
        assert formats.read(folder).config.hidden_act == "gelu"
    assert "hidden_act gelu, as the source has it: GELU by tanh" in caplog.text


def test_the_activation_may_be_chosen(tmp_path, given, caplog):
    folder = write(given, tmp_path / "google", "google")
    with caplog.at_level(python_logging.WARNING, logger="absl"):
        report = formats.convert(
            folder, "bert_tf", str(tmp_path / "ours"), "gelu_erf"
        )
    assert "hidden_act gelu_erf, not the source's gelu: GELU by" in caplog.text
    assert "task classification, hidden_act gelu_erf" in report
    found = checkpoint.read(str(tmp_path / "ours"))
    assert found.config.hidden_act == "gelu_erf"
    assert_same_bits(found.tensors, given.tensors)


# Conversion.


@pytest.mark.parametrize("task", models.TASK_MODELS)
def test_every_task_goes_from_format_to_format(tmp_path, make_checkpoint, task):
    given = make_checkpoint(task, vocabulary=VOCABULARY, do_lower_case=True)
    path = write(given, tmp_path / "bert_tf")
    went = []
    for name in ("hugging_face", "google", "bert_tf"):
        if name == "google" and task in ("tagging", "multiple_choice"):
            continue
        went.append(name)
        target = str(tmp_path / f"{len(went)}_{name}")
        report = formats.convert(path, name, target, compare=False)
        count = len(given.tensors)
        assert f"read back: {count} tensors equal bit for bit" in report
        path = target
    assert_same_bits(formats.read(path).tensors, given.tensors)
    assert formats.read(path).task == task


@pytest.mark.parametrize("changes", [{"is_causal": True}, {"bilstm_units": 3}])
@pytest.mark.parametrize("name", ["google", "hugging_face"])
def test_what_others_would_read_as_a_bert_is_not_written(
    tmp_path, given, changes, name
):
    config = dataclasses.replace(given.config, **changes)
    shapes = checkpoint.shapes(config, given.task, len(given.labels))
    tensors = {n: np.zeros(shape, np.float32) for n, shape in shapes.items()}
    given = dataclasses.replace(given, config=config, tensors=tensors)
    folder = write(given, tmp_path / "ours")
    key = next(iter(changes))
    with pytest.raises(ValueError, match=f"{key}=.*{name} does not know"):
        formats.convert(folder, name, str(tmp_path / "theirs"))
    assert os.listdir(tmp_path) == ["ours"]
    formats.convert(folder, "bert_tf", str(tmp_path / "copy"), compare=False)
    assert formats.read(str(tmp_path / "copy")).config == config


def test_the_report_says_what_it_did(tmp_path, given):
    folder = write(given, tmp_path / "ours")
    target = str(tmp_path / "google")
    report = formats.convert(folder, "google", target)
    assert report[0] == f"bert_tf {folder} -> google {target}"
    assert "not kept by this format: labels ('no', 'maybe', 'yes')" in report
    assert report[-1] == f"outputs not compared with the target: {google.PEER}"
    back = formats.convert(target, "bert_tf", str(tmp_path / "back"))
    note = "a TF1 checkpoint does not name its classes: they are called 0 to 2"
    assert f"note on the target: {note}" in report
    assert f"note on the source: {note}" in back
    assert back[-1] == f"outputs not compared with the source: {google.PEER}"


def test_a_broken_peer_costs_no_conversion(tmp_path, given, monkeypatch):
    source = write(given, tmp_path / "ours")
    asked = []

    def fail(path, batch):
        asked.append(path)
        raise ImportError("libcudart.so.11.0: cannot open shared object file")

    monkeypatch.setattr(google, "reference_outputs", fail)
    target = str(tmp_path / "google")
    report = formats.convert(source, "google", target)
    assert len(asked) == 1
    assert report[-1] == (
        "outputs not compared with the target: ImportError: libcudart.so.11.0: "
        "cannot open shared object file"
    )
    assert_same_bits(formats.read(target).tensors, given.tensors)
    formats.convert(
        source, "google", str(tmp_path / "quick"), overwrite=True, compare=False
    )
    assert len(asked) == 1


def test_what_is_lost_leaves_nothing(tmp_path, given, monkeypatch):
    folder = write(given, tmp_path / "ours")
    read = google.read

    def lossy(path):
        found = read(path)
        name = "encoder/pooler/bias"
        return dataclasses.replace(
            found, tensors=found.tensors | {name: found.tensors[name] * 2}
        )

    monkeypatch.setattr(google, "read", lossy)
    with pytest.raises(ValueError, match="changed:  encoder/pooler/bias"):
        formats.convert(folder, "google", str(tmp_path / "google"))
    assert os.listdir(tmp_path) == ["ours"]


def test_a_full_disk_leaves_what_was_there(tmp_path, given, monkeypatch):
    folder = write(given, tmp_path / "ours")
    target = write(given, tmp_path / "google", "google")
    before = sorted(os.listdir(target))

    def fail(tensors, aside):
        with open(os.path.join(aside, "half"), "w") as file:
            file.write("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(google.tf1_files, "write", fail)
    with pytest.raises(OSError, match="nothing half-written is left"):
        formats.convert(folder, "google", target, overwrite=True)
    assert sorted(os.listdir(target)) == before
    assert sorted(os.listdir(tmp_path)) == ["google", "ours"]


def test_a_folder_that_is_taken_is_left_alone(tmp_path, given):
    folder = write(given, tmp_path / "ours")
    target = write(given, tmp_path / "google", "google")
    with pytest.raises(ValueError, match="is there already. Choose a new fold"):
        formats.convert(folder, "google", target)
    other = tmp_path / "papers"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="papers holds no model"):
        formats.convert(folder, "google", str(other), overwrite=True)
    assert (other / "thesis.tex").exists()
    for inside in (folder, str(tmp_path)):
        with pytest.raises(
            ValueError, match="holds the source, .*Choose anoth"
        ):
            formats.convert(folder, "google", inside, overwrite=True)
    formats.convert(folder, "google", target, overwrite=True, compare=False)
    assert formats.detect(target) == "google"


def test_what_each_format_writes_is_what_it_says(tmp_path, given):
    for name, module in formats.FORMATS.items():
        kept = given
        if name in ("model_garden", "keras_hub"):
            kept = pretraining(given)
        slots = {f"m/{n}": tensor for n, tensor in kept.tensors.items()}
        slots |= {f"v/{n}": tensor for n, tensor in kept.tensors.items()}
        kept = dataclasses.replace(kept, slots=slots)
        folder = write(kept, tmp_path / name, name)
        assert formats.read(folder).slots
        source = write(given, tmp_path / f"source_of_{name}")
        formats.convert(source, "bert_tf", folder, overwrite=True)
        assert module.WRITES and formats.detect(folder) == "bert_tf"


@pytest.mark.parametrize(
    "stranger", ["data.db", ".git/HEAD", "assets/mine.txt", "onnx/model.onnx"]
)
@pytest.mark.parametrize("name", ["hugging_face", "keras_hub"])
def test_a_model_with_more_beside_is_not_replaced(
    tmp_path, given, name, stranger
):
    source = write(given, tmp_path / "ours")
    target = tmp_path / "target"
    write(pretraining(given), target, name)
    path = target / stranger
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    said = stranger
    if name == "hugging_face" or not stranger.startswith("assets"):
        said = stranger.partition("/")[0]
    with pytest.raises(
        ValueError, match=f"holds {said}.* no conversion to {name} writes"
    ):
        formats.convert(source, "google", str(target), overwrite=True)
    assert path.read_text() == "mine"
    assert formats.detect(str(target)) == name


def test_runs_and_apps_are_not_replaced(tmp_path, given):
    source = write(given, tmp_path / "ours")
    run = tmp_path / "run"
    write(given, run / "checkpoints" / "step-00000003")
    (run / "run.json").write_text("{}")
    app = tmp_path / "app"
    app.mkdir()
    for name in ("config.json", "data.db", "a.py", "b.py", "c.py"):
        (app / name).write_text("{}")
    for folder, said in (
        (run, "run holds checkpoints/, run.json, which no conversion to bert"),
        (app, "app holds a.py, b.py, c.py and 1 more, which no conversion"),
    ):
        before = sorted(folder.rglob("*"))
        with pytest.raises(ValueError, match=said):
            formats.convert(source, "google", str(folder), overwrite=True)
        assert sorted(folder.rglob("*")) == before


# For training and export.


def test_our_own_folders_are_taken_as_they_are(tmp_path, given):
    folder = write(given, tmp_path / "run" / "best")
    aside = str(tmp_path / "aside")
    run = str(tmp_path / "run")
    assert formats.as_model_folder(run, aside) == folder
    assert formats.as_model_folder(folder, aside) == folder
    assert not os.path.exists(aside)


def test_other_formats_are_converted_once_a_source(tmp_path, given, caplog):
    first = write(given, tmp_path / "first", "google")
    second = write(given, tmp_path / "second", "hugging_face")
    folder = str(tmp_path / "run" / "init_checkpoint")
    assert formats.as_model_folder(first, folder) == folder
    assert_same_bits(checkpoint.read(folder).tensors, given.tensors)
    weights = os.path.join(folder, "model.safetensors")
    before = os.stat(weights).st_mtime_ns
    with caplog.at_level(python_logging.INFO, logger="absl"):
        # Also when the source has gone, as after a move to another disk.
        shutil.move(first, tmp_path / "moved")
        assert formats.as_model_folder(first, folder) == folder
    assert "as converted before; remove it to convert again" in caplog.text
    assert os.stat(weights).st_mtime_ns == before
    formats.as_model_folder(second, folder)
    with open(os.path.join(folder, "model.json")) as file:
        assert json.load(file)["source"] == f"hugging_face {second}"
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
    assert "as converted before, though that has changed since" in caplog.text
    assert_same_bits(checkpoint.read(folder).tensors, given.tensors)
    with caplog.at_level(python_logging.INFO, logger="absl"):
        formats.as_model_folder(path, folder)
    assert f"{path} has changed since: converts it again" in caplog.text
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


def test_heads_that_the_source_lacks_are_drawn_and_said(
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


@pytest.mark.parametrize("name", formats.FORMATS)
def test_a_real_checkpoint_goes_through_each_format(
    shared_data, tmp_path, name
):
    source = str(shared_data / "golden" / "tiny_tf1_checkpoint")
    there, back = str(tmp_path / "there"), str(tmp_path / "back")
    formats.convert(source, name, there, compare=False)
    formats.convert(there, "google", back, compare=False)
    given, found = formats.read(source), formats.read(back)
    assert_same_bits(found.tensors, given.tensors)
    assert found.vocabulary == given.vocabulary
    assert_same_bits(found.slots, given.slots)
    assert found.step == given.step == 20
    for path in os.listdir(back):
        if path.startswith("bert_model.ckpt."):
            with open(os.path.join(source, path), "rb") as file:
                expected = file.read()
            with open(os.path.join(back, path), "rb") as file:
                assert file.read() == expected
