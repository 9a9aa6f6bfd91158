"""load and save: every format, tasks and heads, labels, bad folders."""

import copy
import dataclasses
import functools
import json
import logging
import pathlib
import pickle
import shutil

import checkpoint_folders
import exports
import folder_store
import keras
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

import bert_tf
from bert_tf.checkpoint import (
    contents,
    keras_models,
    model_folders,
)
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.model.sentence_embedding import Dense, Normalize, SentenceEmbedding
from bert_tf.workflows import conversion
from tfrecords.io import storage, stored_folders
from tfrecords.text import tokenizer as tokenizer_lib

POOLER = ["encoder/pooler/kernel", "encoder/pooler/bias"]


model_of = functools.cache(exports.make_model)  # For tests that only save it.


def save(task, folder, **more):
    """Writes a model folder of a task and returns its path."""
    if task not in contents.WITH_LABELS:
        more = {"labels": None} | more
    exports.save_model(model_of(task), task, folder, **more)
    return folder


def given_of(task, folder):
    """Writes a model folder and returns it as a Checkpoint."""
    return model_folders.read(str(save(task, folder)))


def written(task, folder, name, **changes):
    """Writes a model of a task in another format and returns its folder."""
    given = dataclasses.replace(given_of(task, folder / "ours"), **changes)
    return checkpoint_folders.write(given, folder / name, name)


def tensors_of(model):
    weights = model_folders.weight_names(model)
    return {name: weight.numpy() for name, weight in weights.items()}


@pytest.fixture
def classifier(tmp_path):
    """Folder of a classifier with the labels of `exports`."""
    return str(save("classification", tmp_path / "classifier"))


@pytest.fixture
def sentence_bert(tmp_path):
    """Folder with pooling by max, a dense layer and vectors of length 1."""
    given = checkpoint_folders.pretraining(
        given_of("pretraining", tmp_path / "ours")
    )
    kernel = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)
    steps = (Dense(kernel, kernel[0], "tanh"), Normalize())
    given = dataclasses.replace(
        given,
        sentence_embedding=SentenceEmbedding(("max",), steps),
        metadata={"max_seq_length": 7} | exports.PROMPTS,
    )
    return checkpoint_folders.write(given, tmp_path / "st", "hugging_face")


def test_the_bert_of_sentence_transformers_has_new_heads(sentence_bert, caplog):
    with caplog.at_level(logging.WARNING, logger="absl"):
        model, tokenizer = bert_tf.load(sentence_bert)
    assert type(model) is bert_tf.BertPretrainer
    assert tokenizer.kept_tokens == ("[MASK]",)
    assert {n.split("/")[0] for n in model.untrained} == {
        "masked_lm",
        "next_sentence",
    }
    (line,) = [x for x in caplog.messages if x.startswith("loaded ")]
    assert "newly initialized masked_lm, masked_lm/norm" in line


def vectors_of(model, text, length, embedding):
    """Vectors by the encoder and an embedding, with [CLS] and [SEP]."""
    preprocess = bert_tf.TextPreprocessor(
        exports.VOCAB_FILE, max_seq_length=length
    )
    batch = preprocess([text])
    hidden = model.encoder(batch).sequence_output
    return embedding(hidden, batch["input_mask"]).numpy()[0]


@pytest.mark.usefixtures("eagerly")
def test_its_vectors_are_those_of_its_modules_unless_flags_say_otherwise(
    sentence_bert, tmp_path
):
    text = "the cat sat on the warm stone"
    model, _ = bert_tf.load(sentence_bert)
    predictor = bert_tf.Predictor(sentence_bert)
    own = model.sentence_embedding
    expected = vectors_of(model, "the " + text, 7, own)
    np.testing.assert_allclose(predictor(text), expected, **exports.ROUNDING)
    settings = {"pooling": "cls", "max_seq_length": 9, "prompt_name": ""}
    given = bert_tf.Predictor(model, **settings)
    expected = vectors_of(
        model, text, 9, dataclasses.replace(own, pooling=("cls",))
    )
    np.testing.assert_allclose(given(text), expected, **exports.ROUNDING)
    with pytest.raises(ValueError, match="of 16 inputs after 32 numbers"):
        bert_tf.Predictor(model, layers=["-1", "-1"])
    bert_tf.save(model.encoder, tmp_path / "encoder")
    again = bert_tf.Predictor(tmp_path / "encoder")
    np.testing.assert_array_equal(again(text), predictor(text))
    assert again.max_seq_length == 7 and again.answers.prompt == "the "


def test_a_dense_layer_that_model_json_does_not_name_is_an_error(
    sentence_bert, tmp_path
):
    model, _ = bert_tf.load(sentence_bert)
    folder = tmp_path / "saved"
    bert_tf.save(model, folder)
    metadata = json.loads((folder / "model.json").read_text())
    del metadata["sentence_embedding"]
    (folder / "model.json").write_text(json.dumps(metadata))
    message = "in the checkpoint only: sentence_embedding/0/bias"
    with pytest.raises(ValueError, match=message):
        bert_tf.load(folder)


def test_a_dense_layer_with_nan_is_refused(sentence_bert, tmp_path):
    given = Checkpoint.open(sentence_bert)
    given.sentence_embedding.steps[0].kernel[0, 0] = np.nan
    given.save(tmp_path / "nan")
    with pytest.raises(ValueError, match="model.safetensors: 1 of .* NaN or"):
        Checkpoint.open(tmp_path / "nan")


def test_a_new_head_does_not_keep_its_modules(sentence_bert, caplog):
    with caplog.at_level(logging.WARNING, logger="absl"):
        model, _ = bert_tf.load(sentence_bert, task="regression")
    assert model.sentence_embedding is None
    assert not model.metadata.keys() & exports.PROMPTS.keys()
    assert (
        "its sentence embedding (max, Dense, Normalize) is not kept under a"
        in caplog.text
    )


def through_a_file(model, folder):
    model.save(folder / "model.keras")
    return keras.models.load_model(folder / "model.keras")


def through_a_folder(model, folder):
    model.save(folder / "model", zipped=False)
    return keras.models.load_model(folder / "model")


def through_weights(model, folder):
    again = type(model).from_config(model.get_config())
    model.save_weights(folder / "model.weights.h5")
    again.load_weights(folder / "model.weights.h5")
    return again


def clone(model, _):
    again = keras.models.clone_model(model)
    again.set_weights(model.get_weights())
    return again


COPIES = {
    "a .keras file": through_a_file,
    "a folder of Keras": through_a_folder,
    "a .weights.h5 file": through_weights,
    "copy.deepcopy": lambda model, _: copy.deepcopy(model),
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
    "clone_model": clone,
}


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("name", COPIES)
def test_a_copy_is_saved_like_the_loaded_model(sentence_bert, tmp_path, name):
    model, _ = bert_tf.load(sentence_bert)
    model.next_sentence.dense.kernel.assign_add(tf.ones([16, 2]))  # Trained.
    again = COPIES[name](model, tmp_path)
    files = []
    for i, saved in enumerate((model, again, model.encoder, again.encoder)):
        bert_tf.save(saved, tmp_path / str(i))
        paths = sorted((tmp_path / str(i)).iterdir())
        files.append({path.name: path.read_bytes() for path in paths})
    assert files[0] == files[1] and files[2] == files[3]
    metadata = json.loads(files[0]["model.json"])
    layers = {weight.split("/")[0] for weight in metadata["untrained"]}
    assert layers == {"masked_lm"} and metadata["prompts"]
    text = "the cat sat on the warm stone"
    expected = bert_tf.Predictor(model)(text)
    np.testing.assert_array_equal(bert_tf.Predictor(again)(text), expected)


def test_a_copy_without_weights_is_refused_until_it_has_them(
    classifier, tmp_path
):
    model, _ = bert_tf.load(classifier, task="regression")
    again = keras.models.clone_model(model)
    message = "BertRegressor is a copy .* copy.set_weights"
    for use in (bert_tf.Predictor, lambda x: bert_tf.save(x, tmp_path / "x")):
        with pytest.raises(ValueError, match=message):
            use(again)
    with pytest.raises(ValueError, match="BertEncoder is a copy"):
        bert_tf.save(again.encoder, tmp_path / "x")
    # The head that it drew itself is no more trained than that of the model.
    again.encoder.set_weights(model.encoder.get_weights())
    head = ["regression/dense/kernel", "regression/dense/bias"]
    assert keras_models.metadata_of(again)["untrained"] == head
    again.head.dense.kernel.assign_add(tf.ones([16, 1]))
    assert "untrained" not in keras_models.metadata_of(again)


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_of_a_model_made_in_code_is_saved(tmp_path, name):
    model = model_of("regression")
    again = COPIES[name](model, tmp_path)
    bert_tf.save(again, tmp_path / "saved")
    loaded, _ = bert_tf.load(tmp_path / "saved")
    assert not loaded.untrained
    checkpoint_folders.assert_same_bits(tensors_of(loaded), tensors_of(model))


def test_a_vocabulary_that_is_not_utf_8_is_copied(classifier):
    model, _ = bert_tf.load(classifier)
    model.vocabulary = b"[PAD]\n\xff\xe4\n"
    again = copy.deepcopy(model)
    assert again.vocabulary == model.vocabulary
    assert again.untrained == {} and again.metadata == model.metadata


def add_tensors(folder, *names):
    """Adds float32 tensors of one number to a Hugging Face folder."""
    path = pathlib.Path(folder) / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    tensors |= {name: np.ones(1, np.float32) for name in names}
    safetensors.numpy.save_file(tensors, path, {"format": "pt"})


def test_a_head_with_more_tensors_than_ours_is_not_taken_for_ours(
    tmp_path, caplog
):
    folder = written("classification", tmp_path, "hugging_face")
    # Tensors of the pre-training heads, which may be there, change nothing.
    more = ("classifier.dense.weight", "classifier.dense.bias")
    add_tensors(folder, *more, "cls.predictions.bias")
    with caplog.at_level(logging.WARNING, logger="absl"):
        model, _ = bert_tf.load(folder)
    assert (
        "reads its tensors classifier.dense.bias, classifier.d" in caplog.text
    )
    assert "its head for classification has more tensors than" in caplog.text
    assert set(model.untrained) == {
        "classification/dense/bias",
        "classification/dense/kernel",
    }
    checkpoint_folders.assert_same_bits(
        tensors_of(model.encoder),
        tensors_of(model_of("classification").encoder),
    )
    with pytest.raises(ValueError, match="head for classification is newly"):
        bert_tf.Predictor(folder)
    assert bert_tf.Predictor(folder, kind="sentence_embedding")("a").shape


def test_slots_and_other_heads_do_not_make_a_head_foreign(tmp_path, caplog):
    folder = written("classification", tmp_path, "hugging_face")
    add_tensors(folder, "classifier.weight/adam_m", "cls.predictions.bias")
    with caplog.at_level(logging.WARNING, logger="absl"):
        model, _ = bert_tf.load(folder)
    assert not model.untrained
    named = [x for x in caplog.messages if "nothing here reads" in x]
    assert len(named) == 1 and named[0].endswith("tensors cls.predictions.bias")


def test_what_was_decided_while_reading_is_a_warning(tmp_path, caplog):
    folder = written("classification", tmp_path, "google")
    with caplog.at_level(logging.WARNING, logger="absl"):
        bert_tf.load(folder)
    assert f"{folder}: a TF1 checkpoint does not name its cl" in caplog.text


@pytest.mark.parametrize("name", ["google", "hugging_face"])
def test_a_normal_load_logs_at_info(tmp_path, caplog, name):
    folder = written("pretraining", tmp_path, name)
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="absl"):
        bert_tf.load(folder)
        bert_tf.load(folder, task="classification", labels=["a", "b"])
    assert len(caplog.records) >= 4
    assert all(x.levelno == logging.INFO for x in caplog.records)
    assert "newly initialized classification/dense" in caplog.text


def test_rules_of_the_tokenizer_are_kept(tmp_path):
    rules = {"strip_accents": False, "tokenize_chinese_chars": False}
    rules["split_special_tokens"] = False
    folder = written("classification", tmp_path, "hugging_face", metadata=rules)
    model, tokenizer = bert_tf.load(folder)
    rules = {"do_lower_case": True} | rules
    assert tokenizer.rules == rules
    assert bert_tf.Predictor(model).tokenizer.rules == rules
    bert_tf.save(model.encoder, tmp_path / "encoder")
    assert bert_tf.load(tmp_path / "encoder")[1].rules == rules
    _, found = bert_tf.load(folder, task="regression")
    assert found.rules == rules
    # Another tokenizer has its own.
    plain = bert_tf.load(tmp_path / "ours")[1]
    bert_tf.save(model, tmp_path / "plain", plain)
    assert bert_tf.load(tmp_path / "plain")[1].rules == plain.rules
    # A format that cannot hold them.
    accepted = {"accept_tokenizer_differences": True}
    bert_tf.save(model, tmp_path / "google", format="google", **accepted)


def test_a_tokenizer_that_does_more_than_ours_is_refused(tmp_path, caplog):
    folder = written("classification", tmp_path, "hugging_face")
    (tmp_path / "hugging_face/added_tokens.json").write_text('{"<e>": 203}')
    for load in (bert_tf.load, bert_tf.Predictor):
        with pytest.raises(ValueError, match="<e>.* in Python accept_tokeni"):
            load(folder)
        caplog.clear()
        load(folder, accept_tokenizer_differences=True)
        assert "<e>. BERT's tokenizer makes other tokens" in caplog.text


def test_a_new_head_is_untrained_until_it_changes(tmp_path, classifier):
    old = tensors_of(bert_tf.load(classifier)[0].encoder)
    keras.utils.set_random_seed(5)
    model, _ = bert_tf.load(
        classifier, task="tagging", labels=["O", "B-X", "I-X"]
    )
    assert type(model) is bert_tf.BertTagger and model.num_classes == 3
    checkpoint_folders.assert_same_bits(tensors_of(model.encoder), old)
    new, head = (
        tensors_of(model),
        ["tagging/dense/kernel", "tagging/dense/bias"],
    )
    assert list(model.untrained) == head
    assert "max_seq_length" not in model.metadata  # Of the old task.
    assert keras_models.metadata_of(model)["untrained"] == head
    bert_tf.save(model, tmp_path / "untrained")
    found = tensors_of(bert_tf.load(tmp_path / "untrained")[0])
    # Listed as new, it is initialized again.
    assert found[head[0]].tobytes() != new[head[0]].tobytes()
    for weight in model.head.weights:
        weight.assign_add(np.full(weight.shape, 0.5, np.float32))
    assert "untrained" not in keras_models.metadata_of(model)
    bert_tf.save(model, tmp_path / "trained")
    again, _ = bert_tf.load(tmp_path / "trained")
    assert not again.untrained
    checkpoint_folders.assert_same_bits(tensors_of(again), tensors_of(model))


def test_the_same_task_and_labels_keep_the_head(classifier):
    old = tensors_of(bert_tf.load(classifier)[0])
    task, others = {"task": "classification"}, {"labels": ["x", "y", "z"]}
    # Labels alone rename the classes.
    for words in (task, task | {"labels": exports.LABELS}, others):
        model, _ = bert_tf.load(classifier, **words)
        checkpoint_folders.assert_same_bits(tensors_of(model), old)
        assert not model.untrained
    assert model.metadata["labels"] == ["x", "y", "z"]
    model, _ = bert_tf.load(classifier, **task, **others)
    assert len(model.untrained) == 2


def test_a_pooler_without_training_stays_so_under_a_tagger(tmp_path):
    folder = save("pretraining", tmp_path / "model", pairs="none")
    tagger, _ = bert_tf.load(folder, task="tagging", labels=["O", "B-X"])
    head = ["tagging/dense/kernel", "tagging/dense/bias"]
    assert tagger.metadata["untrained"] == [*head, contents.POOLER]
    bert_tf.save(tagger, tmp_path / "tagger")
    again, _ = bert_tf.load(tmp_path / "tagger")
    assert again.metadata["untrained"] == [*head, contents.POOLER]
    assert list(again.untrained) == head  # The pooler kept its values.
    regressor, _ = bert_tf.load(folder, task="regression")
    assert contents.POOLER not in regressor.metadata["untrained"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"labels": ["a", "b"]}, "2 names, but .* has 3 classes: bad, good"),
        ({"labels": ["a", "b", "c", "d"]}, "4 names, but .* has 3 classes"),
        ({"labels": "ab"}, "give a list"),
        ({"labels": {"a", "b", "c"}}, "give a list"),  # Without an order.
        ({"labels": ["a", 2, "c"]}, "give a list"),
        ({"labels": ["a", "a", "c"]}, "name twice"),
        ({"task": "ner"}, "'ner' is not one of pretraining, class"),
        ({"task": "tagging"}, "needs labels="),
        ({"task": "spans", "labels": ["a", "b"]}, "but the task is 'spans'"),
        ({"task": "classification", "labels": ["a"]}, "num_classes=1"),
        ({"dtype": "float33"}, "float33"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(classifier, arguments, message):
    with pytest.raises(ValueError, match=message):
        bert_tf.load(classifier, **arguments)


@pytest.mark.parametrize("path", [3, None, "", ["a"]])
def test_a_path_of_another_type_is_refused(path):
    model = model_of("regression")
    for call in (bert_tf.load, lambda path: bert_tf.save(model, path)):
        with pytest.raises(ValueError, match=r"path is .* \(\w+\); give the f"):
            call(path)


def test_a_model_in_a_store_is_copied_and_loaded(
    tmp_path, classifier, monkeypatch
):
    cache = str(tmp_path / "cache")
    monkeypatch.setenv(stored_folders.CACHE_VARIABLE, cache)
    monkeypatch.setattr(storage, "_gfile", storage._gfile)
    folder_store.use(tmp_path / "store")
    shutil.copytree(classifier, tmp_path / "store" / "bucket" / "model")
    model, _ = bert_tf.load("gs://bucket/model")
    assert model.metadata["labels"] == exports.LABELS
    given = Checkpoint.open("gs://bucket/model")
    assert given.source == "bert_tf gs://bucket/model"
    assert given.path_of("vocab.txt") == "gs://bucket/model/vocab.txt"


def test_a_model_without_vocabulary_has_no_tokenizer(tmp_path, classifier):
    (tmp_path / "classifier" / "vocab.txt").unlink()
    model, tokenizer = bert_tf.load(classifier)
    assert tokenizer is None and model.vocabulary is None
    own = tokenizer_lib.BertTokenizer(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the"]
    )
    bert_tf.save(model, tmp_path / "with", own)
    assert bert_tf.load(tmp_path / "with")[1].vocab == own.vocab


def test_the_precision_is_that_of_training(tmp_path):
    folder = save("regression", tmp_path / "half", precision="bfloat16")
    model, _ = bert_tf.load(folder)
    assert model.dtype_policy.name == "mixed_bfloat16"
    model, _ = bert_tf.load(folder, dtype="float32")
    assert model.dtype_policy.name == "float32"


def test_models_made_in_code_are_saved_with_their_labels(tmp_path, classifier):
    model = exports.make_model("classification")
    _, tokenizer = bert_tf.load(classifier)
    for labels, message in (
        (None, "3 classes without names"),
        (["a", "b"], "2 names, but the model has 3"),
    ):
        with pytest.raises(ValueError, match=message):
            bert_tf.save(model, tmp_path / "made", tokenizer, labels=labels)
    labels = ["a", "b", "c"]
    bert_tf.save(model, tmp_path / "made", tokenizer, labels=labels)
    again, own = bert_tf.load(tmp_path / "made")
    assert again.metadata["labels"] == labels and own.vocab == tokenizer.vocab
    checkpoint_folders.assert_same_bits(tensors_of(again), tensors_of(model))
    bert_tf.save(model.encoder, tmp_path / "encoder", format="google")
    encoder = bert_tf.load(tmp_path / "encoder")[0].encoder
    checkpoint_folders.assert_same_bits(
        tensors_of(encoder), tensors_of(model.encoder)
    )
    with pytest.raises(ValueError, match="model is a Sequential"):
        bert_tf.save(keras.Sequential([]), tmp_path / "third")


def adapt_all(model):
    """Adds adapters to all Dense layers by Keras's own enable_lora."""
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Dense):
            layer.enable_lora(2)


def adapt_both(model):
    model.encoder.enable_lora(2)
    model.encoder.pooler.enable_lora(2, lora_alpha=4)
    model.encoder.encoder_layers[0].attention.key.enable_lora(3)


@pytest.mark.parametrize(
    "adapt", [lambda x: x.encoder.enable_lora(2), adapt_all, adapt_both]
)
@pytest.mark.parametrize("name", ["bert_tf", "hugging_face"])
def test_adapters_are_merged_when_a_model_is_saved(
    tmp_path, classifier, name, adapt
):
    model, tokenizer = bert_tf.load(classifier)
    adapt(model)
    for weight in model.trainable_weights:
        if "lora_kernel_b" in weight.path:
            weight.assign(tf.random.stateless_normal(weight.shape, (1, 2)))
    bert_tf.save(model, tmp_path / "saved", format=name)
    saved, _ = bert_tf.load(tmp_path / "saved")
    base, _ = bert_tf.load(classifier)
    batch = bert_tf.TextPreprocessor(tokenizer.vocab, max_seq_length=8)(
        tf.constant(["the cat sat"])
    )
    expected = model(batch)["logits"].numpy()
    np.testing.assert_allclose(saved(batch)["logits"], expected, atol=1e-5)
    assert abs(base(batch)["logits"] - expected).numpy().max() > 1e-3


def test_a_head_of_which_an_adapter_is_trained_is_trained(classifier):
    model, _ = bert_tf.load(classifier, task="regression")
    dense = model.head.dense
    dense.enable_lora(1)
    assert keras_models.metadata_of(model)["untrained"]
    dense.lora_kernel_b.assign(np.ones([1, 1]))
    assert "untrained" not in keras_models.metadata_of(model)


def test_weights_that_bert_does_not_have_are_refused_by_name(tmp_path):
    model = exports.make_model("regression")
    model.encoder._tracker.unlock()  # Keras keeps others from adding layers.
    model.encoder.pooler = keras.layers.Dense(16, name="pooler")
    model.encoder.pooler.build((None, 16))
    for saved in (model, model.encoder):
        with pytest.raises(ValueError, match="BERT: pooler. .* or replaced"):
            bert_tf.save(saved, tmp_path / "saved")
    model = exports.make_model("regression")
    part = keras.layers.Embedding(3, 2, name="part")
    part.build()
    part.enable_lora(1)
    model.head._tracker.unlock()  # Keras keeps others from adding layers.
    model.head.part = part
    with pytest.raises(ValueError, match="BERT: part. "):
        bert_tf.save(model, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_a_layer_is_trained_if_one_of_its_weights_is(classifier):
    model, _ = bert_tf.load(classifier, task="multiple_choice")
    assert keras_models.metadata_of(model)["untrained"]
    kernel = model.head.weights[0]  # The bias has no gradient.
    kernel.assign(kernel + 1.0)
    assert "untrained" not in keras_models.metadata_of(model)


def test_folders_in_use_and_unknown_formats_are_refused(tmp_path, classifier):
    model, _ = bert_tf.load(classifier)
    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="already exists"):
        bert_tf.save(model, classifier)
    with pytest.raises(ValueError, match="gs://bucket/new is in a store"):
        bert_tf.save(model, "gs://bucket/new")
    with pytest.raises(ValueError, match="'onnx' is not one of bert_tf, goog"):
        bert_tf.save(model, tmp_path / "new", format="onnx")
    assert sorted(tmp_path.rglob("*")) == files


def test_an_encoder_is_saved_with_its_vocabulary_and_case(tmp_path):
    metadata = {"do_lower_case": False, "precision": "bfloat16"}
    folder = save("classification", tmp_path / "classifier", **metadata)
    model, tokenizer = bert_tf.load(folder)
    bert_tf.save(model.encoder, tmp_path / "encoder")
    again, own = bert_tf.load(tmp_path / "encoder")
    assert own.vocab == tokenizer.vocab and not own.do_lower_case
    assert again.metadata["precision"] == "bfloat16"
    assert "max_seq_length" not in again.metadata
    untrained = {name.partition("/")[0] for name in again.untrained}
    assert untrained == {"masked_lm", "next_sentence"}
    checkpoint_folders.assert_same_bits(
        tensors_of(again.encoder), tensors_of(model.encoder)
    )
    with pytest.raises(ValueError, match="BertEncoder has no metadata"):
        keras_models.metadata_of(model.encoder)


def test_an_inferred_case_is_one_until_a_tokenizer_has_another(tmp_path):
    model, own = bert_tf.load(written("classification", tmp_path, "google"))
    other = type(own)(own.vocab, do_lower_case=not own.do_lower_case)
    for tokenizer, is_inferred in ((own, True), (other, None)):
        path = tmp_path / f"saved_{is_inferred}"
        bert_tf.save(model, path, tokenizer)
        metadata = json.loads((path / "model.json").read_text())
        assert metadata.get("do_lower_case_inferred") is is_inferred


def test_an_encoder_is_saved_without_the_pooling_of_its_head(tmp_path):
    exports.save_model(
        exports.make_model("classification", classifier_pooling="mean"),
        "classification",
        tmp_path / "classifier",
    )
    model, _ = bert_tf.load(tmp_path / "classifier")
    bert_tf.save(model.encoder, tmp_path / "encoder")
    again, _ = bert_tf.load(tmp_path / "encoder")
    assert not again.config.classifier_pooling
    checkpoint_folders.assert_same_bits(
        tensors_of(again.encoder), tensors_of(model.encoder)
    )


@pytest.mark.parametrize("names", [[contents.POOLER], POOLER])
def test_an_untrained_pooler_of_a_saved_encoder_stays_untrained(
    tmp_path, names
):
    model, _ = bert_tf.load(save("spans", tmp_path / "spans", untrained=names))
    bert_tf.save(model.encoder, tmp_path / "encoder")
    metadata = model_folders.read_metadata(str(tmp_path / "encoder"))
    assert not contents.is_pooler_trained(metadata, model.config)
    # Training the pooler is noticed if it was new in this process.
    if names == POOLER:
        model.encoder.pooler.kernel.assign_add(model.encoder.pooler.kernel)
        bert_tf.save(model.encoder, tmp_path / "trained")
        found = bert_tf.load(tmp_path / "trained")[0].untrained
        assert not [name for name in found if name in POOLER]


@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_classes_without_names_can_be_named(tmp_path, task):
    folder = save(task, tmp_path / "model", labels=None)
    for words in ({}, {"task": task}):
        with pytest.raises(ValueError, match='has no labels; add "labels" to'):
            bert_tf.load(folder, **words)
    with pytest.raises(ValueError, match="2 names, .* has 3 classes. Give"):
        bert_tf.load(folder, labels=["a", "b"])
    model, _ = bert_tf.load(folder, labels=["a", "b", "c"])
    assert model.metadata["labels"] == ["a", "b", "c"]
    assert not model.untrained
    checkpoint_folders.assert_same_bits(
        tensors_of(model), tensors_of(model_of(task))
    )
    model, _ = bert_tf.load(folder, task="regression")
    assert set(model.untrained) == {
        "regression/dense/kernel",
        "regression/dense/bias",
    }
    with pytest.raises(ValueError, match='has no labels; add "labels" to'):
        conversion.convert(
            str(folder), "hugging_face", str(tmp_path / "theirs")
        )
    assert not (tmp_path / "theirs").exists()
