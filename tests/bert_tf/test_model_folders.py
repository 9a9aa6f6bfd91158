import keras
import numpy as np
import pytest

import bert_tf
from bert_tf import model_folders
from tfrecords import whole_files


@pytest.fixture
def model(tiny_config):
    return bert_tf.BertClassifier(tiny_config, num_classes=2)


def save(model, folder, **settings):
    with whole_files.whole_folder(str(folder)) as aside:
        model_folders.save_model(aside, model, description={}, **settings)


@pytest.mark.parametrize(
    "content", [None, "{}", '{"labels": ["a"]}', '{"task": null}', "[]"]
)
def test_papers_without_a_task_are_named(tmp_path, content):
    path = tmp_path / "model.json"
    if content:
        path.write_text(content)
    with pytest.raises(ValueError, match=f"{path} says no task.*add the task"):
        model_folders.read_description(str(tmp_path))
    path.write_text('{"task": "spans", "more": 1}')
    found = model_folders.read_description(str(tmp_path))
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
    with whole_files.whole_folder(str(tmp_path / "model")) as folder:
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


def test_what_a_source_lacked_keeps_its_first_values(tmp_path, tiny_config):
    given = bert_tf.BertPretrainer(tiny_config)
    absent = ["encoder/pooler/kernel", "next_sentence/dense/kernel"]
    with whole_files.whole_folder(str(tmp_path / "model")) as folder:
        model_folders.save_model(
            folder, given, description={"not_in_source": absent}
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
    bias = model.classification.dense.bias
    bias.assign(bias.numpy() + np.array([0, 1e-30], np.float32))
    assert model_folders.digest(model) != before
