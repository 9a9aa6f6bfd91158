"""tf-models-official restores checkpoints written here, and vice versa."""

import shutil

import numpy as np
import pytest
from parity import model_garden_outputs, outputs

from bert_tf.contrib.formats.model_garden import tf2_checkpoint
from tfrecords.io import atomic_files

TOLERANCE = 2e-5


def encoder_v2(config, **settings):
    from official.nlp.modeling import networks

    encoder = networks.BertEncoderV2(**sizes(config), **settings)
    encoder(encoder.inputs)
    return encoder


def encoder_v1(config, **settings):
    from official.nlp.modeling import networks

    return networks.BertEncoder(**sizes(config), **settings)


def sizes(config):
    return dict(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        max_sequence_length=config.max_position_embeddings,
        type_vocab_size=config.type_vocab_size,
        inner_dim=config.intermediate_size,
    )


def pretrainer_v2(encoder):
    from official.nlp.modeling import layers, models

    head = layers.ClassificationHead(
        encoder.get_config()["hidden_size"], num_classes=2, name="next_sentence"
    )
    model = models.BertPretrainerV2(encoder, classification_heads=[head])
    model(model.inputs)
    return model


def pretrainer_v1(encoder):
    from official.nlp.modeling import models

    return models.BertPretrainer(
        encoder, num_classes=2, num_token_predictions=2
    )


# Form -> (function from config to saved objects, number of weights).
FORMS = {
    "encoder, V2": (lambda c: {"encoder": encoder_v2(c)}, 39),
    "model, V2": (lambda c: {"model": encoder_v2(c)}, 39),
    "encoder, V1": (lambda c: {"encoder": encoder_v1(c)}, 39),
    "model, V1": (lambda c: {"model": encoder_v1(c)}, 39),
    "pretrainer of V2": (
        lambda c: {"model": pretrainer_v2(encoder_v2(c))},
        46,
    ),
    "pretrainer of V1": (
        lambda c: {"model": pretrainer_v2(encoder_v1(c, dict_outputs=True))},
        46,
    ),
    "checkpoint_items": (
        lambda c: pretrainer_v2(encoder_v2(c)).checkpoint_items,
        44,
    ),
    "first pretrainer": (
        lambda c: {"model": pretrainer_v1(encoder_v1(c))},
        46,
    ),
}


@pytest.fixture
def written(need, make_checkpoint, tmp_path):
    """Returns a Checkpoint with slots, and the folder it was written to."""
    need("official")
    given = make_checkpoint("pretraining", step=7)
    with atomic_files.atomic_folder(str(tmp_path / "ours")) as folder:
        tf2_checkpoint.write(given, folder)
    return given, tmp_path / "ours"


@pytest.mark.parametrize("form", FORMS)
def test_every_form_can_be_restored_and_read(written, tmp_path, form):
    import tensorflow as tf

    given, folder = written
    build, count = FORMS[form]
    objects = build(given.config)
    status = tf.train.Checkpoint(**objects).restore(
        str(folder / "bert_model.ckpt")
    )
    status.assert_existing_objects_matched()

    theirs = tmp_path / "theirs"
    tf.train.Checkpoint(**objects).save(str(theirs / "ckpt"))
    shutil.copy(folder / "bert_config.json", theirs)
    found = tf2_checkpoint.read(str(theirs))
    assert len(found.tensors) == count
    assert not found.unused
    (note,) = found.notes
    assert note.startswith("no vocab.txt")
    for name, tensor in found.tensors.items():
        np.testing.assert_array_equal(tensor, given.tensors[name], err_msg=name)

    inputs = outputs.batch(found.config, found.task)
    ours = outputs.outputs(found, inputs)
    each = outputs.differences(
        ours, model_garden_outputs.of_checkpoint(str(theirs), inputs)
    )
    assert set(each) == set(ours)
    assert np.max(list(each.values())) <= TOLERANCE


def test_their_optimizer_restores_slots_and_step(written, tmp_path):
    import tensorflow as tf
    from official.nlp import optimization

    given, folder = written
    model = pretrainer_v2(encoder_v2(given.config))
    optimizer = optimization.AdamWeightDecay(learning_rate=1e-4)
    optimizer.apply_gradients(
        [(tf.ones_like(x), x) for x in model.trainable_variables]
    )
    checkpoint = tf.train.Checkpoint(
        model=model, optimizer=optimizer, global_step=optimizer.iterations
    )
    checkpoint.restore(str(folder / "bert_model.ckpt")).expect_partial()
    assert optimizer.iterations.numpy() == 7

    checkpoint.save(str(tmp_path / "theirs" / "ckpt"))
    found = tf2_checkpoint.read(str(tmp_path / "theirs"))
    assert found.step == 7
    assert set(found.slots) == set(given.slots)
    for name, moment in given.slots.items():
        np.testing.assert_array_equal(found.slots[name], moment, err_msg=name)
