import dataclasses
import json
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoint import contents, model_folders
from bert_tf.model import models
from tfrecords.io import atomic_files


def write(found, folder):
    with atomic_files.atomic_folder(str(folder)) as aside:
        model_folders.write(found, aside)
    return model_folders.read(str(folder))


@pytest.mark.parametrize("task", models.TASK_MODELS)
def test_shapes_are_those_of_the_model(tiny_config, task):
    num_labels = 3 if task in contents.WITH_LABELS else 0
    model = models.for_task(task, tiny_config, num_labels)
    assert contents.shapes(tiny_config, task, num_labels) == {
        name: tuple(weight.shape)
        for name, weight in model_folders.weight_names(model).items()
    }


def test_metadata_is_kept_but_does_not_override_fields(
    tmp_path, make_checkpoint
):
    kept = {"max_seq_length": 64, "task_name": "SST-2"}
    given = make_checkpoint("classification", metadata=kept | {"task": "spans"})
    found = write(given, tmp_path / "one")
    assert (found.task, found.metadata) == ("classification", kept)
    assert write(found, tmp_path / "two").metadata == kept
    written = json.loads((tmp_path / "two/model.json").read_text())
    assert written.items() >= kept.items()


def test_keys_of_several_files_of_the_source_are_kept(
    tmp_path, make_checkpoint
):
    settings = {
        "config.json": {"use_cache": True},
        "bert_config.json": {"directionality": "bidi"},
    }
    given = make_checkpoint(
        "pretraining", metadata={"source_settings": settings}
    )
    path = tmp_path / "model/bert_config.json"
    assert write(given, tmp_path / "model").metadata == {
        "source_settings": settings
    }
    path.write_text(
        json.dumps(json.loads(path.read_text()) | settings[path.name])
    )
    found = model_folders.read(str(tmp_path / "model"))
    assert found.source_settings("config.json") == settings["config.json"]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("sorting", "task 'sorting'; expected one of"),
        ("spans", "checkpoint only: regression/dense"),
    ],
)
def test_another_task_than_that_of_the_weights_is_refused(
    tmp_path, make_checkpoint, task, message
):
    write(make_checkpoint("regression"), tmp_path / "model")
    path = tmp_path / "model/model.json"
    metadata = json.loads(path.read_text())
    path.write_text(json.dumps(metadata | {"task": task}))
    with pytest.raises(ValueError, match=message):
        model_folders.read(str(tmp_path / "model"))


def test_missing_weights_are_drawn_without_touching_the_random_state(
    make_checkpoint,
):
    given = dataclasses.replace(make_checkpoint("pretraining"), tensors={})

    def draw():
        return random.random(), np.random.rand(), float(tf.random.uniform(()))

    keras.utils.set_random_seed(3)
    expected = draw()
    keras.utils.set_random_seed(3)
    model = model_folders.build_model(given)
    assert draw() == expected
    # As before, when the seed was that of the whole process.
    keras.utils.set_random_seed(12345)
    same = models.for_task("pretraining", given.config)
    for ours, theirs in zip(model.weights, same.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs, ours.path)
    other = model_folders.build_model(given, seed=7)
    assert np.abs(other.weights[0] - model.weights[0]).max() > 0


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"score_activation": "softmax"}, "is 'softmax'; it should be linear"),
        ({"source_settings": {"config.json": 3}}, "has 3 for config.json; it"),
    ],
)
def test_unknown_values_of_a_source_are_named(entry, message):
    settings = {"config.json": {"use_cache": True}}
    known = {"score_activation": "sigmoid", "source_settings": settings}
    contents.check_source(known, "model.json")
    with pytest.raises(ValueError, match=f"^model.json: .*{message}"):
        contents.check_source(entry, "model.json")
