import dataclasses
import weakref

import keras
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

import bert_tf
from bert_tf.checkpoint import checksums, contents, model_folders, tensor_files
from bert_tf.checkpoint.checkpoint import Checkpoint
from tfrecords.io import atomic_files


@pytest.fixture
def model(tiny_config):
    return bert_tf.BertClassifier(tiny_config, num_classes=2)


def save(model, folder, task="classification", **metadata):
    with atomic_files.atomic_folder(str(folder)) as aside:
        metadata = {"task": task} | metadata
        model_folders.save_model(aside, model, metadata=metadata)


@pytest.mark.parametrize(
    "content", [None, "{}", '{"labels": ["a"]}', '{"task": null}']
)
def test_metadata_without_a_task_raises(tmp_path, content):
    path = tmp_path / "model.json"
    if content:
        path.write_text(content)
    with pytest.raises(ValueError, match=f"{path} has no task.*add the task"):
        model_folders.read_metadata(str(tmp_path))
    path.write_text('{"task": "spans", "more": 1}')
    metadata = model_folders.read_metadata(str(tmp_path))
    assert metadata == {"task": "spans", "more": 1}


def test_weights_not_in_source_keep_initial_values(tmp_path, tiny_config):
    saved = bert_tf.BertPretrainer(tiny_config)
    missing = ["encoder/pooler/kernel", "next_sentence/dense/kernel"]
    save(saved, tmp_path / "model", "pretraining", untrained=missing)
    keras.utils.set_random_seed(99)
    model = bert_tf.BertPretrainer(tiny_config)
    classifier = bert_tf.BertClassifier(tiny_config, num_classes=2)
    weights = model_folders.weight_names(model)
    initial = {name: weights[name].numpy() for name in missing}
    pooler = classifier.encoder.pooler.kernel.numpy()
    Checkpoint.open(str(tmp_path / "model")).assign_to(model)
    Checkpoint.open(str(tmp_path / "model")).assign_to(classifier.encoder)
    np.testing.assert_array_equal(classifier.encoder.pooler.kernel, pooler)
    for name, weight in model_folders.weight_names(saved).items():
        expected = initial.get(name, weight.numpy())
        np.testing.assert_array_equal(weights[name], expected, err_msg=name)
        if name in initial and "kernel" in name:
            assert not np.array_equal(weight.numpy(), expected)


def test_a_tiny_change_changes_the_digest(model):
    before = model_folders.digest(model)
    bias = model.head.dense.bias
    bias.assign(bias.numpy() + np.array([0, 1e-30], np.float32))
    assert model_folders.digest(model) != before


def test_files_equal_those_of_the_safetensors_package(tmp_path):
    rng = np.random.default_rng(0)
    tensors = {
        name: rng.normal(size=shape).astype(np.float32)
        for name, shape in {
            "z/kernel": (3, 5),
            "a/bias": (7,),
            "größe": (),
            "nothing": (0, 4),
        }.items()
    }
    path = str(tmp_path / "a")
    tensor_files.write_tensors(tensors, path)
    with open(path, "rb") as file:
        assert file.read() == safetensors.numpy.save(tensors)
    tensor_files.write_tensors({}, path)
    assert not tensor_files.TensorFile(path)


def test_tensors_of_every_type_survive_writing_and_reading(tmp_path):
    tensors = {
        kind: np.arange(15).reshape(5, 3).astype(kind)
        for kind in tensor_files._TYPES
        if kind != "bfloat16"
    }
    tensors["bfloat16"] = np.arange(3).astype(ml_dtypes.bfloat16)
    tensors["transposed"] = np.arange(6, dtype=np.float32).reshape(2, 3).T
    tensors["big-endian"] = np.arange(3, dtype=">i4")
    variables = {
        "tf": tf.Variable([1.0, 2.0], dtype=tf.float16),
        "keras": keras.Variable([[3, 4]], dtype="int64"),
        "scalar": tf.Variable(5, dtype=tf.int32),
    }
    path = str(tmp_path / "a")
    tensor_files.write_tensors(tensors | variables, path)
    read = tensor_files.TensorFile(path)
    expected = tensors | {n: x.numpy() for n, x in variables.items()}
    assert sorted(read) == sorted(expected)
    for name, tensor in expected.items():
        np.testing.assert_array_equal(read[name], tensor, err_msg=name)
        assert read[name].dtype == tensor.dtype.newbyteorder("="), name


def test_a_type_that_the_format_lacks_raises(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(ValueError, match="x is complex64, .*cannot store"):
        tensor_files.write_tensors({"x": np.zeros(2, np.complex64)}, str(path))
    assert not path.exists()


def test_variables_are_copied_one_at_a_time(tmp_path):
    copies = []

    class Variable:
        dtype, shape = "float32", (1000,)

        def numpy(self):
            # The copy of the previous variable may still exist.
            assert sum(copy() is not None for copy in copies) <= 1
            array = np.ones(self.shape, np.float32)
            copies.append(weakref.ref(array))
            return array

    variables = {str(i): Variable() for i in range(8)}
    tensor_files.write_tensors(variables, str(tmp_path / "a"))
    assert len(copies) == 8
    assert len(tensor_files.TensorFile(str(tmp_path / "a"))) == 8


def test_loading_changed_weights_raises(tmp_path, model):
    folder = tmp_path / "model"
    save(model, folder)
    checksums.write_checksums(str(folder), {"step": 1})
    path = folder / model_folders.WEIGHTS
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    before = model_folders.digest(model)
    given = Checkpoint.of(model_folders.read(str(folder)))
    message = f"^{folder} is damaged: model.safetensors has been changed"
    for part in (model, model.encoder):
        with pytest.raises(ValueError, match=message):
            given.assign_to(part)
    assert model_folders.digest(model) == before
    # A folder without checksums is read without checks.
    (folder / checksums.STATE).unlink()
    Checkpoint.open(str(folder)).assign_to(model)
    assert model_folders.digest(model) != before


def test_build_encoder_accepts_a_folder_of_any_task(
    tiny_config, make_batch, tmp_path
):
    model = bert_tf.BertRegressor(tiny_config)
    save(model, tmp_path / "model", "regression")
    encoder = Checkpoint.open(str(tmp_path / "model")).encoder()
    batch = make_batch(tiny_config)
    actual = encoder(batch).sequence_output
    expected = model.encoder(batch).sequence_output
    np.testing.assert_allclose(actual, expected, atol=1e-6)


POOLER = (contents.POOLER,)
UNTRAINED = {"untrained": list(POOLER)}


def test_only_pretraining_with_pairs_trains_the_pooler(tiny_config):
    def find(task, is_causal=False, **metadata):
        config = dataclasses.replace(tiny_config, is_causal=is_causal)
        return contents.read_untrained({"task": task} | metadata, config)

    assert find("pretraining") == ()
    assert find("pretraining", pairs="sentence_order") == ()
    assert find("pretraining", pairs="none") == POOLER
    assert find("pretraining", is_causal=True) == POOLER
    # Fine-tuning trains it, even if pre-training did not.
    assert find("classification", is_causal=True) == ()
    assert find("regression", untrained=["a"]) == ("a",)


def test_tagging_and_spans_do_not_train_the_pooler(tiny_config):
    def source(task, lacking=(), **metadata):
        tensors = dict.fromkeys(contents.shapes(tiny_config, task))
        for name in lacking:
            del tensors[name]
        return Checkpoint(
            source="bert_tf somewhere",
            config=tiny_config,
            task=task,
            tensors=tensors,
            metadata=metadata,
        )

    def metadata(task, source, **sizes):
        config = dataclasses.replace(tiny_config, **sizes)
        return contents.untrained_pooler(task, config, source)

    for task in ("tagging", "spans"):
        assert metadata(task, None) == UNTRAINED
        assert metadata(task, source("pretraining")) == {}
        assert metadata(task, source("classification")) == {}
        no_pairs = source("pretraining", pairs="none")
        assert metadata(task, no_pairs) == UNTRAINED
        assert metadata(task, source("spans", **UNTRAINED)) == UNTRAINED
        no_pooler = source("tagging", ["encoder/pooler/kernel"])
        assert metadata(task, no_pooler) == UNTRAINED
    for task in ("classification", "regression", "multiple_choice"):
        assert metadata(task, None) == {}
        assert metadata(task, no_pairs) == {}
        pooling = metadata(task, no_pairs, classifier_pooling="mean")
        assert pooling == UNTRAINED
