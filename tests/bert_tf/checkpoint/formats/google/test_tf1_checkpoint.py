"""TF1 checkpoints: real ones, written ones, and damaged or wrong ones."""

import os
import shutil

import numpy as np
import pytest
import reference_bert
import tensorflow as tf
from checkpoint_folders import assert_same_bits, moments, write

from bert_tf.checkpoint import contents, model_folders, parity
from bert_tf.checkpoint.formats.google import tf1_checkpoint, tf_files
from tfrecords.io import json_files

TASKS = ("pretraining", "classification", "regression", "spans")
VOCABULARY = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n<S>\nder\nthe\n##s\n"


@pytest.fixture
def tiny(shared_data):
    """A checkpoint written by the original code, with Adam's slots."""
    return str(shared_data / "golden" / "tiny_tf1_checkpoint")


@pytest.fixture
def written(tmp_path, make_checkpoint):
    """Folder of a complete pre-training checkpoint, for tests to modify."""
    given = make_checkpoint("pretraining", vocabulary=VOCABULARY.encode())
    return write(given, tmp_path / "written", "google")


def change(folder, remove=(), **tensors):
    """Rewrites the checkpoint in a folder with other variables."""
    found = tf1_checkpoint.read_tensors(tf_files.find(folder, "TF1"))
    kept = {n: t for n, t in found.items() if not n.startswith(tuple(remove))}
    tf1_checkpoint.write_tensors(kept | tensors, folder)


# The table.


@pytest.mark.parametrize("task", TASKS)
def test_the_table_has_each_name_once(tiny_config, task):
    labels = 3 * (task == "classification")
    rows = tf1_checkpoint.table(tiny_config, task)
    shapes = contents.shapes(tiny_config, task, labels)
    assert sorted(row.ours for row in rows) == sorted(shapes)
    assert len({row.theirs for row in rows}) == len(rows)


@pytest.mark.parametrize("task", ["tagging", "multiple_choice"])
def test_an_unsupported_head_is_refused(tmp_path, make_checkpoint, task):
    with pytest.raises(ValueError, match=f"has no head for {task}; it has"):
        write(make_checkpoint(task), tmp_path / "out", "google")
    assert not list(tmp_path.iterdir())


# Round trips.


@pytest.mark.parametrize("task", TASKS)
def test_a_round_trip_keeps_every_bit(tmp_path, make_checkpoint, task):
    given = make_checkpoint(task)
    given = make_checkpoint(
        task,
        slots=moments(given),
        step=12345678901,
        vocabulary=VOCABULARY.encode(),
        do_lower_case=True,
    )
    found = tf1_checkpoint.read(write(given, tmp_path / "out", "google"))
    assert_same_bits(found.tensors, given.tensors)
    assert_same_bits(found.slots, given.slots)
    assert list(found.tensors) == list(given.tensors)
    assert list(found.slots) == list(given.slots)
    for name in ("config", "task", "step", "vocabulary", "do_lower_case"):
        assert getattr(found, name) == getattr(given, name), name
    assert len(found.labels) == len(given.labels)
    assert not found.unused and not found.missing()


def test_a_round_trip_of_a_real_checkpoint_keeps_every_byte(tiny, tmp_path):
    found = tf1_checkpoint.read(tiny)
    assert (len(found.tensors), len(found.slots), found.step) == (46, 92, 20)
    assert not found.unused and not found.missing()
    assert found.do_lower_case is True
    ours = model_folders.read(write(found, tmp_path / "ours"))
    back = write(ours, tmp_path / "google", "google")
    for ending in ("index", "data-00000-of-00001"):
        name = f"bert_model.ckpt.{ending}"
        with open(os.path.join(tiny, name), "rb") as file:
            expected = file.read()
        with open(os.path.join(back, name), "rb") as file:
            assert file.read() == expected, name
    with open(os.path.join(tiny, "vocab.txt"), "rb") as file:
        # Its last line has no newline.
        assert ours.vocabulary == file.read() + b"\n"


def test_the_tf1_saver_loads_a_written_checkpoint(tmp_path, make_checkpoint):
    given = make_checkpoint("spans", step=7)
    folder = write(given, tmp_path / "out", "google")
    assert tf.train.latest_checkpoint(folder) == f"{folder}/bert_model.ckpt"
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.get_variable("global_step", (), tf.int64)
        head = tf.compat.v1.get_variable("cls/squad/output_weights", (2, 16))
        tf.compat.v1.train.Saver().restore(session, f"{folder}/bert_model.ckpt")
        assert session.run(step) == 7
        np.testing.assert_array_equal(
            session.run(head), given.tensors["spans/dense/kernel"].T
        )


def test_a_released_checkpoint_is_read_from_every_kind_of_path(written):
    for path in (
        written,
        f"{written}/bert_model.ckpt",
        f"{written}/bert_model.ckpt.index",
        f"{written}/bert_model.ckpt.data-00000-of-00001",
    ):
        assert tf_files.prefixes(path, "TF1")
        assert tf1_checkpoint.read(path).step == 0
    assert not tf_files.prefixes(f"{written}/vocab.txt", "TF1")
    assert not tf_files.prefixes(f"{written}/none", "TF1")


def test_some_weights_may_have_no_slots(tmp_path, make_checkpoint):
    given = make_checkpoint("spans")
    slots = {n: t for n, t in moments(given).items() if "pooler" not in n}
    given = make_checkpoint("spans", slots=slots, step=2)
    found = tf1_checkpoint.read(write(given, tmp_path / "out", "google"))
    assert_same_bits(found.slots, slots)
    assert list(found.slots) == list(slots)


def test_a_bare_encoder_is_a_pretraining_model_without_heads(written):
    change(written, remove=["cls/"])
    found = tf1_checkpoint.read(written)
    assert found.task == "pretraining"
    assert {name.split("/")[0] for name in found.missing()} == {
        "masked_lm",
        "next_sentence",
    }


def test_unused_variables_are_listed(written):
    more = {
        "beta1_power": np.float32(0.9),
        "bert/pooler/dense/bias/Adam": np.zeros(16, np.float32),
    }
    change(written, **more)
    found = tf1_checkpoint.read(written)
    assert found.unused == tuple(sorted(more)) and not found.missing()


def test_a_classifier_with_one_row_is_a_regression(tmp_path, make_checkpoint):
    found = tf1_checkpoint.read(
        write(make_checkpoint("regression"), tmp_path / "out", "google")
    )
    assert found.task == "regression"
    assert any("so the task is regression" in note for note in found.notes)
    found = tf1_checkpoint.read(
        write(make_checkpoint("classification"), tmp_path / "c", "google")
    )
    assert found.labels == ("0", "1", "2")
    assert any("does not name its classes" in note for note in found.notes)


def test_the_checkpoint_file_selects_one_of_several(written):
    for path in os.listdir(written):
        if path.startswith("bert_model.ckpt"):
            for step in (3, 20):
                other = path.replace("bert_model.ckpt", f"model.ckpt-{step}")
                shutil.copy(f"{written}/{path}", f"{written}/{other}")
    change(written, global_step=np.int64(4))
    state = os.path.join(written, "checkpoint")
    with open(state, "w") as file:
        file.write('model_checkpoint_path: "/elsewhere/model.ckpt-20"\n')
    assert tf_files.find(written, "TF1") == f"{written}/model.ckpt-20"
    assert tf1_checkpoint.read(f"{written}/bert_model.ckpt").step == 4
    os.remove(state)
    with pytest.raises(ValueError) as raised:
        tf1_checkpoint.read(written)
    assert (
        "contains several checkpoints: bert_model.ckpt, model.ckpt-20, "
        f"model.ckpt-3. Give one of them, such as {written}/bert_model.ckpt."
    ) in str(raised.value)


# Case.


def test_without_a_vocabulary_do_lower_case_is_unknown(written):
    os.remove(f"{written}/vocab.txt")
    found = tf1_checkpoint.read(written)
    assert found.vocabulary is None and found.do_lower_case is None
    assert any("no vocab.txt" in note for note in found.notes)


# Outputs compared with the oracle, which does not use our rename table.


def oracle_names(tensors):
    """Returns the original's variables by the names of reference_bert.py."""
    parts = {
        "word_embeddings": "bert/embeddings/word_embeddings",
        "position_embeddings": "bert/embeddings/position_embeddings",
        "type_embeddings": "bert/embeddings/token_type_embeddings",
    }
    names = {f"embeddings/{ours}": theirs for ours, theirs in parts.items()}
    modules = {
        "embeddings/norm": "bert/embeddings/LayerNorm",
        "pooler": "bert/pooler/dense",
    }
    for i in (0, 1):
        of_layer = {
            "attention/query": "attention/self/query",
            "attention/key": "attention/self/key",
            "attention/value": "attention/self/value",
            "attention/output_dense": "attention/output/dense",
            "attention_norm": "attention/output/LayerNorm",
            "intermediate": "intermediate/dense",
            "output_dense": "output/dense",
            "output_norm": "output/LayerNorm",
        }
        modules |= {
            f"layer_{i}/{ours}": f"bert/encoder/layer_{i}/{theirs}"
            for ours, theirs in of_layer.items()
        }
    for ours, theirs in modules.items():
        is_norm = theirs.endswith("LayerNorm")
        for part in ("gamma", "beta") if is_norm else ("kernel", "bias"):
            names[f"{ours}/{part}"] = f"{theirs}/{part}"
    return {ours: tensors[theirs] for ours, theirs in names.items()}


def assert_agrees_with_the_oracle(path):
    found = tf1_checkpoint.read(path)
    inputs = parity.batch(found.config, found.task)
    ours = parity.outputs(found, inputs)
    tensors = {
        name: tensor.numpy().astype(np.float64)
        for name, tensor in tf1_checkpoint.read_tensors(
            tf_files.find(path, "TF1")
        ).items()
    }
    layers, pooled = reference_bert.encode(
        inputs, oracle_names(tensors), found.config
    )
    for i, layer in enumerate(layers):
        np.testing.assert_allclose(
            ours[f"encoder_outputs_{i}"], layer, atol=1e-5
        )
    np.testing.assert_allclose(ours["pooled_output"], pooled, atol=1e-5)
    if found.task == "pretraining":
        head = "cls/predictions/transform"
        logits = reference_bert.masked_lm_logits(
            layers[-1],
            inputs["masked_lm_positions"],
            {
                "masked_lm/transform/kernel": tensors[f"{head}/dense/kernel"],
                "masked_lm/transform/bias": tensors[f"{head}/dense/bias"],
                "masked_lm/norm/gamma": tensors[f"{head}/LayerNorm/gamma"],
                "masked_lm/norm/beta": tensors[f"{head}/LayerNorm/beta"],
                "masked_lm/bias": tensors["cls/predictions/output_bias"],
                "encoder/embeddings/word_embeddings": tensors[
                    "bert/embeddings/word_embeddings"
                ],
            },
        )
        np.testing.assert_allclose(ours["masked_lm_logits"], logits, atol=1e-5)
        # run_pretraining.py: get_next_sentence_output, with transpose_b.
        logits = (
            pooled @ tensors["cls/seq_relationship/output_weights"].T
            + tensors["cls/seq_relationship/output_bias"]
        )
        np.testing.assert_allclose(
            ours["next_sentence_logits"], logits, atol=1e-5
        )
    return ours, tensors, layers, pooled


def test_outputs_of_a_real_checkpoint_match_the_oracle(tiny):
    assert_agrees_with_the_oracle(tiny)


def test_outputs_of_a_written_checkpoint_match_the_oracle(written):
    assert_agrees_with_the_oracle(written)


def test_outputs_of_fine_tuned_heads_match_the_oracle(
    tmp_path, make_checkpoint
):
    path = write(
        make_checkpoint("classification"), tmp_path / "classes", "google"
    )
    ours, tensors, _, pooled = assert_agrees_with_the_oracle(path)
    expected = pooled @ tensors["output_weights"].T + tensors["output_bias"]
    np.testing.assert_allclose(ours["logits"], expected, atol=1e-5)
    path = write(make_checkpoint("spans"), tmp_path / "spans", "google")
    ours, tensors, layers, _ = assert_agrees_with_the_oracle(path)
    expected = (
        layers[-1] @ tensors["cls/squad/output_weights"].T
        + tensors["cls/squad/output_bias"]
    )
    np.testing.assert_allclose(
        ours["start_logits"], expected[..., 0], atol=1e-5
    )
    np.testing.assert_allclose(ours["end_logits"], expected[..., 1], atol=1e-5)


# Errors.


def refused(path, message):
    with pytest.raises(ValueError, match=message):
        dict(tf1_checkpoint.read(str(path)).moments_too())


def test_a_folder_without_a_checkpoint_is_refused(tmp_path):
    refused(tmp_path, "contains no TF1 checkpoint; expected bert_model.ckpt.")


def test_a_missing_config_is_refused(written):
    os.remove(f"{written}/bert_config.json")
    refused(written, r"bert_config.json is missing.*Copy it there from the rel")


def test_a_config_with_norm_first_is_refused(written, tiny_config):
    keys = tiny_config.to_dict() | {"norm_first": True}
    json_files.write(f"{written}/bert_config.json", keys)
    refused(written, "bert_config.json has norm_first=true, LayerNorm before")


def test_missing_data_files_are_named(written):
    data = f"{written}/bert_model.ckpt.data-00000-of-00001"
    os.rename(data, f"{written}/bert_model.ckpt.data-00001-of-00003")
    refused(
        written,
        "files are missing: .*data-00000-of-00003, .*-00002-of-00003. Copy",
    )
    os.remove(f"{written}/bert_model.ckpt.data-00001-of-00003")
    refused(written, "missing: .*data-00000-of-00001. Copy every file of the")


@pytest.mark.parametrize("ending", ["index", "data-00000-of-00001"])
def test_a_truncated_file_is_refused(written, ending):
    path = f"{written}/bert_model.ckpt.{ending}"
    os.truncate(path, os.path.getsize(path) - 100)
    assert tf_files.prefixes(written, "TF1")
    refused(written, "bert_model.ckpt is damaged .*Copy or download it again")


def test_a_flipped_bit_is_refused(written):
    path = f"{written}/bert_model.ckpt.data-00000-of-00001"
    with open(path, "r+b") as file:
        file.seek(1000)
        byte = file.read(1)[0]
        file.seek(1000)
        file.write(bytes([byte ^ 1]))
    refused(written, "is damaged .*Checksum does not match")


def test_every_mismatch_with_the_config_is_listed(written, tiny_config):
    sizes = tiny_config.to_dict() | {"vocab_size": 99, "type_vocab_size": 3}
    json_files.write(f"{written}/bert_config.json", sizes)
    more = {"bert/pooler/dense/scale": np.zeros(1, np.float32)}
    change(written, remove=["bert/pooler/dense/bias"], **more)
    with pytest.raises(ValueError) as raised:
        tf1_checkpoint.read(written)
    for line in (
        "5 tensors do not match",
        "word_embeddings (203, 16), expected (99, 16) from the config",
        "cls/predictions/output_bias (203,), expected (99,) from the config",
        "token_type_embeddings (2, 16), expected (3, 16) from the config",
        "missing:      bert/pooler/dense/bias (16,), for enc",
        "unexpected:   bert/pooler/dense/scale (1,)",
    ):
        assert line in str(raised.value)


def test_layers_beyond_the_config_are_refused(written, tiny_config):
    sizes = tiny_config.to_dict() | {"num_hidden_layers": 1}
    json_files.write(f"{written}/bert_config.json", sizes)
    refused(
        written,
        r"16 tensors of the encoder are not in a BERT with the configured "
        r"sizes; .*\n  \+ unexpected:   bert/encoder/layer_1/[^$]*"
        r"Check that .*/bert_config.json belongs to these weights",
    )


def test_a_checkpoint_without_matching_names_is_refused(written):
    change(written, remove=["bert/", "cls/"], weights=np.zeros(3, np.float32))
    with pytest.raises(ValueError) as raised:
        tf1_checkpoint.read(written)
    assert "missing:      bert/embeddings/word_emb" in str(raised.value)
    assert "unexpected:   weights (3,)" in str(raised.value)


def test_an_incomplete_head_is_refused(written):
    change(written, remove=["cls/predictions/output_bias"])
    refused(written, r"1 tensors do not match[^$]*cls/predictions/output_bias")


def test_a_slot_of_another_shape_is_refused(written):
    name = "bert/pooler/dense/bias/adam_m"
    change(written, **{name: np.zeros(3, np.float32)})
    refused(written, r"adam_m \(3,\), expected \(16,\) from the config")


@pytest.mark.parametrize(
    "name, model",
    [
        ("electra/embeddings/word_embeddings", "ELECTRA"),
        ("bert/encoder/transformer/group_0/inner_group_0/x", "ALBERT"),
    ],
)
def test_other_models_are_named(written, name, model):
    change(written, **{name: np.zeros(3, np.float32)})
    refused(written, f"is an {model} checkpoint, whose layers are not BERT's")


def test_gelu_by_erf_cannot_be_written(tmp_path, make_checkpoint, tiny_config):
    config = type(tiny_config).from_dict(
        tiny_config.to_dict() | {"hidden_act": "gelu_erf"}
    )
    given = make_checkpoint("pretraining", config=config)
    with pytest.raises(ValueError, match="tanh appro.*--hidden_act=gelu"):
        write(given, tmp_path / "out", "google")
    assert not list(tmp_path.iterdir())


def test_a_tf2_checkpoint_is_not_detected_as_tf1(tmp_path):
    tf.train.Checkpoint(x=tf.Variable(1.0)).write(str(tmp_path / "ckpt-1"))
    assert (tmp_path / "ckpt-1.index").is_file()
    assert not tf_files.prefixes(str(tmp_path), "TF1")


def test_an_index_of_records_is_not_detected_as_tf1(tmp_path):
    (tmp_path / "train.index").write_bytes(bytes(80))
    assert not tf_files.prefixes(str(tmp_path), "TF1")


def test_a_full_disk_is_reported(tmp_path, make_checkpoint, monkeypatch):
    def save(**_):
        raise tf.errors.ResourceExhaustedError(None, None, "no space")

    monkeypatch.setattr(tf.raw_ops, "SaveV2", save)
    with pytest.raises(OSError, match="nothing half-written is left") as raised:
        write(make_checkpoint("pretraining"), tmp_path / "out", "google")
    assert raised.value.filename == str(tmp_path / "out")
    assert not list(tmp_path.iterdir())
