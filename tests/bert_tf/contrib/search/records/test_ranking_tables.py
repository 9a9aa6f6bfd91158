"""ranking_tables.py: grades of passages, and the lists that are learned."""

import functools

import pytest

from bert_tf.contrib.search.records import ranking_examples
from bert_tf.contrib.search.records.ranking_tables import (
    RankingData,
    RankingTable,
)
from tfrecords import schema
from tfrecords.io import records
from tfrecords.tasks import glue_examples
from tfrecords.text import tokenizer as tokenizer_lib

pytestmark = pytest.mark.usefixtures("eagerly")


@pytest.fixture
def tokenizer(tiny_vocab_file):
    return tokenizer_lib.BertTokenizer(tiny_vocab_file)


def read_all(folder):
    found = records.Records.open(folder)
    return found.read(schema.SCHEMAS[found.manifest.schema_name])


@pytest.fixture
def choose(tmp_path):
    """Options -> the table that they select."""
    (tmp_path / "a.csv").write_text("q,p,label\na,b,1\n")
    given = {
        "train_file": str(tmp_path / "a.csv"),
        "data_dir": str(tmp_path),
        "ranking_loss": "binary",
        "text_column": ("q", "p"),
    }
    return lambda **changes: RankingData(**(given | changes)).choose_task()


def test_rankings_have_their_metrics_and_are_grouped_by_query(choose):
    assert choose().metrics == ("ndcg@10", "mrr")
    assert choose().best_metric == "ndcg@10"
    assert choose().group_name == "q"
    assert choose(group_column="topic").group_name == "topic"
    assert choose().is_regression


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text_column": ("q",)}, "needs two columns in --text_column"),
        ({"labels": ("no", "yes")}, "a grade, a number of at least 0"),
        ({"multi_label": True}, "Omit --labels, --label_columns and"),
        (
            {"ranking_loss": "listwise", "weight_column": "w"},
            "--weight_column=w .* a loss for each query",
        ),
        ({"passages_per_query": 4}, "is for --ranking_loss=listwise"),
        ({"passages_per_query": 1}, "should be at least 2"),
        ({"train_file": None, "task_name": "QNLI"}, "for files of your own"),
        ({"ranking_loss": "pairwise"}, "choose one of binary, listwise"),
    ],
)
def test_what_does_not_fit_a_ranking_is_refused(choose, changes, message):
    with pytest.raises(ValueError, match=message):
        choose(**changes)


RANKED = [
    *(("who", "the ship", 1), ("who", "the sea", 0), ("who", "a sail", 0)),
    *(("old crew", "the crew", 2), ("old crew", "the captain", 1)),
    *(("what", "the sea", 0), ("what", "a ship", 0)),
    *(("where", "the sea", 1), ("where", "the old ship", 0)),
]


def make_ranking(tmp_path, tokenizer, rows=RANKED, **fields):
    lines = [f"{q}\t{p}\t{grade}\n" for q, p, grade in rows]
    path = tmp_path / "train.tsv"
    path.write_text("".join(["query\tpassage\tlabel\n", *lines]))
    task = RankingTable(
        name="search",
        files={"train": str(path)},
        text_columns=("query", "passage"),
        labels=(),
        **({"ranking_loss": "listwise", "passages_per_query": 3} | fields),
    )
    return glue_examples.make_records(
        task,
        "",
        str(tmp_path / "records"),
        tokenizer,
        max_seq_length=16,
        dev_share=0.3,
        make_split=functools.partial(ranking_examples.split_of, seed=12345),
    )


def test_lists_have_the_passages_of_a_query(tmp_path, tokenizer):
    folders = make_ranking(tmp_path, tokenizer)
    train, dev = read_all(folders["train"]), read_all(folders["dev"])

    def texts(ids):
        ids = ids[ids != 0]
        first = ids.tolist().index(tokenizer.sep_id)
        parts = ids[1:first], ids[first + 1 : -1]
        pieces = ([tokenizer.vocab[i] for i in part] for part in parts)
        return [" ".join(some).replace(" ##", "") for some in pieces]

    by_query = {}
    for query, passage, grade in RANKED:
        by_query.setdefault(query, {})[passage] = grade
    held_out = {texts(ids)[0] for ids in dev["input_word_ids"]}
    assert len(held_out) == 1 and dev["label_scores"].shape == (
        len(by_query[next(iter(held_out))]),
    )
    # That of "what" has no relevant one.
    queries = []
    for ids, grades, weights in zip(
        *(train[x] for x in ("input_word_ids", "passage_grades")),
        train["passage_weights"],
        strict=True,
    ):
        (query,) = {texts(row)[0] for row in ids}
        queries.append(query)
        passages = [texts(row)[1] for row in ids]
        count = int(weights.sum())
        assert weights.tolist() == [1] * count + [0] * (3 - count)
        assert passages[count:] == passages[:1] * (3 - count)
        assert not grades[count:].any() and grades[0] > max(grades[1:])
        for passage, grade in zip(passages[:count], grades, strict=False):
            assert by_query[query][passage] == grade
        assert len(set(passages)) == count
    lists = {"who": 1, "old crew": 1, "where": 1}
    wanted = [x for x in lists if x not in held_out]
    assert sorted(queries) == sorted(wanted)
    statistics = records.Manifest.read(folders["train"]).statistics
    assert statistics["lists"] == len(wanted)


@pytest.mark.parametrize(
    ("loss", "grades", "message"),
    [
        ("binary", [1] * 9, "all . grades .'label'. of train are above 0"),
        ("binary", [0] * 9, "all . grades .'label'. of train are 0, so"),
        ("listwise", [1] * 9, "none of the . queries .'query'. of train"),
        ("listwise", [0] * 9, "has a relevant passage and one of a lower"),
    ],
)
def test_grades_without_a_ranking_are_refused(
    tmp_path, tokenizer, loss, grades, message
):
    rows = [(*row[:2], x) for row, x in zip(RANKED, grades, strict=True)]
    with pytest.raises(ValueError, match=message) as error:
        make_ranking(tmp_path, tokenizer, rows, ranking_loss=loss)
    assert "train.tsv: " in str(error.value)
    assert not list((tmp_path).glob("records/*"))


@pytest.mark.parametrize("column", ["query", "passage"])
def test_a_ranking_without_a_text_names_the_line(tmp_path, tokenizer, column):
    rows = [list(row) for row in RANKED]
    rows[1][column == "passage"] = " "
    with pytest.raises(ValueError, match=f":3: '{column}' is empty; a ran"):
        make_ranking(tmp_path, tokenizer, rows)
