import numpy as np
import pytest
from checkpoint_folders import assert_same_bits

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


def test_a_round_trip_keeps_tensors():
    theirs = renaming.to_theirs(TABLE, ours(), source="test")
    assert {n: t.shape for n, t in theirs.items()} == {
        "a.weight": (3, 2),
        "a.bias": (3,),
        "b.kernel": (6, 2, 3),
        "b.out": (2, 3, 6),
    }
    np.testing.assert_array_equal(theirs["a.weight"].T, ours()["a/kernel"])
    back, slots, unused = renaming.to_ours(TABLE, theirs, SHAPES, source="test")
    assert not unused and not slots
    assert_same_bits(back, ours())


def test_optional_tensors_may_be_missing_and_unused_ones_are_listed():
    theirs = dict(renaming.to_theirs(TABLE, ours(), source="test"))
    theirs["position_ids"] = theirs.pop("a.bias")
    found, _, unused = renaming.to_ours(
        TABLE, theirs, SHAPES, source="test", optional=["a/bias"]
    )
    assert set(found) == set(SHAPES) - {"a/bias"}
    assert unused == ["position_ids"]


def test_slots_are_renamed_like_their_weights_and_may_be_missing():
    table = renaming.with_slots(TABLE, {"m": "/adam_m"})
    given = ours() | {"m/b/kernel": ours()["b/kernel"] + 1}
    theirs = renaming.to_theirs(table, given, source="test")
    assert theirs["b.kernel/adam_m"].shape == (6, 2, 3)
    weights, slots, _ = renaming.to_ours(table, theirs, SHAPES, source="test")
    assert list(weights) == list(SHAPES) and list(slots) == ["m/b/kernel"]
    np.testing.assert_array_equal(slots["m/b/kernel"], given["m/b/kernel"])


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


def test_rows_use_the_given_suffixes():
    assert renaming.rows({"a": "b"}) == [
        renaming.Rename("a/kernel", "b/kernel"),
        renaming.Rename("a/bias", "b/bias"),
    ]
    suffixes = {"kernel": ".w", "bias": ".b", "gamma": "/0", "beta": "/1"}
    modules = {"norm": "b", "a": "b"}
    assert renaming.rows(modules, suffixes, is_transposed=True) == [
        renaming.Rename("norm/gamma", "b/0"),
        renaming.Rename("norm/beta", "b/1"),
        renaming.Rename("a/kernel", "b.w", is_transposed=True),
        renaming.Rename("a/bias", "b.b"),
    ]


def test_an_encoder_has_embeddings_layers_and_a_pooler():
    rows = renaming.encoder_rows(
        {"word_embeddings": "words", "norm": "n"},
        ["l0.", "l1."],
        {"a": "b"},
        "p",
    )
    assert [tuple(row[:2]) for row in rows] == [
        ("encoder/embeddings/word_embeddings", "words"),
        ("encoder/embeddings/norm/gamma", "n/gamma"),
        ("encoder/embeddings/norm/beta", "n/beta"),
        ("encoder/layer_0/a/kernel", "l0.b/kernel"),
        ("encoder/layer_0/a/bias", "l0.b/bias"),
        ("encoder/layer_1/a/kernel", "l1.b/kernel"),
        ("encoder/layer_1/a/bias", "l1.b/bias"),
        ("encoder/pooler/kernel", "p/kernel"),
        ("encoder/pooler/bias", "p/bias"),
    ]


def test_attention_heads_are_an_axis(tiny_config):
    parts = ("query", "key", "value", "output")
    ours = {"output": "output_dense"}
    layers = {
        f"encoder/layer_0/attention/{ours.get(part, part)}": f"b/_{part}_dense"
        for part in parts
    }
    suffixes = {"kernel": "/0", "bias": "/1"}
    rows = renaming.split_heads(renaming.rows(layers, suffixes), tiny_config)
    assert {row.theirs: row.shape for row in rows} == {
        f"b/_{part}_dense/{number}": shape
        for part in ("query", "key", "value")
        for number, shape in ((0, (16, 2, 8)), (1, (2, 8)))
    } | {"b/_output_dense/0": (2, 8, 16), "b/_output_dense/1": None}
    assert rows[0].ours == "encoder/layer_0/attention/query/kernel"
    assert rows[-1].ours == "encoder/layer_0/attention/output_dense/bias"
    other = renaming.rows({"encoder/layer_0/output_dense": "c"})
    assert renaming.split_heads(other, tiny_config) == other
