import numpy as np
import pytest

from bert_tf.conversion import renaming

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


def test_there_and_back_is_the_same():
    theirs = renaming.to_theirs(TABLE, ours(), source="test")
    assert {n: t.shape for n, t in theirs.items()} == {
        "a.weight": (3, 2),
        "a.bias": (3,),
        "b.kernel": (6, 2, 3),
        "b.out": (2, 3, 6),
    }
    np.testing.assert_array_equal(theirs["a.weight"].T, ours()["a/kernel"])
    back, unused = renaming.to_ours(TABLE, theirs, SHAPES, source="test")
    assert not unused
    for name, tensor in ours().items():
        np.testing.assert_array_equal(back[name], tensor)


def test_what_may_miss_may_miss_and_what_is_left_is_named():
    theirs = renaming.to_theirs(TABLE, ours(), source="test")
    theirs["position_ids"] = theirs.pop("a.bias")
    found, unused = renaming.to_ours(
        TABLE, theirs, SHAPES, source="test", may_miss=["a/bias"]
    )
    assert set(found) == set(SHAPES) - {"a/bias"}
    assert unused == ["position_ids"]


def test_both_sides_are_listed_in_full():
    theirs = renaming.to_theirs(TABLE, ours(), source="test")
    theirs["other"] = theirs.pop("b.out")
    theirs["a.weight"] = np.zeros((4, 2), np.float32)
    with pytest.raises(ValueError) as raised:
        renaming.to_ours(TABLE, theirs, SHAPES, source="google x.ckpt")
    message = str(raised.value)
    assert "3 tensors do not fit (google x.ckpt)" in message
    assert "wanted, not there:  b.out (2, 3, 6), for b/output" in message
    assert "of another shape:   a.weight (4, 2) there, (3, 2) by" in message
    assert "there, not wanted:  other (2, 3, 6)" in message


def test_a_head_that_the_other_format_lacks_is_named():
    with pytest.raises(ValueError, match=r"no place for: +c/kernel \(2,\)"):
        renaming.to_theirs(
            TABLE, ours() | {"c/kernel": np.zeros(2)}, source="keras_hub x"
        )


def test_a_part_may_be_absent_as_a_whole_only():
    parts = ("a/", "b/", "c/")
    assert renaming.absent_parts(TABLE, ["a.bias"], parts) == [
        "b/kernel",
        "b/output",
    ]
    assert renaming.absent_parts(TABLE, ["a.bias"], ["a/"]) == []
    assert renaming.absent_parts(iter(TABLE), [], parts) == list(SHAPES)


def test_more_than_is_read_is_refused():
    renaming.refuse_more({}, source="test", config="config.json")
    with pytest.raises(ValueError) as raised:
        renaming.refuse_more(
            {"c.scale": np.zeros((2, 3))}, source="test", config="config.json"
        )
    assert str(raised.value) == (
        "1 tensors of the encoder have no place in a BERT of these sizes, so "
        "its numbers would be others (test).\n"
        "  + there, not wanted:  c.scale (2, 3)\n"
        "Give the config.json that belongs to these weights; if it does, their "
        "encoder is not BERT's."
    )


def test_layers_have_the_names_that_are_given():
    assert renaming.dense("a", "b") == [
        renaming.Rename("a/kernel", "b/kernel"),
        renaming.Rename("a/bias", "b/bias"),
    ]
    assert renaming.norm("a", "b", ("0", "1")) == [
        renaming.Rename("a/gamma", "b/0"),
        renaming.Rename("a/beta", "b/1"),
    ]


def test_heads_of_attention_are_an_axis(tiny_config):
    rows = renaming.keras_attention(
        tiny_config, "a", "b", start="_", names=("0", "1")
    )
    assert {row.theirs: row.shape for row in rows} == {
        f"b/_{part}_dense/{number}": shape
        for part in ("query", "key", "value")
        for number, shape in ((0, (16, 2, 8)), (1, (2, 8)))
    } | {"b/_output_dense/0": (2, 8, 16), "b/_output_dense/1": None}
    assert rows[0].ours == "a/query/kernel"
    assert rows[-1].ours == "a/output_dense/bias"
