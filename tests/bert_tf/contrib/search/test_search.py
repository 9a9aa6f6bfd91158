"""search.py: the nearest rows of vectors that embed wrote."""

import dataclasses
import itertools
import json
import os
import shutil

import exports
import numpy as np
import pytest

import bert_tf
from bert_tf.contrib.search import embedding, retrieval, search

WORDS = ("the", "cat", "sat", "on", "bread", "ship")
TEXTS = [" ".join(x) for x in itertools.permutations(WORDS, 4)][::16]
# Equal texts: the first row is found first.
TEXTS[7] = TEXTS[3]


def embed(folder, name="a.npy", **changes):
    """Writes the vectors of a.jsonl, or of another file."""
    embedding.embed(
        embedding.EmbeddingConfig(
            **{
                "model_dir": str(folder / "model"),
                "input_file": str(folder / "a.jsonl"),
                "text_column": ("body",),
                "output_file": str(folder / name),
            }
            | changes
        )
    )


@pytest.fixture(scope="module")
def made(made_once, tmp_path_factory):
    """A folder with a.jsonl, a model and its vectors."""
    folder = tmp_path_factory.mktemp("vectors")
    model = exports.model_folder(made_once, "fill_mask")
    shutil.copytree(model, folder / "model")
    rows = [{"id": f"d{i}", "body": text} for i, text in enumerate(TEXTS)]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    embed(folder)
    return folder


@pytest.fixture
def config(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.txt").write_text("a ship\nthe cat sat\n")
    return search.SearchConfig(
        model_dir="model",
        vectors_file="a.npy",
        input_file="q.txt",
        corpus_file="a.jsonl",
        output_file="out",
        top_k=5,
    )


def change(config, **changes):
    return dataclasses.replace(config, **changes)


def results(config):
    search.search(config)
    with open("out") as file:
        return [json.loads(line) for line in file]


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_the_nearest_rows_are_found_in_chunks(config, monkeypatch, similarity):
    monkeypatch.setattr(retrieval, "DOCUMENTS_AT_ONCE", 4)
    predict = bert_tf.Predictor("model", kind="sentence_embedding")
    queries, rows = predict(["a ship", "the cat sat"]), predict(TEXTS)
    if similarity == "cosine":
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    scores = queries @ rows.T
    found = results(change(config, similarity=similarity))
    assert [x["query"] for x in found] == ["a ship", "the cat sat"]
    for query, row in zip(found, scores, strict=True):
        best = np.argsort(-row, kind="stable")[:5]
        names = [(x["row"], x["text"]) for x in query["results"]]
        assert names == [(i + 1, TEXTS[i]) for i in best]
        shown = [x["score"] for x in query["results"]]
        np.testing.assert_allclose(shown, row[best], rtol=1e-5)


def test_a_parquet_file_has_lines_and_ids(config, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    (tmp_path / "q.txt").write_text(TEXTS[4])
    config = change(config, vectors_file="a.parquet", top_k=2)
    embed(tmp_path, "a.parquet", id_column="id", dtype="float16")
    (found,) = results(config)
    assert found["results"][0] == {
        "score": pytest.approx(1.0, abs=1e-3),
        **{"line": 5, "id": "d4", "text": TEXTS[4]},
    }
    cut("a.parquet")
    with pytest.raises(ValueError, match="a.parquet is no Parquet file"):
        search.search(config)
    parquet.write_table(pyarrow.table({"embedding": [[1.0]]}), "a.parquet")
    with pytest.raises(ValueError, match="does not say which model made"):
        search.search(config)


def test_a_reader_gets_lines(config, tmp_path, capsys):
    (tmp_path / "q.txt").write_text(TEXTS[3])
    search.search(change(config, top_k=2, output_file=None))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"1.0000\t{i + 1}\t{TEXTS[3]}" for i in (3, 7)]


def test_ids_of_queries_are_repeated(config, tmp_path):
    (tmp_path / "q.csv").write_text("score,q\n7,a ship\n")
    (found,) = results(
        change(
            config,
            input_file="q.csv",
            text_column=("q",),
            id_column="score",
            corpus_file=None,
        )
    )
    assert list(found) == ["input_score", "query", "results"]
    assert list(found["results"][0]) == ["score", "row"]


def test_rows_without_text_are_never_found(config, tmp_path):
    (tmp_path / "b.txt").write_text("\n\na ship\n")
    embed(
        tmp_path,
        "b.npy",
        input_file="b.txt",
        text_column=None,
        empty_rows="zero",
    )
    (tmp_path / "q.txt").write_text("a ship\n")
    (found,) = results(
        change(config, vectors_file="b.npy", corpus_file="b.txt")
    )
    assert [(x["row"], x["text"]) for x in found["results"]] == [(3, "a ship")]


def test_vectors_that_are_not_there_are_named(config):
    with pytest.raises(FileNotFoundError, match="nothing.npy'"):
        search.search(change(config, vectors_file="nothing.npy"))


def cut(name):
    with open(name, "r+b") as file:
        file.truncate(os.path.getsize(name) // 2)


def append(name, text):
    with open(name, "a") as file:
        file.write(text)


def reword(name, old, new):
    with open(name) as file:
        text = file.read()
    assert old in text
    with open(name, "w") as file:
        file.write(text.replace(old, new))


def replace_array(array):
    return lambda: np.save("a.npy", array)


@pytest.mark.parametrize(
    "spoil, changes, message",
    [
        (None, {"vectors_file": "q.txt"}, "should end in .npy or .parquet"),
        (
            None,
            {"pooling": "max"},
            "another model, .*pooling.*same fl",
        ),
        (None, {"max_seq_length": 9}, "max_seq_length differs: .*, not 9"),
        (None, {"corpus_file": "q.txt"}, "q.txt.*(column|is not the file|key)"),
        (lambda: os.truncate("q.txt", 0), {}, "q.txt has no query"),
        (lambda: append("q.txt", "\n"), {}, "q.txt:3 has no text"),
        (
            lambda: cut("a.npy"),
            {},
            "no array of vectors",
        ),
        (
            lambda: os.remove("a.npy.json"),
            {},
            "a.npy.json is missing.*Make them again with bert-embed",
        ),
        (
            replace_array(np.ones((23, 3), np.float32)),
            {},
            r"vectors of shape \(3,\)",
        ),
        (
            replace_array(np.ones((4, 16), np.float32)),
            {},
            "has 4 vectors and its metadata is of 23",
        ),
        (
            replace_array(np.ones((23, 16), int)),
            {},
            "has int64, not numbers",
        ),
        (
            lambda: append("a.jsonl", '\n{"id": "x", "body": "y"}'),
            {},
            "a.jsonl is not the file",
        ),
        (
            lambda: reword("a.jsonl", TEXTS[-1], "another text"),
            {},
            "a.jsonl is not the file",
        ),
    ],
)
def test_what_does_not_belong_together_is_refused(
    config, spoil, changes, message
):
    if spoil:
        spoil()
    with pytest.raises(ValueError, match=message):
        search.search(change(config, **changes))
    assert not os.path.exists("out")
