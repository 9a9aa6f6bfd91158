"""TF1 checkpoints: real ones, written ones, and damaged or wrong ones."""

import numpy as np
import oracle
import pytest
import tensorflow as tf
from checkpoint_folders import write
from parity import outputs

from bert_tf.checkpoint.formats.google import tf1_checkpoint, tf_files

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


# Files.


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


def test_unused_variables_are_listed(written):
    more = {
        "beta1_power": np.float32(0.9),
        "bert/pooler/dense/bias/Adam": np.zeros(16, np.float32),
    }
    change(written, **more)
    found = tf1_checkpoint.read(written)
    assert found.unused == tuple(sorted(more)) and not found.missing()


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
    inputs = outputs.batch(found.config, found.task)
    ours = outputs.outputs(found, inputs)
    tensors = {
        name: tensor.numpy().astype(np.float64)
        for name, tensor in tf1_checkpoint.read_tensors(
            tf_files.find(path, "TF1")
        ).items()
    }
    layers, pooled = oracle.encode(inputs, oracle_names(tensors), found.config)
    for i, layer in enumerate(layers):
        np.testing.assert_allclose(
            ours[f"encoder_outputs_{i}"], layer, atol=1e-5
        )
    np.testing.assert_allclose(ours["pooled_output"], pooled, atol=1e-5)
    if found.task == "pretraining":
        head = "cls/predictions/transform"
        logits = oracle.masked_lm_logits(
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


def test_an_index_of_records_is_not_detected_as_tf1(tmp_path):
    (tmp_path / "train.index").write_bytes(bytes(80))
    assert not tf_files.prefixes(str(tmp_path), "TF1")


@pytest.mark.parametrize(
    ("removed", "added", "message"),
    [
        (
            ["cls/predictions/output_bias"],
            (),
            r"1 tensors do not match[^$]*cls/predictions/output_bias",
        ),
        (
            [],
            ["bert/pooler/dense/bias/adam_m"],
            r"adam_m \(3,\), expected \(16,\) from the config",
        ),
        ([], ["electra/embeddings/word_embeddings"], "is an ELECTRA checkpoi"),
        (
            [],
            ["bert/encoder/transformer/group_0/inner_group_0/x"],
            "is an ALBERT checkpoint, whose layers are not BERT's",
        ),
    ],
)
def test_variables_of_no_such_model_are_refused(
    written, removed, added, message
):
    change(written, removed, **dict.fromkeys(added, np.zeros(3, np.float32)))
    with pytest.raises(ValueError, match=message):
        dict(tf1_checkpoint.read(written).moments_too())
