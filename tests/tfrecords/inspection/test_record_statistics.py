"""record_statistics.py: counts of a few examples that are counted by hand."""

import dataclasses
import os

import numpy as np
import pytest

from tfrecords import schema
from tfrecords.inspection import record_statistics
from tfrecords.io import atomic_files, records
from tfrecords.pretraining import masking
from tfrecords.text import vocab

ENTRIES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ENTRIES += [f"w{n}" for n in range(5, 30)] + [f"##x{n}" for n in range(30, 40)]
CLS, SEP, MASK = 2, 3, 4
VOCABULARY = masking.Vocabulary.of(ENTRIES)
SIZES = {"max_seq_length": 10, "max_predictions_per_seq": 3}


def example(a, b, masked, label):
    """Features of one example; `masked` says place to (original, shown)."""
    ids = [CLS, *a, SEP, *b, SEP]
    for place, (original, shown) in masked.items():
        assert ids[place] == original
        ids[place] = shown
    places = list(masked)
    unused = [0] * (3 - len(masked))
    rest = [0] * (10 - len(ids))
    return {
        "input_word_ids": np.array(ids + rest),
        "input_mask": np.array([1] * len(ids) + rest),
        "input_type_ids": np.array(
            [0] * (len(a) + 2) + [1] * (len(b) + 1) + rest
        ),
        "masked_lm_positions": np.array(places + unused),
        "masked_lm_ids": np.array([masked[p][0] for p in places] + unused),
        "masked_lm_weights": np.array([1.0] * len(places) + unused, np.float32),
        "next_sentence_labels": np.array(label),
    }


EXAMPLES = [
    # Masked; a random word.
    example([5, 6], [7, 8, 9], {1: (5, MASK), 6: (9, 38)}, 0),
    # Kept.
    example([5], [7], {1: (5, 5)}, 1),
    # A ## piece without and one with the piece before it.
    example([5, 30], [7, 31], {2: (30, MASK), 4: (7, MASK), 5: (31, 31)}, 1),
]
BATCH = {
    name: np.stack([row[name] for row in EXAMPLES])
    for name in schema.PRETRAINING
}


def count(batch=BATCH, seed=0):
    return record_statistics.count(
        batch, VOCABULARY, np.random.default_rng(seed)
    )


def counts_of(pairs, length):
    found = np.zeros(length, int)
    for value, number in pairs.items():
        found[value] = number
    return found.tolist()


def write(folder, vocab_file=None, **changes):
    """Writes the examples as a set of records of ours."""
    os.makedirs(folder)
    serialized = [
        schema.serialize(row, schema.PRETRAINING, SIZES) for row in EXAMPLES
    ]
    path = os.path.join(folder, "train-00000-of-00001.tfrecord")
    vocabulary = {"size": len(ENTRIES)}
    if vocab_file:
        vocabulary["sha256"] = vocab.digest(vocab_file)
    manifest = records.Manifest(
        schema_name="pretraining",
        sizes=SIZES,
        flags={},
        vocabulary=vocabulary,
        statistics={},
        shards=[records.write_shard(path, serialized)],
    )
    dataclasses.replace(manifest, **changes).write(folder)


@pytest.fixture
def vocab_file(tmp_path):
    path = str(tmp_path / "vocab.txt")
    vocab.write(ENTRIES, path)
    return path


def test_lengths_segments_and_labels():
    found = count()
    assert found.num_examples == 3
    assert found.tokens.tolist() == counts_of({8: 1, 5: 1, 7: 1}, 11)
    assert found.a_tokens.tolist() == counts_of({1: 1, 2: 2}, 11)
    assert found.b_tokens.tolist() == counts_of({1: 1, 2: 1, 3: 1}, 11)
    assert found.labels.tolist() == [1, 2]


def test_masked_tokens_and_what_is_shown():
    found = count()
    assert found.masked.sum() == 3
    assert found.masked[8, 2] == found.masked[5, 1] == found.masked[7, 3] == 1
    assert found.shown.tolist() == [3, 1, 2]  # [MASK], random, kept.
    # 38 of 40 entries is in the last of 20 bins.
    assert found.random_words.tolist() == counts_of({19: 1}, 20)
    assert found.joined.tolist() == [1, 1]
    assert found.originals.tolist() == counts_of(
        {5: 2, 7: 1, 9: 1, 30: 1, 31: 1}, 40
    )


def test_places_are_in_the_range_of_their_token():
    seen = {name: set() for name in ("first", "second", "third")}
    for seed in range(60):
        rows = [
            np.flatnonzero(
                count(
                    {
                        name: array[row : row + 1]
                        for name, array in BATCH.items()
                    },
                    seed,
                ).places
            ).tolist()
            for row in range(3)
        ]
        for name, bins in zip(seen, rows, strict=True):
            seen[name].update(bins)
    # Tokens 1 and 5 of 5; 1 of 2; 3 of 4, as ## pieces do not count.
    assert seen["first"] == {*range(0, 4), *range(16, 20)}
    assert seen["second"] == {*range(0, 10)}
    assert seen["third"] == {*range(10, 15)}


def test_parts_add_up():
    parts = [
        count({name: array[rows] for name, array in BATCH.items()})
        for rows in (slice(0, 1), slice(1, 3))
    ]
    whole, added = count(), record_statistics.add(parts)
    for name in set(whole._fields) - {"places"}:
        np.testing.assert_array_equal(
            getattr(whole, name), getattr(added, name), err_msg=name
        )
    assert whole.places.sum() == added.places.sum() == 4


def test_records_are_counted_in_parts(tmp_path, vocab_file, monkeypatch):
    write(str(tmp_path / "set"), vocab_file)
    monkeypatch.setattr(record_statistics, "_READ_EXAMPLES", 2)
    sides = [record_statistics.open_sets(str(tmp_path / "set"))]
    (found,) = record_statistics.count_sides(sides, vocab_file)[0]
    assert found.num_examples == 3
    assert found.shown.tolist() == [3, 1, 2]


def test_records_of_the_original_are_counted_alike(
    tmp_path, vocab_file, samples
):
    write(str(tmp_path / "set"), vocab_file)
    samples.write_legacy(str(tmp_path / "legacy-0"), 3)
    samples.write_legacy(str(tmp_path / "legacy-1"), 4)
    sets = record_statistics.open_sets(
        f"{tmp_path}/set,{tmp_path}/legacy-*,{tmp_path}/legacy-0"
    )
    assert [len(found) for found in sets] == [3, 7, 3]
    assert [found.legacy_names for found in sets] == [False, True, True]
    assert record_statistics.find_sizes(sets[1]) == samples.sizes
    found = record_statistics.count_records(
        sets[1], samples.sizes, VOCABULARY, np.random.default_rng(0)
    )
    # Numbered examples of 8 tokens, places 1 and 2 masked and kept.
    assert found.num_examples == 7
    assert found.tokens[8] == 7
    assert found.shown.tolist() == [0, 0, 14]


def test_globs_of_folders_are_a_set_each(tmp_path):
    for name in "ba":
        write(str(tmp_path / name / "train"))
    sets = record_statistics.open_sets(f"{tmp_path}/*/train")
    assert [found.paths[0].split("/")[-3] for found in sets] == ["a", "b"]


def test_what_cannot_be_compared_is_named(tmp_path, vocab_file):
    write(str(tmp_path / "one"), vocab_file)
    write(str(tmp_path / "task"), vocab_file, schema_name="classification")
    write(str(tmp_path / "alone"), vocab_file, schema_name="masked_lm")
    write(
        str(tmp_path / "long"),
        vocab_file,
        sizes=SIZES | {"max_seq_length": 12},
    )

    def compare(name):
        sides = [
            record_statistics.open_sets(f"{tmp_path}/{part}")
            for part in ("one", name)
        ]
        record_statistics.count_sides(sides, vocab_file)

    with pytest.raises(ValueError, match="holds examples of 'classification'"):
        compare("task")
    with pytest.raises(ValueError, match="'masked_lm'; this compares .* pairs"):
        compare("alone")
    with pytest.raises(ValueError, match="'max_seq_length': 10.*12.*the same"):
        compare("long")
    with pytest.raises(ValueError, match="No records are named by ' ,'"):
        record_statistics.open_sets(" ,")
    with pytest.raises(ValueError, match="No records at .*nowhere"):
        compare("nowhere")
    with atomic_files.atomic_file(vocab_file) as file:
        file.write("\n".join([*ENTRIES[:-1], "other", ""]))
    with pytest.raises(ValueError, match="made with a vocabulary of sha256"):
        compare("one")
