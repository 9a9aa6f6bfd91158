"""Lines of a file or pipe -> batches of rows, as soon as they arrive.

A line is a text, a row of a table or a JSON object; a row of a CSV may have
several lines. `ranks` are the inputs of a model: name -> rank, 1 for a text and
2 for a list of texts.
"""

import contextlib
import dataclasses
import decimal
import functools
import io
import itertools
import json
import os
import stat
import sys
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
# Formats whose columns are named by `--columns`.
TABLES = ("tsv", "csv", "quoted_tsv")
_BLOCK_BYTES = 1 << 16
# Of other keys of a row, which an answer has, too.
_PREFIX = "input_"


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
    columns: tuple[str, ...] = option(
        (),
        "Columns of a table for the inputs of the model, such as text=review, "
        "text_a=query,text_b=passage or question=1,context=2: names from the "
        "header line, or indices from 0 in a file without one; of jsonl and "
        "parquet, keys. Several columns for one input make a list: "
        "endings=4,endings=5.",
    )
    id_column: str | None = option(
        None,
        "Column of a csv or tsv whose values are repeated in the answers; name "
        "or index. Other keys of jsonl and parquet always are. One that an "
        "answer has, too, is written with input_ before it.",
    )


class Row(NamedTuple):
    """One line of input: its number, from 1, and its texts and other keys.

    Other keys with the name of an input are there as `prefixed`.
    """

    line: int
    fields: dict


class BadLine(NamedTuple):
    """A line of input that is not a row, and why."""

    line: int
    message: str


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
                of_file = dataclasses.replace(config, input_file=path)
                parse = make_parser(of_file, lines.name, ranks, **settings)
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
    columns = []
    for word in config.columns:
        name, equals, column = word.partition("=")
        if not equals or name not in ranks:
            raise ValueError(
                f"--columns={word}: expected an input of the model and its "
                f"column, such as {min(ranks)}=0. Inputs of this model: "
                f"{', '.join(ranks)}."
            )
        if ranks[name] == 1 and name in dict(columns):
            raise ValueError(
                f"--columns={word}: {name!r} has a column already, and "
                "this input is one text. Omit one of them."
            )
        columns.append((name, column))
    missing = set(ranks) - set(dict(columns)) - set(OPTIONAL)
    if columns and missing:
        raise ValueError(
            f"--columns={','.join(map('='.join, columns))}: there is no column "
            f"for {', '.join(map(repr, sorted(missing)))}, which the model "
            "requires. Add it."
        )
    return columns


def choose_format(
    config: InputConfig, ranks: Mapping[str, int], has_columns: bool
) -> str:
    """Returns "text", or one of `table_files.FORMATS` but "auto".

    Raises:
      ValueError: if the format does not match the columns or model inputs.
    """
    needed = [name for name in ranks if name not in OPTIONAL]
    given, path = config.input_format, config.input_file
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
            f"--input_file={path} is a table: name its columns with --columns, "
            "or give --input_format=text if its lines are texts."
        )
    if is_table != has_columns:
        raise ValueError(
            f"--input_format={input_format} with{'' if has_columns else 'out'} "
            "columns. tsv and csv need --columns; text has no columns."
        )
    if input_format == "text" and len(needed) > 1:
        raise ValueError(
            f"--input_format=text has one text per line, but this model needs "
            f"{', '.join(needed)}. Use jsonl, or a table and --columns."
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
    source: str,
    ranks: Mapping[str, int],
    kept: Collection[str] | None = None,
    may_lack_text: bool = False,
) -> Parser:
    """Returns the function that parses a line into a row.

    Args:
      config: format and columns.
      source: name of the file, for messages.
      ranks: ranks of the inputs of the model.
      kept: the other keys of jsonl and parquet that rows have; None for all.
      may_lack_text: whether a text of them that is missing or null is "".

    Raises:
      ValueError: as in `read_columns` and `choose_format`.
    """
    columns = read_columns(config, ranks)
    input_format = choose_format(config, ranks, bool(columns))
    is_table = input_format in TABLES
    if config.id_column and not is_table:
        raise ValueError(
            f"--id_column={config.id_column} is for csv and tsv. Omit it: of "
            f"{input_format}, the answers repeat all keys."
        )
    if is_table:
        return ColumnParser(
            source, columns, ranks, input_format, config.id_column
        )
    settings = {"kept": kept, "may_lack_text": may_lack_text}
    if input_format == "parquet":
        return ParquetParser(config.input_file, columns, ranks, **settings)
    if input_format == "jsonl":
        return functools.partial(
            parse_object, source, ranks, columns=columns, **settings
        )
    name = next(name for name in ranks if name not in OPTIONAL)
    return functools.partial(parse_text, name, ranks[name])


def parse_text(name: str, rank: int, number: int, line: str) -> Row:
    """Returns a row with one input: the text, or for rank 2 its words."""
    return Row(number, {name: line if rank == 1 else line.split()})


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
      LineError: if one is missing in a line, or, of a CSV with a header, the
        number of cells is another one; the message names the line.
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
        if id_column:
            name = "id" if id_column.isdecimal() else id_column
            columns = [*columns, (prefixed(name, ranks), id_column)]
        self.inputs, self.columns = zip(*columns, strict=True)
        self.ranks = ranks
        self.indices = None
        if all(column.isdecimal() for column in self.columns):
            self.indices = [int(column) for column in self.columns]

    def __call__(self, number: int, line: str) -> Row | None:
        """Returns the row of a TSV line; None for the header."""
        return self.of_cells(number, line.split("\t"))

    def of_cells(self, number: int, cells: list[str]) -> Row | None:
        """Returns the row of the cells of a line; None for the header."""
        where = f"{self.source}:{number}"
        if self.indices is None:
            table_files.check_columns(
                *(self.columns, cells, self.source),
                "Give one of these, or, for a file without a header, indices "
                "from 0.",
                number,
            )
            self.indices = [cells.index(name) for name in self.columns]
            self.width = len(cells)
            return None
        if len(cells) <= max(self.indices):
            separated = "comma" if self.separator == "," else "tab"
            raise LineError(
                f"{where} has {len(cells)} {separated}-separated columns; "
                f"column {max(self.indices)} (from 0) is needed: "
                f"{quoted(cells)}. Correct or remove the line."
            )
        if self.is_csv and len(cells) != (self.width or len(cells)):
            raise LineError(
                f"{where} has {len(cells)} columns where the header has "
                f"{self.width}: {quoted(cells)}. Put quotes around a text with "
                "a comma."
            )
        fields = {}
        for name, index in zip(self.inputs, self.indices, strict=True):
            if self.ranks.get(name, 1) == 1:
                fields[name] = cells[index]
            else:
                fields.setdefault(name, []).append(cells[index])
        return Row(number, fields)


class ParquetParser:
    """Parser of the rows of a Parquet file, which `parse_fields` reads.

    Args:
      path: path of the file.
      columns: inputs and their columns; empty if they have the inputs' names.
      ranks: ranks of the inputs of the model.
      kept, may_lack_text: as for `parse_fields`.

    Raises:
      ValueError: as in `table_files.read`; for stdin; and in `rows`, naming a
        column of bytes, which are no JSON.
    """

    def __init__(
        self,
        path: str,
        columns: Sequence[tuple[str, str]],
        ranks: Mapping[str, int],
        **settings,
    ):
        if path == "-":
            raise ValueError(
                "A Parquet file ends with its header, so it cannot be read "
                "from stdin. Give --input_file."
            )
        self.path, self.columns, self.ranks = path, columns, ranks
        self.settings = settings

    def rows(self, lines: Lines) -> Iterator[Row | BadLine]:
        """Yields rows and bad rows, by their numbers from 1."""
        read = {key for _, key in self.columns} or self.ranks.keys()
        kept = self.settings.get("kept")
        columns = None if kept is None else {*kept, *read}
        table = table_files.read(self.path, "parquet", columns=columns)
        _, names = next(table)
        for number, values in table:
            fields = dict(zip(names, values, strict=True))
            where = f"{self.path}:{number}"
            others = {key: x for key, x in fields.items() if key not in read}
            fields |= _to_json(others, where)
            try:
                fields = parse_fields(
                    *(fields, where, self.ranks, self.columns), **self.settings
                )
                yield Row(number, fields)
            except LineError as error:
                yield BadLine(number, str(error))
        lines.num_read = lines.size


def parse_object(
    source: str,
    ranks: Mapping[str, int],
    number: int,
    line: str,
    **settings,
) -> Row | None:
    """Returns the row of a JSON object, None for an empty line.

    Args:
      source: name of the file, for messages.
      ranks: ranks of the inputs of the model.
      number: line number, from 1.
      line: its text.
      **settings: as for `parse_fields`.

    Raises:
      LineError: as in `parse_fields`; or if the line is not a JSON object, or
        a text has an unpaired surrogate.
    """
    if not line.strip():
        return None
    where = f"{source}:{number}"
    try:
        fields = table_files.json_object(line, number, where)
    except ValueError as error:
        raise LineError(
            f"{error} Expected an object such as {_example(ranks)}."
        ) from None
    return Row(number, parse_fields(fields, where, ranks, **settings))


def parse_fields(
    fields: Mapping[str, Any],
    where: str,
    ranks: Mapping[str, int],
    columns: Sequence[tuple[str, str]] = (),
    kept: Collection[str] | None = None,
    may_lack_text: bool = False,
) -> dict[str, Any]:
    """Returns a row's inputs, by their names, and its other keys as `prefixed`.

      {"id": 7, "review": "a fine film"}, columns [("text_a", "review")]
      -> {"id": 7, "text_a": "a fine film"}

    A number or boolean is the text that `table_files.to_cell` makes of it.

    Args:
      fields: the row; an input in `OPTIONAL` that is null is missing.
      where: file and line, for messages.
      ranks: ranks of the inputs of the model.
      columns: inputs and their keys; empty if they have the inputs' names.
      kept: the other keys that are wanted; None for all.
      may_lack_text: whether a text that is missing or null is "".

    Raises:
      LineError: if an input not in `OPTIONAL` is missing, or one has the wrong
        type.
    """
    keys = columns or [(name, name) for name in ranks]
    read = {key for _, key in keys}
    found = {
        prefixed(key, ranks): x
        for key, x in fields.items()
        if key not in read and (kept is None or key in kept)
    }
    try:
        for name, key in keys:
            value = fields.get(key)
            if name in OPTIONAL and value is None:
                continue
            if not isinstance(value, str):
                value = _to_text(value, f"{where}: {key}")
            if value is None and may_lack_text:
                value = ""
            is_part = bool(columns) and ranks[name] > 1
            kind = str if ranks[name] == 1 or is_part else [str]
            json_files.check(value, kind, where, key)
            found[name] = [*found.get(name, ()), value] if is_part else value
    except ValueError as error:
        example = _example(ranks)
        raise LineError(
            f"{error} Expected "
            + ("a text there." if columns else f"an object such as {example}.")
        ) from None
    return found


def _to_text(value: Any, where: str) -> Any:
    """Returns a value, or each of a list, as text if it is a number."""
    if isinstance(value, list):
        # Each that is null or a list is named later.
        return [
            x if x is None else table_files.to_cell(x, where) for x in value
        ]
    return table_files.to_cell(value, where)


def _to_json(values: dict[str, Any], where: str) -> dict[str, Any]:
    """Returns values of Parquet as JSON has them.

    Decimals become numbers if these are as exact, and what JSON does not know,
    such as a date, its text.

    Raises:
      ValueError: naming a column of bytes.
    """
    found = {}
    try:
        for key, value in values.items():
            found[key] = value
            # Not for those of most columns, as it takes time.
            if not isinstance(value, str | int | float | None):
                text = json.dumps(value, default=_of_other_type)
                found[key] = json.loads(text)
        return found
    except TypeError:
        raise ValueError(
            f"{where}: {key!r} is {quoted(values[key])}, and bytes are no "
            "JSON. Write the file without this column, from Python: import "
            "pyarrow.parquet as pq; pq.write_table(pq.read_table("
            f"{where.rpartition(':')[0]!r}).drop_columns([{key!r}]), "
            "'rows.parquet')"
        ) from None


def _of_other_type(value: Any) -> float | str:
    """Returns a value of Parquet for JSON; raises TypeError for bytes."""
    if isinstance(value, bytes):
        raise TypeError
    if isinstance(value, decimal.Decimal):
        number = float(value)
        if value == value.to_integral_value():
            return int(value)
        if decimal.Decimal(repr(number)) == value:
            return number
    return str(value)


def _example(ranks: Mapping[str, int]) -> str:
    """Returns an example of an object for a model, for messages."""
    texts = {1: "...", 2: ["...", "..."]}
    return json.dumps({name: texts[rank] for name, rank in ranks.items()})
