"""retrieval.py: rankings as those of a full comparison, and wrong files."""

import dataclasses
import gzip
import json
import shutil

import exports
import numpy as np
import pytest

import bert_tf
from bert_tf.contrib.search import embedding, ranking, retrieval
from bert_tf.contrib.search.embeddings import Embeddings
from bert_tf.contrib.search.options import EmbeddingData
from bert_tf.contrib.search.records import search_files
from bert_tf.workflows import fine_tuning
from bert_tf.workflows.configs import FineTuningConfig
from tfrecords.io import json_files

WORDS = "the cat sat on warm stone old bread was told it rained a ship".split()
rng = np.random.default_rng(5)
# All different, so that no scores are equal.
DOCUMENTS = {
    f"d{i}": f"{WORDS[i % 14]} {WORDS[i // 14]} {WORDS[i % 5]}"
    for i in range(30)
}
QUERIES = {f"q{i}": " ".join(rng.choice(WORDS, 3)) for i in range(4)}
JUDGED = {
    query: {f"d{i}": int(rng.integers(0, 4)) for i in rng.choice(30, 6, False)}
    for query in list(QUERIES)[:3]
}


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def config(tmp_path, made_once):
    """Documents with a title, and a query without judgements."""
    documents = [
        {"_id": name, "title": text.split()[0], "body": text}
        for name, text in DOCUMENTS.items()
    ]
    documents.append({"_id": "empty", "title": "", "body": None})
    queries = [{"_id": name, "text": text} for name, text in QUERIES.items()]
    lines = [
        f"{query} 0 {document} {grade}\n"
        for query, grades in JUDGED.items()
        for document, grade in grades.items()
    ]
    (tmp_path / "qrels").write_text("".join(lines))
    return retrieval.RetrievalConfig(
        model_dir=str(exports.model_folder(made_once, "fill_mask")),
        corpus_file=write(tmp_path / "corpus.jsonl", documents),
        queries_file=write(tmp_path / "queries.jsonl", queries),
        judgements_file=str(tmp_path / "qrels"),
        corpus_columns=("title", "body"),
        id_column="_id",
        query_prompt="it ",
        output_file=str(tmp_path / "scores.json"),
        run_file=str(tmp_path / "run"),
    )


def test_a_text_may_be_a_list_and_no_file_of_several_is_replaced(
    config, tmp_path
):
    rows = [{"_id": "d1", "title": "T", "body": ["It is.", "It was."]}]
    other = write(tmp_path / "other.jsonl", rows)
    changed = dataclasses.replace(config, corpus_file=other)
    assert [*search_files.read_corpus(changed)] == [("d1", "T It is. It was.")]
    files = f"{config.corpus_file},{other}"
    changed = dataclasses.replace(config, corpus_file=files, output_file=other)
    with pytest.raises(ValueError, match="--corpus_file=.*would destroy this"):
        retrieval.score(changed)


@pytest.mark.usefixtures("eagerly")
def test_scores_are_those_of_a_full_comparison(config, monkeypatch, caplog):
    monkeypatch.setattr(retrieval, "DOCUMENTS_AT_ONCE", 7)
    results = retrieval.score(config)
    embed = bert_tf.Predictor(config.model_dir, kind="sentence_embedding")
    queries = embed(["it " + QUERIES[name] for name in JUDGED])
    texts = [f"{text.split()[0]} {text}" for text in DOCUMENTS.values()]
    queries, documents = (
        ranking.comparable(np.asarray(x), "cosine")
        for x in (queries, embed(texts))
    )
    found = queries @ documents.T
    names = np.array([*DOCUMENTS])
    ranked = [names[np.argsort(-row)].tolist() for row in found]
    expected = ranking.scores(ranked, [*JUDGED.values()])
    assert results["scores"]["model"] == pytest.approx(expected)
    assert (results["queries"], results["documents"]) == (3, 30)
    with open(config.output_file) as file:
        assert json.load(file) == results
    with open(config.run_file) as file:
        rows = [line.split() for line in file]
    assert [row[2] for row in rows if row[0] == "q0"] == ranked[0]
    assert rows[0][1::2][:2] == ["Q0", "1"]
    assert "3 of 4 queries have judgements" in caplog.text
    assert "1 of 31 documents of" in caplog.text
    assert "has 30 documents, of which recall@100 finds all" in caplog.text


def evaluate(config, output_dir, **settings):
    """Evaluates the same search as `run_embeddings --do_eval`."""
    folder = shutil.copytree(config.model_dir, f"{output_dir}_model")
    metadata = json_files.read(f"{folder}/model.json")
    del metadata["labels"]  # Which pre-training does not write.
    json_files.write(f"{folder}/model.json", metadata)
    names = {field.name for field in dataclasses.fields(EmbeddingData)}
    names &= {field.name for field in dataclasses.fields(config)}
    data = EmbeddingData(
        text_column=("a", "b"),
        **{name: getattr(config, name) for name in names},
    )
    fine_tuning.fine_tune(
        Embeddings(data),
        FineTuningConfig(
            output_dir=str(output_dir),
            init_checkpoint=folder,
            do_eval=True,
            **settings,
        ),
    )


@pytest.mark.usefixtures("eagerly")
def test_the_score_to_beat_is_that_of_a_pretrained_model_with_heads(
    config, tmp_path
):
    evaluate(config, tmp_path / "vectors", max_seq_length=16)
    with open(tmp_path / "vectors/eval_results.json") as file:
        found = json.load(file)["dev_search"]
    assert found == pytest.approx(retrieval.score(config)["scores"]["model"])


def test_texts_do_not_have_the_length_of_pretraining(config, tmp_path):
    with pytest.raises(ValueError, match="max_seq_length=128 exceeds"):
        evaluate(config, tmp_path / "vectors")


def test_results_of_pretraining_are_not_replaced(config, tmp_path):
    run = tmp_path / "pretrained"
    run.mkdir()
    (run / "run.json").write_text('{"task": "pretraining"}')
    message = "pretrained is the folder of a pre-training run, .* --init_ch"
    with pytest.raises(ValueError, match=message):
        evaluate(config, run, max_seq_length=12)
    assert sorted(x.name for x in run.iterdir()) == ["run.json", "run.lock"]


@pytest.mark.parametrize(
    ("prompts", "default", "given", "wanted"),
    [
        ({"query": "q:", "document": "d:"}, None, {}, ["q:", "d:"]),
        ({"corpus": "c:", "passage": "p:"}, "corpus", {}, ["c:", "p:"]),
        # As the library writes `document` into every folder.
        ({"query": "", "document": "", "passage": "p:"}, None, {}, ["", "p:"]),
        ({"query": "q:", "document": ""}, "query", {}, ["q:", ""]),
        ({"query": "q:"}, "query", {}, ["q:", "q:"]),
        ({"query": "q:"}, None, {"query_prompt": ""}, ["", ""]),
        ({"query": "q:"}, None, {"corpus_prompt": "a:"}, ["q:", "a:"]),
        ({}, None, {}, ["", ""]),
    ],
)
def test_prompts_are_those_of_encode_query_and_encode_document(
    config, caplog, prompts, default, given, wanted
):
    caplog.set_level("INFO", logger="absl")
    config = dataclasses.replace(config, **{"query_prompt": None} | given)
    metadata = {"prompts": prompts, "default_prompt_name": default}
    for of, prompt in zip(("query", "corpus"), wanted, strict=True):
        assert retrieval.choose_prompt(metadata, config, of) == prompt
        said = f"before texts of the {of} is put {prompt!r}" in caplog.text
        assert said == bool(prompts)


def test_tf_idf_ranks_the_document_with_the_words_first(config):
    scores = retrieval.score(config)["scores"]["tfidf"]
    found = [  # Relevant documents with a word of the query, but stop words.
        np.mean([not words.isdisjoint(DOCUMENTS[x].split()) for x in relevant])
        for words, relevant in (
            (
                {*QUERIES[query].split()} - {"the", "on", "was", "it", "a"},
                [x for x in grades if grades[x] > 0],
            )
            for query, grades in JUDGED.items()
        )
    ]
    assert scores["recall@100"] == pytest.approx(np.mean(found)) != 1.0
    compare = retrieval._tf_idf(config, ["ship"])
    (found,) = compare(["cat", "ship", "old ship"])
    assert found[1] == pytest.approx(1.0) and found[0] == 0.0
    assert 0.0 < found[2] < 1.0


def test_bm25_is_that_of_the_library(config):
    bm25s = pytest.importorskip("bm25s", reason="make parity installs it")
    queries = ["ship bread ship", "of it", "a whale", "bread"]
    found = retrieval._bm25(config, queries)
    names, texts = zip(*search_files.read_corpus(config), strict=True)
    retriever = bm25s.BM25()
    retriever.index(bm25s.tokenize(texts, stopwords="en"))
    for best, query in zip(found, queries, strict=True):
        words = [x for x in query.split() if x in ("ship", "bread")]
        wanted = retriever.get_scores(words) if words else np.zeros(30)
        pairs = zip(wanted.tolist(), names, strict=True)
        assert best == sorted(pairs, reverse=True)


@pytest.mark.parametrize("scores_at_once", [1, 24])
@pytest.mark.parametrize("baseline", ["tfidf", "bm25"])
def test_a_baseline_finds_documents_with_a_word_of_the_query(
    config, tmp_path, monkeypatch, baseline, scores_at_once
):
    if baseline == "bm25":
        pytest.importorskip("bm25s", reason="make parity installs it")
    monkeypatch.setattr(retrieval, "SCORES_AT_ONCE", scores_at_once)
    texts = ["warm bread", "old ship", "warm ship", "\u6c7d\u8f66", "sat"]
    rows = [
        {"_id": f"d{i}", "title": text, "body": ""}
        for i, text in enumerate(texts)
    ]
    write(tmp_path / "corpus.jsonl", rows)
    # The last query has no spaces; its second character is a word, too.
    queries = ["bread", "the whale", "warm old bread", "\u8d5b\u8f66"]
    found = retrieval._rank_by_words(config, baseline, queries, len(texts))
    assert found == [["d0"], [], ["d0", "d1", "d2"], ["d3"]]


_JUDGEMENTS = {"query-id": "q1", "corpus-id": "d1", "score": 1.0}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("qrels", "q1 0 d1 1\n\nq1 0 d2 0.0\n"),
        ("qrels", "Query-ID corpus-id score\nq1  d1 1\nq1 d2 0\n"),
        ("q.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\n"),
        ("q.tsv", "score\ttext\tqid\tdocid\n1.0\ta b\tq1\td1\n0\t\tq1\td2\n"),
        ("q.csv", 'query_id,corpus_id,score\nq1,"d1",1.0\nq1,d2,0\n'),
        ("q.csv", "query_id\tcorpus_id\tscore\nq1\td1\t1.0\nq1\td2\t0\n"),
        (
            "q.jsonl",
            json.dumps(_JUDGEMENTS)
            + '\n{"score": 0, "query-id": "q1", "corpus-id": "d2"}\n',
        ),
        (
            "q.parquet",
            [_JUDGEMENTS, _JUDGEMENTS | {"corpus-id": "d2", "score": 0.0}],
        ),
    ],
)
def test_judgements_are_lines_of_trec_or_a_table(tmp_path, name, content):
    path = tmp_path / name
    if name.endswith(".parquet"):
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(content), path)
    else:
        path.write_text(content)
    found = search_files.read_judgements(str(path))
    assert found == {"q1": {"d1": 1, "d2": 0}}


def test_judgements_may_be_compressed_and_in_several_files(tmp_path):
    first, second = tmp_path / "qrels.gz", tmp_path / "q.csv"
    first.write_bytes(gzip.compress(b"q1 0 d1 1\n"))
    second.write_text("query-id,corpus-id,score\nq1,d2,2\n")
    found = search_files.read_judgements(f"{first},{second}")
    assert found == {"q1": {"d1": 1, "d2": 2}}


_HEADER = "query-id,corpus-id,score\n"
_TABS = _HEADER.replace(",", "\t")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("qrels", "", "has no judgements"),
        (
            "qrels",
            "q1 0 d1 1\nq1 0 d2\n",
            ":2 is 'q1 0 d2'; expected query, an ",
        ),
        # Grades are never those of another column.
        ("qrels", "0 q1 0 10 1\n", ":1 is '0 q1 0 10 1'; expected query"),
        ("q.tsv", "\t" + _TABS + "0\tq1\t10\t1\n", ":1: column 0 has no name"),
        (
            "q.csv",
            "," + _HEADER + "0,q1,10,1\n",
            r"\.to_csv\(..., index=False\)",
        ),
        (
            "q.tsv",
            _TABS + "0\tq1\t10\t1\n",
            ":2: 4 columns where the header has",
        ),
        (
            "q.csv",
            _HEADER + "0,q1,10,1\n",
            ":2: 4 columns where the header has 3",
        ),
        (
            "qrels",
            "q1 0 d1 x\n",
            r":1: the grade is 'x'; it should be an integer .* 1\. Correct",
        ),
        (
            "q.csv",
            _HEADER + "q1,d1,0.5\n",
            ":2: the grade is '0.5'; .* such as 2",
        ),
        *(
            (
                "q.csv",
                f"{_HEADER}q1,d1,{x}\n",
                f":2: the grade is '{x}.*Correct",
            )
            for x in ("inf", "1_0", "\u0665", "1e300", "2147483648", "1" * 90)
        ),
        ("q.csv", _HEADER + "q1,d1," + "1" * 400, ":2: the grade is '1111"),
        ("q.csv", _HEADER + "q1,d 1,1\n", ":2: query and document are .*'d 1'"),
        (
            "q.csv",
            "q1,0,d1,1\n",
            "no column 'query-id', .* query-id, corpus-id",
        ),
        (
            "q.jsonl",
            '{"query-id": "q1", "score": 1}\n',
            "no column 'corpus-id'",
        ),
        ("q.jsonl", json.dumps(_JUDGEMENTS | {"score": None}), "grade is None"),
        (
            "q.jsonl",
            json.dumps(_JUDGEMENTS | {"score": True}),
            "grade is 'true'",
        ),
        (
            "qrels",
            json.dumps(_JUDGEMENTS),
            "JSON lines. Give it a name that ends",
        ),
        (
            "qrels",
            "q1 0 d1 1\nq1 0 d1 2\n",
            ":2: query 'q1' and document 'd1' h",
        ),
    ],
)
def test_wrong_judgements_are_named(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(ValueError, match=message) as raised:
        search_files.read_judgements(str(path))
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("corpus", [{"_id": "d1"}], "no column 'title', 'body'; there are"),
        (
            "corpus",
            [{"_id": "x", "title": "a", "body": "b"}],
            "judged documents, such as 'd",
        ),
        (
            "corpus",
            [{"_id": "d1", "title": "a", "body": "b"}] * 2,
            "corpus.jsonl:2: the id 'd1' is there twice",
        ),
        (
            "corpus",
            [{"_id": "d 1", "title": "a", "body": "b"}],
            "corpus.jsonl:1: '_id' is 'd 1'; an id should be a string without",
        ),
        (
            "corpus",
            [{"_id": "d1", "title": "", "body": ""}],
            "corpus.jsonl has no texts. Name other --corpus_columns",
        ),
        ("queries", [], "queries.jsonl is empty"),
        ("queries", [{"_id": "x", "text": "a"}], "no query has judgements"),
        ("queries", [{"_id": "q1", "text": ""}], "query 'q1' has no text in"),
        ("queries", [{"_id": ["q1"], "text": "a"}], "'_id' is ['q1']; an id"),
        (
            "queries",
            [{"_id": "q1", "text": {}}],
            "jsonl:1: 'text' is {}",
        ),
    ],
)
def test_wrong_tables_are_named(config, tmp_path, name, rows, message):
    write(tmp_path / f"{name}.jsonl", rows)
    with pytest.raises(ValueError) as raised:
        retrieval.score(config)
    assert message in str(raised.value)
    assert not (tmp_path / "scores.json").exists()


def test_a_prompt_without_room_for_texts_is_refused(config):
    config = dataclasses.replace(config, max_seq_length=5, query_prompt="a b c")
    with pytest.raises(ValueError, match="query_prompt='a b c' has .* tokens"):
        retrieval.score(config)


@pytest.mark.parametrize("baseline", ["tfidf", "bm25"])
def test_a_baseline_that_fails_is_named_before_the_model(
    config, tmp_path, monkeypatch, baseline
):
    if baseline == "bm25":
        pytest.importorskip("bm25s", reason="make parity installs it")
    rows = [
        {"_id": name, "title": "the", "body": "of"} for name in ("d0", "d1")
    ]
    write(tmp_path / "corpus.jsonl", rows)
    (tmp_path / "qrels").write_text("q0 0 d0 1\n")
    config = dataclasses.replace(config, baselines=(baseline,))
    monkeypatch.setattr(embedding, "open_embedder", None)
    message = f"--baselines={baseline} cannot rank .*corpus.jsonl: "
    with pytest.raises(ValueError, match=message):
        retrieval.score(config)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("by_flag", [False, True])
def test_vectors_are_compared_as_the_flag_or_the_model_says(
    config, tmp_path, by_flag
):
    config = dataclasses.replace(config, similarity="dot", baselines=())
    if not by_flag:
        folder = tmp_path / "model"
        shutil.copytree(config.model_dir, folder)
        metadata = json.loads((folder / "model.json").read_text())
        metadata["similarity_fn_name"] = "dot"
        (folder / "model.json").write_text(json.dumps(metadata))
        config = dataclasses.replace(
            config, similarity=None, model_dir=str(folder)
        )
    scores = retrieval.score(config)["scores"]["model"]
    embed = bert_tf.Predictor(config.model_dir, kind="sentence_embedding")
    queries = embed(["it " + QUERIES[name] for name in JUDGED])
    texts = [f"{text.split()[0]} {text}" for text in DOCUMENTS.values()]
    names = np.array([*DOCUMENTS])
    found = np.asarray(queries) @ np.asarray(embed(texts)).T
    ranked = [names[np.argsort(-row)].tolist() for row in found]
    expected = ranking.scores(ranked, [*JUDGED.values()])
    assert scores == pytest.approx(expected)


def test_unknown_baselines_are_refused(config):
    with pytest.raises(ValueError, match="baselines=bm should be some of tfi"):
        dataclasses.replace(config, baselines=("bm",))
