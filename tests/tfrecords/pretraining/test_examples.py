"""examples.py: documents to arrays; golden digests and statistics."""

import dataclasses
import hashlib
import json

import numpy as np
import pytest

from tfrecords import schema
from tfrecords.inspection import samples
from tfrecords.io import serialization
from tfrecords.pretraining import examples as examples_lib
from tfrecords.pretraining import (
    masking,
    sentence_pairs,
    token_files,
)
from tfrecords.pretraining import settings as settings_lib
from tfrecords.text import documents, tokenizer

CLS, SEP, MASK = 1, 2, 3
VOCABULARY = masking.Vocabulary(200, CLS, SEP, MASK, np.zeros(200, bool))
SETTINGS = settings_lib.Settings(
    max_seq_length=32, max_predictions_per_seq=5, dupe_factor=3
)


def random_documents(count=20, seed=0):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 12, count)
    lengths = rng.integers(1, 15, counts.sum())
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    return token_files.Documents(
        tokens=rng.integers(4, 200, bounds[-1]).astype(np.uint16),
        sentence_bounds=bounds,
        document_bounds=np.concatenate([[0], np.cumsum(counts)]),
        numbers=np.arange(count) * 10,
    )


def make(source, statistics=None, shard=0, **changes):
    """Returns the examples of changed settings, with all their features."""
    settings = dataclasses.replace(SETTINGS, **changes)
    blocks = list(
        examples_lib.make_examples(
            *(source, VOCABULARY, settings, shard),
            {} if statistics is None else statistics,
        )
    )
    found = {
        name: np.concatenate([block[name] for block in blocks])
        for name in blocks[0]
    }
    features = schema.SCHEMAS[settings.schema_name]
    schema.check(found, features, settings.sizes)
    serialized = examples_lib.serialize(iter(blocks), settings)
    assert len(list(serialized)) == len(found["input_mask"])
    return found


def pack(rows, max_seq_length, **changes):
    """Packs pairs of the tokens 20 to 29."""
    pairs = sentence_pairs.truncate(np.array(rows), max_seq_length)
    tokens = np.arange(20, 30).astype(np.uint16)
    return examples_lib.pack(
        tokens, pairs, VOCABULARY, max_seq_length, **changes
    )


def test_pairs_are_packed_with_cls_and_sep():
    features = pack([[0, 2, 6, 9, 0, 0], [5, 8, 0, 1, 1, 0]], 9)
    assert features["input_word_ids"].tolist() == [
        [CLS, 20, 21, SEP, 26, 27, 28, SEP, 0],
        [CLS, 25, 26, 27, SEP, 20, SEP, 0, 0],
    ]
    assert features["input_mask"].tolist() == [
        [1, 1, 1, 1, 1, 1, 1, 1, 0],
        [1, 1, 1, 1, 1, 1, 1, 0, 0],
    ]
    assert features["input_type_ids"].tolist() == [
        [0, 0, 0, 0, 1, 1, 1, 1, 0],
        [0, 0, 0, 0, 0, 1, 1, 0, 0],
    ]


def test_single_segments_are_packed_with_cls_and_sep():
    rows = [[0, 4, 4, 4, 0, 0], [5, 6, 6, 6, 0, 0]]
    found = pack(rows, 6, is_single=True)
    assert found["input_word_ids"].tolist() == [
        [CLS, 20, 21, 22, 23, SEP],
        [CLS, 25, SEP, 0, 0, 0],
    ]
    assert found["input_mask"].tolist() == [[1] * 6, [1, 1, 1, 0, 0, 0]]
    assert not found["input_type_ids"].any()


def test_single_segments_hold_all_text_and_have_no_label():
    source, statistics = random_documents(), {}
    found = make(
        source,
        statistics,
        pairs="none",
        masking_time="dynamic",
        dupe_factor=1,
        short_seq_prob=0.0,
    )
    assert list(found) == list(schema.ENCODER_INPUTS)
    num_tokens = found["input_mask"].sum(axis=1)
    is_text = found["input_word_ids"] > MASK
    assert sorted(found["input_word_ids"][is_text]) == sorted(source.tokens)
    assert statistics == {
        "unused_tokens": 0,
        "unknown_tokens": 0,
        "examples": len(num_tokens),
        "example_tokens": num_tokens.sum(),
    }


def test_single_segments_are_masked_like_pairs():
    found = make(random_documents(), pairs="none")
    assert set(found) == set(schema.PRETRAINING) - {"next_sentence_labels"}
    masked = found["masked_lm_weights"].sum() / found["input_mask"].sum()
    assert abs(masked - 0.15) < 0.02


def test_swapped_pairs_have_labels():
    found = make(random_documents(), pairs="sentence_order")
    assert set(found) == set(schema.PRETRAINING)
    assert 0 < found["next_sentence_labels"].mean() < 1


def test_unmasked_examples_are_the_masked_ones_before_masking():
    found = make(random_documents(), masking_time="dynamic")
    masked = make(random_documents())
    assert set(found) == set(schema.UNMASKED_PAIRS)
    for name in ("input_mask", "input_type_ids", "next_sentence_labels"):
        np.testing.assert_array_equal(found[name], masked[name])
    np.testing.assert_array_equal(
        found["input_word_ids"], samples.unmask(masked)
    )


@pytest.mark.parametrize(
    ("is_words", "digest"),
    [
        (
            False,
            "b4357244899b08758bd92eeb644e33e46532ac7eff87ffa8743baa0df3f25613",
        ),
        (
            True,
            "5575863ce2d7f15e1a95e2d9dfd26a95b10049d20e52673b2233f13533314675",
        ),
    ],
)
def test_records_are_those_of_the_first_version(is_words, digest):
    settings = dataclasses.replace(SETTINGS, do_whole_word_mask=is_words)
    found = make(random_documents(), do_whole_word_mask=is_words)
    digests = hashlib.sha256()
    for serialized in examples_lib.serialize(iter([found]), settings):
        digests.update(serialized)
    assert digests.hexdigest() == digest


@pytest.mark.parametrize("pairs", ["next_sentence", "none", "sentence_order"])
def test_packed_rows_hold_the_same_examples(pairs):
    changes = {"short_seq_prob": 0.9, "pairs": pairs}
    statistics = {}
    unpacked = make(random_documents(), **changes)
    rows = make(
        random_documents(), statistics, max_examples_per_row=4, **changes
    )
    assert statistics["examples"] == len(unpacked["input_mask"])
    assert statistics["rows"] == len(rows["input_mask"])
    assert statistics["rows"] < 0.9 * statistics["examples"]
    packed, _ = samples.unpack(rows)
    assert packed.keys() == unpacked.keys()

    def contents(batch):
        """Returns all features of each example, without padding, in order."""
        arrays = [batch[name] for name in sorted(batch)]
        arrays = [array.reshape(len(array), -1) for array in arrays]
        return sorted(
            [np.trim_zeros(array[row], "b").tolist() for array in arrays]
            for row in range(len(arrays[0]))
        )

    assert contents(packed) == contents(unpacked)


def test_repetitions_of_a_document_differ():
    found = make(random_documents(1), dupe_factor=50)
    rows = [row.tobytes() for row in found["input_word_ids"]]
    assert len(set(rows)) > 0.9 * len(rows)


def test_examples_do_not_depend_on_the_block_size(monkeypatch):
    whole = make(random_documents())
    monkeypatch.setattr(examples_lib, "_BLOCK_POSITIONS", 7 * 32)
    parts = make(random_documents())
    for name in schema.PRETRAINING:
        np.testing.assert_array_equal(whole[name], parts[name])


def test_a_larger_dupe_factor_only_adds_examples():
    few, more = (
        serialization.serialize_rows(
            make(random_documents(), dupe_factor=factor),
            schema.PRETRAINING,
            SETTINGS.sizes,
        )
        for factor in (3, 4)
    )
    assert set(few) < set(more)


def test_each_shard_has_its_own_order():
    one, other = (make(random_documents(), shard=s) for s in (0, 1))
    one, other = one["input_word_ids"], other["input_word_ids"]
    assert one.tolist() != other.tolist()
    assert sorted(one.tolist()) == sorted(other.tolist())


def test_another_seed_gives_other_examples():
    one = make(random_documents())["input_word_ids"]
    two = make(random_documents(), random_seed=1)["input_word_ids"]
    assert one.tolist() != two.tolist()


def test_statistics_count_the_examples():
    statistics = {"documents": 1}
    found = make(random_documents(), statistics)
    assert (
        statistics.items()
        >= {
            "documents": 1,
            "examples": len(found["input_mask"]),
            "example_tokens": found["input_mask"].sum(),
        }.items()
    )


@pytest.mark.parametrize("is_words", [False, True])
def test_statistics_are_those_of_the_original_on_its_sample_text(
    tmp_path, shared_data, is_words
):
    name = f"whole_word_{str(is_words).lower()}.json"
    path = shared_data / "golden" / "google_create_pretraining_data" / name
    golden = json.loads(path.read_text())
    split = tokenizer.BertTokenizer(
        str(shared_data / "vocab" / "bert-base-uncased-vocab.txt")
    )

    def tokenize(sentences):
        ids = split(sentences)
        return ids.flat_values.numpy(), ids.row_lengths().numpy()

    path = str(tmp_path / "path")
    text = documents.read_documents([str(shared_data / golden["input"])])
    token_files.write(
        path, (d.sentences for d in text), tokenize, split.vocab_size
    )
    found = token_files.read(
        [path], token_files.locate([path]), split.vocab_size
    )
    flags = {k: v for k, v in golden["flags"].items() if k != "do_lower_case"}
    counts = []
    for seed in range(40):
        statistics = {}
        settings = settings_lib.Settings(**(flags | {"random_seed": seed}))
        vocabulary = masking.Vocabulary.of(split.vocab)
        blocks = list(
            examples_lib.make_examples(
                found, vocabulary, settings, 0, statistics
            )
        )
        random_next, predictions = (
            sum(block[name].sum() for block in blocks)
            for name in ("next_sentence_labels", "masked_lm_weights")
        )
        counts.append(
            [
                statistics["examples"],
                random_next,
                statistics["example_tokens"] / statistics["examples"],
                predictions / statistics["examples"],
            ]
        )
    rows = golden["records"]
    original = [
        len(rows),
        sum(row["next_sentence_labels"][0] for row in rows),
        np.mean([sum(row["input_mask"]) for row in rows]),
        np.mean([sum(row["masked_lm_weights"]) for row in rows]),
    ]
    # A run of the original is one sample of the distribution over our seeds.
    mean, deviation = np.mean(counts, axis=0), np.std(counts, axis=0)
    assert (abs(original - mean) < 3.5 * deviation).all()
