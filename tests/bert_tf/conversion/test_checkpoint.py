import dataclasses
import json

import numpy as np
import pytest

from bert_tf.conversion import checkpoint, formats
from bert_tf.model import models
from bert_tf.training import checksums, model_folders
from tfrecords.io import atomic_files


def labels_of(task):
    return ("a", "b", "c") if task in ("classification", "tagging") else ()


def random_checkpoint(config, task, seed=3, **settings):
    shapes = checkpoint.shapes(config, task, len(labels_of(task)))
    rng = np.random.default_rng(seed)
    return checkpoint.Checkpoint(
        source="test",
        config=config,
        task=task,
        labels=labels_of(task),
        tensors={
            name: rng.normal(size=shape).astype(np.float32)
            for name, shape in shapes.items()
        },
        **settings,
    )


def write(found, folder):
    with atomic_files.atomic_folder(str(folder)) as aside:
        checkpoint.write(found, aside)
    return checkpoint.read(str(folder))


def assert_same_tensors(found, expected):
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        np.testing.assert_array_equal(found[name], tensor, err_msg=name)


@pytest.mark.parametrize("task", models.TASK_MODELS)
@pytest.mark.parametrize("units", [0, 3])
def test_shapes_are_those_of_the_model(tiny_config, task, units):
    if units and task == "pretraining":
        pytest.skip("an LSTM is for fine-tuning")
    config = dataclasses.replace(tiny_config, bilstm_units=units)
    labels = labels_of(task)
    model = models.for_task(task, config, len(labels))
    assert checkpoint.shapes(config, task, len(labels)) == {
        name: tuple(weight.shape)
        for name, weight in model_folders.weight_names(model).items()
    }


def test_papers_of_ours_go_along_and_win_over_nothing(tmp_path, tiny_config):
    papers = {"max_seq_length": 64, "task_name": "SST-2", "task": "spans"}
    given = random_checkpoint(tiny_config, "classification", metadata=papers)
    found = write(given, tmp_path / "one")
    assert found.task == "classification"
    assert found.metadata == {"max_seq_length": 64, "task_name": "SST-2"}
    assert write(found, tmp_path / "two").metadata == found.metadata
    description = json.loads((tmp_path / "two" / "model.json").read_text())
    assert description["max_seq_length"] == 64
    assert description["task_name"] == "SST-2"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "model.json says no task.*add the task"),
        ({"task": "sorting"}, "model.json: task is 'sorting'; expected one of"),
    ],
)
def test_a_task_that_is_not_said_or_not_known_is_named(
    tmp_path, tiny_config, values, said
):
    write(random_checkpoint(tiny_config, "spans"), tmp_path / "model")
    (tmp_path / "model" / "model.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=said):
        checkpoint.read(str(tmp_path / "model"))


@pytest.mark.parametrize("task", models.TASK_MODELS)
def test_a_model_folder_gives_back_what_was_written(
    tmp_path, tiny_config, task
):
    given = random_checkpoint(
        tiny_config,
        task,
        step=7,
        vocabulary=b"[PAD]\nthe\n",
        do_lower_case=False,
    )
    found = write(given, tmp_path / "model")
    assert_same_tensors(found.tensors, given.tensors)
    for name in ("config", "task", "labels", "step", "vocabulary"):
        assert getattr(found, name) == getattr(given, name)
    assert found.do_lower_case is False


def test_slots_come_back(tmp_path, tiny_config):
    given = random_checkpoint(tiny_config, "pretraining")
    slots = {
        f"{kind}/{name}": tensor + number
        for number, kind in enumerate("mv")
        for name, tensor in given.tensors.items()
    }
    given = random_checkpoint(tiny_config, "pretraining", slots=slots, step=3)
    assert_same_tensors(write(given, tmp_path / "model").slots, slots)


def test_what_the_source_lacks_is_drawn_and_stays_missing(
    tmp_path, tiny_config
):
    whole = random_checkpoint(tiny_config, "pretraining")
    lacking = {n for n in whole.tensors if "pooler" in n or "sentence" in n}
    tensors = {n: t for n, t in whole.tensors.items() if n not in lacking}
    given = checkpoint.Checkpoint(
        source="test", config=tiny_config, task="pretraining", tensors=tensors
    )
    found = write(given, tmp_path / "model")
    assert_same_tensors(found.tensors, tensors)
    assert set(found.missing()) == lacking
    model = models.BertPretrainer(tiny_config)
    model_folders.load_weights(model, str(tmp_path / "model"))
    kernel = model.encoder.pooler.kernel.numpy()
    assert 0 < np.abs(kernel).max() <= 2 * tiny_config.initializer_range


def test_a_folder_that_is_not_what_its_papers_say_is_refused(
    tmp_path, tiny_config
):
    write(random_checkpoint(tiny_config, "regression"), tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    papers = json.loads(path.read_text())
    path.write_text(json.dumps(papers | {"task": "spans"}))
    with pytest.raises(ValueError, match=r"checkpoint only: regression/dense"):
        checkpoint.read(str(tmp_path / "model"))


def test_a_damaged_folder_of_ours_is_no_unknown_format(tmp_path, tiny_config):
    folder = tmp_path / "model"
    write(random_checkpoint(tiny_config, "regression"), folder)
    checksums.write_checksums(str(folder), {"step": 1})
    assert formats.detect(str(folder)) == "bert_tf"
    path = folder / model_folders.WEIGHTS
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="model is damaged: model.safetensors"):
        formats.detect(str(folder))


# Which weights of a model it gives.


def test_a_checkpoint_of_the_same_model_gives_all(tiny_config):
    given = random_checkpoint(tiny_config, "pretraining", unused=("step",))
    found = checkpoint.coverage(given, tiny_config, "pretraining")
    assert found.loaded == list(given.shapes())
    assert found.missing == found.other_shapes == []
    assert found.unused == ["step"]


def test_what_it_lacks_is_missing(tiny_config):
    given = random_checkpoint(tiny_config, "pretraining")
    for name in list(given.tensors):
        if not name.startswith("encoder/layer_0"):
            del given.tensors[name]
    found = checkpoint.coverage(given, tiny_config, "pretraining")
    assert len(found.loaded) == 16
    assert "encoder/embeddings/word_embeddings" in found.missing
    assert len(found.loaded) + len(found.missing) == len(given.shapes())


def test_weights_of_another_size_are_told_apart(tiny_config):
    given = random_checkpoint(tiny_config, "pretraining")
    other = dataclasses.replace(tiny_config, max_position_embeddings=512)
    found = checkpoint.coverage(given, other, "pretraining")
    assert found.other_shapes == [
        "encoder/embeddings/position_embeddings: (64, 16) there, (512, 16) in "
        "the model"
    ]
    assert found.missing == []


def test_fine_tuning_takes_the_encoder_alone(tiny_config):
    for task in ("pretraining", "classification"):
        given = random_checkpoint(tiny_config, task)
        found = checkpoint.coverage(given, tiny_config, "classification")
        assert all(name.startswith("encoder/") for name in found.loaded)
        assert found.missing == [
            "classification/dense/kernel",
            "classification/dense/bias",
        ]
    assert found.unused == []


def test_pre_training_goes_on_with_the_encoder_of_a_classifier(tiny_config):
    given = random_checkpoint(tiny_config, "classification")
    found = checkpoint.coverage(given, tiny_config, "pretraining")
    assert {name.split("/")[0] for name in found.missing} == {
        "masked_lm",
        "next_sentence",
    }
    assert found.unused == [
        "classification/dense/kernel",
        "classification/dense/bias",
    ]
