"""Feature files (their values and reuse), and a BiLSTM trained on features."""

import json
import pathlib

import keras
import numpy as np
import planted_ner as planted
import planted_tasks
import pytest
from contracts import tasks

from bert_tf.model import models
from bert_tf.training import run_folder, strategies
from bert_tf.workflows import fine_tuning
from experiments.feature_based import ner_features, word_features
from experiments.feature_based.config import FeaturesConfig
from experiments.feature_based.task import NerFeatures
from tfrecords.tasks import ner_files
from tfrecords.text.tokenizer import BertTokenizer


@pytest.fixture(scope="module")
def source(tiny_config, tiny_vocab_file):
    keras.utils.set_random_seed(2)
    return ner_features.Source(
        models.BertRegressor(tiny_config).encoder,
        "weights",
        BertTokenizer(tiny_vocab_file),
        max_seq_length=64,
        doc_stride=31,
        batch_size=2,
    )


@pytest.fixture
def corpus(tmp_path):
    return ner_files.read(planted.write(tmp_path / "f", planted.sentences(8)))


def test_features_of_a_word_are_the_hidden_states_of_its_first_piece(
    source, corpus, tmp_path
):
    path, layers = ner_features.open_or_make(
        source, corpus, "dev", [2, 0], str(tmp_path / "features")
    )
    assert layers == [0, 2]
    features = np.load(path)
    assert features.dtype == np.float16
    words = [w for d in corpus.documents for w in d.words]
    assert features.shape == (len(words), 2, 16)
    expected = []
    for document in corpus.documents:
        ids, firsts = [source.tokenizer.cls_id], []
        for word in document.words:
            firsts.append(len(ids))
            ids += source.tokenizer([word]).to_list()[0]
        ids = np.array([[*ids, source.tokenizer.sep_id]], np.int32)
        inputs = {
            "input_word_ids": ids,
            "input_mask": np.ones_like(ids),
            "input_type_ids": np.zeros_like(ids),
        }
        hidden = source.encoder(inputs).sequence_output[0].numpy()
        expected += [hidden[position] for position in firsts]
    np.testing.assert_allclose(features[:, 1], expected, atol=3e-3)


def test_a_file_is_reused_for_its_layers_and_settings(source, corpus, tmp_path):
    folder = str(tmp_path / "features [of mine]")  # Not a glob pattern.

    def find(layers, **changes):
        return ner_features.open_or_make(
            source._replace(**changes), corpus, "dev", layers, folder
        )

    path, _ = find([1, 2])
    assert find([2]) == (path, [1, 2])
    other, layers = find([0])
    assert layers == [0] and other != path
    # Features of another encoder, or of other windows or words, have another
    # name; without any flag of columns, the name is as before these flags.
    none = dict.fromkeys(("word_column", "tag_column", "comment_prefix"))
    assert find([2], columns=none) == (path, [1, 2])
    assert find([2], columns=none | {"word_column": 2})[0] != path
    before = np.load(path)
    others = {"weights_sha256": "others", "max_seq_length": 16, "doc_stride": 5}
    other, _ = find([1, 2], **others)
    assert other != path
    assert (np.load(other) != before).any()
    assert find([1, 2]) == (path, [1, 2])
    assert find([2], **others) == (other, [1, 2])
    # If names are equal, the settings in the .json file are compared.
    settings_file = pathlib.Path(f"{path}.json")
    settings = json.loads(settings_file.read_text())
    settings_file.write_text(json.dumps(settings | {"doc_stride": 1}))
    again, _ = find([2])
    assert again != path


LABELS = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]


def prepare(folder, tiny_config, lstm_units=4, **made_of):
    """Returns a run whose features are one-hot vectors of the tags."""
    data = ner_files.NerData(
        train_file=planted.write(folder / "train", planted.sentences(12, 0)),
        dev_file=planted.write(folder / "dev", planted.sentences(12, 1)),
    )
    task = NerFeatures(data, "last", lstm_units)
    task.prepare(*planted_tasks.TRAINING)
    assert task.labels == LABELS
    splits = {}
    for split in task.files:
        corpus = task.read(split)
        tags = [LABELS.index(t) for s in corpus.sentences for t in s.tags]
        sentences = word_features.Sentences(
            np.eye(16, dtype=np.float16)[tags][:, None],
            [0],
            [len(s.columns) for s in corpus.sentences],
            np.array(tags, np.int32),
        )
        splits[split] = ner_features.FeatureSplit(
            sentences, made_of | {"lstm_units": lstm_units}
        )
    task.open_splits({s: split.sentences for s, split in splits.items()})
    keras.utils.set_random_seed(12345)
    return fine_tuning.Run(
        folder=run_folder.RunFolder(str(folder.parent / "last")),
        task=task,
        model=task.build_model(tiny_config),
        splits=splits,
        vocabulary=None,
        metadata=task.metadata(),
        source=None,
    )


@pytest.mark.slow
def test_training_writes_best_model_results_and_predictions(
    tmp_path, tiny_config
):
    strategy = strategies.make_strategy("one_device")
    output = tmp_path / "last"
    config = FeaturesConfig(
        output_dir=str(output),
        learning_rate=3e-2,
        train_batch_size=4,
        num_train_epochs=10.0,
        save_checkpoints_steps=20,
        precision="float32",
        do_train=True,
        do_eval=True,
        do_predict=True,
    )
    (tmp_path / "data").mkdir()
    run = prepare(tmp_path / "data", tiny_config, weights_sha256="w")
    results = fine_tuning.train_and_predict(run, config, strategy, "run_ner")
    assert results["dev"]["entity_f1"] > 0.9
    written = json.loads((output / "eval_results.json").read_text())
    assert written["dev"] == results["dev"]
    scores = tasks.ner_scores(None, output / "predictions")
    assert scores["entity_f1"] == results["dev"]["entity_f1"]
    best = json.loads((output / "best" / "model.json").read_text())
    assert best["labels"] == LABELS

    # There is one line for each setting that differs.
    other = prepare(tmp_path / "data", tiny_config, 5, weights_sha256="others")
    with pytest.raises(ValueError) as error:
        fine_tuning.train_and_predict(other, config, strategy, "run_ner")
    assert str(error.value).splitlines()[:-1] == [
        f"{output} contains a run with other settings:",
        "  lstm_units: was 4, is now 5",
        "  weights_sha256: was 'w', is now 'others'",
    ]
