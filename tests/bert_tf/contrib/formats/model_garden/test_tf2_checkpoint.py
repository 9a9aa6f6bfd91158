import copy
import json

import numpy as np
import pytest
import tensorflow as tf
from checkpoint_folders import assert_same_bits, write

from bert_tf.checkpoint import convert
from bert_tf.checkpoint.formats import renaming
from bert_tf.contrib.formats.model_garden import tf2_checkpoint, tf2_files


@pytest.fixture
def pretrainer(make_checkpoint):
    return make_checkpoint("pretraining")


@pytest.fixture
def theirs(pretrainer):
    """The weights as nested objects like those of the Model Garden."""
    tensors = renaming.to_theirs(
        tf2_checkpoint.table(pretrainer.config, "pretraining"),
        pretrainer.tensors,
        source="test",
    )
    return tf2_files.tree(tensors)


def numbered(layers):
    """Returns layers as a Keras model names them."""
    return tf2_files.node(
        **{f"layer_with_weights-{i}": part for i, part in layers.items()}
    )


def saved(folder, **roots):
    """Writes objects and returns what is read of them."""
    tf2_files.write(roots, str(folder))
    return tf2_checkpoint.read(str(folder))


def assert_is_the_encoder_of(found, given):
    assert len(found.tensors) == 39
    assert all(name.startswith("encoder/") for name in found.tensors)
    assert_same_bits(
        found.tensors, {n: given.tensors[n] for n in found.tensors}
    )


@pytest.mark.parametrize("is_hub", [True, False])
def test_text_of_a_saved_model_is_that_of_its_assets(tmp_path, theirs, is_hub):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "vocab.txt").write_bytes(b"[PAD]\nthe\n")
    (tmp_path / "saved_model.pb").write_bytes(b"")
    roots = {"encoder": theirs.encoder}
    if is_hub:
        roots["do_lower_case"] = tf.Variable(False)
    found = saved(tmp_path / "variables", **roots)
    assert found.vocabulary == b"[PAD]\nthe\n"
    assert (found.do_lower_case, found.is_case_inferred) == (
        not is_hub,
        not is_hub,
    )
    assert ("a variable of the SavedModel" in found.notes[-1]) == is_hub
    assert not found.unused
    # A file in the folder itself counts first; another folder has no assets.
    (tmp_path / "variables" / "vocab.txt").write_bytes(b"[PAD]\n")
    again = tf2_checkpoint.read(str(tmp_path / "variables"))
    assert again.vocabulary == b"[PAD]\n"
    (tmp_path / "variables" / "vocab.txt").unlink()
    (tmp_path / "saved_model.pb").unlink()
    again = tf2_checkpoint.read(str(tmp_path / "variables"))
    assert again.vocabulary is None


def test_half_precision_is_written_as_float32(tmp_path, pretrainer):
    for name, tensor in pretrainer.tensors.items():
        pretrainer.tensors[name] = tensor.astype(np.float16)
    found = tf2_checkpoint.read(
        write(pretrainer, tmp_path / "garden", "model_garden")
    )
    assert {tensor.dtype for tensor in found.tensors.values()} == {
        np.dtype(np.float32)
    }
    convert.check_lossless(pretrainer, found)


@pytest.mark.parametrize("root", ["encoder", "model", "anything"])
def test_an_encoder_may_have_any_name(tmp_path, pretrainer, theirs, root):
    found = saved(tmp_path, **{root: theirs.encoder})
    assert_is_the_encoder_of(found, pretrainer)


def test_without_a_config_sizes_are_inferred_from_the_weights(
    tmp_path, theirs, tiny_config
):
    found = saved(tmp_path, encoder=theirs.encoder)
    assert found.config == tiny_config
    assert "no bert_config.json" in found.notes[0]
    assert found.do_lower_case is None


def test_numbered_layers_are_found(tmp_path, pretrainer, theirs):
    encoder = theirs.encoder
    parts = [
        encoder._embedding_layer,
        encoder._position_embedding_layer,
        encoder._type_embedding_layer,
        encoder._embedding_norm_layer,
        *(getattr(encoder._transformer_layers, str(i)) for i in range(2)),
        encoder._pooler_layer,
    ]
    found = saved(tmp_path, model=numbered(dict(enumerate(parts))))
    assert_is_the_encoder_of(found, pretrainer)


def test_numbered_layers_with_a_gap_are_not_an_encoder(tmp_path, theirs):
    layer = getattr(theirs.encoder._transformer_layers, "0")
    model = numbered(dict.fromkeys((0, 1, 2, 3, 4, 5, 7), layer))
    with pytest.raises(ValueError, match="contains no BERT encoder"):
        saved(tmp_path, model=model)


@pytest.mark.parametrize("name", ["iter", "_iterations"])
def test_the_step_of_either_keras_optimizer_is_read(tmp_path, theirs, name):
    counter = tf2_files.node(**{name: tf.Variable(7, dtype=tf.int64)})
    found = saved(tmp_path, encoder=theirs.encoder, optimizer=counter)
    assert found.step == 7


def test_the_pooler_of_the_next_sentence_head_is_read(
    tmp_path, pretrainer, theirs
):
    pooler = theirs.encoder._pooler_layer
    theirs.next_sentence.dense = tf2_files.node(
        kernel=tf.Variable(pooler.kernel + 1), bias=tf.Variable(pooler.bias)
    )
    model = tf2_files.node(
        encoder_network=theirs.encoder,
        masked_lm=theirs.masked_lm,
        classification_heads=tf2_files.node(**{"0": theirs.next_sentence}),
    )
    found = saved(tmp_path, model=model)
    pretrainer.tensors["encoder/pooler/kernel"] += 1
    assert_same_bits(found.tensors, pretrainer.tensors)
    assert found.unused == (
        "model/encoder_network/_pooler_layer/bias/.ATTRIBUTES/VARIABLE_VALUE",
        "model/encoder_network/_pooler_layer/kernel/.ATTRIBUTES/VARIABLE_VALUE",
    )
    assert "pooler is that of the next-sentence head" in found.notes[1]
    assert not any("classifier" in note for note in found.notes)


def test_unused_tensors_are_listed(tmp_path, theirs):
    extra = tf2_files.node(kernel=tf.Variable([1.0]))
    found = saved(
        tmp_path, encoder=theirs.encoder, head=extra, step=tf.Variable(1)
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
def test_the_head_of_a_fine_tuned_model_is_noted(tmp_path, theirs, parts):
    def dense():
        return tf2_files.node(
            kernel=tf.Variable([1.0]), bias=tf.Variable([0.0])
        )

    head = tf2_files.node(**{x: dense() for x in parts}) if parts else dense()
    found = saved(tmp_path, model=numbered({0: theirs.encoder, 1: head}))
    count = 2 * max(len(parts), 1)
    assert len(found.unused) == count
    (note,) = [x for x in found.notes if "unused" in x]
    assert note.startswith(
        f"{count} unused tensors, such as {found.unused[-1]}"
    )
    assert "look like the head of a classifier or span labeler" in note


def test_only_known_extra_config_keys_are_ignored(tmp_path, pretrainer):
    folder = write(pretrainer, tmp_path / "garden", "model_garden")
    path = tmp_path / "garden/bert_config.json"
    more = {"embedding_size": None, "backward_compatible": True}
    path.write_text(json.dumps(json.loads(path.read_text()) | more))
    assert tf2_checkpoint.read(folder).config == pretrainer.config


def test_a_model_that_is_not_bert_is_refused(tmp_path, theirs):
    other = tf2_files.node(kernel=tf.Variable([1.0]))
    with pytest.raises(ValueError, match=r"(?s)contains no BERT.*model/kernel"):
        saved(tmp_path, model=other)
    both = theirs.encoder, copy.deepcopy(theirs.encoder)
    with pytest.raises(ValueError, match="2 encoders: .*generator"):
        saved(tmp_path, generator=both[0], discriminator=both[1])
