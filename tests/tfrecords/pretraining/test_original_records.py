"""original_records.py: the original's records, value for value."""

import dataclasses
import json
import os

import numpy as np
import planted_data
import pytest

from tfrecords import schema
from tfrecords.io import records
from tfrecords.pretraining import corpus, original_records
from tfrecords.pretraining import records as pretraining_records
from tfrecords.pretraining import settings as settings_lib
from tfrecords.text import text_files

# Records of the original, from text that exercises all of its rules.
_PATH = planted_data.DATA / "google_create_pretraining_data.json"
GOLDEN = json.loads(_PATH.read_text("utf-8"))
RUNS = range(len(GOLDEN["runs"]))


@pytest.fixture
def text(tmp_path, tiny_vocab_file):
    """The golden text as files; one of them is read twice."""
    for name, content in GOLDEN["files"].items():
        (tmp_path / name).write_bytes(content.encode())
    named = ",".join(str(tmp_path / name) for name in GOLDEN["input_files"])
    return corpus.Corpus(
        input_file=named,
        vocab_file=tiny_vocab_file,
        input_format="sentences",
    )


def output(tmp_path, **changes):
    return pretraining_records.Output(
        output_dir=str(tmp_path / "out"), **{"compat": "original"} | changes
    )


def features_of(paths, sizes):
    """Returns the features of all records, in their order."""
    found = records.Records(paths)
    serialized = found.get(np.arange(len(found)))
    parsed = schema.parse(serialized, schema.PRETRAINING, sizes)
    return {name: tensor.numpy() for name, tensor in parsed.items()}


def compare(found, expected):
    """Compares features with rows that have the original's names."""
    for name, values in found.items():
        legacy = schema.LEGACY_NAMES.get(name, name)
        rows = np.array([row[legacy] for row in expected])
        np.testing.assert_array_equal(
            values, rows.reshape(values.shape), err_msg=name
        )


def rows_of(shard):
    return [dict(zip(GOLDEN["features"], row, strict=True)) for row in shard]


@pytest.mark.parametrize("number", RUNS)
def test_records_are_those_of_the_original(text, tmp_path, number):
    run = GOLDEN["runs"][number]
    settings = settings_lib.Settings(**run["flags"])
    manifests = pretraining_records.make(
        text, settings, output(tmp_path, num_shards=len(run["shards"]))
    )
    folder = tmp_path / "out" / "train"
    manifest = manifests["train"]
    assert len(manifest.shards) == len(run["shards"])
    for info, expected in zip(manifest.shards, run["shards"], strict=True):
        found = features_of([str(folder / info.name)], settings.sizes)
        compare(found, rows_of(expected))
    assert records.Manifest.read(str(folder)) == manifest
    assert sorted(os.listdir(tmp_path / "out")) == ["progress.jsonl", "train"]


@pytest.mark.parametrize("is_words", [False, True])
def test_records_of_the_sample_text_are_those_of_the_original(
    tmp_path, shared_data, is_words
):
    name = f"whole_word_{str(is_words).lower()}.json"
    path = shared_data / "golden" / "google_create_pretraining_data" / name
    golden = json.loads(path.read_text())
    text = corpus.Corpus(
        input_file=str(shared_data / golden["input"]),
        vocab_file=str(shared_data / "vocab" / "bert-base-uncased-vocab.txt"),
        do_lower_case=golden["flags"].pop("do_lower_case"),
    )
    settings = settings_lib.Settings(**golden["flags"])
    manifest = pretraining_records.make(text, settings, output(tmp_path))
    shard = str(tmp_path / "out" / "train" / manifest["train"].shards[0].name)
    found = features_of([shard], settings.sizes)
    assert len(golden["records"]) == {False: 60, True: 64}[is_words]
    compare(found, golden["records"])


def test_a_document_ends_at_a_blank_line_and_not_at_the_end_of_a_file(tmp_path):
    (tmp_path / "a").write_bytes(b"one \r\n\t\r\n\ntwo\rthree\nfour")
    (tmp_path / "b").write_bytes("five\n\u3000\x1c\nsix\n\n".encode())
    statistics = text_files.ReadStatistics()
    found = original_records.read_documents(
        [str(tmp_path / "a"), str(tmp_path / "b")], statistics
    )
    assert list(found) == [["one"], ["twothree", "four", "five"], ["six"]]
    assert statistics == text_files.ReadStatistics(
        files=2, documents=3, sentences=5
    )


def test_the_manifest_holds_statistics(text, tmp_path):
    settings = settings_lib.Settings(**GOLDEN["runs"][1]["flags"])
    manifest = pretraining_records.make(
        text, settings, output(tmp_path, num_shards=2)
    )["train"]
    rows = [
        row for shard in GOLDEN["runs"][1]["shards"] for row in rows_of(shard)
    ]
    statistics = manifest.statistics
    assert manifest.num_examples == statistics["examples"] == len(rows)
    assert statistics["documents"] == 7  # Two continue in the next file.
    tokens = sum(sum(row["input_mask"]) for row in rows)
    assert statistics["example_tokens"] == tokens
    assert statistics["corpus"]["files"] == 4


def test_text_without_a_token_raises(text, tmp_path):
    (tmp_path / "empty.txt").write_bytes(b"\n\n\n")
    text = dataclasses.replace(text, input_file=str(tmp_path / "empty.txt"))
    with pytest.raises(ValueError, match="no sentence with a token in the 1"):
        pretraining_records.make(
            text, settings_lib.Settings(), output(tmp_path)
        )


@pytest.mark.parametrize(
    "changes",
    [
        {"masking": "spans"},
        {"mask_mix": ("mask:1",)},
        {"pairs": "none"},
        {"masking_time": "dynamic"},
        {"max_examples_per_row": 2},
        {"held_out_prob": 0.1},
        {"input_format": "text"},
        {"drop_duplicates": ("lines",)},
    ],
)
def test_what_the_original_does_not_support_is_refused(text, changes):
    (name,) = changes
    original_records.check(
        text, settings_lib.Settings(do_whole_word_mask=True), 0.0
    )
    settings, held_out = {}, 0.0
    if name == "held_out_prob":
        held_out = changes[name]
    elif hasattr(text, name):
        text = dataclasses.replace(text, **changes)
    else:
        settings = changes
    with pytest.raises(ValueError, match=f"--{name}=.* cannot be combined wit"):
        original_records.check(
            text, settings_lib.Settings(**settings), held_out
        )
