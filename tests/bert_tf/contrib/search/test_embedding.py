"""embedding.py: vectors of a file's rows, in parts, and a stopped run."""

import dataclasses
import datetime
import decimal
import gzip
import json
import pathlib
import uuid

import exports
import numpy as np
import pytest

import bert_tf
from bert_tf.contrib.search import embedding

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
        text_column=("body",),
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
    wanted = expected(config, config.prompt or "")
    assert vectors.dtype == config.dtype and vectors.shape == wanted.shape
    tolerance = 1e-5 if config.dtype == "float32" else 2e-3
    np.testing.assert_allclose(vectors, wanted, tolerance, tolerance)
    assert "is no folder of sentence-transformers: vectors" in caplog.text
    # Those of three and four times five tokens, two more, [CLS] and [SEP].
    if not config.prompt:
        assert "8 of 23 texts have more than max_seq_length=16" in caplog.text


def stop_at(number, config, monkeypatch):
    """Runs until the part of a number is to be made."""
    make, made = embedding._make_part, []

    def stop(*words):
        if len(made) == number:
            raise KeyboardInterrupt
        made.append(make(*words))
        return made[-1]

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(embedding, "_make_part", stop)
        embedding.embed(config)


@pytest.mark.usefixtures("eagerly")
def test_a_stopped_run_is_resumed(config, monkeypatch, caplog):
    caplog.set_level("INFO", logger="absl")
    embedding.embed(config)
    undisturbed = pathlib.Path(config.output_file).read_bytes()
    resumed = dataclasses.replace(
        config, output_file=config.output_file.replace("a.npy", "b.npy")
    )
    stop_at(2, resumed, monkeypatch)
    embedding.embed(resumed)
    assert "2 of 5 parts exist already" in caplog.text
    # Those of the first two parts are counted, too.
    assert caplog.text.count("8 of 23 texts have more") == 2
    assert pathlib.Path(resumed.output_file).read_bytes() == undisturbed


@pytest.mark.usefixtures("eagerly")
@pytest.mark.usefixtures("eagerly")
def test_a_run_stopped_before_its_metadata_makes_no_part_again(
    config, monkeypatch
):
    sidecar = pathlib.Path(config.output_file + embedding.SIDECAR)
    sidecar.write_text("of other vectors")
    write = embedding.json_files.write

    def stop(path, content):
        if path == str(sidecar):
            raise KeyError
        write(path, content)

    with monkeypatch.context() as patch, pytest.raises(KeyError):
        patch.setattr(embedding.json_files, "write", stop)
        embedding.embed(config)
    assert not sidecar.exists()
    monkeypatch.setattr(embedding, "_make_part", None)
    embedding.embed(config)
    assert sidecar.exists()


def test_parts_of_other_rows_are_not_used(config, tmp_path, monkeypatch):
    stop_at(1, config, monkeypatch)
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
        text_column=("1",),
        id_column="0",
        output_file=str(tmp_path / "a.parquet"),
    )
    rows = next(embedding.read_parts(config))
    assert rows[1] == (f"{path}:2", TEXTS[1], "71")


@pytest.mark.usefixtures("eagerly")
def test_a_file_that_changes_during_a_run_is_refused(config, monkeypatch):
    make = embedding._make_part

    def change(*words):
        with open(config.input_file, "a") as file:
            file.write('\n{"body": "one more"}')
        return make(*words)

    monkeypatch.setattr(embedding, "_make_part", change)
    with pytest.raises(ValueError, match=r"a.jsonl has changed since the run"):
        embedding.embed(config)
    assert not pathlib.Path(config.output_file).exists()


@pytest.mark.parametrize(
    "rows",
    [
        [("f:1", "a", ""), ("f:3", "b", "")],  # Other lines.
        [("f:1", "a", "x"), ("f:2", "b", "")],
        [("f:1", "ab", ""), ("f:2", "", "")],
    ],
)
def test_digests_are_of_lines_texts_and_ids(rows):
    assert embedding.digest(rows) != embedding.digest(
        [("f:1", "a", ""), ("f:2", "b", "")]
    )


def test_a_dense_layer_decides_the_parts(config, made_once, tmp_path):
    # Parts of a run with other weights of the modules must not be joined.
    folder = exports.model_folder(made_once, "sentence_embedding")
    config = dataclasses.replace(
        config, model_dir=str(folder), layers=("-1", "-2")
    )
    _, embedder = embedding.open_embedder(config)
    assert embedder.predictor.answers.steps.tensors()
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            embedding.part_files,
            "write",
            lambda path, settings, *_, **__: found.append(settings),
        )
        embedding.embed(config)
    assert len(found[0]["tensors"]) == 2
    assert found[0]["prompt"] == "the "  # The folder's default.


@pytest.mark.parametrize(
    ("changes", "prompt"),
    [
        ({}, "the "),
        ({"prompt_name": "a passage"}, "old bread:"),
        ({"prompt_name": ""}, ""),
        ({"prompt": "it "}, "it "),
        ({"prompt": ""}, ""),
    ],
)
def test_a_prompt_is_given_or_named(config, caplog, changes, prompt):
    caplog.set_level("INFO", logger="absl")
    config = dataclasses.replace(config, **changes)
    assert embedding.choose_prompt(exports.PROMPTS, config) == prompt
    assert f"before texts is put {prompt!r}" in caplog.text


def test_a_prompt_that_is_not_there_or_given_twice_is_refused(config):
    config = dataclasses.replace(config, prompt_name="x")
    with pytest.raises(ValueError, match="=x: the model has no prompts"):
        embedding.embed(config)
    with pytest.raises(ValueError, match="prompt=a is given instead of --pro"):
        dataclasses.replace(config, prompt="a")


@pytest.mark.usefixtures("eagerly")
def test_vectors_have_the_default_prompt_of_the_folder(config, made_once):
    folder = exports.model_folder(made_once, "sentence_embedding")
    settings = {"layers": ("-1", "-2")}
    config = dataclasses.replace(config, model_dir=str(folder), **settings)
    embedding.embed(config)
    embed = bert_tf.Predictor(folder, prompt_name="", **settings)
    np.testing.assert_allclose(
        np.load(config.output_file),
        embed(["the " + text for text in TEXTS]),
        **exports.ROUNDING,
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id_column": "body"}, "is also the name of the text. Name another"),
        (
            {"id_column": "text", "text_column": None},
            "is also the name of the text. Name another",
        ),
        ({"id_column": "line"}, "also the name of a column that is written"),
    ],
)
def test_other_columns_are_refused(config, tmp_path, changes, message):
    path = str(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=message):
        config = dataclasses.replace(config, output_file=path, **changes)
        list(embedding.read_parts(config))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"body": "x"}, "a.jsonl:24: no column 'id'; there are 'body'. Name"),
        ({"body": "x", "id": None}, "a.jsonl:24: 'id' is None; an id should "),
        ({"body": "x", "id": ""}, "a.jsonl:24: 'id' is ''; an id should be a"),
        ({"body": "x", "id": [1]}, "'id' is [1]; an id should be a string"),
        ({"body": "x", "id": True}, "'id' is True; an id should be a string"),
    ],
)
def test_rows_without_id_are_named(config, tmp_path, row, message):
    with open(config.input_file, "a") as file:
        file.write("\n" + json.dumps(row))
    config = dataclasses.replace(
        config, output_file=str(tmp_path / "a.parquet"), id_column="id"
    )
    with pytest.raises(ValueError) as raised:
        list(embedding.read_parts(config))
    assert message in str(raised.value)


# Rows of which only the fourth and the last have a text, in parts of five.
EMPTY = [{"body": " "}, {"body": "\u200b\0"}, {"body": None}, {"body": "cat"}]
EMPTY += [{}] * 6 + [{"body": 7}]


@pytest.fixture
def with_empty(config, tmp_path):
    rows = [row | {"id": i, "text": "x"} for i, row in enumerate(EMPTY)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return config


def test_rows_without_text_are_refused_and_counted(with_empty):
    with pytest.raises(ValueError) as raised:
        embedding.embed(with_empty)
    assert "a.jsonl:1 has no text, so it has no vector; 9 of 11 rows have " in (
        str(raised.value)
    )
    pathlib.Path(with_empty.input_file).write_text('{"body": ""}\n' * 3)
    for given in (
        dataclasses.replace(with_empty, empty_rows="zero"),
        with_empty,
    ):
        with pytest.raises(
            ValueError, match="a.jsonl:1: text is missing, .* all 3 "
        ):
            embedding.embed(given)
    with pytest.raises(ValueError, match="skip needs --id_column, or nobody"):
        dataclasses.replace(with_empty, empty_rows="skip")


@pytest.mark.usefixtures("eagerly")
def test_rows_without_text_are_zeros(with_empty, monkeypatch, caplog):
    caplog.set_level("INFO", logger="absl")
    config = dataclasses.replace(with_empty, empty_rows="zero")
    stop_at(2, config, monkeypatch)
    assert embedding.embed(config) == len(EMPTY)
    assert "2 of 3 parts exist already" in caplog.text
    assert "9 of 11 rows have no text, the first is" in caplog.text
    predictor = bert_tf.Predictor(config.model_dir, kind="sentence_embedding")
    vectors = np.load(config.output_file)
    np.testing.assert_allclose(
        vectors[[3, 10]], predictor(["cat", "7"]), 1e-5, 1e-5
    )
    assert not np.delete(vectors, [3, 10], axis=0).any()


@pytest.mark.parametrize("ids", ["id", "text"])
def test_rows_without_text_are_left_out(with_empty, ids):
    config = dataclasses.replace(
        with_empty, output_file="a.parquet", id_column=ids, empty_rows="skip"
    )
    names = ("3", "10") if ids == "id" else ("x", "x")
    empty = []
    assert list(embedding.read_parts(config, empty)) == [
        [(f"{config.input_file}:4", "cat", names[0])],
        [(f"{config.input_file}:11", "7", names[1])],
    ]
    lines = [int(where.rpartition(":")[2]) for where in empty]
    assert lines == [1, 2, 3, *range(5, 11)]
    sizes, skipped = embedding._check_rows(config)
    assert sizes == [1, 1]
    zero = dataclasses.replace(config, empty_rows="zero")
    assert embedding._check_rows(zero)[1] != skipped


@pytest.mark.usefixtures("eagerly")
def test_rows_of_several_files_have_their_ids(config, tmp_path):
    parquet = pytest.importorskip(
        "pyarrow.parquet", reason="make test-engines installs it"
    )
    content = gzip.compress(b'id,body\nc1,"a, ship"\nc2, \n')
    (tmp_path / "c.csv.gz").write_bytes(content)
    path = str(tmp_path / "a.parquet")
    config = dataclasses.replace(
        config,
        input_file=f"{tmp_path / 'c.csv.gz'},{config.input_file}",
        output_file=path,
        id_column="id",
        empty_rows="skip",
    )
    assert embedding.embed(config) == 1 + len(TEXTS)
    table = parquet.read_table(path).to_pydict()
    assert table["id"] == ["c1", *(f"d{i}" for i in range(len(TEXTS)))]
    assert table["line"] == [2, *range(1, 1 + len(TEXTS))]
    np.testing.assert_allclose(
        np.array(table["embedding"])[1:], expected(config), 1e-5, 1e-5
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (9.0, "9.0"),
        (7, "7"),
        (decimal.Decimal("2.50"), "2.5"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (datetime.date(2020, 1, 2), "2020-01-02"),
    ],
)
def test_ids_are_texts(value, text):
    row = embedding.text_rows.Row(3, {"id": value, "text": "a"})
    assert embedding._check(row, "id", "f") == ("f:3", "a", text)


def test_a_number_too_large_for_float16_is_named_with_its_file(config):
    def embedder(texts):
        return np.array([[1.0], [1e6]], np.float32)

    embedder.num_cut = 0
    config = dataclasses.replace(config, dtype="float16")
    with (
        pytest.raises(ValueError, match="b.csv:7 has a vector with .*float16"),
        np.errstate(over="ignore"),
    ):
        rows = [("a.csv:9", "a", ""), ("b.csv:7", "b", "")]
        embedding._make_part(rows, embedder, config)
