"""ner.py: losses and scores are over words; files of predictions."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.tasks import ner
from tfrecords import schema
from tfrecords.tasks import ner_files

SIZES = {"max_seq_length": 4}
WEIGHTS = np.array([[0, 1, 0, 1], [0, 1, 0, 0], [0, 1, 1, 1]], np.float32)
TAGS = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]], np.int32)


def batch_of(task):
    specs = schema.batch_signature(task.schema, SIZES, 3)
    batch = {
        name: tf.ones(spec.shape, spec.dtype) for name, spec in specs.items()
    }
    return batch | {
        "tag_ids": tf.constant(TAGS),
        "tag_weights": tf.constant(WEIGHTS),
        "is_real_example": tf.constant([1.0, 1.0, 0.0]),
    }


def logits(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(3, 4, 3)).astype(np.float32)


def expected_loss(outputs, rows):
    p = np.exp(outputs) / np.exp(outputs).sum(-1, keepdims=True)
    right = np.take_along_axis(p, TAGS[..., None], -1)[..., 0]
    return -np.log(right[:rows][WEIGHTS[:rows] > 0]).mean()


def test_a_tagger_has_logits_for_each_piece(tiny_config):
    task = ner.Ner(labels=["O"] * 5)
    outputs = task.build_model(tiny_config)(batch_of(task))
    assert outputs["logits"].shape == (3, 4, 5)


def test_loss_and_accuracy_are_means_over_words_of_real_windows():
    task, outputs = ner.Ner(labels=["O"] * 3), {"logits": tf.constant(logits())}
    batch = batch_of(task)
    loss = task.losses(outputs, batch)["tagging_loss"]
    assert float(loss.value()) == pytest.approx(
        expected_loss(logits(), 2), rel=1e-6
    )
    weights = task.loss_weights(batch)
    assert float(weights["tagging_loss"]) == float(loss.weight) == 3
    right = logits().argmax(-1)[:2][WEIGHTS[:2] > 0] == [2, 1, 0]
    accuracy = task.accuracies(outputs, batch)["accuracy"]
    assert float(accuracy.value()) == pytest.approx(right.mean())


def test_predicted_tags_are_in_the_order_of_words():
    outputs = logits(1)
    wanted = outputs.argmax(-1)[WEIGHTS > 0]
    assert ner.predicted_tags(outputs, WEIGHTS).tolist() == wanted.tolist()
    # Also for trimmed batches.
    found = ner.predicted_tags(outputs[:2, :4], WEIGHTS[:2])
    assert found.tolist() == wanted[:3].tolist()
    cut = np.pad(WEIGHTS, ((0, 0), (0, 3)))
    assert ner.predicted_tags(outputs, cut).tolist() == wanted.tolist()
    assert ner.loss(outputs, cut, np.pad(TAGS, ((0, 0), (0, 3)))) == (
        pytest.approx(expected_loss(outputs, 3), rel=1e-6)
    )


def test_a_single_label_raises(tiny_config):
    with pytest.raises(ValueError, match="num_classes=1"):
        ner.Ner(labels=["O"]).build_model(tiny_config)


def test_the_loss_of_the_feature_task_is_over_words(tiny_config):
    task = ner.NerFeatures(None, "last", 2, labels=["O"] * 3)
    model = task.build_model(tiny_config)
    batch = batch_of(task) | {"word_features": tf.ones([3, 4, 1, 16])}
    outputs = model(batch)
    assert outputs["logits"].shape == (3, 4, 3)
    loss = task.losses(outputs, batch)["tagging_loss"]
    assert float(loss.weight) == 3


TEXT = """-DOCSTART- -X- O

EU\tNNP I-ORG
rose VBD  O

Ada NNP I-PER
"""


def read(tmp_path, has_tags=True):
    (tmp_path / "f").write_text(TEXT)
    return ner_files.read(str(tmp_path / "f"), has_tags=has_tags)


def test_predicted_ids_become_tags_of_sentences(tmp_path):
    labels = ["O", "B-PER", "B-ORG"]
    found = ner.in_sentences(read(tmp_path), np.array([2, 0, 1]), labels)
    assert found == [["B-ORG", "O"], ["B-PER"]]
    with pytest.raises(ValueError, match="4 tags for the 3 words of .*/f"):
        ner.in_sentences(read(tmp_path), np.array([2, 0, 1, 1]), labels)


def test_prediction_files_have_the_format_of_conlleval(tmp_path):
    path = tmp_path / "predictions" / "dev.txt"
    answers = [["B-ORG", "O"], ["O"]]
    ner.write_columns(read(tmp_path), answers, str(path))
    assert path.read_text() == (
        "-DOCSTART- -X- O O\n\n"
        "EU NNP B-ORG B-ORG\nrose VBD O O\n\n"
        "Ada NNP B-PER O\n\n"
    )


def test_without_gold_tags_only_the_predicted_tag_is_added(tmp_path):
    path = tmp_path / "test.txt"
    (tmp_path / "f").write_text("EU\n\nAda\n")
    corpus = ner_files.read(str(tmp_path / "f"), has_tags=False)
    ner.write_columns(corpus, [["B-ORG"], ["O"]], str(path))
    assert path.read_text() == "EU B-ORG\n\nAda O\n\n"


def write_predicted(tmp_path, text, answers, **columns):
    """Returns the corpus of a file and the lines of its predictions."""
    (tmp_path / "f").write_text(text)
    corpus = ner_files.read(str(tmp_path / "f"), **columns)
    ner.write_columns(corpus, [answers], str(tmp_path / "out"))
    return corpus, (tmp_path / "out").read_text().split("\n")


def test_prediction_files_keep_schemes_that_conlleval_does_not_read(tmp_path):
    answers = ["O", "B-LOC", "I-LOC"]
    _, lines = write_predicted(
        tmp_path, "EU U-ORG\nNew B-LOC\nYork L-LOC\n", answers
    )
    assert lines[:3] == ["EU U-ORG O", "New B-LOC B-LOC", "York L-LOC L-LOC"]
    _, lines = write_predicted(
        tmp_path, "in O\nBonn LOC\nRom LOC\n", ["I-PER", "I-PER", "O"]
    )
    assert lines[:3] == ["in O PER", "Bonn LOC PER", "Rom LOC O"]
    _, lines = write_predicted(tmp_path, "the D\ncat N\n", ["N", "N"])
    assert lines[:2] == ["the D N", "cat N N"]


def test_prediction_files_keep_the_order_of_columns(tmp_path):
    _, lines = write_predicted(
        tmp_path,
        "1 in O x\n2 Bonn B-LOC y\n",
        ["O", "B-PER"],
        word_column=2,
        tag_column=3,
    )
    assert lines[:2] == ["1 in x O O", "2 Bonn y B-LOC B-PER"]


def test_without_gold_tags_the_scheme_is_that_of_the_training_file(tmp_path):
    (tmp_path / "f").write_text("New\nYork\n")
    corpus = ner_files.read(str(tmp_path / "f"), has_tags=False)
    path = tmp_path / "test.txt"
    ner.write_columns(corpus, [["B-LOC", "I-LOC"]], str(path), "BMES")
    assert path.read_text() == "New B-LOC\nYork E-LOC\n\n"


def prepared(tmp_path, train, dev=None, **options):
    """Returns a task of files with these texts."""
    files = {}
    for split, text in (("train", train), ("dev", dev)):
        if text is not None:
            (tmp_path / split).write_text(text)
            files[f"{split}_file"] = str(tmp_path / split)
    task = ner.Ner(ner_files.NerData(**files, **options))
    task.prepare(None, {})
    return task


def test_files_that_do_not_tell_the_types_are_refused(tmp_path):
    with pytest.raises(ValueError, match="has no entities: every tag is O"):
        prepared(tmp_path, "the O\n")
    message = "The entity types are unknown.*--entity_types=LOC"
    with pytest.raises(ValueError, match=message):
        prepared(tmp_path, None, "sea B-SEA\n")


def test_plain_tags_are_scored_by_words(tmp_path):
    task = prepared(
        tmp_path,
        "the DET\ncat NOUN\nsat VERB\na DET\n",
        "the DET\nold NOUN\ncat NOUN\ncat VERB\n",
    )
    assert task.best_metric == "accuracy"
    assert task.labels == ["DET", "NOUN", "VERB"]
    assert task.metadata()["tag_scheme"] == "plain"
    # "old" is not in training, and DET the most frequent tag.
    assert task.majority_baseline() == {"dev": {"accuracy": 0.5}}
    outputs = np.eye(3, dtype=np.float32)[[[0, 0, 1, 2]]]
    task.tags["dev"] = np.ones([1, 4]), np.array([[0, 1, 1, 2]])
    scores = task.score("dev", {"logits": outputs})
    assert scores["accuracy"] == 0.75
    assert list(scores) == ["loss", "accuracy"]


def test_entities_of_io_are_runs_of_words_of_one_type(tmp_path):
    task = prepared(
        tmp_path, "EU ORG\nin O\nRom LOC\n", "New LOC\nYork LOC\nEU ORG\n"
    )
    assert task.best_metric == "entity_f1"
    assert task.labels == ["O", "I-LOC", "I-ORG"]
    # Two of two; then New York is split in two of other types.
    for answers, f1 in (([1, 1, 2], 1.0), ([1, 2, 2], 0.0), ([1, 1, 0], 2 / 3)):
        outputs = np.eye(3, dtype=np.float32)[[answers]]
        task.tags["dev"] = np.ones([1, 3]), np.array([[1, 1, 2]])
        scores = task.score("dev", {"logits": outputs})
        assert scores["entity_f1"] == pytest.approx(f1)


def test_a_foreign_tagger_of_bioes_is_scored_by_its_entities(tmp_path):
    (tmp_path / "dev").write_text("New B-X\nYork I-X\nin O\nRom B-X\n")
    task = ner.Ner(ner_files.NerData(dev_file=str(tmp_path / "dev")))
    labels = ["O", "B-X", "I-X", "E-X", "S-X"]
    task.prepare("model", {"task": "tagging", "labels": labels})
    ids = ner_files.tag_ids(task.read("dev").sentences, labels)
    assert ids == [1, 3, 0, 4]
    task.tags["dev"] = np.ones([1, 4]), np.array([ids])
    outputs = {"logits": np.eye(5, dtype=np.float32)[[ids]]}
    assert task.score("dev", outputs)["entity_f1"] == 1
    task.write_predictions(lambda split: outputs, str(tmp_path))
    lines = (tmp_path / "dev.txt").read_text().split("\n")
    assert lines[:4] == ["New B-X B-X", "York I-X I-X", "in O O", "Rom B-X B-X"]


def test_dev_files_are_read_as_the_training_file(tmp_path):
    # Alone, a file without O would be plain, and one with O would be IO.
    task = prepared(tmp_path, "EU ORG\nin O\n", "EU ORG\n")
    assert task.read("dev").sentences[0].tags == ("I-ORG",)
    task = prepared(tmp_path, "the DET\nO X\n", "O X\n")
    assert task.read("dev").scheme == "plain"
    task = prepared(
        tmp_path, "a B-X\nb M-X\nc E-X\n", "a S-X\n", comment_prefix="#"
    )
    assert task.read("dev").scheme == "BMES"
    assert task.metadata()["tag_scheme"] == "BMES"
    task = prepared(tmp_path, "a B-X\n", "a S-X\n")
    assert task.read("dev").scheme == "BIOES"
    assert "tag_scheme" not in task.metadata()
    task = prepared(tmp_path, "a B-X\n", "a X\nb O\n")
    with pytest.raises(ValueError, match="dev:1: tag 'X' is neither O nor B-"):
        task.read("dev")
    task = prepared(tmp_path, "a X\nb O\n", "a B-X\n")
    with pytest.raises(ValueError, match="dev:1: tag 'B-X' is not of the sch"):
        task.read("dev")


def test_the_scheme_of_a_model_decides_without_training(tmp_path):
    (tmp_path / "dev").write_text("the DET\ncat NOUN\n")
    data = ner_files.NerData(dev_file=str(tmp_path / "dev"))
    metadata = {"task": "tagging", "labels": ["NOUN", "DET"]}
    task = ner.Ner(data)
    task.prepare("model", metadata)
    assert task.best_metric == "accuracy"
    assert task.read("dev").sentences[0].tags == ("DET", "NOUN")
    task = ner.Ner(dataclasses.replace(data, tag_scheme="BMES"))
    with pytest.raises(
        ValueError,
        match=r"--tag_scheme=BMES: the tags of model are plain, \['NOUN', ",
    ):
        task.prepare("model", metadata)
    labels = {"labels": ["O", "B-X", "I-X"]}
    task.prepare("model", metadata | labels)
    assert task.scheme == "IOB2"
    with pytest.raises(
        ValueError, match="tag_scheme 'BOI' in model.json is no"
    ):
        task.prepare("model", metadata | labels | {"tag_scheme": "BOI"})


def test_the_baseline_is_the_most_frequent_tag_of_a_word_in_training(tmp_path):
    read(tmp_path)
    (tmp_path / "dev").write_text("EU B-ORG\n\nAda B-PER\nBabbage I-PER\n")
    data = ner_files.NerData(
        train_file=str(tmp_path / "f"), dev_file=str(tmp_path / "dev")
    )
    task = ner.Ner(data)
    task.prepare(None, {})
    assert task.majority_baseline()["dev"]["entity_f1"] == 0.5
    task.files.pop("train")
    assert task.majority_baseline() == {}


def test_prediction_uses_the_labels_of_the_model(tmp_path):
    (tmp_path / "dev").write_text("EU B-X\n")
    data = ner_files.NerData(dev_file=str(tmp_path / "dev"))
    metadata = {"task": "tagging", "labels": ["O", "I-X", "B-X"]}
    task = ner.Ner(data)
    task.prepare("model", metadata)
    assert task.labels == ["O", "I-X", "B-X"]
    assert [s.tags for s in task.read("dev").sentences] == [("B-X",)]
    task = ner.Ner(dataclasses.replace(data, entity_types=("X",)))
    task.prepare("model", metadata)
    assert task.labels == ["O", "I-X", "B-X"]
    task = ner.Ner(dataclasses.replace(data, entity_types=("X", "Y")))
    with pytest.raises(
        ValueError, match="--entity_types=X,Y: model predicts X. Omit"
    ):
        task.prepare("model", metadata)
    with pytest.raises(ValueError, match="a model of task spans, not of tag"):
        task.prepare("model", {"task": "spans"})
