import dataclasses
import json
import os
import pathlib
import shutil

import h5py
import ml_dtypes
import numpy as np
import pytest
from checkpoint_folders import LABELS, assert_same_bits, moments, write

from bert_tf.checkpoint import detection
from bert_tf.contrib.formats.keras_hub import preset, weight_files

VOCABULARY = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n"


def change_json(folder, file, **values):
    path = pathlib.Path(folder, file)
    content = json.loads(path.read_text())
    for key, value in values.items():
        parent = content if key in content else content["config"]
        parent[key] = value
    path.write_text(json.dumps(content))


@pytest.fixture
def masked_lm(tmp_path, make_checkpoint):
    """Returns the folder of a masked-LM preset, and its Checkpoint."""
    given = make_checkpoint("pretraining", vocabulary=VOCABULARY)
    return write(given, tmp_path / "preset", "keras_hub"), given


@pytest.fixture
def folder(masked_lm):
    return masked_lm[0]


@pytest.fixture
def classifier(tmp_path, make_checkpoint):
    """Returns the folder of a classifier's preset."""
    given = make_checkpoint("classification", step=3)
    return write(given, tmp_path / "preset", "keras_hub")


def weights_of(folder, file="model.weights.h5"):
    """Opens a file of weights, to change them."""
    return h5py.File(os.path.join(folder, file), "a")


def test_a_bare_encoder_has_no_task(tmp_path, make_checkpoint):
    for lacking in (["next_sentence"], ["masked_lm", "next_sentence"]):
        given = make_checkpoint("pretraining", lacking)
        folder = write(given, tmp_path / "preset", "keras_hub")
        has_task = os.path.exists(os.path.join(folder, "task.json"))
        assert has_task == ("masked_lm" not in lacking)


def test_weights_trained_later_do_not_keep_the_sidecar(
    tmp_path, make_checkpoint
):
    given = make_checkpoint("pretraining")
    given = dataclasses.replace(given, slots=moments(given), step=3)
    folder = write(given, tmp_path / "preset", "keras_hub")
    assert preset.read(folder).slots
    # The slots do not belong to weights that KerasHub trained later.
    with weights_of(folder) as file:
        file["layers/dense/vars/1"][0] += 1
    found = preset.read(folder)
    assert not found.slots and not found.step
    assert [n for n in found.missing() if n.startswith("next_sentence")]
    assert found.notes[-1] == (
        "bert_tf.json is ignored: its checksums do not match model.weights.h5 "
        "and task.weights.h5"
    )


def test_a_head_trained_later_does_not_keep_the_old_labels(classifier):
    found = preset.read(classifier)
    assert (found.labels, found.step) == (LABELS, 3)
    with weights_of(classifier, "task.weights.h5") as file:
        file["layers/dense/vars/1"][0] += 1
    found = preset.read(classifier)
    assert (found.labels, found.step) == (("0", "1", "2"), 0)
    assert "checksums do not match" in found.notes[-1]


@pytest.mark.parametrize("content", ["{}", "[]", '{"weights_sha256": "ab"}'])
def test_a_foreign_bert_tf_json_is_ignored(folder, content):
    with open(os.path.join(folder, "bert_tf.json"), "w") as file:
        file.write(content)
    assert "checksums do not match" in preset.read(folder).notes[-1]


def test_differences_by_design_are_noted(folder):
    assert "masked_lm_logits differ slightly" in preset.read(folder).notes[0]
    change_json(folder, "tokenizer.json", strip_accents=False)
    found = preset.read(folder)
    assert "strip_accents=False" in found.notes[1]
    assert "lowercase=true of KerasHub folds case" in found.notes[2]
    assert found.rules() == {"do_lower_case": True, "strip_accents": False}
    change_json(folder, "tokenizer.json", special_tokens_in_strings=True)
    assert preset.read(folder).rules()["split_special_tokens"] is False


def test_what_another_tokenizer_does_is_a_difference(folder):
    settings = {"split": False, "suffix_indicator": "@@"}
    settings |= {"oov_token": "[PAD]", "sequence_length": 8}
    change_json(folder, "tokenizer.json", **settings)
    change_json(folder, "preprocessor.json", truncate="waterfall")
    assert preset.read(folder).tokenizer_differences == (
        "KerasHub's tokenizer has split=False; BERT's True",
        "KerasHub's tokenizer has suffix_indicator=@@; BERT's ##",
        "KerasHub's tokenizer has oov_token=[PAD]; BERT's [UNK]",
        "KerasHub's tokenizer has sequence_length=8; BERT's None",
        "KerasHub's preprocessor has truncate=waterfall; BERT's round_robin",
    )


def test_quantized_presets_are_refused_by_their_mode(folder):
    # As keras_hub 0.32 writes it.
    policy = {"class_name": "QuantizedDTypePolicy", "config": {"mode": "int8"}}
    change_json(folder, "config.json", dtype={"policy_map": {"a": policy}})
    with pytest.raises(ValueError, match=r"layers that are quantized \(int8\)"):
        preset.read(folder)


def test_presets_of_keras_nlp_are_read(folder):
    name = "keras_nlp>BertBackbone"
    change_json(folder, "config.json", registered_name=name)
    assert preset.read(folder).task == "pretraining"


def test_a_model_of_keras_is_no_preset(folder):
    values = {"class_name": "BertClassifier", "registered_name": "bert_tf>Bert"}
    change_json(folder, "config.json", **values)
    with pytest.raises(ValueError, match="Keras, BertClassifier, .*load_model"):
        preset.read(folder)


def test_the_activation_of_a_score_is_followed_and_written(
    tmp_path, make_checkpoint
):
    given = make_checkpoint("regression")
    folder = write(given, tmp_path / "model", "keras_hub")
    assert preset.read(folder).metadata.get("score_activation") is None
    change_json(folder, "task.json", activation="sigmoid")
    found = preset.read(folder)
    assert found.metadata["score_activation"] == "sigmoid"
    folder = write(found, tmp_path / "again", "keras_hub")
    with open(f"{folder}/task.json") as file:
        assert json.load(file)["config"]["activation"] == "sigmoid"


def test_the_softmax_of_a_classifier_is_noted(classifier):
    change_json(classifier, "task.json", activation="softmax")
    assert "ends in softmax" in preset.read(classifier).notes[0]


def test_an_unsupported_head_is_left_out(classifier):
    change_json(classifier, "task.json", class_name="BertTextEmbedder")
    found = preset.read(classifier)
    assert found.task == "pretraining" and len(found.tensors) == 39
    assert "class BertTextEmbedder, whose head is not read" in found.notes[0]
    assert found.unused == (
        "task.weights.h5/layers/dense/vars/0",
        "task.weights.h5/layers/dense/vars/1",
    )


@pytest.mark.parametrize(
    "old, new",
    [
        ("layers/", "_layer_checkpoint_dependencies/"),
        ("query_dense", "_query_dense"),
    ],
)
def test_names_of_other_keras_versions_are_read(masked_lm, old, new):
    folder, given = masked_lm
    weights = weight_files.read(folder, "model.weights.h5", set())
    tensors = {name: tensor.numpy() for name, tensor in weights.items()}
    with h5py.File(os.path.join(folder, "model.weights.h5"), "w") as file:
        for name, tensor in tensors.items():
            file[name.partition("/")[2].replace(old, new)] = tensor
    found = preset.read(folder).tensors
    assert_same_bits(found, {n: given.tensors[n] for n in found})
    assert len(found) == 44


def test_a_file_that_is_replaced_after_it_was_opened_is_refused(folder):
    found = preset.read(folder).tensors
    path = os.path.join(folder, "model.weights.h5")
    shutil.copy(path, f"{path}.new")
    os.replace(f"{path}.new", path)
    with pytest.raises(ValueError, match="weights.h5 .*was replaced after"):
        found["encoder/pooler/kernel"]


def test_optimizer_state_is_ignored(folder):
    with weights_of(folder, "task.weights.h5") as file:
        file["optimizer/vars/0"] = np.int64(3)
    assert not preset.read(folder).unused


def test_bfloat16_is_kept(folder):
    bias = np.array([0.1] * 16, ml_dtypes.bfloat16)
    with weights_of(folder) as file:
        del file["layers/dense/vars/1"]
        dataset = file.create_dataset("layers/dense/vars/1", data=bias)
        dataset.attrs["dtype"] = "bfloat16"
    found = preset.read(folder).tensors["encoder/pooler/bias"]
    assert found.dtype == bias.dtype
    np.testing.assert_array_equal(found, bias)


def test_a_model_that_is_not_bert_is_named(folder):
    change_json(folder, "config.json", class_name="RobertaBackbone")
    assert detection.is_keras_hub(folder)
    with pytest.raises(
        ValueError, match="the class RobertaBackbone, which is no"
    ):
        preset.read(folder)


def test_missing_sizes_are_named(folder):
    change_json(folder, "config.json", config={"num_heads": 2})
    with pytest.raises(ValueError, match="json lacks hidden_dim, intermediate"):
        preset.read(folder)


def test_shards_are_named(folder):
    path = pathlib.Path(folder, "model.weights.h5")
    path.rename(path.with_suffix(".json"))
    with pytest.raises(ValueError, match="sharded weights cannot be read"):
        preset.read(folder)


def test_data_in_another_file_is_not_read(folder, tmp_path):
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["bias"] = np.zeros(16, np.float32)
    with weights_of(folder) as file:
        del file["layers/dense/vars/1"]
        file["layers/dense/vars/1"] = h5py.ExternalLink(str(other), "bias")
    with pytest.raises(ValueError, match="dense/vars/1 is a link"):
        preset.read(folder)
