"""extract_features: compared with the original's output; output formats.

tests/data/extract_features.jsonl was written by the original's
extract_features.py for TEXTS and tiny_tf1_checkpoint, with
--max_seq_length=16 --layers=-1,0.
"""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoint import model_folders
from bert_tf.model import models
from bert_tf.workflows.features import feature_extraction
from run_scripts import extract_features
from tfrecords.io import atomic_files, json_files

GOLDEN = pathlib.Path(__file__).parents[1] / "data" / "extract_features.jsonl"
TEXTS = """All work and no play ||| makes Jack a dull boy

a ||| b ||| jack
  all work and no play makes jack a dull boy, and all work and no boy  
play and play and play and work ||| no work no work no work no work
dull |||
"""


def run(*flags):
    extract_features.main(["extract_features", *map(str, flags)])


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def model(tmp_path_factory, tiny_config, tiny_vocab_file):
    folder = tmp_path_factory.mktemp("model") / "model"
    with atomic_files.atomic_folder(str(folder)) as aside:
        model_folders.save_model(
            aside,
            models.BertRegressor(tiny_config),
            metadata={"task": "regression", "do_lower_case": True},
            vocabulary=pathlib.Path(tiny_vocab_file).read_bytes(),
        )
    return folder


def test_the_length_is_that_of_a_folder_for_sentences(model, tmp_path, texts):
    folder = tmp_path / "sentences"
    shutil.copytree(model, folder)
    metadata = json_files.read(str(folder / "model.json"))
    metadata |= {
        "max_seq_length": 6,
        "sentence_embedding": {"pooling": ["mean"], "steps": []},
    }
    json_files.write(str(folder / "model.json"), metadata)
    flags = [f"--input_file={texts}", f"--init_checkpoint={folder}"]
    flags.append("--layers=-1")
    for words, most in ([], 6), (["--max_seq_length=8"], 8):
        output = tmp_path / f"{most}.jsonl"
        run(*flags, f"--output_file={output}", *words)
        lengths = [len(line["features"]) for line in lines_of(output)]
        assert max(lengths) == most


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """A file of 20 lines, which is processed in three parts."""
    monkeypatch.setattr(feature_extraction, "_LINES_PER_PART", 8)
    path = tmp_path / "texts.txt"
    rows = ["the ship", "sea ||| the captain and the crew", "", "zq! was"]
    path.write_text("\n".join(rows[i % 4] for i in range(20)) + "\n")
    return path


def test_the_output_equals_that_of_the_original(shared_data, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text(TEXTS)
    checkpoint = shared_data / "golden" / "tiny_tf1_checkpoint"
    run(
        f"--input_file={path}",
        f"--output_file={tmp_path / 'features.jsonl'}",
        f"--init_checkpoint={checkpoint}",
        "--layers=-1,0",
        "--max_seq_length=16",
    )
    found, expected = lines_of(tmp_path / "features.jsonl"), lines_of(GOLDEN)
    assert len(found) == len(expected) == 6
    for ours, theirs in zip(found, expected, strict=True):
        assert list(ours) == list(theirs) == ["linex_index", "features"]
        assert ours["linex_index"] == theirs["linex_index"]
        for a, b in zip(ours["features"], theirs["features"], strict=True):
            assert list(a) == list(b) == ["token", "layers"]
            assert a["token"] == b["token"]
            for x, y in zip(a["layers"], b["layers"], strict=True):
                assert list(x) == list(y) == ["index", "values"]
                assert x["index"] == y["index"]
                assert x["values"] == pytest.approx(y["values"], abs=3e-6)


def extract(model, texts, output, *flags):
    run(
        f"--input_file={texts}",
        f"--output_file={output}",
        f"--init_checkpoint={model}",
        "--max_seq_length=8",
        *flags,
    )


@pytest.mark.usefixtures("eagerly")
def test_all_formats_hold_the_same_numbers(model, texts, tmp_path):
    files = {
        name: tmp_path / f"features.{name}"
        for name in ("json", "npz", "tfrecord")
    }
    for name, path in files.items():
        extract(model, texts, path, f"--output_format={name}", "--layers=-1,-2")
    rows = lines_of(files["json"])
    assert [row["linex_index"] for row in rows] == list(range(20))
    # [CLS] sea [SEP] the captain and the [SEP], truncated to 8; empty line.
    assert [len(row["features"]) for row in rows[:4]] == [4, 8, 2, 6]
    with np.load(files["npz"]) as arrays:
        arrays = dict(arrays)
    assert arrays["values"].dtype == np.float32
    assert arrays["layers"].tolist() == [-1, -2]
    splits = arrays["row_splits"]
    examples = list(tf.data.TFRecordDataset(str(files["tfrecord"])))
    assert len(splits) - 1 == len(examples) == 20
    for row, begin, end, data in zip(
        rows, splits[:-1], splits[1:], examples, strict=True
    ):
        values = arrays["values"][begin:end]  # [tokens, 2, H]
        from_json = [
            [layer["values"] for layer in token["layers"]]
            for token in row["features"]
        ]
        np.testing.assert_allclose(values, from_json, atol=6e-7)
        example = tf.train.Example.FromString(data.numpy()).features.feature
        assert example["linex_index"].int64_list.value[0] == row["linex_index"]
        assert example["token_ids"].int64_list.value[:] == (
            arrays["token_ids"][begin:end].tolist()
        )
        flat = np.array(example["values"].float_list.value, np.float32)
        assert (flat.reshape(values.shape) == values).all()


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("change", ["config", "text"])
def test_parts_of_other_inputs_are_not_reused(
    model, texts, tmp_path, monkeypatch, change
):
    before, content = model, texts.read_text()
    if change == "config":
        model = shutil.copytree(model, tmp_path / "other")
        config = json_files.read(str(model / "bert_config.json"))
        assert config["hidden_act"] == "gelu"
        changed = config | {"hidden_act": "relu"}
        json_files.write(str(model / "bert_config.json"), changed)
    expected, found = tmp_path / "expected", tmp_path / "found"
    extract(model, texts, expected, "--layers=-1")
    to_json, _ = feature_extraction.FORMATS["json"]
    read = feature_extraction._read_lines

    def read_before_the_change(path):
        # As a pipe gives, or a file that changes once it was read.
        texts.write_text(content.replace("ship", "crew"))
        lines = read(path)
        texts.write_text(content)
        return lines

    def stop(file, parts):
        raise KeyboardInterrupt  # When all parts have been written.

    with monkeypatch.context() as patch:
        patch.setitem(feature_extraction.FORMATS, "json", (to_json, stop))
        if change == "text":
            patch.setattr(
                feature_extraction, "_read_lines", read_before_the_change
            )
        with pytest.raises(KeyboardInterrupt):
            extract(before, texts, found, "--layers=-1")
    extract(model, texts, found, "--layers=-1")
    assert found.read_bytes() == expected.read_bytes()


def test_bad_flags_and_an_empty_input_are_refused(model, texts, tmp_path):
    output = tmp_path / "out"
    for flag, message in (
        ("--layers=-3", "layers has '-3'; expected integers from -2 to 1"),
        ("--max_seq_length=65", "65 .*max_position_embeddings=64"),
    ):
        with pytest.raises(ValueError, match=message):
            extract(model, texts, output, flag)
    texts.write_text("")
    with pytest.raises(ValueError, match="texts.txt has no line"):
        extract(model, texts, output, "--layers=0")
    assert not output.exists()
