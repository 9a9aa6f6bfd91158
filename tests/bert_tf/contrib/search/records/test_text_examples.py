"""Records of similar texts: layout, the rows of dev."""

import numpy as np
import pytest
import run_processes

from bert_tf.contrib.search.options import EmbeddingData
from bert_tf.contrib.search.records import text_examples
from bert_tf.contrib.search.records.text_tables import SimilarityData
from tfrecords import schema
from tfrecords.inspection import record_checks, sample_statistics
from tfrecords.io.records import Records
from tfrecords.text.tokenizer import BertTokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer(str(run_processes.VOCAB_FILE), do_lower_case=True)


def make(folder, tokenizer, rows, *columns, **options):
    """Returns split -> Records of a table."""
    path = folder / "pairs.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    data = SimilarityData(train_file=str(path), text_column=columns, **options)
    folders = text_examples.make_records(
        data, str(folder / "records"), tokenizer, max_seq_length=8, seed=1
    )
    return {name: Records.open(found) for name, found in folders.items()}


def test_each_text_is_a_row_of_its_record(tmp_path, tokenizer):
    rows = [("a", "b", "y"), ("the ship", "the old captain", "2")]
    rows += [("the sea", " ".join(["sea"] * 9), "4")]
    options = {"score_column": "y", "score_range": ("0", "4"), "dev_share": 0.0}
    (records,) = make(tmp_path, tokenizer, rows, "b", "a", **options).values()
    assert records.manifest.schema_name == "scored_texts"
    assert records.manifest.sizes == {"num_texts": 2, "max_seq_length": 8}
    assert records.manifest.statistics["truncated_texts"] == 1
    batch = records.read(schema.SCORED_TEXTS)
    assert batch["label_scores"].tolist() == [0.5, 1]
    assert not batch["input_type_ids"].any()
    for row, texts in enumerate(rows[1:]):
        for column, text in enumerate((texts[1], texts[0])):
            (ids,) = tokenizer([text]).to_list()
            ids = [tokenizer.cls_id, *ids[:6], tokenizer.sep_id]
            found = batch["input_word_ids"][row, column]
            assert found.tolist() == ids + [0] * (8 - len(ids))
            mask = batch["input_mask"][row, column]
            np.testing.assert_array_equal(mask, np.arange(8) < len(ids))


def test_records_say_how_long_first_texts_are(tmp_path, tokenizer):
    rows = [("a", "b")] + [("the", " ".join(["sea"] * 9))] * 8
    rows += [("the sea the", "sea")]
    splits = make(tmp_path, tokenizer, rows, "a", "b", dev_share=0.4)
    name = "longest_first_text"
    longest = {x.manifest.statistics[name] for x in splits.values()}
    assert longest <= {3, 5} and 5 in longest
    folders = {x: str(tmp_path / "records" / x) for x in splits}
    assert text_examples.first_length(folders) == 8
    assert text_examples.first_length({}) is None
    assert text_examples.first_length({"dev_search": "no folder"}) is None


def test_rows_of_equal_first_texts_are_held_out_together(tmp_path, tokenizer):
    words = "sea ship captain crew old near".split()
    rows = [("a", "b")] + [(x, f"the {y}") for x in words for y in words[:4]]
    splits = make(tmp_path, tokenizer, rows, "a", "b", dev_share=0.34)
    firsts = []
    for name in ("train", "dev"):
        batch = splits[name].read(schema.TEXTS)
        firsts.append({tuple(x) for x in batch["input_word_ids"][:, 0]})
    assert not firsts[0] & firsts[1]
    assert len(splits["train"]) + len(splits["dev"]) == 24
    assert len(firsts[1]) == 2


def test_sentences_alone_have_no_dev(tmp_path, tokenizer):
    rows = [("a",), *[("the sea",)] * 9]
    assert list(make(tmp_path, tokenizer, rows, "a")) == ["train"]


def test_too_few_rows_for_dev_are_named(tmp_path, tokenizer):
    with pytest.raises(ValueError, match="pairs.tsv has too few rows to hold"):
        make(tmp_path, tokenizer, [("a", "b"), ("the sea", "ship")], "a", "b")


def test_prompts_are_before_first_and_other_texts(tmp_path, tokenizer):
    rows = [("a", "b"), ("the sea", "a ship"), ("who", "the crew")]
    path = tmp_path / "pairs.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    data = SimilarityData(
        train_file=str(path), text_column=("a", "b"), dev_share=0.0
    )
    folders = text_examples.make_records(
        *(data, str(tmp_path / "records"), tokenizer),
        max_seq_length=8,
        seed=1,
        prompts=("near ", "old "),
    )
    records = Records.open(folders["train"])
    assert records.manifest.flags["prompts"] == ["near ", "old "]
    ids = records.read(schema.TEXTS)["input_word_ids"]
    expected = tokenizer(["near the sea", "old a ship"]).to_list()
    for found, (*wanted,) in zip(ids[0], expected, strict=True):
        assert found[1 : 1 + len(wanted)].tolist() == wanted


def test_queries_and_documents_are_one_split(tmp_path, tokenizer):
    for name, content in {
        "queries.jsonl": '{"id": "q", "text": "who sat"}\n',
        "corpus.jsonl": '{"id": "1", "text": ""}\n'
        '{"id": "2", "text": "the cat"}\n',
        "qrels": "q 0 2 1\n",
    }.items():
        (tmp_path / name).write_text(content)
    data = EmbeddingData(
        corpus_file=str(tmp_path / "corpus.jsonl"),
        queries_file=str(tmp_path / "queries.jsonl"),
        judgements_file=str(tmp_path / "qrels"),
    )
    folders = text_examples.make_records(
        *(data, str(tmp_path / "records"), tokenizer),
        max_seq_length=8,
        seed=1,
        search=data,
        prompts=("old ", "near "),
    )
    assert list(folders) == [text_examples.SEARCH]
    records = Records.open(folders[text_examples.SEARCH])
    ids = records.read(schema.TEXTS)["input_word_ids"][:, 0]
    expected = tokenizer(["old who sat", "near the cat"]).to_list()
    assert [[x for x in row if x][1:-1] for row in ids.tolist()] == expected


def test_texts_that_repeat_are_no_fault(tmp_path, tokenizer):
    rows = [("a", "b"), *[("the sea", "a ship")] * 9]
    make(tmp_path, tokenizer, rows, "a", "b", dev_share=0.0)
    folder = str(tmp_path / "records" / "train")
    opened = Records.open(folder)
    sample, errors = sample_statistics.count(
        opened, "texts", opened.manifest.sizes, None, 203, None
    )
    assert not errors
    found = record_checks.check_sample(
        *(sample, opened.manifest.flags, None),
        first=opened.first,
        is_pretraining=False,
    )
    assert found == []
