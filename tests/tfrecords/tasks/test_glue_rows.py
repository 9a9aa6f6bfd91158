"""glue_rows.py: rows of official files, of own files, and errors."""

import csv
import dataclasses
import re

import pytest

from tfrecords.tasks import glue_rows, glue_tables

# Numbers of rows in the official train, dev and test files.
OFFICIAL = [
    ("CoLA", "glue/CoLA/train.tsv", 8551),
    ("CoLA", "glue/CoLA/dev.tsv", 1043),
    ("CoLA", "glue/CoLA/test.tsv", 1063),
    ("SST-2", "glue/SST-2/train.tsv", 67349),
    ("SST-2", "glue/SST-2/dev.tsv", 872),
    ("SST-2", "glue/SST-2/test.tsv", 1821),
    ("MRPC", "glue/MRPC/train.tsv", 3668),
    ("MRPC", "glue/MRPC/test.tsv", 1725),
    ("STS-B", "glue/STS-B/train.tsv", 5749),
    ("STS-B", "glue/STS-B/dev.tsv", 1500),
    ("STS-B", "glue/STS-B/test.tsv", 1379),
    ("RTE", "glue/RTE/train.tsv", 2490),
    ("RTE", "glue/RTE/test.tsv", 3000),
    ("WNLI", "glue/WNLI/train.tsv", 635),
    ("WNLI", "glue/WNLI/dev.tsv", 71),
    ("WNLI", "glue/WNLI/test.tsv", 146),
    ("AX", "glue/AX/diagnostic.tsv", 1104),
    ("MNLI", "mnli_layout/train.tsv", 7000),
    ("MNLI", "mnli_layout/dev_matched.tsv", 1000),
    ("MNLI", "samples/MNLI_train.tsv", 6),
    ("MNLI", "samples/MNLI_dev_matched.tsv", 5),
    ("MNLI", "samples/MNLI_dev_mismatched.tsv", 5),
    ("MNLI", "samples/MNLI_test_matched.tsv", 5),
    ("MNLI", "samples/MNLI_test_mismatched.tsv", 5),
    ("QQP", "samples/QQP_train.tsv", 9),
    ("QQP", "samples/QQP_dev.tsv", 9),
    ("QQP", "samples/QQP_test.tsv", 9),
]


@pytest.mark.parametrize(("name", "path", "num_rows"), OFFICIAL)
def test_official_files_have_their_rows(shared_data, name, path, num_rows):
    path = shared_data / path
    if not path.exists():
        pytest.skip(f"no {path}")
    task = glue_tables.find(name)
    is_labelled = "test" not in path.name and "diagnostic" not in path.name
    statistics = glue_rows.ReadStatistics()
    rows = list(
        glue_rows.read_rows(
            task, str(path), is_labelled=is_labelled, statistics=statistics
        )
    )
    assert len(rows) == statistics.rows == num_rows
    assert statistics.skipped_rows == statistics.lines_with_invalid_utf8 == 0
    assert {len(row.texts) for row in rows} == {len(task.text_columns)}
    if is_labelled and not task.is_regression:
        assert {row.label for row in rows} <= set(range(len(task.labels)))
    assert all((row.label is None) != is_labelled for row in rows)


def write(tmp_path, content, name="train.tsv"):
    path = tmp_path / name
    path.write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )
    return str(path)


def read(name, path, is_labelled=True, statistics=None):
    task = name if not isinstance(name, str) else glue_tables.find(name)
    return list(
        glue_rows.read_rows(
            task, path, is_labelled=is_labelled, statistics=statistics
        )
    )


def test_cola_has_no_header_in_train_but_one_in_test(tmp_path):
    path = write(tmp_path, "gj04\t1\t\tIt rained.\ngj04\t0\t*\tRained it.\n")
    rows = read("CoLA", path)
    assert rows[0][:3] == (("It rained.",), 1, f"{path}:1")
    assert rows[1].label == 0
    path = write(tmp_path, "index\tsentence\n0\tIt rained.\n", "test.tsv")
    assert read("CoLA", path, is_labelled=False) == [
        (("It rained.",), None, f"{path}:2")
    ]


def test_quotes_in_tsv_are_text(tmp_path):
    path = write(tmp_path, 'sentence\tlabel\n"so "good\t1\n"\t0\n')
    assert [row.texts[0] for row in read("SST-2", path)] == ['"so "good', '"']


def test_byte_order_mark_and_crlf_are_not_part_of_the_text(tmp_path):
    path = write(tmp_path, b"\xef\xbb\xbfsentence\tlabel\r\ngood\t1\r\n\r\n")
    assert read("SST-2", path) == [(("good",), 1, f"{path}:2")]


def test_line_separators_other_than_newlines_are_text(tmp_path):
    path = write(tmp_path, "sentence\tlabel\none\u2028two\x0bthree\x85\t1\n")
    assert read("SST-2", path)[0].texts == ("one\u2028two\x0bthree\x85",)


def test_scores_are_numbers_in_their_range(tmp_path):
    header = "sentence1\tsentence2\tscore\n"
    path = write(tmp_path, header + "a\tb\t3.750\n")
    assert read("STS-B", path)[0].label == 3.75
    for score in ("5.1", "nan", "high", ""):
        path = write(tmp_path, header + f"a\tb\t1\na\tb\t{score}\n")
        message = (
            f"{re.escape(path)}:3: label '{score}' is not a score of STS-B, "
            "a number from 0 to 5"
        )
        with pytest.raises(ValueError, match=message):
            read("STS-B", path)


def test_an_unknown_label_raises_with_line_and_known_labels(tmp_path):
    path = write(tmp_path, "sentence\tlabel\na\t1\nb\tpositive\n")
    message = (
        f"{re.escape(path)}:3: label 'positive' is not one of SST-2's: 0, 1"
    )
    with pytest.raises(ValueError, match=message):
        read("SST-2", path)


@pytest.mark.parametrize("row", ["only one", "one\ttwo\tthree"])
def test_missing_and_extra_columns_raise_with_the_line(tmp_path, row):
    path = write(tmp_path, f"sentence\tlabel\na\t1\n{row}\nb\t0\n")
    message = (
        f"{re.escape(path)}:3: [13] columns where the header has 2: "
        "'sentence', 'label'.*stray quote"
    )
    with pytest.raises(ValueError, match=message):
        read("SST-2", path)


def test_malformed_rows_of_qqp_are_skipped_and_counted(tmp_path):
    # Like line 97,931 of the official train.tsv.
    path = write(
        tmp_path,
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
        '1\t2\t3\tWho?\tWhat?\t0\n4\t5\t6\t"Was he?\n"\tIs it?\t0\n',
    )
    statistics = glue_rows.ReadStatistics()
    assert len(read("QQP", path, statistics=statistics)) == 1
    assert statistics.skipped_rows == 2
    # Of a test set each row needs an answer.
    path = write(tmp_path, "id\tquestion1\tquestion2\n1\tWho?\n", "test.tsv")
    with pytest.raises(ValueError, match=r"test.tsv:2: 2 columns where"):
        read("QQP", path, is_labelled=False)


def test_a_missing_column_raises_with_the_columns_of_the_file(tmp_path):
    path = write(tmp_path, "text\tlabel\na\t1\n")
    message = f"{re.escape(path)}:1: no column 'sentence'; there are 'text', "
    with pytest.raises(ValueError, match=message):
        read("SST-2", path)


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "is empty"), ("\n\n", "is empty"), ("sentence\tlabel\n", "no rows")],
)
def test_empty_files_raise(tmp_path, content, message):
    path = write(tmp_path, content)
    with pytest.raises(ValueError, match=f"{re.escape(path)}.*{message}"):
        read("SST-2", path)


def test_invalid_utf8_is_replaced_counted_and_named_once(tmp_path, caplog):
    path = write(tmp_path, b"sentence\tlabel\nca\xfff\xe9\t1\ngo\xe9od\t0\n")
    statistics = glue_rows.ReadStatistics()
    rows = read("SST-2", path, statistics=statistics)
    assert rows[0].texts == ("ca\ufffdf\ufffd",)
    assert statistics.lines_with_invalid_utf8 == 2
    (message,) = caplog.messages
    assert message.startswith(f"{path}:2: byte 0xff is not UTF-8; such bytes")
    assert "latin-1" in message


def test_utf16_is_recognized(tmp_path):
    path = write(tmp_path, "sentence\tlabel\na\t1\n".encode("utf-16"))
    with pytest.raises(ValueError, match=f"{path}:1: the file is UTF-16; conv"):
        read("SST-2", path)


def own_task(**changes):
    settings = dict(
        files={},
        text_columns=("question", "answer"),
        label_column="verdict",
        labels=("no", "yes"),
    )
    return glue_tables.own_task("mine", **(settings | changes))


def test_quotes_in_csv_delimit_cells(tmp_path):
    path = tmp_path / "mine.csv"
    texts = [("a, b", 'say "hi"'), ("two\nlines", "plain"), ("c", "d")]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["verdict", "answer", "question"])
        writer.writerows([["yes", b, a] for a, b in texts])
    rows = read(own_task(), str(path))
    assert [row.texts for row in rows] == texts
    # The first line of each row.
    assert [row.source[-2:] for row in rows] == [":2", ":3", ":5"]


@pytest.mark.parametrize(
    "row", ['x,"an open quote,yes\n', 'x,"closed" too early,yes\n']
)
def test_an_unbalanced_quote_in_csv_raises(tmp_path, row):
    path = write(
        tmp_path, f"question,answer,verdict\na,b,no\n{row}", "mine.csv"
    )
    message = f"{re.escape(path)}:3: .*Is a quote not closed"
    with pytest.raises(ValueError, match=message):
        read(own_task(), path)


def test_scores_of_own_tasks_have_no_range(tmp_path):
    task = own_task(labels=("score",), text_columns=("question",))
    path = write(tmp_path, "question\tverdict\na\t-12.5\n", "mine.tsv")
    assert read(task, path)[0].label == -12.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "No data: give --task_name"),
        ({"task_name": "CoLA"}, "No data: give --task_name"),
        ({"train_file": "x.csv"}, "--train_file=x.csv: there is no file"),
        (
            {"dev_file": "x.csv", "text_column": ("a",), "labels": ("0", "1")},
            "--dev_file=x.csv: there is no file x.csv. Give a TSV",
        ),
    ],
)
def test_missing_files_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        glue_rows.choose_task(glue_tables.GlueData(**options))


def own(tmp_path, content, **options):
    path = tmp_path / "own.csv"
    path.write_text(content, encoding="utf-8")
    return glue_tables.GlueData(train_file=str(path), **options)


def test_columns_are_named_where_text_columns_are_omitted(tmp_path):
    with pytest.raises(ValueError, match=r"--train_file needs --text_column, "):
        glue_rows.choose_task(own(tmp_path, "a,label\nx,no\n"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["b", "a", "b", ""], "has --labels=a,b"),
        (["it's", '"x, y"'], """has '--labels=it'"'"'s,"x, y"'"""),
        (
            ["10", "9", "9"],
            "has --labels=9,10; or --labels=score to predict the number",
        ),
        (range(50), "48,49; or --labels=score to predict the number"),
        (range(51), "has more than 50 different values, such as '0'. Give"),
        (["", ""], "has no values. Name another with --label_column."),
    ],
)
def test_labels_are_proposed_where_they_are_omitted(tmp_path, values, message):
    rows = "".join(f"x,{value}\n" for value in values)
    data = own(tmp_path, f"text,y\n{rows}", text_column=("text",))
    with pytest.raises(ValueError, match="no column 'label'; there are 'text'"):
        glue_rows.choose_task(data)
    data = dataclasses.replace(data, label_column="y")
    where = "--train_file needs --labels, in the order of their ids: column 'y'"
    with pytest.raises(ValueError, match=where) as raised:
        glue_rows.choose_task(data)
    assert message in str(raised.value)
