"""glue_rows.py: rows of official files, of own files, and errors."""

import csv
import dataclasses
import io
import json

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


def own_task(**changes):
    settings = dict(
        files={},
        text_columns=("question", "answer"),
        label_column="verdict",
        labels=("no", "yes"),
    )
    return glue_tables.own_task("mine", **(settings | changes))


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Task or name, content, name of the file, settings -> its rows."""
    monkeypatch.chdir(tmp_path)

    def read(task, content, name="train.tsv", is_labelled=True, **settings):
        content = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(content)
        task = glue_tables.find(task) if isinstance(task, str) else task
        settings["is_labelled"] = is_labelled
        return list(glue_rows.read_rows(task, name, **settings))

    return read


def test_cola_has_no_header_in_train_but_one_in_test(read):
    rows = read("CoLA", "gj04\t1\t\tIt rained.\ngj04\t0\t*\tRained it.\n")
    assert rows[0][:3] == (("It rained.",), 1, "train.tsv:1")
    assert rows[1].label == 0
    content = "index\tsentence\n0\tIt rained.\n"
    (row,) = read("CoLA", content, "test.tsv", is_labelled=False)
    assert row == glue_rows.Row(("It rained.",), None, "test.tsv:2")


@pytest.mark.parametrize(
    ("content", "text", "source"),
    [
        # Quotes.
        ('sentence\tlabel\n"so "good\t1\n', '"so "good', "train.tsv:2"),
        ('sentence\tlabel\n"\t1\n', '"', "train.tsv:2"),
        # A byte order mark and CRLF are no text.
        (
            b"\xef\xbb\xbfsentence\tlabel\r\ngood\t1\r\n\r\n",
            *("good", "train.tsv:2"),
        ),
        # Line separators other than newlines are text.
        (
            "sentence\tlabel\none\u2028two\x0bthree\x85\t1\n",
            *("one\u2028two\x0bthree\x85", "train.tsv:2"),
        ),
    ],
)
def test_cells_of_tsv_are_between_tabs_and_newlines(
    read, content, text, source
):
    assert read("SST-2", content) == [glue_rows.Row((text,), 1, source)]


def test_scores_of_own_tasks_have_no_range(read):
    task = own_task(labels=("score",), text_columns=("question",))
    assert read(task, "question\tverdict\na\t-12.5\n")[0].label == -12.5
    header = "sentence1\tsentence2\tscore\n"
    assert read("STS-B", header + "a\tb\t3.750\n")[0].label == 3.75


SST = "sentence\tlabel\na\t1\n"
STS = "sentence1\tsentence2\tscore\na\tb\t1\n"
CSV = "question,answer,verdict\na,b,no\n"
COLUMNS = "columns where the header has 2: 'sentence', 'label'.*stray quote"


@pytest.mark.parametrize(
    ("task", "content", "message"),
    [
        *(
            (
                "STS-B",
                f"{STS}a\tb\t{score}\n",
                f":3: label '{score}' is not a score of STS-B, a number from 0 "
                "to 5",
            )
            for score in ("5.1", "nan", "high", "")
        ),
        (
            "SST-2",
            f"{SST}b\tpositive\n",
            ":3: label 'positive' is not one of SST-2's: 0, 1",
        ),
        ("SST-2", f"{SST}only one\nb\t0\n", f":3: 1 {COLUMNS}"),
        ("SST-2", f"{SST}one\ttwo\tthree\nb\t0\n", f":3: 3 {COLUMNS}"),
        ("SST-2", "text\tlabel\na\t1\n", ":1: no column 'sentence'; there are"),
        ("SST-2", "", " is empty"),
        ("SST-2", "\n\n", " is empty"),
        ("SST-2", "sentence\tlabel\n", " has no rows"),
        (
            own_task(),
            f'{CSV}x,"an open quote,yes\n',
            ":3: .*Is a quote not clos",
        ),
        (
            own_task(),
            f'{CSV}x,"closed" early,yes\n',
            ":3: .*Is a quote not clos",
        ),
    ],
)
def test_what_is_wrong_is_named_with_file_and_line(
    read, task, content, message
):
    name = "train.tsv" if isinstance(task, str) else "mine.csv"
    with pytest.raises(ValueError, match=f"{name}.*{message}"):
        read(task, content, name)


def test_malformed_rows_of_qqp_are_skipped_and_counted(read):
    # Like line 97,931 of the official train.tsv.
    content = (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
        '1\t2\t3\tWho?\tWhat?\t0\n4\t5\t6\t"Was he?\n"\tIs it?\t0\n'
    )
    statistics = glue_rows.ReadStatistics()
    assert len(read("QQP", content, statistics=statistics)) == 1
    assert statistics.skipped_rows == 2
    # Of a test set each row needs an answer.
    content = "id\tquestion1\tquestion2\n1\tWho?\n"
    with pytest.raises(ValueError, match=r"test.tsv:2: 2 columns where"):
        read("QQP", content, "test.tsv", is_labelled=False)


def test_invalid_utf8_is_replaced_counted_and_named_once(read, caplog):
    statistics = glue_rows.ReadStatistics()
    content = b"sentence\tlabel\nca\xfff\xe9\t1\ngo\xe9od\t0\n"
    rows = read("SST-2", content, statistics=statistics)
    assert rows[0].texts == ("ca\ufffdf\ufffd",)
    assert statistics.lines_with_invalid_utf8 == 2
    (message,) = caplog.messages
    assert message.startswith("train.tsv:2: byte 0xff is not UTF-8; such bytes")
    assert "latin-1" in message


def test_quotes_in_csv_delimit_cells(read):
    texts = [("a, b", 'say "hi"'), ("two\nlines", "plain"), ("c", "d")]
    cells = io.StringIO(newline="")
    writer = csv.writer(cells)
    writer.writerow(["verdict", "answer", "question"])
    writer.writerows([["yes", b, a] for a, b in texts])
    rows = read(own_task(), cells.getvalue(), "mine.csv")
    assert [row.texts for row in rows] == texts
    # The first line of each row.
    assert [row.source[-2:] for row in rows] == [":2", ":3", ":5"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "No data: give --task_name"),
        ({"task_name": "CoLA"}, "No data: give --task_name"),
        ({"train_file": "x.csv"}, "--train_file=x.csv: there is no file"),
        (
            {"dev_file": "x.csv", "text_column": ("a",), "labels": ("0", "1")},
            "--dev_file=x.csv: there is no file x.csv. Give a tab",
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


def test_labels_that_are_no_numbers_are_collected_and_shown(tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    content = 'text,label\nx,"b, c"\nx,a\nx,"b, c"\nx,1\n'
    task = glue_rows.choose_task(own(tmp_path, content, text_column=("text",)))
    assert task.labels == ("1", "a", "b, c") and not task.multi_label
    assert caplog.messages[-1].endswith("1 (1 rows), a (1 rows), b, c (2 rows)")
    # Those of a dev or test set are the model's.
    data = own(tmp_path, content, text_column=("text",))
    for split in ("dev_file", "test_file"):
        other = {"train_file": None, split: data.train_file}
        found = dataclasses.replace(data, **other)
        assert glue_rows.takes_labels(found) and not glue_rows.has_labels(found)


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["film", "book"], ("film", "book")),
        (["0", "1"], ("0", "1")),
        (["1", "2"], None),
    ],
)
def test_the_names_of_ids_in_a_parquet_file_are_the_labels(
    tmp_path, write_parquet_of, names, labels
):
    path = tmp_path / "a.parquet"
    features = {"y": {"_type": "ClassLabel", "names": names}}
    write_parquet_of(path, features)
    data = glue_tables.GlueData(
        train_file=str(path), text_column=("text",), label_column="y"
    )
    if labels is None:
        # The id 1 would be the label "1", whose id is 0.
        with pytest.raises(ValueError, match=r"needs --labels: .* ids of 1, 2"):
            glue_rows.choose_task(data)
        return
    task = glue_rows.choose_task(data)
    rows = glue_rows.read_rows(task, str(path), is_labelled=True)
    assert [task.labels[row.label] for row in rows] == [labels[1], labels[0]]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("book", "film"), ["book", "film"]),  # In another order.
        (("film", "play", "book"), ["book", "film"]),
        (("a", "b"), ["b", "a"]),  # Other names of the same ids.
        (("film", "play"), "has ids of film, book, of which 'book' is not"),
    ],
)
def test_a_file_has_ids_of_its_own_names(
    tmp_path, write_parquet_of, labels, expected
):
    path = tmp_path / "a.parquet"
    features = {"y": {"_type": "ClassLabel", "names": ["film", "book"]}}
    write_parquet_of(path, features)
    data = glue_tables.GlueData(
        train_file=str(path),
        text_column=("text",),
        label_column="y",
        labels=labels,
    )
    task = glue_rows.choose_task(data)
    rows = glue_rows.read_rows(task, str(path), is_labelled=True)
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            list(rows)
    else:
        assert [task.labels[row.label] for row in rows] == expected


SEVERAL = {"text_columns": ("text",), "multi_label": True, "label_column": "y"}


@pytest.mark.parametrize(
    ("changes", "name", "content", "labels"),
    [
        (
            {},
            "a.tsv",
            "text\ty\nx\tyes,no\nx\t no ,\nx\t\n",
            [(0, 1), (0,), ()],
        ),
        ({"label_separator": "|"}, "a.csv", "text,y\nx,yes|no\n", [(0, 1)]),
        (
            {},
            "a.jsonl",
            '{"text": "x", "y": ["yes", "yes"]}\n{"text": "x", "y": null}\n',
            [(1,), ()],
        ),
        (
            {"label_columns": ("no", "yes")},
            "a.jsonl",
            '{"text": "x", "no": 1, "yes": true}\n'
            '{"text": "x", "no": 0.0, "yes": "1"}\n',
            [(0, 1), (1,)],
        ),
        # By their ids, as in files of datasets.
        ({}, "a.tsv", "text\ty\nx\t1\nx\t0,1\n", [(1,), (0, 1)]),
        # As vectors of 0 and 1, as MultiLabelBinarizer and Trainer have them.
        (
            {"labels": ("anger", "grief", "joy", "love")},
            "a.jsonl",
            '{"text": "x", "y": [0, 0, 1, 1]}\n'
            '{"text": "x", "y": [1.0, 0.0, 0.0, 0.0]}\n'
            '{"text": "x", "y": [false, false, true, false]}\n'
            '{"text": "x", "y": [0, 0, 0, 0]}\n',
            [(2, 3), (0,), (2,), ()],
        ),
        ({}, "a.jsonl", '{"text": "x", "y": [0, 1]}\n', [(1,)]),
        (
            {"labels": ("a", "b", "c")},
            *("a.tsv", "text\ty\nx\t0,1,1\n", [(1, 2)]),
        ),
        # Names that are numbers are no vector.
        (
            {"labels": ("0", "1")},
            *("a.jsonl", '{"text": "x", "y": [0, 1]}\n', [(0, 1)]),
        ),
        # A label may have brackets.
        (
            {"labels": ("[spam]", "ham")},
            *("a.csv", "text,y\nx,[spam]\n", [(0,)]),
        ),
        # Without a header.
        (
            {"text_columns": ("0",), "label_column": "1"},
            *("a.tsv", "x\tyes\nx\t\n", [(1,), ()]),
        ),
    ],
)
def test_rows_may_have_several_labels(read, changes, name, content, labels):
    task = own_task(**SEVERAL | changes)
    assert [row.label for row in read(task, content, name)] == labels


def test_ids_weights_and_groups_are_read_where_they_are_used(read):
    task = own_task(
        text_columns=("t",),
        **{"id_column": "n", "weight_column": "w", "group_column": "g"},
    )
    content = "t,verdict,n,w,g\nx,no,7,2.5,Ann\n"
    (row,) = read(task, content, "a.csv", is_train=True)
    assert (row.id, row.weight, row.group) == ("7", 2.5, "Ann")
    (row,) = read(task, content, "a.csv")
    assert (row.id, row.weight, row.group) == ("7", None, "Ann")
    (row,) = read(task, "t,n\nx,7\n", "b.csv", is_labelled=False)
    assert (row.id, row.weight, row.group, row.label) == ("7", *[None] * 3)


@pytest.mark.parametrize(
    ("changes", "row", "message"),
    [
        ({}, {"text": None, "y": ["no"]}, "'text' is None; it should be a te"),
        ({}, {"text": ["x"], "y": ["no"]}, "'text' is \\['x'\\]; .*explode"),
        ({}, {"text": "x", "y": ["fair"]}, "label 'fair' is not one of mine's"),
        ({}, {"text": "x", "y": ["2"]}, "label '2' is not one of mine's"),
        ({}, {"text": "x", "y": ["1" * 5001]}, "label '1111.* is not one of"),
        ({}, {"text": "x", "y": {"no": 1}}, "'y' is {'no': 1}; expected a st"),
        (
            {"multi_label": False},
            *(
                {"text": "x", "y": ["no", "yes"]},
                "a list of several .*--multi_l",
            ),
        ),
        (
            {"label_columns": ("no", "yes")},
            *({"text": "x", "no": 2, "yes": 0}, "'no' is '2'; a column of"),
        ),
        (
            {"weight_column": "w"},
            *({"text": "x", "y": [], "w": "nan"}, "'w' is 'nan'; the weight"),
        ),
        ({"label_column": "z"}, {"text": "x"}, "no column 'z'; there are 'te"),
        *(
            (
                {"labels": ("anger", "grief", "joy", "love")},
                {"text": "x", "y": ids},
                f"'y' is {ids_text}, which repeats an id. .*vector of 4 items",
            )
            for ids, ids_text in (
                ([2, 2], "\\['2', '2'\\]"),
                ([0, 0, 1], "\\['0', '0', '1'\\]"),
                ([2, 2, 1, 0], "\\['2', '2', '1', '0'\\]"),
            )
        ),
    ],
)
def test_wrong_labels_and_weights_are_named(read, changes, row, message):
    task = own_task(**SEVERAL | changes)
    with pytest.raises(ValueError, match=f"a.jsonl:1: .*{message}"):
        read(task, json.dumps(row), "a.jsonl", is_train=True)


def test_vectors_and_ids_in_one_file_are_refused(read):
    task = own_task(**SEVERAL)
    rows = [{"text": "x", "y": y} for y in ([], [1], [0, 1])]
    content = "\n".join(map(json.dumps, rows))
    with pytest.raises(
        ValueError,
        match="a.jsonl:3: 'y' is a vector of 0 and 1, and a.jsonl:2 has labels",
    ):
        read(task, content, "a.jsonl")


def chosen(tmp_path, content, name="own.csv", **options):
    """Returns a task with collected labels, and the labels of its rows."""
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    settings = {"text_column": ("text",), "label_column": "y"} | options
    data = glue_tables.GlueData(train_file=str(path), **settings)
    task = glue_rows.choose_task(data)
    rows = glue_rows.read_rows(task, str(path), is_labelled=True)
    return task, [row.label for row in rows]


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["True", "False"], (1, 0)),
        (["1.0", "0"], ("--labels=0,1",)),
        ([" pos", "neg\u00a0"], (1, 0)),
        (['["pos"]', "neg"], (1, 0)),
        (["a\tb", "c"], ("own.csv:2: 'y': the label 'a\\\\tb' has a tab",)),
    ],
)
def test_labels_of_a_csv_have_one_spelling(tmp_path, cells, labels):
    output = io.StringIO()
    csv.writer(output).writerows([("text", "y"), *(("x", c) for c in cells)])
    if isinstance(labels[0], str):
        with pytest.raises(ValueError, match=labels[0]):
            chosen(tmp_path, output.getvalue())
    else:
        task, found = chosen(tmp_path, output.getvalue())
        assert tuple(found) == labels
        assert not any(x != x.strip() or x in ("True",) for x in task.labels)


@pytest.mark.parametrize(
    ("values", "options", "found"),
    [
        ([True, False], {}, [1, 0]),
        ([True, False], {"labels": ("False", "True")}, [1, 0]),
        ([1.0, 0.0], {"labels": ("0", "1")}, [1, 0]),
        ([["pos"], ["neg"]], {}, [1, 0]),
        ([["pos"], ["pos", "neg"]], {}, "a list of several .*--multi_label"),
        ([[["a", "b"]], [[]]], {"multi_label": True}, [(0, 1), ()]),
        (
            [{"choices": ["b"]}, {"choices": ["a", "b"]}],
            {"multi_label": True},
            [(1,), (0, 1)],
        ),
    ],
)
def test_labels_of_json_lines(tmp_path, values, options, found):
    rows = [json.dumps({"text": "x", "y": value}) for value in values]
    arguments = "\n".join(rows), "own.jsonl"
    if isinstance(found, str):
        with pytest.raises(ValueError, match=found):
            chosen(tmp_path, *arguments, **options)
    else:
        assert chosen(tmp_path, *arguments, **options)[1] == found


def test_labels_printed_in_some_cells_are_whole_in_others(tmp_path):
    """As Label Studio writes them; the bare ones may have a separator."""
    content = 'text,y\nx,"[""joy"",""love""]"\nx,"sad, tired"\nx,joy\nx,\n'
    options = {"multi_label": True, "label_separator": "|"}
    task, found = chosen(tmp_path, content, **options)
    assert task.labels == ("joy", "love", "sad, tired")
    assert found == [(0, 1), (2,), (0,), ()]
    with pytest.raises(ValueError, match="'sad, tired' has ',' in it"):
        chosen(tmp_path, content, multi_label=True)
    vectors = 'text,y\nx,"[0, 1, 1]"\nx,"[1, 0, 0]"\n'
    options = {"multi_label": True, "labels": ("a", "b", "c")}
    assert chosen(tmp_path, vectors, **options)[1] == [(1, 2), (0,)]


@pytest.mark.parametrize(
    ("values", "labels", "kept"),
    [
        (["no", "-", "yes", None], None, [0, 1]),
        (["no", "", "yes", " "], None, [0, 1]),
        (["no", "NaN", "yes", "NULL"], None, [0, 1]),
        ([0, -1, 1, None], ("no", "yes"), [0, 1]),
        ([0, -1, 1, None], ("0", "1"), [0, 1]),
        ([0.5, None, 2.0, "-"], ("score",), [0.5, 2.0]),
        ([[], ["no"], ["yes"], None], None, [0, 1]),
        ([[[]], ["no"], {"choices": []}, "yes"], None, [0, 1]),
        ([["-"], ["no"], [None], ["yes"]], None, [0, 1]),
    ],
)
def test_rows_without_a_gold_label(tmp_path, caplog, values, labels, kept):
    rows = [json.dumps({"text": "x", "y": value}) for value in values]
    arguments = tmp_path, "\n".join(rows), "own.jsonl"
    with pytest.raises(
        ValueError, match="no gold label; 2 rows of the .*=skip"
    ):
        chosen(*arguments, labels=labels)
    _, found = chosen(*arguments, labels=labels, unlabelled_rows="skip")
    assert found == kept
    # Each of them may be a label, if it is given as one.
    if labels is None and "-" in values:
        rows = json.dumps({"text": "x", "y": "-"})
        labels = ("-", "no")
        assert chosen(tmp_path, rows, "own.jsonl", labels=labels)[1] == [0]


def test_no_label_of_several_is_none_of_them(tmp_path):
    values = ["joy", "-", -1, None, ["joy", "love"], []]
    rows = [json.dumps({"text": "x", "y": value}) for value in values]
    task, found = chosen(tmp_path, "\n".join(rows), "a.jsonl", multi_label=True)
    assert task.labels == ("joy", "love")
    assert found == [(0,), (), (), (), (0, 1), ()]


def test_a_label_of_minus_one_is_named_or_skipped(tmp_path):
    content = "text,y\nx,0\nx,-1\nx,1\n"
    with pytest.raises(ValueError, match="=-1,0,1; .* if -1 is no gold label"):
        chosen(tmp_path, content)
    with pytest.raises(ValueError, match="has --labels=0,1; or"):
        chosen(tmp_path, content, unlabelled_rows="skip")


def test_0_and_1_of_two_labels_are_unclear_unless_other_rows_tell(tmp_path):
    options = {"labels": ("a", "b"), "multi_label": True}
    content = 'text,y\nx,"1,0"\nx,"0,1"\n'
    for more in ("", 'x,"1,1"\n'):
        with pytest.raises(ValueError, match="own.csv:2: .* two ids, or a vec"):
            chosen(tmp_path, content + more, **options)
    assert chosen(tmp_path, content + "x,1\n", **options)[1][2] == (1,)


def test_labels_that_look_equal_are_named(tmp_path, caplog):
    content = "text,y\nx,spam\nx,Spam\nx,s pam\nx,ham\nx,Spam\n"
    task, _ = chosen(tmp_path, content)
    assert len(task.labels) == 4
    (message,) = [x for x in caplog.messages if "look equal" in x]
    assert "'Spam' (2 rows)" in message and "ham'" not in message


def test_parts_name_the_same_classes(tmp_path, write_parquet_of):
    for name, classes in (("a", ["no", "yes"]), ("b", ["yes", "no"])):
        features = {"y": {"_type": "ClassLabel", "names": classes}}
        write_parquet_of(tmp_path / f"{name}.parquet", features)
    data = glue_tables.GlueData(
        train_file=f"{tmp_path}/*.parquet",
        text_column=("text",),
        label_column="y",
    )
    with pytest.raises(ValueError, match="a.parquet has ids of no, yes, and "):
        glue_rows.choose_task(data)


PRINTED = [
    "['joy', 'love']",
    "['joy' 'love']",
    "[joy, love]",
    "[0 0 1]",
    "{'joy', 'love'}",
    "{joy,love}",
    '{"a": 1}',
    "('joy', 'love')",
    "('joy',)",
    "array(['joy'], dtype=object)",
    "Index(['joy'])",
]


@pytest.mark.parametrize("printed", PRINTED)
@pytest.mark.parametrize("multi_label", [False, True])
def test_a_list_printed_as_text_is_no_label(read, printed, multi_label):
    """Whether labels are given or collected."""
    output = io.StringIO()
    rows = ("text", "y"), ("x", "joy"), ("x", printed)
    csv.writer(output).writerows(rows)
    form = '"a", "b"' if multi_label else "one label"
    message = f"a.csv:3: 'y' is .*, a list printed as text. Write .*{form}"
    task = own_task(
        **SEVERAL | {"multi_label": multi_label, "labels": ("joy", "love")}
    )
    with pytest.raises(ValueError, match=message):
        read(task, output.getvalue(), "a.csv")
    data = glue_tables.GlueData(
        train_file="a.csv",
        text_column=("text",),
        label_column="y",
        multi_label=multi_label,
    )
    with pytest.raises(ValueError, match=message):
        glue_rows.choose_task(data)


def test_names_are_asked_for_where_labels_are_vectors(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "x", "y": [true, false, true]}\n')
    data = glue_tables.GlueData(
        train_file=str(path),
        text_column=("text",),
        label_column="y",
        multi_label=True,
    )
    with pytest.raises(
        ValueError,
        match=r"a.jsonl:1: 'y' is \['true', 'false', 'true'\], a vector of 0 "
        "and 1. Give --labels with 3 names, in the order of its items",
    ):
        glue_rows.choose_task(data)


def test_columns_by_number_have_no_header_but_that_of_pandas(read):
    task = own_task(text_columns=("1",), label_column="0")
    (row,) = read(task, "0,1\nyes,x\n", "a.csv")
    assert row == glue_rows.Row(("x",), 1, "a.csv:2")
    # A cell of the first row may be a number.
    task = own_task(text_columns=("0",), label_column="1")
    rows = read(task, "fine\t1\nbad\t0\n", "b.tsv")
    assert [(row.texts, row.label) for row in rows] == [
        (("fine",), 1),
        (("bad",), 0),
    ]
    with pytest.raises(ValueError, match="c.jsonl:1: no column '0', '1'"):
        read(task, '{"text": "x"}\n', "c.jsonl")


@pytest.mark.parametrize("name", ["g", "n"])
@pytest.mark.parametrize("value", [None, "", ["a"], "a\tb"])
def test_groups_and_ids_are_names(read, name, value):
    task = own_task(
        text_columns=("t",), group_column="g", id_column="n", multi_label=True
    )
    row = {"t": "x", "verdict": [], "g": "a", "n": "1"} | {name: value}
    with pytest.raises(
        ValueError, match=f"a.jsonl:1: '{name}' is .*a group or"
    ):
        read(task, json.dumps(row), "a.jsonl")


def test_a_label_with_the_separator_is_refused():
    labels = ("Hong Kong, China", "Macau")
    with pytest.raises(ValueError, match="'Hong Kong, China' has ',' in it"):
        own_task(multi_label=True, labels=labels)
    own_task(multi_label=True, labels=labels, label_separator=";")
    own_task(multi_label=True, labels=labels, label_columns=labels)


TEXTS = "a film,a play,a song"


@pytest.mark.parametrize(
    ("labels", "options", "expected"),
    [
        ("good,bad,1", {}, [1, 0, 1]),
        ("-1,-1,-1", {}, None),
        (",,", {}, None),
        ("good;bad,,bad", {"multi_label": True}, [(0, 1), (), (0,)]),
        (",,", {"multi_label": True}, None),
        ("0.5,-1,2", {"labels": ("score",)}, [0.5, -1.0, 2.0]),
        ("-1,-1,-1", {"labels": ("score",)}, None),
    ],
)
def test_labels_of_a_test_file_are_read_if_there_are_any(
    tmp_path, labels, options, expected
):
    path = tmp_path / "test.tsv"
    pairs = zip(TEXTS.split(","), labels.split(","), strict=True)
    rows = "".join(f"{text}\t{label}\n" for text, label in pairs)
    options = {"labels": ("bad", "good"), "label_separator": ";"} | options

    def read(content, text="text", label="label"):
        path.write_text(content)
        task = glue_tables.own_task(
            "films",
            files={"test": str(path)},
            text_columns=(text,),
            label_column=label,
            **options,
        )
        return glue_rows.read_test_labels(task, str(path))

    assert read(f"text\tlabel\n{rows}") == expected
    assert read(rows, "0", "1") == expected
    assert read(f"text\n{TEXTS}\n") is None
    assert read(f"{TEXTS}\n", "0", "1") is None


def test_a_test_file_with_other_labels_is_refused_and_with_gaps_not_scored(
    tmp_path, caplog
):
    path = tmp_path / "test.csv"
    task = glue_tables.own_task(
        "films",
        files={"test": str(path)},
        text_columns=("text",),
        labels=("bad", "good"),
    )
    path.write_text("text,label\na film,good\na play,meh\n")
    message = "test.csv:3: label 'meh' is not one of films's: bad, good"
    with pytest.raises(ValueError, match=message):
        glue_rows.read_test_labels(task, str(path))
    for rows, counts in (("a,good\nb,\n", "1 of 2"), ("a,good\n", "1 of 1")):
        path.write_text(f"text,label\n{rows}")
        assert glue_rows.read_test_labels(task, str(path)) is None
        assert f"predicted, not scored: {counts} rows" in caplog.messages[-1]
    official = glue_tables.find("SST-2")
    assert glue_rows.read_test_labels(official, str(path)) is None
