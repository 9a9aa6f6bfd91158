import dataclasses
import logging as python_logging
import os
import pathlib
import resource
import weakref

import numpy as np
import pytest
import tensorflow as tf
from checkpoint_folders import assert_same_bits, moments, pretraining, write

from bert_tf.checkpoint import (
    convert,
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


def test_positions_of_longer_texts_are_interpolated(tmp_path, given):
    folder = write(given, tmp_path / "hf", "hugging_face")
    target, name = str(tmp_path / "ours"), conversion._POSITIONS
    old = given.config.max_position_embeddings
    length = 2 * old - 1  # A new row between each two.
    report = conversion.convert(
        folder, "bert_tf", target, max_position_embeddings=length
    )
    assert report[-1].startswith("warning: position embeddings are interpol")
    found = Checkpoint.open(target)
    assert found.config.max_position_embeddings == length
    tensors = dict(found.tensors)
    table, before = tensors.pop(name), dict(given.tensors)
    np.testing.assert_array_equal(table[::2], before[name])
    np.testing.assert_allclose(
        table[1::2], (before[name][1:] + before[name][:-1]) / 2, rtol=1e-6
    )
    del before[name]
    assert_same_bits(tensors, before)
    for same in (1, old):
        with pytest.raises(ValueError, match=f"={same} should be more than th"):
            conversion.convert(
                folder, "google", f"{target}2", max_position_embeddings=same
            )
        assert not os.path.exists(f"{target}2")
    with pytest.raises(ValueError, match="max_position_embeddings"):
        conversion.with_positions(Checkpoint.open(target), 10**12)


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


# Lossless.


def changed(given, **changes):
    """Returns a Checkpoint with some tensors replaced, or removed if None."""
    tensors = given.tensors | changes
    return dataclasses.replace(
        given, tensors={n: t for n, t in tensors.items() if t is not None}
    )


def test_an_equal_checkpoint_is_lossless(make_checkpoint):
    given = make_checkpoint("pretraining", step=3, vocabulary=b"a")
    assert convert.check_lossless(given, given) == [
        f"read back: {len(given.tensors)} tensors equal bit for bit"
    ]


def test_a_wider_dtype_is_lossless(make_checkpoint):
    given = make_checkpoint("regression")
    half = given.tensors["encoder/pooler/bias"].astype(np.float16)
    narrow = changed(given, **{"encoder/pooler/bias": half})
    wide = changed(given, **{"encoder/pooler/bias": half.astype(np.float32)})
    assert len(convert.check_lossless(narrow, wide)) == 1
    lines = convert.tensor_lines(narrow, wide)
    assert lines[-2:] == ["types changed: 1", "  float16 -> float32: 1"]
    with pytest.raises(ValueError, match="changed:  encoder/pooler/bias float"):
        convert.check_lossless(given, narrow)


def test_nan_and_negative_zero_are_compared_bit_for_bit(make_checkpoint):
    given = make_checkpoint("regression")
    name = "encoder/pooler/bias"
    values = given.tensors[name].copy()
    values[:2] = np.nan, 0.0
    given = changed(given, **{name: values})
    convert.check_lossless(given, given)
    with pytest.raises(ValueError, match="! changed:  encoder/pooler/bias"):
        convert.check_lossless(
            given, changed(given, **{name: np.where(values == 0, -0.0, values)})
        )


def test_every_loss_is_listed(make_checkpoint):
    given = make_checkpoint("regression")
    config = dataclasses.replace(given.config, num_attention_heads=4)
    changes = {"encoder/pooler/bias": None, "extra": np.zeros(1)}
    found = dataclasses.replace(
        changed(given, **changes), task="spans", config=config
    )
    with pytest.raises(ValueError) as raised:
        convert.check_lossless(given, found)
    for line in (
        "- lost:     encoder/pooler/bias",
        "+ invented: extra",
        "! num_attention_heads: 2 -> 4",
        "! task: regression -> spans",
    ):
        assert line in str(raised.value)


def test_a_changed_slot_is_refused(make_checkpoint):
    bare = make_checkpoint("regression")
    slots = {f"m/{n}": t for n, t in bare.tensors.items()}
    name = "m/encoder/pooler/bias"
    more = slots | {name: slots[name] + np.float32(1)}
    given, other = (dataclasses.replace(bare, slots=x) for x in (slots, more))
    for source, target, message in (
        (given, other, "changed"),
        (given, bare, "lost"),
        (bare, given, "invented"),
    ):
        with pytest.raises(ValueError, match=f"{message}: +{name}"):
            convert.check_lossless(source, target)


def test_fields_that_a_format_cannot_hold_are_listed(make_checkpoint):
    given = make_checkpoint(
        "classification",
        metadata={"max_seq_length": 128, "task_name": "SST-2"},
        step=5,
        vocabulary=b"a",
        do_lower_case=True,
    )
    found = make_checkpoint(
        "classification",
        config=dataclasses.replace(given.config, hidden_dropout_prob=0.0),
    )
    found = dataclasses.replace(found, labels=("0", "1", "2"))
    assert convert.check_lossless(given, found)[1:] == [
        "not kept by this format: step 5",
        "not kept by this format: labels ('no', 'maybe', 'yes')",
        "not kept by this format: vocabulary",
        "not kept by this format: do_lower_case True",
        "not kept by this format: max_seq_length 128",
        "not kept by this format: task_name SST-2",
        "not kept by this format: hidden_dropout_prob 0.1; it has 0.0 instead",
    ]


def test_tensors_are_counted_and_unmatched_ones_listed(make_checkpoint):
    given = make_checkpoint("pretraining", lacking=["next_sentence"])
    given = dataclasses.replace(
        given,
        unused=("position_ids",),
        slots={"v/encoder/pooler/bias": np.zeros(16, np.float32)},
    )
    lines = convert.tensor_lines(given, given)
    rows = [line.split() for line in lines]
    assert ["encoder/layer_*", "32", "4,448", "float32"] in rows
    assert ["Adam's", "v", "1", "16", "float32"] in rows
    start = lines.index("unused in the source: 1")
    assert lines[start:] == [
        "unused in the source: 1",
        "  position_ids",
        "missing in the source: 2",
        "  next_sentence/dense/kernel",
        "  next_sentence/dense/bias",
        "types changed: 0",
    ]
