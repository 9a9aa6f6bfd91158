"""records.py: folders with a manifest, foreign files, checks for a model."""

import contextlib
import json
import os
import pathlib

import hypothesis
import numbered_records
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from tfrecords import schema
from tfrecords.io import records
from tfrecords.pretraining import settings

SIZES = {"max_seq_length": 8, "max_predictions_per_seq": 2}


@pytest.fixture
def folder(tmp_path, samples):
    samples.write_folder(str(tmp_path / "train"))
    return str(tmp_path / "train")


def test_records_are_read_as_they_were_written(folder, samples):
    found = records.Records.open(folder)
    assert len(found) == 10
    numbers = np.array([9, 0, 3, 3, 7])
    assert found.get(numbers) == [samples.serialized(n) for n in numbers]


def test_the_manifest_is_read_as_it_was_written(folder, samples):
    manifest = records.Manifest.read(folder)
    assert manifest == samples.write_folder(folder)
    assert manifest.num_examples == 10
    assert records.Records.open(folder).manifest == manifest


@contextlib.contextmanager
def changed(folder):
    """Yields the entries of a manifest to change."""
    path = pathlib.Path(folder) / "manifest.json"
    content = json.loads(path.read_text())
    yield content
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("of", "name", "message"),
    [
        (None, "libraries", "libraries is missing"),
        (None, "digest", "diges is unknown"),
        ("vocabulary", "sha256", "vocabulary.sha256 is missing"),
        ("vocabulary", "size", "vocabulary.size is missing"),
        ("vocabulary", "do_lower_case", "vocabulary.do_lower_case is missing"),
        ("flags", "pairs", "flags.pairs is missing"),
        ("flags", "masking", "flags.masking is missing"),
    ],
)
def test_a_renamed_entry_switches_no_comparison_off(
    folder, samples, of, name, message
):
    flags = settings.Settings().describe() | {"version": 2}
    samples.write_folder(folder, flags=flags)
    with changed(folder) as content:
        entries = content[of] if of else content
        entries[name[:-1]] = entries.pop(name)
    with pytest.raises(ValueError, match=f"manifest.json: {message}"):
        records.Records.open(folder)


def test_an_unknown_entry_of_the_vocabulary_is_refused(folder):
    with changed(folder) as content:
        content["vocabulary"]["sizes"] = 1
    with pytest.raises(ValueError, match="vocabulary.sizes is unknown"):
        records.Manifest.read(folder)


def test_the_manifest_is_readable_json(folder):
    with open(os.path.join(folder, "manifest.json")) as file:
        text = file.read()
    assert text.startswith('{\n  "num_examples": 10,\n  "digest": "')
    assert json.loads(text)["shards"][1]["num_examples"] == 5


def test_equal_records_have_equal_digests(tmp_path, samples):
    one = samples.write_folder(str(tmp_path / "a"))
    assert one.digest == samples.write_folder(str(tmp_path / "b")).digest
    other = samples.write_folder(str(tmp_path / "c"), (3, 5, 3))
    assert one.digest != other.digest


def test_a_glob_of_foreign_files_is_read(tmp_path, samples):
    for name in "ab":
        samples.write_legacy(str(tmp_path / f"{name}.tfrecord"))
    found = records.Records.open(str(tmp_path / "*.tfrecord"))
    assert len(found) == 8
    assert found.legacy_names and found.manifest is None
    batch = schema.parse(
        found.get([5]), schema.PRETRAINING, SIZES, found.legacy_names
    )
    assert batch["input_word_ids"].numpy().tolist() == [[1] * 8]


def test_our_shards_given_as_files_have_our_feature_names(folder):
    found = records.Records.open(f"{folder}/*.tfrecord")
    assert not found.legacy_names
    assert len(found) == 10


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ("train,*.tfrecord", "is a folder. Give one folder that"),
        ("none*", "No records at .*give the folder"),
        (".", "has no manifest.json: its records"),
    ],
)
def test_paths_without_records_are_named(tmp_path, monkeypatch, paths, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        records.Records.open(paths)


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 99) | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
_paths = st.sampled_from(
    [
        *[(name,) for name in records._CONTENT],
        *[("shards", 0), ("shards", 1, "name"), ("shards", 0, "num_bytes")],
        *[("shards", 1, "num_examples"), ("sizes", "max_seq_length")],
        *[("flags", "labels"), ("flags", "dupe_factor"), ("sizes", "x")],
        *[("vocabulary", "size"), ("vocabulary", "do_lower_case")],
    ]
)


@pytest.fixture(scope="module")
def module_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzzed") / "train"
    numbered_records.write_folder(str(folder))
    return folder


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(_paths, _values)
def test_any_manifest_is_read_or_rejected(module_folder, path, value):
    file = module_folder / "manifest.json"
    before = file.read_text()
    content = entry = json.loads(before)
    for key in path[:-1]:
        entry = entry[key]
    entry[path[-1]] = value
    try:
        file.write_text(json.dumps(content))
        opened = records.Records.open(str(module_folder))
        opened.check(schema.PRETRAINING, opened.manifest.sizes)
    except ValueError as error:
        assert str(module_folder) in str(error)
    finally:
        file.write_text(before)


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(st.binary(max_size=300), st.integers(0, 2000))
def test_any_bytes_in_a_manifest_are_read_or_rejected(
    module_folder, data, offset
):
    file = module_folder / "manifest.json"
    before = file.read_bytes()
    try:
        file.write_bytes(before[:offset] + data + before[offset:])
        records.Records.open(str(module_folder))
    except ValueError as error:
        assert str(module_folder) in str(error)
    finally:
        file.write_bytes(before)


def test_an_edited_digest_is_named(folder):
    with changed(folder) as content:
        content["shards"][1]["sha256"] = "aa"
    with pytest.raises(ValueError, match="manifest.json: digest is .* edited"):
        records.Records.open(folder)


def test_a_shard_with_another_number_of_records_is_named(folder):
    with changed(folder) as content:
        content["shards"][1]["num_examples"] = 6
    with pytest.raises(ValueError, match="lists 6 records in .*, which has 5"):
        records.Records.open(folder)


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", " is not JSON .*make the file again"),
        ("{}", ": schema_name is missing or null; it should be a string"),
        ('{"schema_name": 3}', ": schema_name is 3; it should be a string"),
    ],
)
def test_a_broken_manifest_is_named(tmp_path, text, message):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ValueError, match=f"{tmp_path}/manifest.json{message}"):
        records.Records.open(str(tmp_path))


def test_a_missing_shard_is_named(folder):
    os.remove(os.path.join(folder, "train-00001-of-00003.tfrecord"))
    with pytest.raises(ValueError, match="00001-of-00003.*not in the folder"):
        records.Records.open(folder)


@pytest.mark.parametrize("num_records", [1, 9])
def test_a_shard_of_another_run_is_named(folder, samples, num_records):
    path = os.path.join(folder, "train-00001-of-00003.tfrecord")
    records.write_shard(path, [samples.serialized(1)] * num_records)
    with pytest.raises(ValueError, match="bytes; the manifest lists"):
        records.Records.open(folder)


def test_shards_are_compared_up_to_a_number_of_bytes(
    folder, samples, monkeypatch
):
    opened = records.Records.open(folder)
    shards = opened.manifest.shards
    samples.damage(opened.paths[2], 40)
    sizes = [shard.num_bytes for shard in shards]
    # The second is the largest, and left out.
    enough = sizes[0] + sizes[2]
    assert sizes[1] > sizes[2]
    monkeypatch.setattr(records, "DIGEST_BYTES", enough - 1)
    records.check_digests(folder, shards)
    monkeypatch.setattr(records, "DIGEST_BYTES", enough)
    with pytest.raises(ValueError, match="00002-of-00003.*is not the shard"):
        records.check_digests(folder, shards)


def test_a_record_that_does_not_exist_is_named(folder):
    with pytest.raises(ValueError, match="Record 10 of 10 does not exist"):
        records.Records.open(folder).get([10])


def test_matching_records_pass_the_check(folder):
    found = records.Records.open(folder)
    found.check(schema.PRETRAINING, SIZES, 100, "aa")
    found.check(schema.ENCODER_INPUTS, {"max_seq_length": 8})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"sizes": SIZES | {"max_seq_length": 16}},
            r"train-00000.*record 0.*has 8 values of 'input_word_ids'; "
            "expected max_seq_length=16",
        ),
        (
            {"sizes": SIZES | {"max_predictions_per_seq": 5}},
            "has 2 values of 'masked_lm_positions'",
        ),
        (
            {"vocab_size": 99},
            "made with 100 tokens; the model has vocab_size=99",
        ),
        ({"vocab_sha256": "bb"}, "vocabulary of sha256 aa"),
        ({"schema": schema.CLASSIFICATION}, "and no 'label_ids'"),
    ],
)
def test_mismatched_records_are_rejected(folder, changes, message):
    arguments = {"schema": schema.PRETRAINING, "sizes": SIZES} | changes
    with pytest.raises(ValueError, match=message):
        records.Records.open(folder).check(**arguments)


def test_foreign_records_that_do_not_match_are_named(tmp_path, samples):
    samples.write_legacy(str(tmp_path / "a"))
    found = records.Records.open(str(tmp_path / "a"))
    found.check(schema.PRETRAINING, SIZES, 12345, "any")
    sizes = SIZES | {"max_seq_length": 16}
    with pytest.raises(ValueError, match="/a', record 0.*'input_ids'"):
        found.check(schema.PRETRAINING, sizes)
    samples.write_legacy(str(tmp_path / "b"), drop=["segment_ids"])
    found = records.Records.open(str(tmp_path / "b"))
    with pytest.raises(ValueError, match="and no 'segment_ids'"):
        found.check(schema.PRETRAINING, SIZES)


def test_records_that_are_not_examples_are_named(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "a")) as writer:
        writer.write(b"\xff\xff\xff")
    with pytest.raises(ValueError, match="record 0.*is not a tf.train.Example"):
        records.Records.open(str(tmp_path / "a"))


def test_empty_records_are_rejected(tmp_path, samples):
    samples.write_folder(str(tmp_path), counts=(0,))
    with pytest.raises(ValueError, match="hold no example"):
        records.Records.open(str(tmp_path)).check(schema.PRETRAINING, SIZES)


def test_a_shard_may_have_brackets_in_its_name(tmp_path, samples):
    path = str(tmp_path / "a [1].tfrecord")
    samples.write_legacy(path)
    assert len(records.Records.open(path)) == 4
