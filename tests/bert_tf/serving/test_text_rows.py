"""Reading of lines, TSV rows, JSON lines and pipes."""

import bz2
import csv
import functools
import gzip
import json
import math
import os
import pathlib
import re
import threading
from typing import NamedTuple

import pytest
from absl import flags

from bert_tf.serving import text_rows
from run_scripts.flags import common_flags

parse_text = functools.partial(text_rows.parse_text, "text", 1)


def test_invalid_utf8_is_replaced_counted_and_named_once(tmp_path, caplog):
    path = tmp_path / "input"
    path.write_bytes(b"caf\xe9 \xff\nna\xc3\xafve \xef\xbf\xbd\n")
    with text_rows.open_lines(str(path)) as lines:
        (block,) = map(list, lines.blocks())
    assert block == [(1, "caf\ufffd \ufffd"), (2, "na\xefve \ufffd")]
    assert lines.num_replaced == 2  # The last one was in the file.
    (message,) = caplog.messages
    assert message.startswith(f"{path}:1: byte 0xe9 is not UTF-8; such bytes ")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_compressed_file_is_read_and_its_own_bytes_counted(tmp_path, pack):
    path = tmp_path / "input.gz"
    path.write_bytes(pack(b"one\ntwo\n" * 50_000))
    with text_rows.open_lines(str(path)) as lines:
        (block,) = map(list, lines.blocks())
    assert block[-1] == (100_000, "two") and len(block) == 100_000
    assert lines.num_read == lines.size == path.stat().st_size


def test_a_pipe_may_be_compressed(tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    content = gzip.compress(b"one\ntwo")
    write = pathlib.Path(path).write_bytes
    threading.Thread(target=write, args=(content,)).start()
    with text_rows.open_lines(path) as lines:
        found = [line for block in lines.blocks() for line in block]
    assert found == [(1, "one"), (2, "two")] and lines.size is None


def test_a_file_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "input"
    path.write_bytes(b"\x80\x04\x95a")
    with (
        text_rows.open_lines(str(path)) as lines,
        pytest.raises(ValueError, match="input:1: the file is a pickle; if"),
    ):
        list(lines.blocks())


def test_a_line_longer_than_a_block_is_one_line(tmp_path):
    content = b"x" * 200_000 + b"\nend"
    reader, writer = os.pipe()

    def write():
        with open(writer, "wb") as file:
            file.write(content)

    threading.Thread(target=write).start()
    (tmp_path / "input").write_bytes(content)
    for path in (reader, tmp_path / "input"):
        with open(path, "rb") as file:
            lines = text_rows.Lines(file, "input")
            read = [line for block in lines.blocks() for line in block]
        assert [(i, len(text)) for i, text in read] == [(1, 200_000), (2, 3)]
        assert lines.num_read == len(content)
    assert lines.size == len(content)


def test_only_the_last_group_of_a_file_is_smaller(tmp_path):
    path = tmp_path / "input"
    path.write_text("\n".join("x" * 1000 for _ in range(200)))
    with text_rows.open_lines(str(path)) as lines:
        batches = text_rows.make_groups(lines, parse_text, 64)
        assert [len(batch) for batch in batches] == [64, 64, 64, 8]


def test_rows_of_a_pipe_are_yielded_before_waiting_for_more():
    reader, writer = os.pipe()
    with open(reader, "rb") as file:
        lines = text_rows.Lines(file, "stdin")
        batches = text_rows.make_groups(lines, parse_text, 2)
        os.write(writer, b"one\ntwo\nthree\nfo")
        assert [row.fields["text"] for row in next(batches)] == ["one", "two"]
        assert [row.fields["text"] for row in next(batches)] == ["three"]
        os.write(writer, b"ur")
        os.close(writer)
        assert next(batches)[0][:2] == (4, {"text": "four"})
        assert next(batches, None) is None


class Read(NamedTuple):
    """A Row without its cells."""

    line: int
    fields: dict


def without_cells(row):
    return Read(*row[:2]) if isinstance(row, text_rows.Row) else row


def rows_of(path, parse):
    with text_rows.open_lines(str(path)) as lines:
        batches = text_rows.make_groups(lines, parse, 2)
        return [without_cells(row) for batch in batches for row in batch]


def read_objects(path, ranks):
    return rows_of(path, text_rows.ObjectParser(str(path), (), ranks))


def write(tmp_path, *values):
    path = tmp_path / "input.jsonl"
    lines = [x if isinstance(x, str) else json.dumps(x) for x in values]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


ONE = {"text": 1}
PAIR = {"text_a": 1, "text_b": 1}
CHOICE = {"context": 1, "endings": 2}
GOOD = {"context": "a", "endings": ["b"]}
EMPTY = {"context": "", "endings": []}


def test_words_are_separated_by_spaces(tmp_path):
    (tmp_path / "input").write_text("the old  cat\n\n")
    parse = functools.partial(text_rows.parse_text, "words", 2)
    rows = rows_of(tmp_path / "input", parse)
    assert [row.fields["words"] for row in rows] == [["the", "old", "cat"], []]


@pytest.mark.parametrize(
    ("ranks", "given", "found"),
    [
        (CHOICE, {"id": 7} | GOOD, {"id": 7} | GOOD),  # Other keys are kept.
        (CHOICE, EMPTY, EMPTY),
        # An optional input may be missing or null.
        (PAIR, {"text_a": "a"}, {"text_a": "a"}),
        (PAIR, {"text_a": "a", "text_b": None}, {"text_a": "a"}),
        (PAIR, {"text_a": "a", "text_b": math.nan}, {"text_a": "a"}),
        # Numbers are texts, as in tables.
        (
            CHOICE,
            {"context": 3, "endings": [1.5, True, "a"]},
            {"context": "3", "endings": ["1.5", "true", "a"]},
        ),
    ],
)
def test_objects_are_read_and_empty_lines_skipped(
    tmp_path, ranks, given, found
):
    path = write(tmp_path, given, "", given)
    assert read_objects(path, ranks) == [(1, found), (3, found)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x" * 10_000, f": '{'x' * 99}..."),
        ("[" * 10_000, r"jsonl:2 is not JSON \(brackets are nest"),
        ("no", r"jsonl:2 is not JSON \(.*: 'no'.*such as \{\"context\": "),
        ([1], r"jsonl:2: the content is \[1\]; it should be an object"),
        ({"id": "\ud83d"}, "jsonl:2: the line is .* not valid text: a surrog"),
        ({"context": "a"}, "jsonl:2: endings is missing or null; it should be"),
        (
            {"context": {"a": 3}, "endings": []},
            "jsonl:2: context is {'a': 3}; expected a string.*Expected an obj",
        ),
        (
            {"context": [3], "endings": []},
            r"jsonl:2: context is \['3'\]; it should be a string.*Expected an",
        ),
        (
            {"context": math.nan, "endings": []},
            "jsonl:2: context is missing or null; it should be a string",
        ),
        (
            {"context": "", "endings": "a"},
            "jsonl:2: endings is 'a'; it should be a list",
        ),
        (
            {"context": "", "endings": ["a", None]},
            r"jsonl:2: endings\[1\] is missing or null; it should be a string",
        ),
    ],
)
def test_invalid_json_is_refused(tmp_path, line, message):
    path = write(tmp_path, EMPTY, line, GOOD)
    _, bad, last = read_objects(path, CHOICE)
    assert (bad.line, last) == (2, (3, GOOD))
    assert re.search(message, bad.message)


def test_a_second_text_for_a_model_of_single_texts_is_refused(tmp_path):
    path = write(tmp_path, {"text_a": "a", "text_b": "b"}, {"text_a": "a"})
    bad, good = read_objects(path, {"text_a": 1})
    assert "text_b is 'b', but this model was trained on" in bad.message
    assert good == (2, {"text_a": "a"})
    # As in requests of older exports.
    path = write(tmp_path, {"text_a": "a", "text_b": ""})
    assert read_objects(path, {"text_a": 1})[0].fields["text_a"] == "a"


CSV = (
    b'\xef\xbb\xbftext,label\r\n"a warm film, and a long one",1\r\n\r\n'
    b'"dull\r\nand ""slow""",0\r\na film, and too many,1\r\n"x"y,1\r\nlast,2'
)


@pytest.mark.parametrize("is_pipe", [False, True])
def test_rows_of_a_csv_may_have_commas_quotes_and_line_breaks(
    tmp_path, is_pipe
):
    parse = text_rows.ColumnParser("in.csv", [("text", "text")], ONE, "csv")
    path = tmp_path / "in.csv"
    path.write_bytes(CSV)
    if is_pipe:
        path, writer = os.pipe()
        with open(writer, "wb") as file:
            file.write(CSV)
    with open(path, "rb") as file:
        lines = text_rows.Lines(file, "in.csv")
        groups = text_rows.make_groups(lines, parse, 2)
        first, second, many, quote, last = [
            without_cells(x) for group in groups for x in group
        ]
    assert first == (2, {"text": "a warm film, and a long one"})
    assert second == (4, {"text": 'dull\r\nand "slow"'})
    assert (many.line, quote.line) == (6, 7)
    assert "in.csv:6 has 3 columns where the header has 2: " in many.message
    assert "in.csv:7: ',' expected after '\"'. Is a quote" in quote.message
    assert last == (8, {"text": "last"})


def read_csv(tmp_path, content, column):
    path = tmp_path / "in.csv"
    path.write_bytes(content)
    columns = [("text", column)]
    return rows_of(path, text_rows.ColumnParser("in.csv", columns, ONE, "csv"))


def test_a_csv_without_a_header_has_indices(tmp_path):
    content = b'7,"a, b"\n8\n"never closed\n9,x\n'
    row, short, rest = read_csv(tmp_path, content, "1")
    assert row == (1, {"text": "a, b"})
    assert "in.csv:2 has 1 comma-separated columns; col" in short.message
    assert "in.csv:3: unexpected end of data. Is a quote" in rest.message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'"t"x,y\na,b\n', "in.csv:1: ',' expected"),
        (b"a,b\nt,u\n", "in.csv:1: no column 't'; there are 'a', 'b'. Give"),
        (b'"\na",b\nt,u\n', r"no column 't'; there are '\\na', 'b'"),
    ],
)
def test_a_header_that_is_wrong_stops_all(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_csv(tmp_path, content, "t")


@pytest.fixture
def field_limit():
    """Restores the csv module's limit, which absl's flags also obey."""
    before = csv.field_size_limit()
    yield
    csv.field_size_limit(before)


@pytest.mark.usefixtures("field_limit")
def test_a_text_longer_than_the_limit_stops_a_csv(tmp_path, monkeypatch):
    monkeypatch.setattr("tfrecords.tables.table_files.MAX_FIELD", 10)
    with pytest.raises(ValueError, match="in.csv:2: field larger.*Shorten"):
        read_csv(tmp_path, b'0,a\n1,"never closed,\n2,b\n', "1")


def test_several_columns_make_a_list_and_quotes_of_a_tsv_are_text(tmp_path):
    path = tmp_path / "input"
    path.write_text('a\tb\tc\n1\t2\t"3\n')
    columns = [("endings", "c"), ("context", "b"), ("endings", "a")]
    (row,) = rows_of(path, text_rows.ColumnParser("input", columns, CHOICE))
    assert row == (2, {"endings": ['"3', "1"], "context": "2"})


def test_quotes_of_a_tsv_are_named_once_and_bad_widths_in_each_line(
    tmp_path, caplog
):
    path = tmp_path / "input"
    path.write_text('a\tb\n"x ""y"""\tb\n"x ""y"""\nx\ty\tz\n')
    parse = text_rows.ColumnParser("input", [("text", "a")], ONE)
    good, short, long = rows_of(path, parse)
    assert good.fields == {"text": '"x ""y"""'}
    assert "input:3 has 1 columns where the header has 2" in short.message
    assert "input:4 has 3 columns where the header has 2" in long.message
    (message,) = caplog.messages
    assert message.startswith("input:2: a cell is in quotes, with doubled")


def test_keys_of_objects_may_be_named_and_others_are_kept(tmp_path):
    path = write(
        tmp_path,
        {"n": 1, "first": "a", "last": "b", "sum": "c"},
        {"n": 2, "first": "a", "sum": "c"},
    )
    columns = [("endings", "last"), ("context", "sum"), ("endings", "first")]
    good, bad = rows_of(path, text_rows.ObjectParser("in", columns, CHOICE))
    assert good == (1, {"n": 1, "endings": ["b", "a"], "context": "c"})
    # A key with the name of an input that is read from another one is kept.
    path = write(tmp_path, {"review": "a", "text_b": "note", "n": 1})
    columns = [("text_a", "review")]
    assert rows_of(path, text_rows.ObjectParser("in", columns, PAIR)) == [
        (1, {"input_text_b": "note", "n": 1, "text_a": "a"})
    ]
    assert bad.message.startswith("in:2: last is missing or null; it should")
    assert bad.message.endswith(" Expected a text there.")


@pytest.fixture
def write_parquet(tmp_path):
    """Columns -> the path of a file."""
    reason = "make test-engines installs it"
    pyarrow = pytest.importorskip("pyarrow", reason=reason)
    parquet = pytest.importorskip("pyarrow.parquet", reason=reason)

    def write_parquet(**columns):
        path = str(tmp_path / "in.parquet")
        parquet.write_table(pyarrow.table(columns), path)
        return path

    return write_parquet


def test_rows_of_parquet_are_read_and_bad_ones_named(write_parquet):
    path = write_parquet(review=["a", None], day=[7, 8], image=[b"a", b"b"])
    columns = [("text_a", "review")]
    parser = text_rows.ParquetParser(path, columns, PAIR)
    good, bad = rows_of(path, parser)
    assert good == (1, {"day": 7, "image": b"a", "text_a": "a"})
    assert bad.message.startswith(f"{path}:2: review is missing or null")
    # Of columns that are not asked for nothing is read.
    parser = text_rows.ParquetParser(path, columns, PAIR, "day", True)
    assert rows_of(path, parser)[1] == (2, {"day": 8, "text_a": ""})


@pytest.mark.parametrize("only_texts", [False, True])
def test_a_parquet_file_without_a_wanted_column_is_one_error(
    write_parquet, only_texts
):
    path = write_parquet(body=["a", "b"], n=[1, 2])
    for column, ids in (("review", "n"), ("body", "review")):
        parser = text_rows.ParquetParser(
            path, [("text_a", column)], PAIR, ids, only_texts
        )
        with pytest.raises(
            ValueError, match="parquet:1: no column 'review'; .*'body', 'n'. N"
        ):
            rows_of(path, parser)


@pytest.mark.parametrize("path", ["-", "/dev/stdin"])
def test_parquet_is_not_read_from_a_pipe(path):
    reader, writer = os.pipe()
    os.close(writer)
    with open(reader, "rb") as file:
        lines = text_rows.Lines(file, path)
        with pytest.raises(ValueError, match="cannot be read from stdin or a"):
            next(text_rows.ParquetParser(path, [], ONE).rows(lines))


def test_no_two_names_become_one():
    names = ["label", "input_label", "input_input_label", "labels", "input_"]
    found = [text_rows.prefixed(x, {"label", "line"}) for x in names]
    assert found == [*(f"input_{x}" for x in names[:3]), "labels", "input_"]


@pytest.mark.parametrize(
    ("content", "column", "fields"),
    [
        ("t,n\nx,7\n", "n", {"text": "x", "n": "7"}),
        ("t,text\nx,7\n", "text", {"text": "x", "input_text": "7"}),
        ("x,7\n", "1", {"text": "x", "id": "7"}),
    ],
)
def test_ids_of_a_table_are_kept(tmp_path, content, column, fields):
    path = tmp_path / "in.csv"
    path.write_text(content)
    columns = [("text", "0" if column == "1" else "t")]
    parser = text_rows.ColumnParser("in.csv", columns, ONE, "csv", column)
    (row,) = rows_of(path, parser)
    assert row.fields == fields


def test_ids_of_json_lines_are_there_and_lines_of_text_have_none(tmp_path):
    path = write(tmp_path, {"text": "a", "n": 7}, {"text": "b", "m": 8})
    config = parse("--id_column=n", "--input_format=jsonl")
    good, bad = rows_of(path, text_rows.make_parser(config, "in", ONE))
    assert good == (1, {"text": "a", "n": 7})
    assert bad.message.startswith("in:2: no column 'n'; there are 'text', 'm'.")
    with pytest.raises(ValueError, match="--id_column=n: lines of text have "):
        text_rows.make_parser(parse("--id_column=n"), "in", ONE)


def parse(*words):
    values = flags.FlagValues()
    common_flags.define(values, text_rows.InputConfig)
    values(["predict", *words])
    return common_flags.config(text_rows.InputConfig, values)


@pytest.mark.parametrize(
    ("ranks", "words", "expected"),
    [
        (PAIR, [], "text"),
        (PAIR, ["--input_file=rows.jsonl"], "jsonl"),
        (PAIR, ["--input_file=rows.jsonl", "--input_format=text"], "text"),
        (PAIR, ["--input_file=rows.JSON"], "jsonl"),
        (PAIR, ["--input_file=rows.ndjson", "--columns=text_a=x"], "jsonl"),
        (PAIR, ["--columns=text_a=0"], "tsv"),
        (PAIR, ["--columns=text_a=0", "--input_file=rows.CSV"], "csv"),
        (PAIR, ["--columns=text_a=0", "--input_file=rows.txt"], "tsv"),
        (PAIR, ["--columns=text_a=0", "--input_format=csv"], "csv"),
        (PAIR, ["--input_file=rows.csv", "--input_format=text"], "text"),
        (CHOICE, ["--input_file=rows.txt"], "jsonl"),
        (CHOICE, [], "jsonl"),
        (CHOICE, ["--columns=context=0,endings=1"], "tsv"),
        ({"words": 2}, [], "text"),
        (PAIR, ["--input_file=a.jsonl", "--columns=text_a=x"], "jsonl"),
        (PAIR, ["--input_format=jsonl", "--columns=text_a=x"], "jsonl"),
        (PAIR, ["--input_file=a.parquet"], "parquet"),
    ],
)
def test_the_format_is_inferred(ranks, words, expected):
    config = parse(*words)
    columns = text_rows.read_columns(config, ranks)
    path = config.input_file
    found = text_rows.choose_format(
        *(path, config.input_format, ranks, bool(columns))
    )
    assert found == expected
    parser = text_rows.make_parser(config, path, ranks)
    is_table = isinstance(parser, text_rows.ColumnParser)
    assert is_table == (expected in ("tsv", "csv"))


@pytest.mark.parametrize(
    ("words", "ranks", "expected"),
    [
        (
            ["--columns=text_a=first,text_b=second"],
            PAIR,
            [("text_a", "first"), ("text_b", "second")],
        ),
        (
            ["--columns=endings=a,context=b,endings=c=d"],
            CHOICE,
            [("endings", "a"), ("context", "b"), ("endings", "c=d")],
        ),
        (["--text_column=first"], PAIR, [("text_a", "first")]),
        (["--text_column=a,b"], PAIR, [("text_a", "a"), ("text_b", "b")]),
        (
            ["--text_column=b,a,c"],
            CHOICE,
            [("context", "b"), ("endings", "a"), ("endings", "c")],
        ),
    ],
)
def test_inputs_have_columns(words, ranks, expected):
    assert text_rows.read_columns(parse(*words), ranks) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--columns=3,context=0"], "column=3: expected .*such as context=0"),
        (["--columns=mood=3"], "Inputs of this model: context, endings"),
        (["--columns=context=1,context=2"], "'context' has a column already"),
        (["--columns=context=0"], "context=0: .*for 'endings', which"),
        (["--text_column=a"], "text_column=a has 1 .*are context, endings;"),
    ],
)
def test_invalid_columns_are_refused(words, message):
    with pytest.raises(ValueError, match=message):
        text_rows.read_columns(parse(*words), CHOICE)


def test_more_columns_than_texts_are_refused():
    with pytest.raises(ValueError, match="a,b,c has 3 columns"):
        text_rows.read_columns(parse("--text_column=a,b,c"), PAIR)


@pytest.mark.parametrize(
    ("word", "ranks", "has_columns", "message"),
    [
        ("format=text", CHOICE, False, "needs context, endings. Use jsonl"),
        ("format=tsv", PAIR, False, "=tsv without columns. tsv and csv"),
        ("file=rows.csv", PAIR, False, "rows.csv is a table: name its co"),
        ("file=rows.tsv", PAIR, False, "rows.tsv is a table: name its co"),
        ("format=text", PAIR, True, "=text with columns"),
    ],
)
def test_formats_that_do_not_suit_the_inputs_are_refused(
    word, ranks, has_columns, message
):
    config = parse(f"--input_{word}")
    with pytest.raises(ValueError, match=message):
        text_rows.choose_format(
            *(config.input_file, config.input_format, ranks, has_columns)
        )


@pytest.mark.parametrize(
    "content, column, message",
    [
        (b"a\ta\n1\t2\n", "a", "input:1: 2 columns have the name 'a'"),
        (b"a\tb\r1\t2\r", "a", "input:1: the lines end with a carriage"),
        (b"a\tb\r1\t2\n", "0", "input:1: the lines end with a carriage"),
        (b"\xff\xfea\0\n\0", None, "input:1: the file is UTF-16; convert it"),
        (b"a\0b\0\n\0", None, "input:1: zero bytes, as in UTF-16"),
        (b"a\rb\r", None, "input:1: the lines end with a carriage"),
    ],
)
def test_files_that_are_not_what_they_seem_are_refused(
    tmp_path, content, column, message
):
    path = tmp_path / "input"
    path.write_bytes(content)
    parse = parse_text
    if column:
        parse = text_rows.ColumnParser("input", [("text", column)], ONE)
    with pytest.raises(ValueError, match=message):
        rows_of(path, parse)


def test_several_files_are_read_one_after_the_other(tmp_path):
    (tmp_path / "a.csv").write_text("t,n\nx,1\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"n,t\n2,caf\xe9\n3,z\n"))
    config = text_rows.InputConfig(
        input_file=f"{tmp_path}/*", text_column=("text=t",), id_column="n"
    )
    lines = text_rows.Inputs(config.input_file)
    groups = lines.groups(config, {"text": 1}, 10)
    assert [row.fields for group in groups for row in group] == [
        {"text": "x", "n": "1"},
        {"text": "caf\ufffd", "n": "2"},
        {"text": "z", "n": "3"},
    ]
    assert lines.num_replaced == 1 and lines.num_read == lines.size
    (tmp_path / "_SUCCESS").touch()
    assert len(text_rows.Inputs(str(tmp_path / "a.csv")).paths) == 1
    with pytest.raises(ValueError, match="--input_file=.* a.csv, b.csv.gz"):
        (tmp_path / "c.tsv").touch()
        text_rows.Inputs(str(tmp_path))
    with pytest.raises(ValueError, match="--input_file=none: there is no file"):
        text_rows.Inputs("none")


def test_a_quoted_tsv_has_quotes_of_a_csv(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('"t"\t"n"\n"say ""x""\ty"\t1\n')
    config = text_rows.InputConfig(
        input_file=str(path), text_column=("text=t",), input_format="quoted_tsv"
    )
    groups = text_rows.Inputs(str(path)).groups(config, {"text": 1}, 10)
    assert next(groups)[0].fields == {"text": 'say "x"\ty'}


def test_a_closed_stdin_and_a_store_are_named(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ValueError, match="stdin is closed. Redirect it"):
        text_rows.open_lines("-").__enter__()
    with pytest.raises(FileNotFoundError, match="gs://b/x.txt"):
        text_rows.open_lines("gs://b/x.txt").__enter__()


def test_a_row_has_all_cells_by_the_names_of_the_columns(tmp_path):
    (tmp_path / "in.csv").write_text("id,text,text,\n1,a,b,c\n")
    config = parse("--text_column=text", f"--input_file={tmp_path / 'in.csv'}")
    with pytest.raises(ValueError, match="2 columns have the name 'text'"):
        next(text_rows.Inputs(config.input_file).groups(config, ONE, 9))
    config = parse("--text_column=id", f"--input_file={tmp_path / 'in.csv'}")
    ((row,),) = text_rows.Inputs(config.input_file).groups(config, ONE, 9)
    assert row.cells == {"id": "1", "text": "a", "text.1": "b", "": "c"}
    (tmp_path / "in.tsv").write_text("a\tb\n")
    config = parse("--text_column=1", f"--input_file={tmp_path / 'in.tsv'}")
    ((row,),) = text_rows.Inputs(config.input_file).groups(config, ONE, 9)
    assert row.cells == {"0": "a", "1": "b"}
    (tmp_path / "in.jsonl").write_text('{"text": 3, "n": null}\n')
    config = parse(f"--input_file={tmp_path / 'in.jsonl'}")
    ((row,),) = text_rows.Inputs(config.input_file).groups(config, ONE, 9)
    assert row.cells == {"text": 3, "n": None} and row.fields["text"] == "3"
