"""Lines of a file or pipe -> batches of rows, as soon as they arrive.

A line is a text, a row of a table or a JSON object; a row of a CSV may have
several lines. `ranks` are the inputs of a model: name -> rank, 1 for a text and
2 for a list of texts.
"""

import contextlib
import dataclasses
import functools
import io
import itertools
import json
import os
import stat
import sys
import types
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, NamedTuple

from tfrecords.io import json_files
from tfrecords.io.inputs import file_kinds
from tfrecords.options import Options, option, quoted
from tfrecords.tables import parts, table_files
from tfrecords.text import text_files

# Inputs that may be missing in a row.
OPTIONAL = ("text_b",)
# Formats whose columns are named by `--text_column`.
TABLES = ("tsv", "csv", "quoted_tsv")
_BLOCK_BYTES = 1 << 16
# Of other keys of a row, which an answer has, too.
_PREFIX = "input_"
_FIX = "Name other columns with --text_column and --id_column."


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputConfig(Options):
    """Which file to read, and its format."""

    input_file: str = option(
        "-",
        "Lines of text, a CSV or TSV file, JSON lines, each also compressed "
        "(.gz, .bz2, .xz, .zst), or a Parquet or .arrow file; several with "
        "commas between them, a glob or a folder of parts; - is stdin.",
        reads=True,
    )
    input_format: str = option(
        "auto",
        "auto: csv, tsv, jsonl (also json, ndjson) or parquet (also arrow) if "
        "the file name ends so; otherwise tsv if columns are given, jsonl if "
        "the model needs more than one text, and text. csv has commas and "
        "quotes; in tsv, quotes are text; quoted_tsv has tabs and quotes.",
        choices=("auto", "text", *table_files.FORMATS[1:]),
    )
    text_column: tuple[str, ...] | None = option(
        None,
        "Columns of a table for the inputs of the model, in their order, such "
        "as review, or question,context: names from the header line, or "
        "indices from 0 in a file without one; of jsonl and parquet, keys. If "
        "the last input is a list, it has all further columns. Or in any "
        "order with the inputs' names: context=2,question=1.",
        old_name="columns",
    )
    id_column: str | None = option(
        None,
        "Column of ids, which are repeated in what is written; name, or index "
        "in a table without a header. Of jsonl and parquet, predict repeats "
        "all keys, even without it; one that an answer has, too, is written "
        "with input_ before it.",
    )


class Row(NamedTuple):
    """One line of input.

    Attributes:
      line: its number, from 1.
      fields: its texts by the names of the inputs, and other keys: those with
        the name of an input as `prefixed`; of Parquet, their values are those
        of Python, such as dates.
      cells: all that the line has, by the names of its columns.
    """

    line: int
    fields: dict
    cells: Mapping[str, Any] = types.MappingProxyType({})


class BadLine(NamedTuple):
    """A line of input that is not a row, and why."""

    line: int
    message: str
    cells: Mapping[str, Any] = types.MappingProxyType({})


class LineError(ValueError):
    """An error of one line: the others are read."""


# Number and text of a line -> its row, None for a line that is not a row. It
# raises LineError for a bad line, and ValueError for a bad file.
Parser = Callable[[int, str], Row | None]


class Lines:
    """Lines of text in an open file or pipe.

    Args:
      file: file to read, opened in binary mode.
      name: name of the file, for messages.
      content: its decompressed content; None if it is not compressed.

    Attributes:
      name: as given.
      size: total bytes of the file, None for a pipe.
      num_read: bytes of it read so far.
    """

    def __init__(
        self,
        file: io.BufferedReader,
        name: str,
        content: io.BufferedReader | None = None,
    ):
        self.name = name
        status = os.fstat(file.fileno())
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None
        self.num_read = 0
        is_packed = content not in (None, file) and self.size is not None
        self._compressed = file if is_packed else None
        self._decoder = text_files.Decoder(name)
        self._file = content or file

    @property
    def num_replaced(self) -> int:
        """Number of U+FFFD that replaced invalid UTF-8."""
        return self._decoder.num_replaced

    def blocks(
        self, is_table: bool = False, keeps_ends: bool = False
    ) -> Iterator[Iterator[tuple[int, str]]]:
        """Yields blocks of numbered lines that can be read without waiting.

        A file is one block; a block of a pipe has the lines that have arrived.

        Args:
          is_table: whether a carriage return in the first line is an error.
          keeps_ends: whether lines keep their ends.
        """
        if self.size is not None:
            file_kinds.check_file(self._file, self.name)
            yield self._decode(self._file, 1, is_table, keeps_ends)
            return
        first, rest = 1, b""
        # Each is one read(2), which waits only if the pipe is empty.
        while block := self._file.read1(_BLOCK_BYTES):
            lines = io.BytesIO(rest + block).readlines()
            rest = b"" if block.endswith(b"\n") else lines.pop()
            yield self._decode(lines, first, is_table, keeps_ends)
            first += len(lines)
        if rest:  # The last line may lack a newline.
            yield self._decode([rest], first, is_table, keeps_ends)

    def _decode(
        self,
        lines: Iterable[bytes],
        first: int,
        is_table: bool,
        keeps_ends: bool,
    ) -> Iterator[tuple[int, str]]:
        self._decoder.is_table = is_table
        for number, line in enumerate(lines, first):
            self.num_read += len(line)
            if self._compressed:
                self.num_read = self._compressed.tell()
            text = self._decoder(line, number)
            if not keeps_ends:
                text = text.removesuffix("\n").removesuffix("\r")
            yield number, text


@contextlib.contextmanager
def open_lines(path: str) -> Iterator[Lines]:
    """Opens a file to read its lines; "-" is stdin."""
    if path == "-":
        if sys.stdin is None:
            raise ValueError(
                "stdin is closed. Redirect it, such as with < FILE, or give "
                "--input_file."
            )
        yield Lines(sys.stdin.buffer, "stdin")
        return
    with (
        open(path, "rb") as file,
        file_kinds.decompressed(file, path) as content,
    ):
        yield Lines(file, path, content)


class Inputs:
    """The files of `--input_file`, which are read one after the other.

    Args:
      names: - for stdin, a file or pipe, or several, as in `parts.find`.

    Attributes:
      paths: of the files.
      size: total bytes; None with a pipe.
      num_read: bytes read so far.
      num_replaced: number of U+FFFD that replaced invalid UTF-8.
      name: of the file that is read, for messages.

    Raises:
      ValueError: as in `parts.find`.
    """

    def __init__(self, names: str):
        is_one = names == "-" or os.path.exists(names)
        if is_one and not os.path.isdir(names):
            self.paths = [names]  # Perhaps a pipe.
        else:
            try:
                self.paths = parts.find(names)
            except ValueError as error:
                raise ValueError(f"--input_file={names}: {error}") from None
        is_sized = all(map(os.path.isfile, self.paths))
        self.size = sum(map(os.path.getsize, self.paths)) if is_sized else None
        self.num_read = self.num_replaced = 0
        self.name = ""

    def groups(
        self,
        config: InputConfig,
        ranks: Mapping[str, int],
        most_rows: int,
        **settings,
    ) -> Iterator[list[Row | BadLine]]:
        """Yields `make_groups` of each file, with its `make_parser`."""
        for path in self.paths:
            with open_lines(path) as lines:
                self.name = lines.name
                before = self.num_read, self.num_replaced
                parse = make_parser(config, path, ranks, **settings)
                for group in make_groups(lines, parse, most_rows):
                    self.num_read = before[0] + lines.num_read
                    self.num_replaced = before[1] + lines.num_replaced
                    yield group


def make_groups(
    lines: Lines, parse: Parser, most_rows: int
) -> Iterator[list[Row | BadLine]]:
    """Yields groups of rows and bad lines; the last of a block may be smaller.

    Raises:
      ValueError: if the file is bad, such as one without a wanted column.
    """
    is_table = isinstance(parse, ColumnParser)
    if isinstance(parse, ParquetParser):
        blocks = [parse.rows(lines)]
    elif is_table and parse.is_csv:
        # All lines are one block, since a row may continue in the next one.
        blocks = lines.blocks(is_table, keeps_ends=True)
        blocks = [_parse_csv(parse, itertools.chain.from_iterable(blocks))]
    else:
        blocks = (_parse_each(parse, x) for x in lines.blocks(is_table))
    for rows in blocks:
        while group := list(itertools.islice(rows, most_rows)):
            yield group


def _parse_each(
    parse: Parser, lines: Iterable[tuple[int, str]]
) -> Iterator[Row | BadLine]:
    for number, line in lines:
        try:
            row = parse(number, line)
        except LineError as error:
            row = BadLine(number, str(error))
        if row is not None:
            yield row


def _parse_csv(
    parse: "ColumnParser", lines: Iterable[tuple[int, str]]
) -> Iterator[Row | BadLine]:
    """Yields rows, with the numbers of their first lines."""
    texts = (line for _, line in lines)
    for number, cells in table_files.csv_rows(
        texts, parse.source, parse.separator
    ):
        try:
            if isinstance(cells, table_files.RowError):
                message = str(cells)
                if cells.last_line > number:
                    message += f" The lines to {cells.last_line} are not read."
                # Without a header, or in an endless text, no row can be read.
                if parse.indices is None or "field limit" in message:
                    raise ValueError(message)
                row = BadLine(number, message)
            else:
                row = parse.of_cells(number, cells)
        except LineError as error:
            row = BadLine(number, str(error))
        if row is not None:
            yield row


def read_columns(
    config: InputConfig, ranks: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Returns pairs of a model input and its column; empty without columns.

    Raises:
      ValueError: if a column is for an unknown input, an input that is one text
        has two columns, or only some of the required inputs have columns.
    """
    given = config.text_column or ()
    if given and not any("=" in word for word in given):
        return in_order(given, ranks)
    columns = []
    for word in given:
        name, equals, column = word.partition("=")
        if not equals or name not in ranks:
            raise ValueError(
                f"--text_column={word}: expected an input of the model and its "
                f"column, such as {min(ranks)}=0. Inputs of this model: "
                f"{', '.join(ranks)}."
            )
        if ranks[name] == 1 and name in dict(columns):
            raise ValueError(
                f"--text_column={word}: {name!r} has a column already, and "
                "this input is one text. Omit one of them."
            )
        columns.append((name, column))
    missing = set(ranks) - set(dict(columns)) - set(OPTIONAL)
    if columns and missing:
        raise ValueError(
            f"--text_column={','.join(given)}: there is no column for "
            f"{', '.join(map(repr, sorted(missing)))}, which the model "
            "requires. Add it."
        )
    return columns


def in_order(
    given: Sequence[str], ranks: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Returns pairs of a model input and its column, for `--text_column`."""
    names = list(ranks)
    if ranks[names[-1]] > 1:
        names += names[-1:] * (len(given) - len(names))
    least = len(ranks.keys() - {*OPTIONAL})
    if not least <= len(given) <= len(names):
        raise ValueError(
            f"--text_column={','.join(map(str, given))} has {len(given)} "
            f"columns. The inputs of this model are {', '.join(ranks)}; give "
            "the column of each, in this order."
        )
    return list(zip(names, given, strict=False))


def choose_format(
    path: str, given: str, ranks: Mapping[str, int], has_columns: bool
) -> str:
    """Returns "text", or one of `table_files.FORMATS` but "auto".

    Args:
      path: of the file.
      given: `--input_format`.
      ranks: ranks of the inputs of the model.
      has_columns: whether there is a `--text_column`.

    Raises:
      ValueError: if the format does not match the columns or model inputs.
    """
    needed = [name for name in ranks if name not in OPTIONAL]
    # The rule of predict.py, too.
    other = "text" if len(needed) == 1 else "jsonl"
    input_format = table_files.format_of(path, given, other)
    # By the flag or the ending, not by the number of inputs.
    named = table_files.format_of(path, given, "text")
    if named in ("parquet", "jsonl"):
        return named  # With columns or without.
    is_table = input_format in TABLES
    if given == "auto" and has_columns and not is_table:
        input_format, is_table = "tsv", True
    if given == "auto" and is_table and not has_columns:
        raise ValueError(
            f"--input_file={path} is a table: name its column with "
            "--text_column, or give --input_format=text if its lines are texts."
        )
    if is_table != has_columns:
        raise ValueError(
            f"--input_format={input_format} with{'' if has_columns else 'out'} "
            "columns. tsv and csv need --text_column; text has no columns."
        )
    if input_format == "text" and len(needed) > 1:
        raise ValueError(
            f"--input_format=text has one text per line, but this model needs "
            f"{', '.join(needed)}. Use jsonl, or a table and --text_column."
        )
    return input_format


def prefixed(name: str, taken: Collection[str]) -> str:
    """Returns the name that a key of a row has beside the `taken` ones.

      taken {"label"}: label -> input_label, input_label -> input_input_label

    The second one, too, in a row without the first: a name always means the
    same, and no two names become one.
    """
    rest = name
    while rest not in taken:
        if not rest.startswith(_PREFIX):
            return name
        rest = rest.removeprefix(_PREFIX)
    return _PREFIX + name


def make_parser(
    config: InputConfig,
    path: str,
    ranks: Mapping[str, int],
    only_texts: bool = False,
) -> Parser:
    """Returns the function that parses a line into a row.

    Args:
      config: format and columns.
      path: of the file; - for stdin.
      ranks: ranks of the inputs of the model.
      only_texts: as for `ObjectParser`.

    Raises:
      ValueError: as in `read_columns` and `choose_format`; or if lines of text
        should have ids.
    """
    columns = read_columns(config, ranks)
    given, source = config.input_format, "stdin" if path == "-" else path
    input_format = choose_format(path, given, ranks, bool(columns))
    if input_format == "text":
        if config.id_column:
            raise ValueError(
                f"--id_column={config.id_column}: lines of text have no ids. "
                "Omit it, or give a table."
            )
        name = next(name for name in ranks if name not in OPTIONAL)
        return functools.partial(parse_text, name, ranks[name])
    if input_format in TABLES:
        return ColumnParser(
            source, columns, ranks, input_format, config.id_column
        )
    settings = columns, ranks, config.id_column, only_texts
    if input_format == "parquet":
        return ParquetParser(path, *settings)
    return ObjectParser(source, *settings)


def id_name(id_column: str) -> str:
    """Returns the name of the values of `--id_column`: "id" of an index."""
    return "id" if table_files.are_numbers([id_column]) else id_column


def parse_text(name: str, rank: int, number: int, line: str) -> Row:
    """Returns a row with one input: the text, or for rank 2 its words."""
    text = line if rank == 1 else line.split()
    return Row(number, {name: text}, {name: text})


class ColumnParser:
    """Parser of a table, whose first line may be a header.

    Args:
      source: name of the file, for messages.
      columns: inputs and their columns, all by index from 0, or all by name in
        the header; several columns for one input make a list.
      ranks: ranks of the inputs of the model.
      input_format: "csv" or "quoted_tsv", of which `make_groups` reads quotes;
        or "tsv", of which each line is a row.
      id_column: a further column, which rows have under its name, see
        `prefixed`, or under "id" if it is an index.

    Raises:
      ValueError: if a column is missing in the header; the message names it.
      LineError: if one is missing in a line, or the number of cells is not that
        of the header; the message names the line.
    """

    def __init__(
        self,
        source: str,
        columns: Sequence[tuple[str, str]],
        ranks: Mapping[str, int],
        input_format: str = "tsv",
        id_column: str | None = None,
    ):
        self.source = source
        self.is_csv = input_format != "tsv"
        self.separator = table_files.separator_of(input_format)
        self.width = None  # Number of columns of the header.
        self.names = ()  # Of its columns.
        self.is_warned = False
        if id_column:
            name = prefixed(id_name(id_column), ranks)
            columns = [*columns, (name, id_column)]
        self.inputs, self.columns = zip(*columns, strict=True)
        self.ranks = ranks
        self.indices = None
        if table_files.are_numbers(self.columns):
            self.indices = [int(column) for column in self.columns]

    def __call__(self, number: int, line: str) -> Row | None:
        """Returns the row of a TSV line; None for the header."""
        if '""' in line and not self.is_warned:
            self.is_warned = table_files.warn_of_quotes(
                line, self.source, number
            )
        if not line and (self.width or 0) > 1:
            return None  # A blank line, such as the last one, is no row.
        return self.of_cells(number, line.split("\t"))

    def of_cells(self, number: int, cells: list[str]) -> Row | None:
        """Returns the row of the cells of a line; None for the header."""
        if self.indices is None:
            table_files.check_columns(
                *(self.columns, cells, self.source),
                "Give one of these, or, for a file without a header, indices "
                "from 0.",
                number,
            )
            self.indices = [cells.index(name) for name in self.columns]
            self.width = len(cells)
            self.names = _unique(cells)
            return None
        if len(cells) != self.width:
            self._check_width(number, cells)
        fields = {}
        for name, index in zip(self.inputs, self.indices, strict=True):
            if self.ranks.get(name, 1) == 1:
                fields[name] = cells[index]
            else:
                fields.setdefault(name, []).append(cells[index])
        names = self.names or map(str, range(len(cells)))
        return Row(number, fields, dict(zip(names, cells, strict=True)))

    def _check_width(self, number: int, cells: list[str]) -> None:
        """Raises LineError if a line has not the cells it should have."""
        where = f"{self.source}:{number} has {len(cells)}"
        separated = "comma" if self.separator == "," else "tab"
        if len(cells) <= max(self.indices):
            raise LineError(
                f"{where} {separated}-separated columns; column "
                f"{max(self.indices)} (from 0) is needed: {quoted(cells)}. "
                "Correct or remove the line."
            )
        if self.width:
            raise LineError(
                f"{where} columns where the header has {self.width}: "
                f"{quoted(cells)}. A text with a {separated} needs quotes "
                "around it, which csv and quoted_tsv read."
            )


def _unique(names: Iterable[str]) -> list[str]:
    """Returns the names of columns; a second `text` is `text.1`, as in pandas.

    So that each cell of a row has a name.
    """
    found, again = [], itertools.count(1)
    for name in names:
        found.append(f"{name}.{next(again)}" if name in found else name)
    return found


class ObjectParser:
    """Parser of JSON lines -> inputs by their names; other keys as `prefixed`.

      {"id": 7, "review": "a fine film"}, columns [("text_a", "review")]
      -> {"id": 7, "text_a": "a fine film"}

    A number or boolean is the text that `table_files.to_cell` makes of it. An
    input in `OPTIONAL` that is null is missing.

    Args:
      source: name of the file, for messages.
      columns: inputs and their keys; empty if they have the inputs' names.
      ranks: ranks of the inputs of the model.
      id_column: a key that each row should have; None for none.
      only_texts: whether rows have no other key than this, and a text that is
        missing or null is "".

    Raises:
      LineError: if a line is not a JSON object, or a text has an unpaired
        surrogate; if an input not in `OPTIONAL` is missing, or one has the
        wrong type; or if there is no `id_column`.
    """

    def __init__(
        self,
        source: str,
        columns: Sequence[tuple[str, str]],
        ranks: Mapping[str, int],
        id_column: str | None = None,
        only_texts: bool = False,
    ):
        self.source, self.ranks, self.only_texts = source, ranks, only_texts
        self.ids = [id_column] if id_column else []
        self.has_columns = bool(columns)
        self.keys = list(columns) or [(name, name) for name in ranks]
        self.read = {key for _, key in self.keys}
        # Most files have the same keys in all rows.
        self.name_of = functools.lru_cache(
            functools.partial(prefixed, taken=ranks)
        )

    def __call__(self, number: int, line: str) -> Row | None:
        """Returns the row of a line; None for an empty one."""
        if not line.strip():
            return None
        where = f"{self.source}:{number}"
        try:
            fields = table_files.json_object(line, number, where)
        except ValueError as error:
            raise LineError(
                f"{error} Expected an object such as {_example(self.ranks)}."
            ) from None
        for key in self.ids:
            if key not in fields:
                raise LineError(
                    f"{where}: no column {key!r}; there are "
                    f"{table_files.listed(fields) or 'none'}. {_FIX}"
                )
        return Row(number, self.of_fields(fields, where), fields)

    def of_fields(self, fields: Mapping[str, Any], where: str) -> dict:
        """Returns the fields of the Row of an object at file and line."""
        read = self.read
        is_pair = fields.get("text_b") and not self.has_columns
        if is_pair and {*self.ranks} == {"text_a"}:
            raise LineError(
                f"{where}: text_b is {quoted(fields['text_b'])}, but this "
                "model was trained on single texts. Leave it out, or name the "
                "text with --text_column=text_a."
            )
        others = self.ids if self.only_texts else fields
        found = {
            self.name_of(key): fields[key] for key in others if key not in read
        }
        try:
            for name, key in self.keys:
                value = fields.get(key)
                if not isinstance(value, str):
                    value = _to_text(value, f"{where}: {key}")
                if value is None and name in OPTIONAL:
                    continue
                if value is None and self.only_texts:
                    value = ""
                is_part = self.has_columns and self.ranks[name] > 1
                kind = str if self.ranks[name] == 1 or is_part else [str]
                json_files.check(value, kind, where, key)
                found[name] = (
                    [*found.get(name, ()), value] if is_part else value
                )
        except ValueError as error:
            expected = f"an object such as {_example(self.ranks)}."
            if self.has_columns:
                expected = "a text there."
            raise LineError(f"{error} Expected {expected}") from None
        return found


class ParquetParser(ObjectParser):
    """Parser of the rows of a Parquet file, which are read as objects."""

    def rows(self, lines: Lines) -> Iterator[Row | BadLine]:
        """Yields rows and bad rows, by their numbers from 1.

        Raises:
          ValueError: as in `table_files.read`; for a pipe; or if a column that
            should be read is missing.
        """
        if lines.size is None or self.source == "-":
            raise ValueError(
                "A Parquet file ends with its header, so it cannot be read "
                "from stdin or a pipe. Give --input_file."
            )
        read = {*self.read, *self.ids}
        columns = read if self.only_texts else None
        table = table_files.read(self.source, "parquet", columns=columns)
        _, names = next(table)
        needed = [
            key
            for name, key in self.keys
            if self.has_columns or name not in OPTIONAL
        ]
        table_files.check_columns(
            *([*needed, *self.ids], names, self.source), _FIX
        )
        for number, values in table:
            fields = dict(zip(names, values, strict=True))
            try:
                where = f"{self.source}:{number}"
                yield Row(number, self.of_fields(fields, where), fields)
            except LineError as error:
                yield BadLine(number, str(error))
        lines.num_read = lines.size


def _to_text(value: Any, where: str) -> Any:
    """Returns a value, or each of a list, as text if it is a number."""
    if isinstance(value, list):
        # Each that is null or a list is named later.
        return [
            x if x is None else table_files.to_cell(x, where) for x in value
        ]
    return table_files.to_cell(value, where)


def _example(ranks: Mapping[str, int]) -> str:
    """Returns an example of an object for a model, for messages."""
    texts = {1: "...", 2: ["...", "..."]}
    return json.dumps({name: texts[rank] for name, rank in ranks.items()})
