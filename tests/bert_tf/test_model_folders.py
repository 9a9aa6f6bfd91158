import errno
import os

import numpy as np
import pytest

import bert_tf
from bert_tf import model_folders


@pytest.fixture
def model(tiny_config):
    return bert_tf.BertClassifier(tiny_config, num_classes=2)


def save(model, folder, **settings):
    with model_folders.atomic_folder(str(folder)) as aside:
        model_folders.save_model(aside, model, description={}, **settings)


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


def test_a_folder_is_replaced_as_a_whole(tmp_path, model):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old").write_text("")
    save(model, tmp_path / "model")
    assert not (tmp_path / "model" / "old").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_weights_come_back(tmp_path, model, tiny_config):
    save(model, tmp_path / "model")
    other = bert_tf.BertClassifier(tiny_config, num_classes=2)
    model_folders.load_weights(other, str(tmp_path / "model"))
    assert model_folders.digest(other) == model_folders.digest(model)


def test_an_encoder_goes_from_one_task_to_another(tmp_path, tiny_config):
    pretrainer = bert_tf.BertPretrainer(tiny_config)
    with model_folders.atomic_folder(str(tmp_path / "model")) as folder:
        model_folders.save_model(folder, pretrainer, description={})
    classifier = bert_tf.BertClassifier(tiny_config, num_classes=2)
    head = classifier.classification.dense.kernel.numpy()
    model_folders.load_encoder(classifier, str(tmp_path / "model"))
    assert model_folders.digest(classifier.encoder) == model_folders.digest(
        pretrainer.encoder
    )
    np.testing.assert_array_equal(
        classifier.classification.dense.kernel.numpy(), head
    )


def test_json_that_is_none_is_named(tmp_path):
    path = tmp_path / "state.json"
    path.write_text("{")
    with pytest.raises(ValueError, match="state.json is no JSON"):
        model_folders.read_json(str(path))


def test_the_digest_sees_one_changed_bit(model):
    before = model_folders.digest(model)
    bias = model.classification.dense.bias
    bias.assign(bias.numpy() + np.array([0, 1e-30], np.float32))
    assert model_folders.digest(model) != before


def test_a_file_that_a_full_disk_cuts_leaves_the_old_one(tmp_path):
    path = tmp_path / "results.json"
    model_folders.write_json(str(path), {"step": 1})
    with pytest.raises(OSError, match="No space left.*Make room") as raised:
        with model_folders.whole_file(str(path)) as file:
            file.write("half")
            raise OSError(errno.ENOSPC, "No space left on device")
    assert raised.value.filename == str(path)
    assert model_folders.read_json(str(path)) == {"step": 1}
    assert os.listdir(tmp_path) == ["results.json"]
