import json
import os

import numpy as np
import pytest
import tensorflow as tf
from checkpoint_folders import assert_same_bits, write

from bert_tf.checkpoint import parity
from bert_tf.checkpoint.formats import renaming
from bert_tf.checkpoint.formats.model_garden import tf2_checkpoint, tf2_files


@pytest.fixture
def pretrainer(make_checkpoint):
    return make_checkpoint("pretraining")


def their_objects(given):
    """Returns the weights as nested objects like those of the Model Garden."""
    tensors = renaming.to_theirs(
        tf2_checkpoint.table(given.config, "pretraining"),
        given.tensors,
        source="test",
    )
    return tf2_files.tree(tensors)


def save(folder, **roots):
    tf2_files.write(roots, str(folder))
    return str(folder)


def test_half_precision_is_written_as_float32(tmp_path, pretrainer):
    for name, tensor in pretrainer.tensors.items():
        pretrainer.tensors[name] = tensor.astype(np.float16)
    found = tf2_checkpoint.read(
        write(pretrainer, tmp_path / "garden", "model_garden")
    )
    assert {tensor.dtype for tensor in found.tensors.values()} == {
        np.dtype(np.float32)
    }
    parity.check_lossless(pretrainer, found)


@pytest.mark.parametrize("root", ["encoder", "model", "anything"])
def test_an_encoder_may_have_any_name(tmp_path, pretrainer, root):
    encoder = their_objects(pretrainer).encoder
    found = tf2_checkpoint.read(save(tmp_path, **{root: encoder}))
    assert len(found.tensors) == 39
    assert all(name.startswith("encoder/") for name in found.tensors)
    assert_same_bits(
        found.tensors,
        {n: pretrainer.tensors[n] for n in found.tensors},
    )


def test_without_a_config_sizes_are_inferred_from_the_weights(
    tmp_path, pretrainer, tiny_config
):
    encoder = their_objects(pretrainer).encoder
    found = tf2_checkpoint.read(save(tmp_path, encoder=encoder))
    assert found.config == tiny_config
    assert "no bert_config.json" in found.notes[0]
    assert found.do_lower_case is None


def test_numbered_layers_are_found(tmp_path, pretrainer):
    encoder = their_objects(pretrainer).encoder
    parts = [
        encoder._embedding_layer,
        encoder._position_embedding_layer,
        encoder._type_embedding_layer,
        encoder._embedding_norm_layer,
        *(getattr(encoder._transformer_layers, str(i)) for i in range(2)),
        encoder._pooler_layer,
    ]
    numbered = tf2_files.node(
        **{f"layer_with_weights-{i}": part for i, part in enumerate(parts)}
    )
    found = tf2_checkpoint.read(save(tmp_path, model=numbered))
    assert len(found.tensors) == 39
    assert_same_bits(
        found.tensors,
        {n: pretrainer.tensors[n] for n in found.tensors},
    )


def test_numbered_layers_with_a_gap_are_not_an_encoder(tmp_path, pretrainer):
    encoder = their_objects(pretrainer).encoder
    layer = getattr(encoder._transformer_layers, "0")
    numbers = (0, 1, 2, 3, 4, 5, 7)
    numbered = tf2_files.node(
        **{f"layer_with_weights-{i}": layer for i in numbers}
    )
    with pytest.raises(ValueError, match="contains no BERT encoder"):
        tf2_checkpoint.read(save(tmp_path, model=numbered))


@pytest.mark.parametrize("name", ["iter", "_iterations"])
def test_the_step_of_either_keras_optimizer_is_read(tmp_path, pretrainer, name):
    counter = tf2_files.node(**{name: tf.Variable(7, dtype=tf.int64)})
    encoder = their_objects(pretrainer).encoder
    folder = save(tmp_path, encoder=encoder, optimizer=counter)
    assert tf2_checkpoint.read(folder).step == 7


def test_the_pooler_of_the_next_sentence_head_is_read(tmp_path, pretrainer):
    tree = their_objects(pretrainer)
    pooler = tree.encoder._pooler_layer
    tree.next_sentence.dense = tf2_files.node(
        kernel=tf.Variable(pooler.kernel + 1), bias=tf.Variable(pooler.bias)
    )
    model = tf2_files.node(
        encoder_network=tree.encoder,
        masked_lm=tree.masked_lm,
        classification_heads=tf2_files.node(**{"0": tree.next_sentence}),
    )
    found = tf2_checkpoint.read(save(tmp_path, model=model))
    tensors = dict(found.tensors)
    kernel = tensors.pop("encoder/pooler/kernel")
    np.testing.assert_array_equal(
        kernel, pretrainer.tensors.pop("encoder/pooler/kernel") + 1
    )
    assert_same_bits(tensors, pretrainer.tensors)
    assert found.unused == (
        "model/encoder_network/_pooler_layer/bias/.ATTRIBUTES/VARIABLE_VALUE",
        "model/encoder_network/_pooler_layer/kernel/.ATTRIBUTES/VARIABLE_VALUE",
    )
    assert "pooler is that of the next-sentence head" in found.notes[1]
    assert not any("classifier" in note for note in found.notes)


def test_unused_tensors_are_listed(tmp_path, pretrainer):
    tree = their_objects(pretrainer)
    extra = tf2_files.node(kernel=tf.Variable([1.0]))
    found = tf2_checkpoint.read(
        save(tmp_path, encoder=tree.encoder, head=extra, step=tf.Variable(1))
    )
    assert found.unused == (
        "head/kernel/.ATTRIBUTES/VARIABLE_VALUE",
        "step/.ATTRIBUTES/VARIABLE_VALUE",
    )


@pytest.mark.parametrize(
    "parts",
    [
        ("out_proj",),  # BertClassifier
        ("dense", "out_proj"),  # with use_encoder_pooler=False
        ("layer_with_weights-0",),  # BertSpanLabeler
        (),  # BertTokenClassifier
    ],
)
def test_the_head_of_a_fine_tuned_model_is_noted(tmp_path, pretrainer, parts):
    def dense():
        return tf2_files.node(
            kernel=tf.Variable([1.0]), bias=tf.Variable([0.0])
        )

    head = tf2_files.node(**{x: dense() for x in parts}) if parts else dense()
    model = tf2_files.node(
        **{
            "layer_with_weights-0": their_objects(pretrainer).encoder,
            "layer_with_weights-1": head,
        }
    )
    found = tf2_checkpoint.read(save(tmp_path, model=model))
    count = 2 * max(len(parts), 1)
    assert len(found.unused) == count
    (note,) = [x for x in found.notes if "unused" in x]
    assert note.startswith(
        f"{count} unused tensors, such as {found.unused[-1]}"
    )
    assert "look like the head of a classifier or span labeler" in note


def test_only_known_extra_config_keys_are_ignored(tmp_path, pretrainer):
    folder = write(pretrainer, tmp_path / "garden", "model_garden")
    path = os.path.join(folder, "bert_config.json")
    with open(path) as file:
        values = json.load(file)
    more = {"embedding_size": None, "backward_compatible": True}
    with open(path, "w") as file:
        json.dump(values | more, file)
    assert tf2_checkpoint.read(folder).config == pretrainer.config


def test_a_model_that_is_not_bert_is_refused(tmp_path, pretrainer):
    other = tf2_files.node(kernel=tf.Variable([1.0]))
    folder = save(tmp_path, model=other)
    with pytest.raises(ValueError, match=r"(?s)contains no BERT.*model/kernel"):
        tf2_checkpoint.read(folder)
    both = {
        name: their_objects(pretrainer).encoder
        for name in ("generator", "discriminator")
    }
    folder = save(tmp_path, **both)
    with pytest.raises(ValueError, match="2 encoders: .*generator"):
        tf2_checkpoint.read(folder)
