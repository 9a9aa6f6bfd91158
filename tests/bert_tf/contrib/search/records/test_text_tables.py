"""Rows, columns and refusals of tables of similar texts."""

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
