"""ranker.py: the scores of a cross-encoder, in the order of passages."""

import dataclasses

import keras
import numpy as np
import pytest
import run_processes

import bert_tf
from bert_tf.contrib.search import ranker as ranker_lib
from bert_tf.contrib.search.records import text_examples, text_tables
from bert_tf.workflows.configs import FineTuningConfig
from tfrecords import schema
from tfrecords.io.records import Records
from tfrecords.text.tokenizer import BertTokenizer

ROWS = [
    ("who sat", ["the cat sat", "a ship", "the old captain"]),
    ("the sea", ["rain", "the sea", "who"]),
]


@pytest.fixture
def folder(tmp_path, tiny_config):
    """A cross-encoder with random weights."""
    config = dataclasses.replace(tiny_config, initializer_range=0.5)
    keras.utils.set_random_seed(1)
    model = bert_tf.BertRegressor(config)
    tokenizer = BertTokenizer(str(run_processes.VOCAB_FILE), do_lower_case=True)
    path = tmp_path / "teacher"
    bert_tf.save(model, path, tokenizer=tokenizer)
    return path


def ranker(folder, **options):
    config = FineTuningConfig(
        output_dir="run", do_train=True, teacher=str(folder), **options
    )
    return ranker_lib.Ranker(config)


def test_scores_are_those_of_the_pairs(folder):
    found = ranker(folder)(ROWS)
    predict = bert_tf.Predictor(folder)
    for (query, passages), scores in zip(ROWS, found, strict=True):
        pairs = predict([(query, passage) for passage in passages])
        assert scores == pytest.approx([x.score for x in pairs], abs=1e-5)
        assert sorted(scores) != scores[::-1]


def test_scores_are_in_the_records_of_train_alone(folder, tmp_path):
    lines = ["\t".join([query, *texts]) for query, texts in ROWS * 5]
    path = tmp_path / "rows.tsv"
    path.write_text("\n".join(["q\ta\tb\tc", *lines]))
    data = text_tables.SimilarityData(
        train_file=str(path),
        dev_file=str(path),
        text_column=("q", "a", "b", "c"),
    )
    rank = ranker(folder)
    tokenizer = BertTokenizer(str(run_processes.VOCAB_FILE), do_lower_case=True)
    folders = text_examples.make_records(
        data,
        str(tmp_path / "records"),
        tokenizer,
        max_seq_length=8,
        seed=1,
        rank=rank,
    )
    train, dev = (Records.open(folders[name]) for name in ("train", "dev"))
    assert train.manifest.schema_name == "taught_texts"
    assert train.manifest.flags["teacher"] == rank.sha256
    assert dev.manifest.schema_name == "texts"
    found = train.read(schema.TAUGHT_TEXTS)["teacher_scores"]
    np.testing.assert_allclose(found, rank(ROWS) * 5, atol=1e-6)


def test_a_model_that_scores_no_pairs_is_refused(folder, tmp_path):
    model, tokenizer = bert_tf.load(
        folder, task="classification", labels=["a", "b"]
    )
    bert_tf.save(model, tmp_path / "other", tokenizer=tokenizer)
    with pytest.raises(ValueError, match="is a model of classification; vec"):
        ranker(tmp_path / "other")


def test_other_options_of_a_teacher_are_refused(folder):
    with pytest.raises(ValueError, match="--temperature: from a ranking, the"):
        ranker(folder, temperature=3.0)
