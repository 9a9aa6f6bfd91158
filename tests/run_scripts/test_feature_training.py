"""Facts of training on features: what it leaves, and whose folder it is."""

import json

import numpy as np
import planted_ner as planted
import pytest
from absl import flags

from bert_tf.tasks import ner_scores
from bert_tf.training import strategies
from run_scripts import feature_training
from run_scripts.flags import fine_tuning_flags, training_flags
from tfrecords.reading import word_features
from tfrecords.tasks import ner_files

LABELS = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]


def values(**changes):
    found = flags.FlagValues()
    training_flags.define_training(
        found, learning_rate=3e-2, train_batch_size=4
    )
    fine_tuning_flags.define_epochs(found, 10.0)
    flags.DEFINE_integer("lstm_units", 4, "", flag_values=found)
    found(["test", "--save_checkpoints_steps=20"])
    for name, value in changes.items():
        found[name].value = value
    return found


@pytest.fixture(scope="module")
def features(tmp_path_factory, tiny_config):
    """Each tag has a feature of its own, so that all can be right."""
    folder, sets, corpora = tmp_path_factory.mktemp("data"), {}, {}
    for seed, split in enumerate(("train", "dev")):
        corpus = ner_files.read(
            planted.write(folder / split, planted.sentences(12, seed))
        )
        tags = [LABELS.index(t) for s in corpus.sentences for t in s.tags]
        sets[split] = word_features.Sentences(
            np.eye(16, dtype=np.float16)[tags][:, None],
            [0],
            [len(s.columns) for s in corpus.sentences],
            np.array(tags, np.int32),
        )
        corpora[split] = corpus
    return feature_training.Features(
        "last", sets, corpora.get, LABELS, tiny_config, {"weights_sha256": "w"}
    )


def test_it_leaves_the_best_model_and_its_answers(features, tmp_path):
    strategy = strategies.make_strategy("one_device")
    output = tmp_path / "last"
    results = feature_training.train_and_predict(
        values(), features, strategy, str(output)
    )
    assert results["dev"]["entity_f1"] > 0.9
    written = json.loads((output / "eval_results.json").read_text())
    assert written["dev"] == results["dev"]
    text = (output / "predictions" / "dev.txt").read_text()
    blocks = [b.splitlines() for b in text.split("\n\n") if b]
    gold, found = (
        [[line.split()[column] for line in block] for block in blocks]
        for column in (-2, -1)
    )
    scores = ner_scores.score(gold, found)
    assert scores["entity_f1"] == results["dev"]["entity_f1"]
    best = json.loads((output / "best" / "model.json").read_text())
    assert best["labels"] == LABELS

    # Of what is another, each has a line, and nothing else has.
    other = features._replace(identity={"weights_sha256": "others"})
    with pytest.raises(ValueError) as error:
        feature_training.train_and_predict(
            values(lstm_units=5), other, strategy, str(output)
        )
    assert str(error.value).splitlines()[:-1] == [
        f"{output} holds another run:",
        "  lstm_units: 4 there, 5 now",
        "  weights_sha256: 'w' there, 'others' now",
    ]
