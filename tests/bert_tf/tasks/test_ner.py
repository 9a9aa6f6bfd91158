"""ner.py: losses and scores are over words; files of predictions."""

import dataclasses
import json

import numpy as np
import planted_tasks
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


TEXT = """-DOCSTART- -X- O

EU\tNNP I-ORG
rose VBD  O

Ada NNP I-PER
"""
PREDICTED = """-DOCSTART- -X- O O

EU NNP B-ORG B-ORG
rose VBD O O

Ada NNP B-PER O

"""


def read(tmp_path, text=TEXT, name="f", **settings):
    (tmp_path / name).write_text(text)
    return ner_files.read(str(tmp_path / name), **settings)


def test_predicted_ids_become_tags_of_sentences(tmp_path):
    labels = ["O", "B-PER", "B-ORG"]
    found = ner.in_sentences(read(tmp_path), np.array([2, 0, 1]), labels)
    assert found == [["B-ORG", "O"], ["B-PER"]]
    with pytest.raises(ValueError, match="4 tags for the 3 words of .*/f"):
        ner.in_sentences(read(tmp_path), np.array([2, 0, 1, 1]), labels)


@pytest.mark.parametrize(
    ("text", "settings", "answers", "expected"),
    [
        (TEXT, {}, "B-ORG O/O", PREDICTED),
        # Without gold tags only the predicted tag is added.
        ("EU\n\nAda\n", {"has_tags": False}, "B-X/O", "EU B-X\n\nAda O\n\n"),
        # Schemes that conlleval does not read are kept.
        (
            "EU U-X\nNew B-Y\nYork L-Y\n",
            {},
            "O B-Y I-Y",
            "EU U-X O\nNew B-Y B-Y\nYork L-Y L-Y\n\n",
        ),
        (
            "in O\nRom X\nBari X\n",
            {},
            "I-Y I-Y O",
            "in O Y\nRom X Y\nBari X O\n\n",
        ),
        ("the D\ncat N\n", {}, "N N", "the D N\ncat N N\n\n"),
        # As is the order of columns.
        (
            "1 in O x\n2 Bonn B-X y\n",
            {"word_column": 2, "tag_column": 3},
            "O B-Y",
            "1 in x O O\n2 Bonn y B-X B-Y\n\n",
        ),
    ],
)
def test_prediction_files_have_the_format_of_conlleval(
    tmp_path, text, settings, answers, expected
):
    path = tmp_path / "predictions" / "dev.txt"
    tags = [part.split() for part in answers.split("/")]
    ner.write_columns(read(tmp_path, text, **settings), tags, str(path))
    assert path.read_text() == expected


def test_columns_with_spaces_are_written_with_tabs_and_read_again(tmp_path):
    text = "New York\tB-First Name\n\n10 000\tO\n"
    corpus, path = read(tmp_path, text), tmp_path / "t"
    ner.write_columns(corpus, [["O"], ["B-X"]], str(path))
    assert path.read_text() == "New York\tB-First Name\tO\n\n10 000\tO\tB-X\n\n"
    again = ner_files.read(str(path), tag_column=2)
    assert [s.words for s in again.sentences] == [("New York",), ("10 000",)]
    rows = [{"tokens": ["a\n", "\n\n", " "], "tags": ["B-X", "O", "O"]}]
    corpus = read(tmp_path, json.dumps(rows), "f.json")
    ner.write_columns(corpus, [["O", "O", "O"]], str(path))
    assert path.read_text() == "a_ B-X O\n__ O O\n_ O O\n\n"


@pytest.mark.parametrize(
    "rows",
    [
        [
            {
                "text": "Ada  Byron, (sat).",
                "entities": [
                    {"start": 0, "end": 10, "label": "P"},
                    {"start": 13, "end": 16, "label": "First Name"},
                ],
            },
            {"text": "", "entities": []},
            {
                "text": "😀 Ada",
                "entities": [{"start": 2, "end": 5, "label": "P"}],
            },
        ],
        [
            {"tokens": ["a b", "\n"], "tags": ["B-P", "O"]},
            {"tokens": [], "tags": []},
            {"tokens": ["c"], "tags": ["B-P"]},
        ],
        [{"tokens": ["a"], "tags": ["DET"]}, {"tokens": ["b"], "tags": ["X"]}],
    ],
)
def test_rows_of_a_table_are_written_as_they_were_read(tmp_path, rows):
    text = "".join(json.dumps(row) + "\n" for row in rows)
    corpus, path = read(tmp_path, text, "f.jsonl"), tmp_path / "out" / "dev"
    task = ner.Ner(labels=["O", "B-P", "I-P"])
    task.files = {"dev": str(path)}
    task.read = lambda split: corpus
    task.tags = {"dev": ()}
    task._predicted = lambda *_: [s.tags for s in corpus.sentences]
    task.write_predictions(lambda split: None, str(path.parent))
    written = (path.parent / "dev.rows.jsonl").read_text().splitlines()
    assert list(map(json.loads, written)) == [
        row | {"row": f"f.jsonl:{number}"} for number, row in enumerate(rows, 1)
    ]
    assert (path.parent / "dev.txt").exists()


def test_without_gold_tags_the_scheme_is_that_of_the_training_file(tmp_path):
    corpus, path = read(tmp_path, "New\nYork\n", has_tags=False), tmp_path / "t"
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
    task.prepare(*planted_tasks.TRAINING)
    return task


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
    task.prepare(
        *planted_tasks.evaluation({"task": "tagging", "labels": labels})
    )
    ids = ner_files.tag_ids(task.read("dev").sentences, labels)
    assert ids == [1, 3, 0, 4]
    task.tags["dev"] = np.ones([1, 4]), np.array([ids])
    outputs = {"logits": np.eye(5, dtype=np.float32)[[ids]]}
    assert task.score("dev", outputs)["entity_f1"] == 1
    task.write_predictions(lambda split: outputs, str(tmp_path))
    lines = (tmp_path / "dev.txt").read_text().split("\n")
    assert lines[:4] == ["New B-X B-X", "York I-X I-X", "in O O", "Rom B-X B-X"]


@pytest.mark.parametrize(
    ("train", "dev", "scheme"),
    [
        # Alone, a file without O would be plain, and one with O would be IO.
        ("EU ORG\nin O\n", "EU ORG\n", "IO"),
        ("the DET\nO X\n", "O X\n", "plain"),
        ("a B-X\nb M-X\nc E-X\n", "a S-X\n", "BMES"),
        ("a B-X\n", "a S-X\n", "BIOES"),
    ],
)
def test_dev_files_are_read_as_the_training_file(tmp_path, train, dev, scheme):
    task = prepared(tmp_path, train, dev)
    assert task.read("dev").scheme == scheme
    written = scheme if scheme in ner_files.WRITTEN_BACK else None
    assert task.metadata().get("tag_scheme") == written


@pytest.mark.parametrize(
    ("train", "dev", "message"),
    [
        ("a B-X\n", "a X\nb O\n", "dev:1: tag 'X' is neither O nor B-"),
        ("a X\nb O\n", "a B-X\n", "dev:1: tag 'B-X' is not of the sch"),
    ],
)
def test_a_dev_file_of_another_kind_of_tags_is_refused(
    tmp_path, train, dev, message
):
    task = prepared(tmp_path, train, dev)
    with pytest.raises(ValueError, match=message):
        task.read("dev")


def test_the_scheme_of_a_model_decides_without_training(tmp_path):
    (tmp_path / "dev").write_text("the DET\ncat NOUN\n")
    data = ner_files.NerData(dev_file=str(tmp_path / "dev"))
    metadata = {"task": "tagging", "labels": ["NOUN", "DET"]}
    task = ner.Ner(data)
    task.prepare(*planted_tasks.evaluation(metadata))
    assert task.best_metric == "accuracy"
    assert task.read("dev").sentences[0].tags == ("DET", "NOUN")
    task = ner.Ner(dataclasses.replace(data, tag_scheme="BMES"))
    with pytest.raises(
        ValueError,
        match=r"--tag_scheme=BMES: the tags of model are plain, \['NOUN', ",
    ):
        task.prepare(*planted_tasks.evaluation(metadata))
    labels = {"labels": ["O", "B-X", "I-X"]}
    task.prepare(*planted_tasks.evaluation(metadata | labels))
    assert task.scheme == "IOB2"
    with pytest.raises(
        ValueError, match="tag_scheme 'BOI' in model.json is no"
    ):
        task.prepare(
            *planted_tasks.evaluation(metadata | labels | {"tag_scheme": "BOI"})
        )


def test_the_baseline_is_the_most_frequent_tag_of_a_word_in_training(tmp_path):
    read(tmp_path)
    (tmp_path / "dev").write_text("EU B-ORG\n\nAda B-PER\nBabbage I-PER\n")
    data = ner_files.NerData(
        train_file=str(tmp_path / "f"), dev_file=str(tmp_path / "dev")
    )
    task = ner.Ner(data)
    task.prepare(*planted_tasks.TRAINING)
    assert task.majority_baseline()["dev"]["entity_f1"] == 0.5
    task.files.pop("train")
    assert task.majority_baseline() == {}


def test_prediction_uses_the_labels_of_the_model(tmp_path):
    (tmp_path / "dev").write_text("EU B-X\n")
    data = ner_files.NerData(dev_file=str(tmp_path / "dev"))
    metadata = {"task": "tagging", "labels": ["O", "I-X", "B-X"]}
    task = ner.Ner(data)
    task.prepare(*planted_tasks.evaluation(metadata))
    assert task.labels == ["O", "I-X", "B-X"]
    assert [s.tags for s in task.read("dev").sentences] == [("B-X",)]
    task = ner.Ner(dataclasses.replace(data, entity_types=("X",)))
    task.prepare(*planted_tasks.evaluation(metadata))
    assert task.labels == ["O", "I-X", "B-X"]
    task = ner.Ner(dataclasses.replace(data, entity_types=("X", "Y")))
    with pytest.raises(
        ValueError, match="--entity_types=X,Y: model predicts X. Omit"
    ):
        task.prepare(*planted_tasks.evaluation(metadata))
    with pytest.raises(ValueError, match="a model of task spans, not of tag"):
        task.prepare(*planted_tasks.evaluation({"task": "spans"}))


def test_a_test_file_with_tags_is_scored(tmp_path):
    text = "EU B-ORG\n\nRom B-LOC\nNew B-LOC\nYork I-LOC\n"
    for name, content in (("train", text), ("dev", text), ("test", text)):
        (tmp_path / name).write_text(content)
    (tmp_path / "bare").write_text("EU\n\nRom\nNew\nYork\n")
    files = {f"{x}_file": str(tmp_path / x) for x in ("train", "dev", "test")}
    bare = {"test_file": str(tmp_path / "bare"), "test_has_tags": False}
    for options, is_labelled in ((bare, False), ({}, True)):
        task = ner.Ner(ner_files.NerData(**files | options))
        task.prepare(*planted_tasks.TRAINING)
        weights = np.array([[1, 0, 0], [1, 1, 1]])
        task.tags = dict.fromkeys(["dev", "test"], (weights, weights * 0))
        assert ("test" in task.majority_baseline()) == is_labelled
    # EU is right, of Rom and New York only Rom: 2 of 3, and 2 of 2.
    ids = np.array([[3, 0, 0], [1, 0, 0]])
    assert task.labels[3] == "B-ORG" and task.labels[1] == "B-LOC"
    outputs = {"logits": np.eye(len(task.labels), dtype=np.float32)[ids]}
    unit, size, score = task.resampled("dev", outputs)
    assert (unit, size, score(np.array([0, 1]))) == ("sentences", 2, 0.8)
    assert score(np.array([0, 0])) == 1
