"""Rows, columns and refusals of tables of similar texts."""

import json

import pytest

from bert_tf.contrib.search.records.text_tables import SimilarityData


@pytest.fixture
def write(tmp_path):
    def write(content, name="pairs.tsv"):
        path = tmp_path / name
        path.write_text(content)
        return str(path)

    return write


def rows(path, *columns, **options):
    data = SimilarityData(train_file=path, text_column=columns, **options)
    return list(data.tables()["train"].rows())


def test_texts_and_scores_are_read_by_their_columns(write):
    path = write("id\tb\ta\ty\n1\tx y\tz\t5\n2\tu\tv\t2.5\n3\tu\tv\t1\n")
    found = rows(path, "a", "b", score_column="y", score_range=("1", "5"))
    assert [row.texts for row in found] == [("z", "x y"), ("v", "u")] + [
        ("v", "u")
    ]
    assert [row.score for row in found] == [1, 0.375, 0]
    assert found[1].source == f"{path}:3"


def test_sentences_may_be_in_a_table_without_header(write):
    found = rows(write("It rained.\nIt was wet.\n"), "0")
    assert [row.texts for row in found] == [("It rained.",), ("It was wet.",)]
    assert found[0].score is None


# A list is a row for each of its texts: FlagEmbedding's pos and neg, in any
# number, and the layouts of mine_hard_negatives.
@pytest.mark.parametrize(
    ("given", "columns", "score", "expected"),
    [
        (
            {"query": "a", "pos": ["b", "c"], "neg": ["d", "e"]},
            ("query", "pos", "neg"),
            None,
            ["a b d", "a b e", "a c d", "a c e"],
        ),
        (
            {
                "query": "a",
                "answer": "b",
                "negative": "c",
                "scores": [0.9, 0.1],
            },
            ("query", "answer", "negative"),
            None,
            ["a b c"],
        ),
        (
            {"query": "a", "answer": "b", "negative_1": "c", "negative_2": "d"},
            ("query", "answer", "negative_1", "negative_2"),
            None,
            ["a b c d"],
        ),
        (
            {"query": "a", "answer": "b", "label": 0},
            ("query", "answer"),
            "label",
            ["a b 0.0"],
        ),
        (
            {"query": "a", "answer": ["b", "c", "d"], "labels": [1, 0, 0.5]},
            ("query", "answer"),
            "labels",
            ["a b 1.0", "a c 0.0", "a d 0.5"],
        ),
        ({"set": ["a", "b"]}, ("set",), None, ["a", "b"]),
    ],
)
def test_lists_are_rows(write, given, columns, score, expected):
    others = given | ({"label": 1} if "label" in given else {})
    path = write(f"{json.dumps(given)}\n{json.dumps(others)}\n", "rows.jsonl")
    found = rows(path, *columns, score_column=score)
    values = [[*x.texts, *([x.score] if score else [])] for x in found]
    assert len(values) == 2 * len(expected)
    for value, wanted in zip(values, expected, strict=False):
        assert " ".join(map(str, value)) == wanted
    assert {x.source for x in found} == {f"{path}:1", f"{path}:2"}


def test_lists_of_a_csv_are_json_and_other_brackets_are_text(write):
    path = write(
        'q\tdocs\ty\n[1]\t["b", "c"]\t[1, 0]\n["a" b\t[\'d\']\t1\n[2]\t[3]\t0\n'
    )
    found = [
        (*x.texts, x.score) for x in rows(path, "q", "docs", score_column="y")
    ]
    assert found == [
        *[("[1]", "b", 1), ("[1]", "c", 0), ('["a" b', "['d']", 1)],
        ("[2]", "[3]", 0),
    ]


@pytest.mark.parametrize(
    ("cells", "score", "message"),
    [
        (
            {"b": []},
            None,
            "rows.jsonl:1: 'b' is an empty list, .* leave the column out",
        ),
        ({"b": ["x", " "]}, None, r"'b' is \['x', ' '\]; it should be a text"),
        ({"b": ["x", None]}, None, r"'b' is \['x', None\]; expected a string"),
        (
            {"b": ["x", "y"], "y": 1},
            "y",
            "'y' is 1, 1 scores for 2 texts. Give",
        ),
        ({"b": "x", "y": [1, 0]}, "y", "'y' is .*, 2 scores for 1 texts"),
        ({"b": ["x"], "y": []}, "y", "'y' is .*, 0 scores for 1 texts"),
        ({"b": ["x", "y"], "y": [1, 2]}, "y", "'y' is 2; a score should be"),
    ],
)
def test_wrong_lists_are_named(write, cells, score, message):
    path = write(json.dumps({"a": "x"} | cells), "rows.jsonl")
    with pytest.raises(ValueError, match=message):
        rows(path, "a", "b", score_column=score)


@pytest.mark.parametrize(
    ("content", "columns", "options", "message"),
    [
        ("a\tb\nx\t \n", "ab", {}, "pairs.tsv:2: 'b' is .* should be a text"),
        ("a\tb\nx\t\u200b\n", "ab", {}, "pairs.tsv:2: 'b' is"),
        ("a\tb\nx\n", "ab", {}, "pairs.tsv:2: 1 columns where"),
        ("a\tb\n", "ab", {}, "pairs.tsv has no rows"),
        ("a\tb\nx\ty\n", "ac", {}, "no column 'c'; .* --text_column"),
        (
            "a\tb\ty\nx\tz\t1.1\n",
            "ab",
            "y",
            "'y' is '1.1'; a score .*--score_r",
        ),
        ("a\tb\ty\nx\tz\tnan\n", "ab", "y", "'y' is 'nan'; a score should be"),
        ("a\tb\ty\nx\tz\t1\nx\tz\t1\n", "ab", "y", "have the same 'y', from"),
    ],
)
def test_wrong_rows_are_named(write, content, columns, options, message):
    options = {"score_column": options} if options else {}
    with pytest.raises(ValueError, match=message):
        rows(write(content), *columns, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text_column": ("a", "a")}, "text_column=a,a should be one or more"),
        ({"text_column": ("a",), "score_column": "y"}, "is that of two texts"),
        (
            {"text_column": ("a", "b", "c"), "score_column": "y"},
            "is that of two texts",
        ),
        ({"text_column": ("a",), "dev_file": "x"}, "rows of one text cannot"),
        ({"score_range": ("5", "0")}, "5,0 should be two numbers, the lower"),
        ({"score_range": ("0",)}, "=0 should be two numbers"),
        ({"score_range": ("0", "inf")}, "=0,inf should be two numbers"),
        ({"dev_score_column": "y"}, "needs --dev_file"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SimilarityData(**options)


def test_a_missing_file_is_named():
    with pytest.raises(ValueError, match="dev_file=x.tsv: there is no file"):
        SimilarityData(dev_file="x.tsv", text_column=("a", "b")).tables()


def test_dev_has_the_columns_of_train_or_its_own(write):
    path = write("a\tb\ty\nx\tz\t1\n")
    train = {"train_file": path, "dev_file": path, "text_column": ("a", "b")}

    def dev(**options):
        table = SimilarityData(**train, **options).tables()["dev"]
        return table.text_columns, table.score_column

    assert dev() == (("a", "b"), None)
    assert dev(score_column="y") == (("a", "b"), "y")
    assert dev(dev_score_column="y") == (("a", "b"), "y")
    own = {"dev_text_column": ("b", "a")}
    assert dev(score_column="y", **own) == (("b", "a"), None)
