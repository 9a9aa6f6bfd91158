import dataclasses
import weakref

import keras
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

import bert_tf
from bert_tf.training import checksums, model_folders
from tfrecords.io import atomic_files


@pytest.fixture
def model(tiny_config):
    return bert_tf.BertClassifier(tiny_config, num_classes=2)


def save(model, folder, **settings):
    with atomic_files.atomic_folder(str(folder)) as aside:
        model_folders.save_model(aside, model, metadata={}, **settings)


@pytest.mark.parametrize(
    "content", [None, "{}", '{"labels": ["a"]}', '{"task": null}', "[]"]
)
def test_papers_without_a_task_are_named(tmp_path, content):
    path = tmp_path / "model.json"
    if content:
        path.write_text(content)
    with pytest.raises(ValueError, match=f"{path} says no task.*add the task"):
        model_folders.read_metadata(str(tmp_path))
    path.write_text('{"task": "spans", "more": 1}')
    found = model_folders.read_metadata(str(tmp_path))
    assert found == {"task": "spans", "more": 1}


def test_a_model_folder_holds_all_that_export_needs(
    tmp_path, model, tiny_vocab_file
):
    save(model, tmp_path / "model", vocab_file=tiny_vocab_file)
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "bert_config.json",
        "model.json",
        "model.safetensors",
        "vocab.txt",
    ]


def test_weights_come_back(tmp_path, model, tiny_config):
    save(model, tmp_path / "model")
    other = bert_tf.BertClassifier(tiny_config, num_classes=2)
    model_folders.load_weights(other, str(tmp_path / "model"))
    assert model_folders.digest(other) == model_folders.digest(model)


def test_an_encoder_goes_from_one_task_to_another(tmp_path, tiny_config):
    pretrainer = bert_tf.BertPretrainer(tiny_config)
    with atomic_files.atomic_folder(str(tmp_path / "model")) as folder:
        model_folders.save_model(folder, pretrainer, metadata={})
    classifier = bert_tf.BertClassifier(tiny_config, num_classes=2)
    head = classifier.head.dense.kernel.numpy()
    model_folders.load_encoder(classifier, str(tmp_path / "model"))
    assert model_folders.digest(classifier.encoder) == model_folders.digest(
        pretrainer.encoder
    )
    np.testing.assert_array_equal(classifier.head.dense.kernel.numpy(), head)


def test_what_a_source_lacked_keeps_its_first_values(tmp_path, tiny_config):
    given = bert_tf.BertPretrainer(tiny_config)
    absent = ["encoder/pooler/kernel", "next_sentence/dense/kernel"]
    with atomic_files.atomic_folder(str(tmp_path / "model")) as folder:
        model_folders.save_model(
            folder, given, metadata={"not_in_source": absent}
        )
    keras.utils.set_random_seed(99)
    model = bert_tf.BertPretrainer(tiny_config)
    classifier = bert_tf.BertClassifier(tiny_config, num_classes=2)
    weights = model_folders.weight_names(model)
    first = {name: weights[name].numpy() for name in absent}
    pooler = classifier.encoder.pooler.kernel.numpy()
    model_folders.load_weights(model, str(tmp_path / "model"))
    model_folders.load_encoder(classifier, str(tmp_path / "model"))
    np.testing.assert_array_equal(classifier.encoder.pooler.kernel, pooler)
    for name, weight in model_folders.weight_names(given).items():
        expected = first.get(name, weight.numpy())
        np.testing.assert_array_equal(weights[name], expected, err_msg=name)
        if name in first and "kernel" in name:
            assert not np.array_equal(weight.numpy(), expected)


def test_the_digest_sees_one_changed_bit(model):
    before = model_folders.digest(model)
    bias = model.head.dense.bias
    bias.assign(bias.numpy() + np.array([0, 1e-30], np.float32))
    assert model_folders.digest(model) != before


def test_tensors_are_written_as_the_library_does(tmp_path):
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
    model_folders.write_tensors(tensors, path)
    with open(path, "rb") as file:
        assert file.read() == safetensors.numpy.save(tensors)
    model_folders.write_tensors({}, path)
    assert model_folders.read_tensors(path) == {}


def test_tensors_of_every_type_come_back(tmp_path):
    tensors = {
        kind: np.arange(15).reshape(5, 3).astype(kind)
        for kind in model_folders._TYPES
        if kind != "bfloat16"
    }
    tensors["bfloat16"] = np.arange(3).astype(ml_dtypes.bfloat16)
    tensors["turned"] = np.arange(6, dtype=np.float32).reshape(2, 3).T
    tensors["big end first"] = np.arange(3, dtype=">i4")
    variables = {
        "tf": tf.Variable([1.0, 2.0], dtype=tf.float16),
        "keras": keras.Variable([[3, 4]], dtype="int64"),
        "scalar": tf.Variable(5, dtype=tf.int32),
    }
    path = str(tmp_path / "a")
    model_folders.write_tensors(tensors | variables, path)
    found = model_folders.read_tensors(path)
    expected = tensors | {n: x.numpy() for n, x in variables.items()}
    assert sorted(found) == sorted(expected)
    for name, tensor in expected.items():
        np.testing.assert_array_equal(found[name], tensor, err_msg=name)
        assert found[name].dtype == tensor.dtype.newbyteorder("="), name


def test_a_type_that_the_format_lacks_is_named(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(ValueError, match="x is complex64, which .*cannot hold"):
        model_folders.write_tensors({"x": np.zeros(2, np.complex64)}, str(path))
    assert not path.exists()


def test_one_tensor_at_a_time_is_copied(tmp_path):
    copies = []

    class Variable:
        dtype, shape = "float32", (1000,)

        def numpy(self):
            # One may be left of the round before, while it is written.
            assert sum(copy() is not None for copy in copies) <= 1
            array = np.ones(self.shape, np.float32)
            copies.append(weakref.ref(array))
            return array

    variables = {str(i): Variable() for i in range(8)}
    model_folders.write_tensors(variables, str(tmp_path / "a"))
    assert len(copies) == 8
    assert len(model_folders.read_tensors(str(tmp_path / "a"))) == 8


def test_changed_weights_are_named_by_who_reads_them(tmp_path, model):
    folder = tmp_path / "model"
    with atomic_files.atomic_folder(str(folder)) as aside:
        model_folders.save_model(aside, model, metadata={})
        checksums.write_checksums(aside, {"step": 1})
    path = folder / model_folders.WEIGHTS
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    before = model_folders.digest(model)
    for load in (model_folders.load_weights, model_folders.load_encoder):
        with pytest.raises(ValueError) as raised:
            load(model, str(folder))
        assert str(raised.value).startswith(
            f"{folder} is damaged: model.safetensors has been changed"
        )
    assert model_folders.digest(model) == before
    # A folder that nobody has sealed is read as it is.
    (folder / checksums.STATE).unlink()
    model_folders.load_weights(model, str(folder))
    assert model_folders.digest(model) != before


def test_an_encoder_is_built_from_a_folder_of_any_task(
    tiny_config, make_batch, tmp_path
):
    model = bert_tf.BertRegressor(tiny_config)
    save(model, tmp_path / "model")
    encoder = model_folders.build_encoder(str(tmp_path / "model"))
    batch = make_batch(tiny_config)
    found = encoder(batch).sequence_output
    expected = model.encoder(batch).sequence_output
    np.testing.assert_allclose(found, expected, atol=1e-6)


POOLER = (model_folders.POOLER,)
UNTRAINED = {"untrained": list(POOLER)}


def test_only_pairs_train_the_pooler_of_a_pretraining(tiny_config):
    def find(task, is_causal=False, **metadata):
        config = dataclasses.replace(tiny_config, is_causal=is_causal)
        return model_folders.find_newly_initialized(
            {"task": task} | metadata, config
        )

    assert find("pretraining") == ()
    assert find("pretraining", pairs="sentence_order") == ()
    assert find("pretraining", pairs="none") == POOLER
    assert find("pretraining", is_causal=True) == POOLER
    # Fine-tuning trains it, whatever the encoder was pre-trained on.
    assert find("classification", is_causal=True) == ()
    assert find("regression", not_in_source=["a"]) == ("a",)
    assert find("tagging", not_in_source=["a"], **UNTRAINED) == ("a", *POOLER)


@pytest.fixture
def folder_of(tmp_path, tiny_config):
    """Metadata -> a folder with all of a model but its weights."""

    def write(**metadata):
        path = tmp_path / "bert_config.json"
        tiny_config.to_json_file(path)
        atomic_files.write_json(
            str(tmp_path / model_folders.METADATA), metadata
        )
        return str(tmp_path)

    return write


def test_tags_and_answers_leave_the_pooler_as_it_was(folder_of, tiny_config):
    def after(task, source, **sizes):
        config = dataclasses.replace(tiny_config, **sizes)
        return model_folders.newly_initialized_metadata(task, config, source)

    for task in ("tagging", "spans"):
        assert after(task, None) == UNTRAINED
        assert after(task, folder_of(task="pretraining")) == {}
        assert after(task, folder_of(task="classification")) == {}
        alone = folder_of(task="pretraining", pairs="none")
        assert after(task, alone) == UNTRAINED
        assert after(task, folder_of(task="spans", **UNTRAINED)) == UNTRAINED
        lacking = folder_of(
            task="tagging", not_in_source=["encoder/pooler/kernel"]
        )
        assert after(task, lacking) == UNTRAINED
    for task in ("classification", "regression", "multiple_choice"):
        assert after(task, None) == {}
        assert after(task, alone) == {}
        assert after(task, alone, bilstm_units=4) == UNTRAINED
