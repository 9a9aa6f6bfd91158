"""swag_examples.py: each ending is packed as a separate pair."""

import numpy as np
import planted_swag as planted
import pytest

from tfrecords import schema
from tfrecords.io import records
from tfrecords.reading import batches, static_lengths
from tfrecords.tasks import swag_examples
from tfrecords.tasks.swag_files import SwagData
from tfrecords.text import tokenizer as tokenizer_lib

# To trace the tokenizer takes longer than a few rows.
pytestmark = pytest.mark.usefixtures("eagerly")


@pytest.fixture
def tokenizer(tiny_vocab_file):
    return tokenizer_lib.BertTokenizer(tiny_vocab_file)


@pytest.fixture
def folder(tmp_path):
    planted.write(tmp_path / "train.csv", planted.rows(7))
    planted.write(tmp_path / "val.csv", planted.rows(3, 2), planted.header(2))
    planted.write(
        tmp_path / "test.csv",
        planted.rows(2, is_labelled=False),
        planted.header(is_labelled=False),
    )
    return tmp_path


def open_splits(folder, tokenizer, max_seq_length=32):
    folders = swag_examples.make_records(
        SwagData(data_dir=str(folder)).find_files(),
        str(folder / "records"),
        tokenizer,
        max_seq_length=max_seq_length,
    )
    return {s: records.Records.open(path) for s, path in folders.items()}


def test_a_record_has_a_row_for_each_ending(folder, tokenizer):
    sets = open_splits(folder, tokenizer)
    sizes = {"num_choices": 2, "max_seq_length": 32}
    assert sets["dev"].manifest.sizes == sizes
    found = sets["train"].read(schema.MULTIPLE_CHOICE)
    assert found["label_ids"].tolist() == [0, 1, 2, 3, 0, 1, 2]
    for row, cells in enumerate(planted.rows(7)):
        endings = [f"{cells[5]} {cells[7 + choice]}" for choice in range(4)]
        first, *others = tokenizer([cells[4], *endings]).to_list()
        for choice, second in enumerate(others):
            wanted = [tokenizer.cls_id, *first, tokenizer.sep_id]
            wanted = [*wanted, *second, tokenizer.sep_id][:32]
            ids, mask, types = (
                found[name][row, choice]
                for name in ("input_word_ids", "input_mask", "input_type_ids")
            )
            assert ids[mask > 0].tolist() == wanted
            assert types.sum() == len(second) + 1
            assert mask.sum() == len(wanted)


def test_truncated_endings_are_counted(folder, tokenizer):
    sets = open_splits(folder, tokenizer, max_seq_length=12)
    statistics = sets["train"].manifest.statistics
    assert statistics["rows"] == 7
    assert statistics["truncated_endings"] == 28
    assert statistics["tokens"] == 28 * 12


def test_batches_are_trimmed_to_the_bucket_of_their_longest_ending(
    folder, tokenizer
):
    found = open_splits(folder, tokenizer)["train"]
    sizes = found.manifest.sizes
    lengths = static_lengths.read(found, 32)
    whole = found.read(schema.MULTIPLE_CHOICE)
    longest = whole["input_mask"].sum(axis=-1).max(axis=-1)
    assert lengths.tolist() == longest.tolist()
    buckets = static_lengths.choose(lengths, 32)
    rows = {}
    for batch in batches.evaluation_batches(
        found,
        schema.MULTIPLE_CHOICE,
        sizes,
        batch_size=2,
        vocab_size=tokenizer.vocab_size,
        bucket_lengths=buckets,
    ):
        assert batch["input_word_ids"].shape[:2] == (2, 4)
        assert batch["input_word_ids"].shape[2] in buckets
        for row, is_real in enumerate(batch["is_real_example"]):
            if is_real:
                rows[int(batch["example_index"][row])] = batch[
                    "input_word_ids"
                ][row].numpy()
    for number, ids in sorted(rows.items()):
        wanted = whole["input_word_ids"][number]
        np.testing.assert_array_equal(ids, wanted[:, : ids.shape[1]])
        assert not wanted[:, ids.shape[1] :].any()
    assert len(rows) == 7
