"""batches.py: packing, and calls on parts of a batch."""

import pytest
import tensorflow as tf

from bert_tf.serving import batches
from tfrecords import schema


def test_batches_are_as_long_as_the_longest_row(words):
    batch = batches.pack_pairs(
        words, 64, tf.constant(["the cat", "the"]), tf.constant(["", "sat"])
    )
    assert batch["input_word_ids"].shape == (2, 5)
    assert list(batch) == list(schema.ENCODER_INPUTS)


def test_tokens_are_counted_before_rows_are_cut(words):
    first = tf.constant(["the cat", "the", ""])
    second = tf.constant(["", "cat the " * 50, ""])
    count = batches.count_tokens
    assert count(words, first).numpy().tolist() == [4, 3, 1]
    # [CLS] a [SEP] b [SEP]
    assert count(words, first, second).numpy().tolist() == [4, 104, 1]
    endings = tf.constant([["the", "the cat cat"], ["", ""], ["cat", ""]])
    assert count(words, first, endings).numpy().tolist() == [8, 3, 3]
    none = tf.zeros([3, 0], tf.string)
    assert count(words, first, none).numpy().tolist() == [4, 3, 1]
    nothing = tf.constant([], tf.string)
    assert count(words, nothing, nothing).numpy().tolist() == []


@pytest.mark.parametrize(
    ("lengths", "parts"),
    [
        ([], [(0, 1)]),
        ([3], [(1, 3)]),
        ([3, 6, 1, 2], [(2, 6), (2, 2)]),
        ([3, 6, 1, 2, 2], [(2, 6), (2, 2), (1, 2)]),
    ],
)
def test_parts_give_the_same_outputs_as_one_batch(lengths, parts):
    num_rows = len(lengths)
    lengths = tf.constant(lengths, tf.int32)
    inputs = {
        "input_word_ids": tf.random.stateless_uniform(
            [num_rows, 6], [1, 2], 0, 9, tf.int32
        ),
        "input_mask": tf.sequence_mask(lengths, 6, tf.int32),
    }
    seen = []

    def network(batch):
        ids = tf.cast(batch["input_word_ids"], tf.float32)
        tf.py_function(lambda x: seen.append(x.shape), [ids], [])
        whole = tf.ones([tf.shape(ids)[0], 1])  # Without a place for tokens.
        two = tf.stack([ids, -ids], axis=-1)
        return {"one": ids, "two": two, "whole": whole}

    shapes = {"one": [6], "two": [6, 2], "whole": [1]}
    outputs = tf.function(
        lambda: batches.in_parts(network, inputs, shapes, most_rows=2)
    )()
    assert outputs["one"].shape == (num_rows, 6)
    assert outputs.pop("whole").shape == (num_rows, 1)
    is_token = inputs["input_mask"].numpy() == 1
    expected = network(inputs)
    for name, values in outputs.items():
        assert (values.numpy() == expected[name].numpy())[is_token].all()
    assert seen[:-1] == parts  # Each as long as its longest row.
