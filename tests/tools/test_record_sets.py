"""record_sets.py: sets of records are opened and counted, or refused."""

import numbered_records
import numpy as np
import pytest
from counted_examples import ENTRIES, SIZES, VOCABULARY, write

from tfrecords.text import vocab
from tools import record_sets


@pytest.fixture
def vocab_file(tmp_path):
    path = str(tmp_path / "vocab.txt")
    vocab.write(ENTRIES, path)
    return path


def test_records_are_counted_in_parts_and_those_of_the_original_as_ours(
    tmp_path, vocab_file, monkeypatch
):
    monkeypatch.setattr(record_sets, "_READ_EXAMPLES", 2)
    write(str(tmp_path / "set"), vocab_file)
    numbered_records.write_legacy(str(tmp_path / "legacy-0"), 3)
    numbered_records.write_legacy(str(tmp_path / "legacy-1"), 4)
    sets = record_sets.open_sets(f"{tmp_path}/set,{tmp_path}/legacy-*")
    assert [found.legacy_names for found in sets] == [False, True]
    (found,) = record_sets.count_sides([sets[:1]], vocab_file)[0]
    assert (found.num_examples, found.shown.tolist()) == (3, [3, 1, 2])
    assert record_sets.find_sizes(sets[1]) == numbered_records.sizes
    found = record_sets.count_records(
        sets[1], numbered_records.sizes, VOCABULARY, np.random.default_rng(0)
    )
    # Numbered examples of 8 tokens; positions 1 and 2 are masked and kept.
    assert found.num_examples == found.tokens[8] == 7
    assert found.shown.tolist() == [0, 0, 14]


def test_each_folder_of_a_glob_is_a_set(tmp_path):
    for name in "ba":
        write(str(tmp_path / name / "train"))
    sets = record_sets.open_sets(f"{tmp_path}/*/train")
    assert [found.paths[0].split("/")[-3] for found in sets] == ["a", "b"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"schema_name": "masked_lm"},
            "'masked_lm'; only pre-training .*pairs",
        ),
        ({"sizes": SIZES | {"max_seq_length": 12}}, "10.*12.*the same"),
    ],
)
def test_sets_that_cannot_be_compared_are_refused(
    tmp_path, vocab_file, changes, message
):
    write(str(tmp_path / "one"), vocab_file)
    write(str(tmp_path / "other"), vocab_file, **changes)
    paths = f"{tmp_path}/one", f"{tmp_path}/other"
    sides = [record_sets.open_sets(path) for path in paths]
    with pytest.raises(ValueError, match=message):
        record_sets.count_sides(sides, vocab_file)
