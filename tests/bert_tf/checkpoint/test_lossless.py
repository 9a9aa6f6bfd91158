import dataclasses

import numpy as np
import pytest

from bert_tf.checkpoint import lossless


def changed(given, **changes):
    """Returns a Checkpoint with some tensors replaced, or removed if None."""
    tensors = given.tensors | changes
    return dataclasses.replace(
        given, tensors={n: t for n, t in tensors.items() if t is not None}
    )


def test_an_equal_checkpoint_is_lossless(make_checkpoint):
    given = make_checkpoint("pretraining", step=3, vocabulary=b"a")
    assert lossless.check_lossless(given, given) == [
        f"read back: {len(given.tensors)} tensors equal bit for bit"
    ]


def test_a_wider_dtype_is_lossless(make_checkpoint):
    given = make_checkpoint("regression")
    half = given.tensors["encoder/pooler/bias"].astype(np.float16)
    narrow = changed(given, **{"encoder/pooler/bias": half})
    wide = changed(given, **{"encoder/pooler/bias": half.astype(np.float32)})
    assert len(lossless.check_lossless(narrow, wide)) == 1
    lines = lossless.tensor_lines(narrow, wide)
    assert lines[-2:] == ["types changed: 1", "  float16 -> float32: 1"]
    with pytest.raises(ValueError, match="changed:  encoder/pooler/bias float"):
        lossless.check_lossless(given, narrow)


def test_nan_and_negative_zero_are_compared_bit_for_bit(make_checkpoint):
    given = make_checkpoint("regression")
    name = "encoder/pooler/bias"
    values = given.tensors[name].copy()
    values[:2] = np.nan, 0.0
    given = changed(given, **{name: values})
    lossless.check_lossless(given, given)
    with pytest.raises(ValueError, match="! changed:  encoder/pooler/bias"):
        lossless.check_lossless(
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
        lossless.check_lossless(given, found)
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
            lossless.check_lossless(source, target)


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
    assert lossless.check_lossless(given, found)[1:] == [
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
    lines = lossless.tensor_lines(given, given)
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
