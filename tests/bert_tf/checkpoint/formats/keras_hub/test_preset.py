import dataclasses
import json
import os
import shutil

import h5py
import ml_dtypes
import numpy as np
import pytest
from checkpoint_folders import assert_same_bits, write

from bert_tf.checkpoint import contents, detection, parity
from bert_tf.checkpoint.formats.keras_hub import preset, weight_files

VOCABULARY = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n"
TASKS = ("pretraining", "classification", "regression")


def change_json(folder, file, **values):
    path = os.path.join(folder, file)
    with open(path) as opened:
        content = json.load(opened)
    for key, value in values.items():
        parent = content if key in content else content["config"]
        parent[key] = value
    with open(path, "w") as opened:
        json.dump(content, opened)


@pytest.fixture
def masked_lm(tmp_path, make_checkpoint):
    """Returns the folder of a masked-LM preset, and its Checkpoint."""
    given = make_checkpoint("pretraining", vocabulary=VOCABULARY)
    return write(given, tmp_path / "preset", "keras_hub"), given


@pytest.mark.parametrize("task", TASKS)
def test_the_table_has_each_name_once(tiny_config, task):
    rows = preset.table(tiny_config, task)
    shapes = contents.shapes(tiny_config, task, 3)
    assert sorted(row.ours for row in rows) == sorted(shapes)
    assert len({row.theirs for row in rows}) == len(rows)
    for row in rows:
        theirs = row.their_shape(shapes[row.ours])
        assert np.prod(theirs) == np.prod(shapes[row.ours])


def test_layer_names_are_numbered_from_the_second_layer_on(tiny_config):
    shapes = {
        row.theirs: row.shape
        for row in preset.table(tiny_config, "pretraining")
    }
    first = "model.weights.h5/layers/transformer_encoder/_self_attention_layer"
    assert shapes[f"{first}/query_dense/vars/0"] == (16, 2, 8)
    assert shapes[f"{first}/query_dense/vars/1"] == (2, 8)
    second = first.replace("transformer_encoder", "transformer_encoder_1")
    assert shapes[f"{second}/output_dense/vars/0"] == (2, 8, 16)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("vocabulary", [VOCABULARY, None])
def test_a_round_trip_keeps_every_field(
    tmp_path, make_checkpoint, task, vocabulary
):
    given = make_checkpoint(
        task, vocabulary=vocabulary, step=7, do_lower_case=bool(vocabulary)
    )
    folder = write(given, tmp_path / "preset", "keras_hub")
    assert detection.detect(folder) == "keras_hub"
    found = preset.read(folder)
    assert_same_bits(found.tensors, given.tensors)
    for name in ("config", "task", "labels", "vocabulary", "step"):
        assert getattr(found, name) == getattr(given, name), name
    assert found.do_lower_case == (True if vocabulary else None)
    assert not found.unused and not found.slots


@pytest.mark.parametrize(
    "lacking",
    [
        ("next_sentence",),
        ("masked_lm", "next_sentence"),
        ("encoder/pooler", "next_sentence"),
    ],
)
def test_missing_weights_stay_missing(tmp_path, make_checkpoint, lacking):
    given = make_checkpoint("pretraining", lacking)
    found = preset.read(write(given, tmp_path / "preset", "keras_hub"))
    assert_same_bits(found.tensors, given.tensors)
    assert found.missing() == given.missing()
    is_there = os.path.exists(tmp_path / "preset" / "task.json")
    assert is_there == ("masked_lm" not in lacking)


def test_slots_and_next_sentence_are_in_the_sidecar(tmp_path, make_checkpoint):
    weights = make_checkpoint("pretraining").tensors
    slots = {f"{kind}/{n}": x + 1 for kind in "mv" for n, x in weights.items()}
    given = make_checkpoint("pretraining", slots=slots, step=3)
    folder = write(given, tmp_path / "preset", "keras_hub")
    found = preset.read(folder)
    assert_same_bits(found.slots, slots)
    lines = parity.check_lossless(given, found)
    assert lines[0] == "read back: 138 tensors equal bit for bit"

    # The slots do not belong to weights that KerasHub trained later.
    path = os.path.join(folder, "model.weights.h5")
    with h5py.File(path, "a") as file:
        file["layers/dense/vars/1"][0] += 1
    found = preset.read(folder)
    assert not found.slots and not found.step
    assert [n for n in found.missing() if n.startswith("next_sentence")]
    assert found.notes[-1] == (
        "bert_tf.json is ignored: its checksums do not match model.weights.h5 "
        "and task.weights.h5"
    )


def test_a_head_trained_later_does_not_keep_the_old_labels(
    tmp_path, make_checkpoint
):
    given = make_checkpoint("classification", step=3)
    folder = write(given, tmp_path / "preset", "keras_hub")
    found = preset.read(folder)
    assert (found.labels, found.step) == (given.labels, 3)
    with h5py.File(os.path.join(folder, "task.weights.h5"), "a") as file:
        file["layers/dense/vars/1"][0] += 1
    found = preset.read(folder)
    assert (found.labels, found.step) == (("0", "1", "2"), 0)
    assert "checksums do not match" in found.notes[-1]


@pytest.mark.parametrize("content", ["{}", "[]", '{"weights_sha256": "ab"}'])
def test_a_foreign_bert_tf_json_is_ignored(masked_lm, content):
    folder, _ = masked_lm
    with open(os.path.join(folder, "bert_tf.json"), "w") as file:
        file.write(content)
    assert "checksums do not match" in preset.read(folder).notes[-1]


def test_an_inferred_case_is_not_a_loss(masked_lm):
    folder, given = masked_lm
    lines = parity.check_lossless(given, preset.read(folder))
    assert lines == ["read back: 46 tensors equal bit for bit"]


def test_differences_by_design_are_noted(masked_lm):
    folder, _ = masked_lm
    assert "masked_lm_logits differ slightly" in preset.read(folder).notes[0]
    change_json(folder, "tokenizer.json", strip_accents=False)
    found = preset.read(folder)
    assert "strip_accents=False" in found.notes[1]
    assert found.rules() == {"do_lower_case": True, "strip_accents": False}


def test_rules_of_the_tokenizer_are_kept(tmp_path, make_checkpoint):
    given = make_checkpoint("pretraining", vocabulary=VOCABULARY)
    rules = {"strip_accents": True, "tokenize_chinese_chars": False}
    given = dataclasses.replace(given, do_lower_case=False, metadata=rules)
    folder = write(given, tmp_path / "preset", "keras_hub")
    found = preset.read(folder)
    assert found.metadata == rules and found.do_lower_case is False
    assert not found.tokenizer_differences
    change_json(folder, "tokenizer.json", split=False, suffix_indicator="@@")
    assert preset.read(folder).tokenizer_differences == (
        "KerasHub's tokenizer has split=False; BERT's True",
        "KerasHub's tokenizer has suffix_indicator=@@; BERT's ##",
    )


def test_the_softmax_of_a_classifier_is_noted(tmp_path, make_checkpoint):
    folder = write(
        make_checkpoint("classification"), tmp_path / "preset", "keras_hub"
    )
    change_json(folder, "task.json", activation="softmax")
    assert "ends in softmax" in preset.read(folder).notes[0]


def test_an_unsupported_head_is_left_out(tmp_path, make_checkpoint):
    folder = write(
        make_checkpoint("classification"), tmp_path / "preset", "keras_hub"
    )
    change_json(folder, "task.json", class_name="BertTextEmbedder")
    found = preset.read(folder)
    assert found.task == "pretraining" and len(found.tensors) == 39
    assert "class BertTextEmbedder, whose head is not read" in found.notes[0]
    assert found.unused == (
        "task.weights.h5/layers/dense/vars/0",
        "task.weights.h5/layers/dense/vars/1",
    )


def rewrite(folder, change):
    """Applies `change` to the path of every dataset of the weights."""
    path = os.path.join(folder, "model.weights.h5")
    weights = weight_files.read(folder, "model.weights.h5", set())
    tensors = {name: tensor.numpy() for name, tensor in weights.items()}
    with h5py.File(path, "w") as file:
        for name, tensor in tensors.items():
            file[change(name.partition("/")[2])] = tensor


@pytest.mark.parametrize(
    "old, new",
    [
        ("layers/", "_layer_checkpoint_dependencies/"),
        ("query_dense", "_query_dense"),
    ],
)
def test_names_of_other_keras_versions_are_read(masked_lm, old, new):
    folder, given = masked_lm
    rewrite(folder, lambda path: path.replace(old, new))
    found = preset.read(folder).tensors
    assert_same_bits(found, {n: given.tensors[n] for n in found})
    assert len(found) == 44


def test_a_file_that_is_replaced_after_it_was_opened_is_refused(masked_lm):
    folder, _ = masked_lm
    found = preset.read(folder).tensors
    path = os.path.join(folder, "model.weights.h5")
    shutil.copy(path, f"{path}.new")
    os.replace(f"{path}.new", path)
    with pytest.raises(ValueError, match="weights.h5 .*was replaced after"):
        found["encoder/pooler/kernel"]


def test_optimizer_state_is_ignored(masked_lm):
    folder, _ = masked_lm
    with h5py.File(os.path.join(folder, "task.weights.h5"), "a") as file:
        file["optimizer/vars/0"] = np.int64(3)
    assert not preset.read(folder).unused


def test_bfloat16_is_kept(masked_lm):
    folder, _ = masked_lm
    bias = np.array([0.1] * 16, ml_dtypes.bfloat16)
    with h5py.File(os.path.join(folder, "model.weights.h5"), "a") as file:
        del file["layers/dense/vars/1"]
        dataset = file.create_dataset("layers/dense/vars/1", data=bias)
        dataset.attrs["dtype"] = "bfloat16"
    found = preset.read(folder).tensors["encoder/pooler/bias"]
    assert found.dtype == bias.dtype
    np.testing.assert_array_equal(found, bias)


def test_a_model_that_is_not_bert_is_named(masked_lm):
    folder, _ = masked_lm
    change_json(folder, "config.json", class_name="RobertaBackbone")
    assert detection.is_keras_hub(folder)
    with pytest.raises(
        ValueError, match="the class RobertaBackbone, which is no"
    ):
        preset.read(folder)


def test_every_mismatch_is_listed(masked_lm):
    folder, _ = masked_lm
    change_json(folder, "config.json", num_heads=4, num_segments=3)
    with pytest.raises(ValueError) as raised:
        preset.read(folder)
    message = str(raised.value)
    assert f"keras_hub {folder}" in message
    assert "layers/embedding/vars/0 (2, 16), expected (3, 16) from" in message
    assert "query_dense/vars/0 (16, 2, 8), expected (16, 4, 4) fro" in message


def test_layers_beyond_the_config_are_refused(masked_lm):
    folder, _ = masked_lm
    change_json(folder, "config.json", num_layers=1)
    with pytest.raises(ValueError) as raised:
        preset.read(folder)
    message = str(raised.value)
    assert "16 tensors of the encoder are not in a BERT" in message
    assert "transformer_encoder_1/_feedforward_layer_norm/vars/0" in message


def test_missing_sizes_are_named(masked_lm):
    folder, _ = masked_lm
    with open(os.path.join(folder, "config.json"), "w") as file:
        config = {"num_heads": 2}
        values = {"class_name": "BertBackbone", "registered_name": "x"}
        json.dump(values | {"config": config}, file)
    with pytest.raises(ValueError, match="json lacks hidden_dim, intermediate"):
        preset.read(folder)


def test_missing_and_damaged_files_are_named(masked_lm):
    folder, _ = masked_lm
    path = os.path.join(folder, "model.weights.h5")
    with open(path, "rb") as file:
        content = file.read()
    with open(path, "wb") as file:
        file.write(content[: len(content) // 2])
    with pytest.raises(ValueError, match="model.weights.h5 cannot be read"):
        preset.read(folder)
    os.remove(path)
    with pytest.raises(ValueError, match="model.weights.h5 is missing"):
        preset.read(folder)
    with open(os.path.join(folder, "model.weights.json"), "w") as file:
        file.write("{}")
    with pytest.raises(ValueError, match="sharded weights cannot be read"):
        preset.read(folder)


def test_a_head_without_its_weights_is_refused(tmp_path, make_checkpoint):
    folder = write(
        make_checkpoint("regression"), tmp_path / "preset", "keras_hub"
    )
    os.remove(os.path.join(folder, "task.weights.h5"))
    with pytest.raises(ValueError, match="task.weights.h5 is missing"):
        preset.read(folder)


def test_data_in_another_file_is_not_read(masked_lm, tmp_path):
    folder, _ = masked_lm
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["bias"] = np.zeros(16, np.float32)
    with h5py.File(os.path.join(folder, "model.weights.h5"), "a") as file:
        del file["layers/dense/vars/1"]
        file["layers/dense/vars/1"] = h5py.ExternalLink(
            str(tmp_path / "other.h5"), "bias"
        )
    with pytest.raises(ValueError, match="dense/vars/1 is a link"):
        preset.read(folder)


@pytest.mark.parametrize("task", ["spans", "tagging", "multiple_choice"])
def test_unsupported_heads_are_refused(tmp_path, make_checkpoint, task):
    with pytest.raises(ValueError, match=f"BERT has no head for {task}"):
        preset.write(make_checkpoint(task), str(tmp_path))


@pytest.mark.parametrize("act", ["gelu_erf", "relu"])
def test_another_activation_is_refused(
    tmp_path, make_checkpoint, tiny_config, act
):
    config = dataclasses.replace(tiny_config, hidden_act=act)
    given = make_checkpoint("pretraining", config=config)
    with pytest.raises(ValueError, match="pass --hidden_act=gelu"):
        preset.write(given, str(tmp_path))
