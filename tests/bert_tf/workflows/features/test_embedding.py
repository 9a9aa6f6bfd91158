"""embedding.py: vectors of a file's rows, in parts, and a stopped run."""

import dataclasses
import json
import pathlib

import exports
import numpy as np
import pytest

import bert_tf
from bert_tf.workflows.features import embedding

TEXTS = [f"{'the cat sat on bread ' * (i % 5)}a ship" for i in range(23)]


@pytest.fixture(scope="module")
def model_dir(made_once):
    return exports.model_folder(made_once, "fill_mask")


@pytest.fixture
def config(tmp_path, model_dir, monkeypatch):
    """Of rows with ids, in parts of five rows."""
    monkeypatch.setattr(embedding, "_ROWS_PER_PART", 5)
    rows = [{"id": f"d{i}", "body": text} for i, text in enumerate(TEXTS)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return embedding.EmbeddingConfig(
        model_dir=str(model_dir),
        input_file=str(tmp_path / "a.jsonl"),
        text_a_column="body",
        output_file=str(tmp_path / "a.npy"),
        batch_size=2,
    )


def expected(config, prompt=""):
    predictor = bert_tf.Predictor(
        config.model_dir,
        kind="sentence_embedding",
        pooling=config.pooling,
        layers=config.layers,
    )
    return predictor([prompt + text for text in TEXTS])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"pooling": "max", "prompt": "query: "},
        {"dtype": "float16"},
    ],
)
def test_vectors_are_those_of_a_predictor(config, caplog, changes):
    caplog.set_level("INFO", logger="absl")
    config = dataclasses.replace(config, **changes)
    assert embedding.embed(config) == len(TEXTS)
    vectors = np.load(config.output_file)
    wanted = expected(config, config.prompt)
    assert vectors.dtype == config.dtype and vectors.shape == wanted.shape
    tolerance = 1e-5 if config.dtype == "float32" else 2e-3
    np.testing.assert_allclose(vectors, wanted, tolerance, tolerance)
    assert "is no folder of sentence-transformers: a vector" in caplog.text
    # Those of three and four times five tokens, two more, [CLS] and [SEP].
    if not config.prompt:
        assert "8 of 23 texts have more than max_seq_length=16" in caplog.text


def test_a_stopped_run_is_resumed(config, monkeypatch, caplog):
    caplog.set_level("INFO", logger="absl")
    embedding.embed(config)
    undisturbed = pathlib.Path(config.output_file).read_bytes()
    resumed = dataclasses.replace(
        config, output_file=config.output_file.replace("a.npy", "b.npy")
    )
    make, made = embedding._Parts.make, []

    def stop_at_third(self, number):
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(number)
        return make(self, number)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(embedding._Parts, "make", stop_at_third)
        embedding.embed(resumed)
    embedding.embed(resumed)
    assert "2 of 5 parts exist already" in caplog.text
    assert pathlib.Path(resumed.output_file).read_bytes() == undisturbed


def test_parts_of_other_rows_are_not_used(config, tmp_path, monkeypatch):
    make = embedding._Parts.make

    def stop(self, number):
        if number:
            raise KeyboardInterrupt
        return make(self, number)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(embedding._Parts, "make", stop)
        embedding.embed(config)
    text = "a ship on bread"
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    lines[0] = json.dumps({"id": "d0", "body": text})
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    embedding.embed(config)
    predictor = bert_tf.Predictor(config.model_dir, kind="sentence_embedding")
    np.testing.assert_allclose(
        np.load(config.output_file)[0], predictor(text), 1e-5, 1e-5
    )


@pytest.mark.parametrize("ids", ["id", None])
def test_a_parquet_file_has_lines_ids_and_vectors(config, tmp_path, ids):
    parquet = pytest.importorskip(
        "pyarrow.parquet", reason="make test-engines installs it"
    )
    path = str(tmp_path / "a.parquet")
    config = dataclasses.replace(config, output_file=path, id_column=ids)
    embedding.embed(config)
    table = parquet.read_table(path).to_pydict()
    assert list(table) == ["line", *[ids] * bool(ids), "embedding"]
    assert table["line"] == list(range(1, len(TEXTS) + 1))
    if ids:
        assert table[ids] == [f"d{i}" for i in range(len(TEXTS))]
    np.testing.assert_allclose(
        np.array(table["embedding"]), expected(config), 1e-5, 1e-5
    )


def test_ids_of_a_table_without_a_header(config, tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"7{i}\t{text}\n" for i, text in enumerate(TEXTS)))
    config = dataclasses.replace(
        config,
        input_file=str(path),
        text_a_column="1",
        id_column="0",
        output_file=str(tmp_path / "a.parquet"),
    )
    rows = list(embedding._read_rows(config))
    assert rows[:2] == [(1, TEXTS[0], "70"), (2, TEXTS[1], "71")]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"body": " "}, "a.jsonl:24 has no text, so it has no vector"),
        ({"body": "x"}, "a.jsonl:24: 'id' is None; an id should be a string"),
        ({"body": "x", "id": [1]}, "'id' is [1]; an id should be a string"),
        ({"body": "x", "id": True}, "'id' is True; an id should be a string"),
    ],
)
def test_rows_without_text_or_id_are_named(config, tmp_path, row, message):
    with open(config.input_file, "a") as file:
        file.write("\n" + json.dumps(row))
    config = dataclasses.replace(
        config, output_file=str(tmp_path / "a.parquet"), id_column="id"
    )
    with pytest.raises(ValueError) as raised:
        list(embedding._read_rows(config))
    assert message in str(raised.value)
