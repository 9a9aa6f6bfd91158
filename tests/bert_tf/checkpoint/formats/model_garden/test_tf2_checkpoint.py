import dataclasses
import json
import os

import numpy as np
import pytest
import tensorflow as tf
from checkpoint_folders import assert_same_bits, moments, write

from bert_tf.checkpoint import contents, detection, parity
from bert_tf.checkpoint.formats import renaming
from bert_tf.checkpoint.formats.google import tf_files
from bert_tf.checkpoint.formats.model_garden import tf2_checkpoint, tf2_files
from bert_tf.model import models


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


def test_the_table_has_each_name_once(tiny_config):
    rows = tf2_checkpoint.table(tiny_config, "pretraining")
    shapes = contents.shapes(tiny_config, "pretraining")
    assert sorted(row.ours for row in rows) == sorted(shapes)
    assert len({row.theirs for row in rows}) == len(rows)
    for row in rows:
        theirs = row.their_shape(shapes[row.ours])
        assert np.prod(theirs) == np.prod(shapes[row.ours])


def test_attention_heads_are_an_axis(tiny_config):
    shapes = {
        row.theirs: row.shape
        for row in tf2_checkpoint.table(tiny_config, "pretraining")
    }
    attention = "encoder/_transformer_layers/1/_attention_layer"
    assert shapes[f"{attention}/_query_dense/kernel"] == (16, 2, 8)
    assert shapes[f"{attention}/_query_dense/bias"] == (2, 8)
    assert shapes[f"{attention}/_output_dense/kernel"] == (2, 8, 16)
    assert shapes[f"{attention}/_output_dense/bias"] is None


@pytest.mark.parametrize(
    "lacking",
    [(), ("next_sentence",), ("masked_lm", "next_sentence"), ("encoder/pool",)],
)
def test_a_round_trip_keeps_every_field(tmp_path, make_checkpoint, lacking):
    given = make_checkpoint(
        "pretraining", lacking, vocabulary=b"[PAD]\nthe\nThe\n", step=7
    )
    folder = write(given, tmp_path / "garden", "model_garden")
    assert detection.detect(folder) == "model_garden"
    found = tf2_checkpoint.read(folder)
    assert_same_bits(found.tensors, given.tensors)
    assert found.missing() == given.missing()
    assert (found.config, found.vocabulary) == (given.config, given.vocabulary)
    assert (found.step, found.do_lower_case) == (7, False)
    assert not found.unused and not found.slots
    assert len(found.notes) == 1 and "is inferred" in found.notes[0]


def test_slots_are_kept(tmp_path, make_checkpoint, pretrainer):
    slots = moments(pretrainer)
    given = make_checkpoint("pretraining", slots=slots, step=3)
    found = tf2_checkpoint.read(
        write(given, tmp_path / "garden", "model_garden")
    )
    assert_same_bits(found.slots, slots)
    lines = parity.check_lossless(given, found)
    assert lines[0] == "read back: 138 tensors equal bit for bit"


def test_slots_of_a_pooler_without_a_head_are_kept(tmp_path, make_checkpoint):
    given = make_checkpoint("pretraining", ("next_sentence",))
    given = make_checkpoint(
        "pretraining", ("next_sentence",), slots=moments(given)
    )
    found = tf2_checkpoint.read(
        write(given, tmp_path / "garden", "model_garden")
    )
    assert_same_bits(found.slots, given.slots)


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


def test_every_mismatch_is_listed(tmp_path, pretrainer):
    folder = write(pretrainer, tmp_path / "garden", "model_garden")
    path = os.path.join(folder, "bert_config.json")
    with open(path) as file:
        values = json.load(file)
    with open(path, "w") as file:
        json.dump(values | {"num_attention_heads": 4, "vocab_size": 5}, file)
    with pytest.raises(ValueError) as raised:
        tf2_checkpoint.read(folder)
    message = str(raised.value)
    assert f"model_garden {folder}" in message
    assert "_embedding_layer/embeddings (" in message
    query = "encoder/_transformer_layers/0/_attention_layer/_query_dense/kernel"
    assert f"{query} (16, 2, 8), expected (16, 4, 4) from the con" in message


def test_layers_beyond_the_config_are_refused(tmp_path, pretrainer):
    folder = write(pretrainer, tmp_path / "garden", "model_garden")
    path = os.path.join(folder, "bert_config.json")
    with open(path) as file:
        values = json.load(file)
    with open(path, "w") as file:
        json.dump(values | {"num_hidden_layers": 1}, file)
    with pytest.raises(ValueError) as raised:
        tf2_checkpoint.read(folder)
    message = str(raised.value)
    assert "16 tensors of the encoder are not in a BERT" in message
    assert "_transformer_layers/1/_output_dense/bias" in message
    assert "_transformer_layers/0" not in message


def test_only_known_extra_config_keys_are_ignored(tmp_path, pretrainer):
    folder = write(pretrainer, tmp_path / "garden", "model_garden")
    path = os.path.join(folder, "bert_config.json")
    with open(path) as file:
        values = json.load(file)
    more = {"embedding_size": None, "backward_compatible": True}
    with open(path, "w") as file:
        json.dump(values | more, file)
    assert tf2_checkpoint.read(folder).config == pretrainer.config
    with open(path, "w") as file:
        json.dump(values | {"norm_first": True}, file)
    with pytest.raises(ValueError, match="json has norm_first=true"):
        tf2_checkpoint.read(folder)
    with open(path, "w") as file:
        json.dump([values], file)
    with pytest.raises(ValueError, match="config.json: the content is .* obj"):
        tf2_checkpoint.read(folder)


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


def test_missing_and_damaged_files_are_named(tmp_path, pretrainer):
    folder = write(pretrainer, tmp_path / "garden", "model_garden")
    data = os.path.join(folder, "bert_model.ckpt.data-00000-of-00001")
    with open(data, "rb") as file:
        content = file.read()
    os.remove(data)
    with pytest.raises(ValueError, match=f"missing: {data}"):
        tf2_checkpoint.read(folder)
    with open(data, "wb") as file:
        file.write(content[:-1000])
    with pytest.raises(ValueError, match="bert_model.ckpt is damaged"):
        tf2_checkpoint.read(folder)


def test_one_of_several_checkpoints_has_to_be_chosen(tmp_path, pretrainer):
    encoder = their_objects(pretrainer).encoder
    for number in (1, 2):
        tf.train.Checkpoint(encoder=encoder).write(
            str(tmp_path / f"c-{number}")
        )
    with pytest.raises(ValueError, match=r"several checkpoints: c-1, c-2\."):
        tf2_checkpoint.read(str(tmp_path))
    assert tf2_checkpoint.read(str(tmp_path / "c-1")).tensors
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/x/c-2"\n')
    assert tf2_checkpoint.read(str(tmp_path)).source.endswith("c-2")
    assert not tf_files.prefixes(str(tmp_path / "c-3"), "TF2")
    with pytest.raises(ValueError, match="contains no TF2 checkpoint"):
        tf2_checkpoint.read(str(tmp_path / "c-3"))


@pytest.mark.parametrize("task", [*models.TASK_MODELS][1:])
def test_unsupported_heads_are_refused(tmp_path, make_checkpoint, task):
    with pytest.raises(ValueError, match=f"without a head for {task}"):
        tf2_checkpoint.write(make_checkpoint(task), str(tmp_path))


def test_gelu_by_erf_is_refused(tmp_path, make_checkpoint, tiny_config):
    config = dataclasses.replace(tiny_config, hidden_act="gelu_erf")
    given = make_checkpoint("pretraining", config=config)
    with pytest.raises(ValueError, match="pass --hidden_act=gelu"):
        tf2_checkpoint.write(given, str(tmp_path))
