import dataclasses
import types

import numpy as np
import pytest

from bert_tf.checkpoint import parity
from bert_tf.model import models


def changed(given, **changes):
    """Returns a Checkpoint with some tensors replaced, or removed if None."""
    tensors = given.tensors | changes
    return dataclasses.replace(
        given, tensors={n: t for n, t in tensors.items() if t is not None}
    )


def peer(values, name="a peer 1.0"):
    """Returns a peer with these outputs, or one that raises an exception."""

    def outputs(path, batch):
        if isinstance(values, BaseException):
            raise values
        return values

    return types.SimpleNamespace(PEER=name, reference_outputs=outputs)


@pytest.fixture
def classifier(make_checkpoint):
    """A classifier, and its outputs."""
    given = make_checkpoint("classification")
    return given, parity.outputs(given, parity.batch(given.config, given.task))


# The batch.


@pytest.mark.parametrize("task", models.TASK_MODELS)
def test_the_batch_is_fixed_and_has_padding_and_two_segments(tiny_config, task):
    found = parity.batch(tiny_config, task)
    for name, value in parity.batch(tiny_config, task).items():
        np.testing.assert_array_equal(found[name], value)
        assert value.dtype == np.int32
    shape = (2, 2, 16) if task == "multiple_choice" else (4, 16)
    for name in ("input_word_ids", "input_mask", "input_type_ids"):
        assert found[name].shape == shape
    rows = found["input_mask"].reshape(4, 16)
    assert rows.sum(1).tolist() == [16, 12, 8, 1]
    words = found["input_word_ids"].reshape(4, 16)
    assert len(np.unique(words[0])) == 16 and not words[rows == 0].any()
    assert words.max() < tiny_config.vocab_size
    assert set(found["input_type_ids"].reshape(4, 16)[0]) == {0, 1}
    assert ("masked_lm_positions" in found) == (task == "pretraining")


def test_the_batch_fits_a_model_with_few_positions(tiny_config):
    config = dataclasses.replace(
        tiny_config, max_position_embeddings=3, type_vocab_size=1
    )
    found = parity.batch(config, "pretraining")
    assert found["input_word_ids"].shape == (4, 3)
    assert found["input_mask"].sum(1).tolist() == [3, 3, 2, 1]
    assert not found["input_type_ids"].any()
    assert found["masked_lm_positions"].max() == 2


# Outputs.


@pytest.mark.parametrize("task", models.TASK_MODELS)
def test_outputs_are_those_of_every_layer_and_of_the_task(
    make_checkpoint, task
):
    given = make_checkpoint(task)
    found = parity.outputs(given, parity.batch(given.config, task))
    for name in ("encoder_outputs_0", "encoder_outputs_1", "sequence_output"):
        assert found[name].shape == (4, 16, 16)
    assert found["pooled_output"].shape == (4, 16)
    of_task = set(found) - {f"encoder_outputs_{i}" for i in (0, 1)}
    assert of_task - {"sequence_output", "pooled_output"} == {
        "pretraining": {"masked_lm_logits", "next_sentence_logits"},
        "regression": {"predictions"},
        "spans": {"start_logits", "end_logits"},
    }.get(task, {"logits"})
    assert parity.differences(found, found) == dict.fromkeys(found, 0.0)


def test_outputs_that_need_missing_weights_are_left_out(make_checkpoint):
    given = make_checkpoint("pretraining", lacking=["encoder/pooler"])
    found = parity.outputs(given, parity.batch(given.config, given.task))
    assert "masked_lm_logits" in found
    assert not {"pooled_output", "next_sentence_logits"} & set(found)


def test_the_largest_difference_is_found():
    ours = {"a": np.zeros((2, 3)), "b": np.ones(2)}
    theirs = {"a": np.array([[0, 0, -0.5], [0.25, 0, 0]]), "c": np.ones(2)}
    assert parity.differences(ours, theirs) == {"a": 0.5}
    with pytest.raises(
        ValueError, match=r"a has shape \(2, 3\) here and \(3,\) in the other"
    ):
        parity.differences(ours, {"a": np.zeros(3)})


def test_outputs_are_compared_with_installed_peers(classifier):
    given, ours = classifier
    theirs = {"logits": ours["logits"] + np.float32(0.5), "other": np.ones(1)}
    lines = parity.peer_lines(
        given,
        [
            ("source", "x", peer(theirs)),
            ("target", "y", peer(None, "a peer that is not installed")),
        ],
    )
    assert lines[0] == "largest difference from the source in a peer 1.0:"
    assert lines[1].split() == ["logits", "5.00e-01"]
    assert lines[2:] == [
        "outputs not compared with the target: a peer that is not installed"
    ]


def test_a_broken_peer_is_reported_and_skipped(classifier):
    given, ours = classifier
    broken = peer(RuntimeError("numpy.dtype size changed\nand many lines more"))
    lines = parity.peer_lines(
        given, [("source", "x", broken), ("target", "y", peer(ours))]
    )
    assert lines[:2] == [
        "outputs not compared with the source: RuntimeError: numpy.dtype size "
        "changed",
        "largest difference from the target in a peer 1.0:",
    ]
    assert len(lines) == 2 + len(ours)


def test_a_keyboard_interrupt_in_a_peer_is_raised(classifier):
    stopped = [("source", "x", peer(KeyboardInterrupt()))]
    with pytest.raises(KeyboardInterrupt):
        parity.peer_lines(classifier[0], stopped)


# Losses.


def test_an_equal_checkpoint_is_lossless(make_checkpoint):
    given = make_checkpoint("pretraining", step=3, vocabulary=b"a")
    assert parity.check_lossless(given, given) == [
        f"read back: {len(given.tensors)} tensors equal bit for bit"
    ]


def test_a_wider_dtype_is_lossless(make_checkpoint):
    given = make_checkpoint("regression")
    half = given.tensors["encoder/pooler/bias"].astype(np.float16)
    narrow = changed(given, **{"encoder/pooler/bias": half})
    wide = changed(given, **{"encoder/pooler/bias": half.astype(np.float32)})
    assert len(parity.check_lossless(narrow, wide)) == 1
    lines = parity.tensor_lines(narrow, wide)
    assert lines[-2:] == ["types changed: 1", "  float16 -> float32: 1"]
    with pytest.raises(ValueError, match="changed:  encoder/pooler/bias float"):
        parity.check_lossless(given, narrow)


def test_nan_and_negative_zero_are_compared_bit_for_bit(make_checkpoint):
    given = make_checkpoint("regression")
    name = "encoder/pooler/bias"
    values = given.tensors[name].copy()
    values[:2] = np.nan, 0.0
    given = changed(given, **{name: values})
    parity.check_lossless(given, given)
    with pytest.raises(ValueError, match="! changed:  encoder/pooler/bias"):
        parity.check_lossless(
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
        parity.check_lossless(given, found)
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
            parity.check_lossless(source, target)


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
    assert parity.check_lossless(given, found)[1:] == [
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
    lines = parity.tensor_lines(given, given)
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
