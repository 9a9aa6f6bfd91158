import numpy as np
import pytest

from bert_tf.checkpoint.formats import renaming

TABLE = [
    renaming.Rename("a/kernel", "a.weight", is_transposed=True),
    renaming.Rename("a/bias", "a.bias"),
    renaming.Rename("b/kernel", "b.kernel", shape=(6, 2, 3)),
    renaming.Rename("b/output", "b.out", shape=(2, 3, 6)),
]
SHAPES = {"a/kernel": (2, 3), "a/bias": (3,), "b/kernel": (6, 6)}
SHAPES["b/output"] = (6, 6)


def ours():
    rng = np.random.default_rng(0)
    return {
        name: rng.normal(size=shape).astype(np.float32)
        for name, shape in SHAPES.items()
    }


def test_optional_tensors_may_be_missing_and_unused_ones_are_listed():
    theirs = dict(renaming.to_theirs(TABLE, ours(), source="test"))
    theirs["position_ids"] = theirs.pop("a.bias")
    found, _, unused = renaming.to_ours(
        TABLE, theirs, SHAPES, source="test", optional=["a/bias"]
    )
    assert set(found) == set(SHAPES) - {"a/bias"}
    assert unused == ["position_ids"]


def test_every_mismatch_is_listed():
    theirs = dict(renaming.to_theirs(TABLE, ours(), source="test"))
    theirs["other"] = theirs.pop("b.out")
    theirs["a.weight"] = np.zeros((4, 2), np.float32)
    with pytest.raises(ValueError) as raised:
        renaming.to_ours(TABLE, theirs, SHAPES, source="google x.ckpt")
    message = str(raised.value)
    assert "3 tensors do not match (google x.ckpt)" in message
    assert "missing:      b.out (2, 3, 6), for b/output" in message
    assert "other shape:  a.weight (4, 2), expected (3, 2)" in message
    assert "unexpected:   other (2, 3, 6)" in message


def test_a_head_missing_in_the_target_format_is_refused():
    with pytest.raises(ValueError, match=r"no equivalent: +c/kernel \(2,\)"):
        renaming.to_theirs(
            TABLE, ours() | {"c/kernel": np.zeros(2)}, source="keras_hub x"
        )


def test_a_part_may_only_be_missing_as_a_whole():
    parts = ("a/", "b/", "c/")
    assert renaming.missing_parts(TABLE, ["a.bias"], parts) == [
        "b/kernel",
        "b/output",
    ]
    assert renaming.missing_parts(TABLE, ["a.bias"], ["a/"]) == []
    assert renaming.missing_parts(iter(TABLE), [], parts) == list(SHAPES)


def test_extra_encoder_weights_are_refused():
    renaming.refuse_more({}, source="test", config="config.json")
    more = {"c.scale": np.zeros((2, 3))}
    with pytest.raises(ValueError) as raised:
        renaming.refuse_more(more, source="test", config="config.json")
    assert str(raised.value) == (
        "1 tensors of the encoder are not in a BERT with the configured sizes; "
        "without them, outputs would differ (test).\n"
        "  + unexpected:   c.scale (2, 3)\n"
        "Check that config.json belongs to these weights. If it does, the "
        "encoder is not BERT's and cannot be read."
    )
