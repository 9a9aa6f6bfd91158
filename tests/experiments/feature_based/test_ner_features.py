"""Feature files (their values and reuse), and a tagger trained on them."""

import dataclasses
import json
import pathlib
import re

import exports
import keras
import numpy as np
import planted_ner as planted
import pytest
from contracts import tasks

from bert_tf.checkpoint import model_folders
from bert_tf.model import models
from experiments.feature_based import ner_features, run_ner_features
from tfrecords.io import json_files
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
    assert find([0])[0] != path
    # Features of another encoder, or of other windows or words, have another
    # name; without any flag of columns, the name is as before these flags.
    none = dict.fromkeys(("word_column", "tag_column", "comment_prefix"))
    assert find([2], columns=none) == (path, [1, 2])
    assert find([2], columns=none | {"word_column": 2})[0] != path
    others = {"weights_sha256": "others", "max_seq_length": 16, "doc_stride": 5}
    other, _ = find([1, 2], **others)
    assert other != path
    assert (np.load(other) != np.load(path)).any()
    # If names are equal, the settings in the .json file are compared.
    settings_file = pathlib.Path(f"{path}.json")
    settings = json.loads(settings_file.read_text())
    settings_file.write_text(json.dumps(settings | {"doc_stride": 1}))
    assert find([2])[0] != path


@pytest.fixture(scope="module")
def flags(tmp_path_factory, tiny_config):
    """Flags of data, and of an encoder of five layers with random weights."""
    folder = tmp_path_factory.mktemp("data")
    planted.write(folder / "eng.train", planted.sentences(40))
    planted.write(folder / "eng.testa", planted.sentences(11, 1))
    config = dataclasses.replace(
        tiny_config, num_hidden_layers=5, initializer_range=0.5
    )
    keras.utils.set_random_seed(1)
    model = models.BertRegressor(config)
    exports.save_model(model, "regression", folder / "model")
    return [
        *(f"--data_dir={folder}", f"--init_checkpoint={folder / 'model'}"),
        *("--max_seq_length=24", "--eval_batch_size=4", "--train_batch_size=8"),
        *("--lstm_units=16", "--learning_rate=1e-2", "--num_train_epochs=30"),
        *("--save_checkpoints_steps=75", "--do_train", "--do_eval"),
        "--do_predict",
    ]


def run(*words):
    run_ner_features.main(["run_ner_features", *map(str, words)])


@pytest.mark.slow
def test_stopped_features_are_resumed_and_choices_share_them(
    flags, tmp_path, monkeypatch
):
    monkeypatch.setattr(ner_features, "_DOCUMENTS_PER_PART", 4)
    made, make = [], ner_features.layer_outputs.run_in_order

    def stop_at_second(*arguments):
        made.append(len(made))
        if len(made) == 2:
            raise KeyboardInterrupt
        return make(*arguments)

    monkeypatch.setattr(
        ner_features.layer_outputs, "run_in_order", stop_at_second
    )
    flags = [*flags, f"--output_dir={tmp_path}"]
    choice = "--feature_layers=weighted_sum_last_four"
    with pytest.raises(KeyboardInterrupt):
        run(*flags, choice)
    run(*flags, choice)
    # Ten documents of train are three parts, three of dev are one.
    assert len(made) == 1 + 1 + 2 + 1
    path = tmp_path / "weighted_sum_last_four"
    results = json_files.read(path / "eval_results.json")
    of_majority = results["majority_baseline"]["dev"]["entity_f1"]
    assert results["dev"]["entity_f1"] > of_majority
    scores = tasks.ner_scores(None, path / "predictions")
    assert scores["entity_f1"] == results["dev"]["entity_f1"]
    words = (path / "predictions/dev.txt").read_text().split()
    assert words[:5] == ["-DOCSTART-", "-X-", "-X-", "O", "O"]

    # A rerun changes nothing; other choices find their layers in the file.
    before = (path / "eval_results.json").read_text()
    run(*flags, f"{choice},last")
    assert (path / "eval_results.json").read_text() == before
    assert (tmp_path / "last" / "eval_results.json").exists()
    names = [x.name for x in (tmp_path / "features").glob("*.npy")]
    assert sorted(re.sub("-[0-9a-f]{8}", "", x) for x in names) == [
        *("dev-2-3-4-5.npy", "train-2-3-4-5.npy")
    ]
    with pytest.raises(ValueError, match="run_ner_features alone"):
        model_folders.read(str(path / "best"))


def test_flags_of_fine_tuning_are_refused(flags):
    words = [*flags, "--output_dir=run", "--feature_layers=last"]
    with pytest.raises(ValueError, match="--remat: only for fine-tuning"):
        run(*words, "--remat")
