"""Lines of a file or pipe -> batches of rows, as soon as they arrive.

A line is a text, a TSV row or a JSON object. `ranks` are the inputs of a model:
name -> rank, 1 for a text and 2 for a list of texts.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tfrecords.io import json_files, streams
from tfrecords.options import Options, option, shortened
from tfrecords.text import text_files

# Inputs that may be missing in a row.
OPTIONAL = ("text_b",)
_BLOCK_BYTES = 1 << 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputConfig(Options):
    """Which file to read, and its format."""

    input_file: str = option(
        "-", "Lines of text, a TSV file or JSON lines; - is stdin.", reads=True
    )
    input_format: str = option(
        "auto",
        "auto: tsv if columns are given, jsonl if the file name ends in "
        ".jsonl or the model needs more than one text, otherwise text.",
        choices=("auto", "text", "tsv", "jsonl"),
    )
    columns: tuple[str, ...] = option(
        (),
        "Columns of a TSV file for the inputs of the model, such as "
        "question=1,context=2: names from the header line, or indices from 0 "
        "in a file without one. Several columns for one input make a list: "
        "endings=4,endings=5.",
    )
    text_a_column: str | None = option(
        None,
        "Column of a TSV file with the text; name or index, as in --columns.",
    )
    text_b_column: str | None = option(
        None, "Column with the second text, for models of text pairs."
    )


class Row(NamedTuple):
    """One line of input: its number, from 1, and its texts and other keys."""

    line: int
    fields: dict


# Number and text of a line -> its row, None for a line that is not a row.
Parser = Callable[[int, str], Row | None]


class Lines:
    """Lines of text in an open file or pipe.

    Args:
      file: file to read, opened in binary mode.
      name: name of the file, for messages.

    Attributes:
      name: as given.
      size: total bytes, None for a pipe.
      num_read: bytes read so far.
      num_replaced: number of U+FFFD that replaced invalid UTF-8.
    """

    def __init__(self, file: io.BufferedReader, name: str):
        self.name = name
        status = os.fstat(file.fileno())
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None
        self.num_read = 0
        self.num_replaced = 0
        self._file = file

    def blocks(
        self, is_table: bool = False
    ) -> Iterator[Iterator[tuple[int, str]]]:
        """Yields blocks of numbered lines that can be read without waiting.

        A file is one block; a block of a pipe has the lines that have arrived.

        Args:
          is_table: whether a carriage return in the first line is an error.
        """
        if self.size is not None:
            yield self._decode(self._file, 1, is_table)
            return
        first, rest = 1, b""
        # Each is one read(2), which waits only if the pipe is empty.
        while block := self._file.read1(_BLOCK_BYTES):
            lines = io.BytesIO(rest + block).readlines()
            rest = b"" if block.endswith(b"\n") else lines.pop()
            yield self._decode(lines, first, is_table)
            first += len(lines)
        if rest:  # The last line may lack a newline.
            yield self._decode([rest], first, is_table)

    def _decode(
        self, lines: Iterable[bytes], first: int, is_table: bool
    ) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(lines, first):
            self.num_read += len(line)
            text_files.check_line(line, number, self.name, is_table)
            line = line.removesuffix(b"\n").removesuffix(b"\r")
            text = line.decode("utf-8", errors="replace")
            if "\ufffd" in text:
                self.num_replaced += text.count("\ufffd")
                self.num_replaced -= line.count("\ufffd".encode())
            if number == 1:
                text = text.removeprefix("\ufeff")  # Byte order mark.
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
    streams.check_has_end(path)
    with open(path, "rb") as file:
        yield Lines(file, path)


def make_groups(
    lines: Lines, parse: Parser, most_rows: int
) -> Iterator[list[Row]]:
    """Yields groups of rows; the last one of a block may be smaller."""
    for block in lines.blocks(isinstance(parse, ColumnParser)):
        rows = (parse(number, line) for number, line in block)
        rows = (row for row in rows if row is not None)
        while group := list(itertools.islice(rows, most_rows)):
            yield group


def find_columns(
    config: InputConfig, ranks: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Returns pairs of a model input and its TSV column; empty without columns.

    Raises:
      ValueError: if a column is for an unknown input, an input that is one text
        has two columns, or only some of the required inputs have columns.
    """
    given = (config.text_a_column, config.text_b_column)
    columns = zip(sorted(ranks), given, strict=False)
    columns = [(name, column) for name, column in columns if column]
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


def find_format(
    config: InputConfig, ranks: Mapping[str, int], has_columns: bool
) -> str:
    """Returns "text", "tsv" or "jsonl": the format given, or the inferred one.

    Raises:
      ValueError: if the format does not match the columns or model inputs.
    """
    needed = [name for name in ranks if name not in OPTIONAL]
    input_format = config.input_format
    if input_format == "auto":
        if has_columns:
            input_format = "tsv"
        elif config.input_file.endswith(".jsonl") or len(needed) > 1:
            input_format = "jsonl"
        else:
            input_format = "text"
    if (input_format == "tsv") != has_columns:
        raise ValueError(
            f"--input_format={input_format} with{'' if has_columns else 'out'} "
            "columns. tsv needs --columns or --text_a_column; other formats "
            "have no columns."
        )
    if input_format == "text" and len(needed) > 1:
        raise ValueError(
            f"--input_format=text has one text per line, but this model needs "
            f"{', '.join(needed)}. Use jsonl, or tsv and --columns."
        )
    return input_format


def make_parser(
    config: InputConfig, source: str, ranks: Mapping[str, int]
) -> Parser:
    """Returns the function that parses a line into a row.

    Args:
      config: format and columns.
      source: name of the file, for messages.
      ranks: ranks of the inputs of the model.

    Raises:
      ValueError: as in `find_columns` and `find_format`.
    """
    columns = find_columns(config, ranks)
    input_format = find_format(config, ranks, bool(columns))
    if input_format == "tsv":
        return ColumnParser(source, columns, ranks)
    if input_format == "jsonl":
        return functools.partial(parse_object, source, ranks)
    name = next(name for name in ranks if name not in OPTIONAL)
    return functools.partial(parse_text, name, ranks[name])


def parse_text(name: str, rank: int, number: int, line: str) -> Row:
    """Returns a row with one input: the text, or for rank 2 its words."""
    return Row(number, {name: line if rank == 1 else line.split()})


class ColumnParser:
    """Parser of a TSV file, whose first line may be a header.

    Args:
      source: name of the file, for messages.
      columns: inputs and their columns, all by index from 0, or all by name in
        the header; several columns for one input make a list.
      ranks: ranks of the inputs of the model.

    Raises:
      ValueError: if a column is missing in a line; the message names the line.
    """

    def __init__(
        self,
        source: str,
        columns: Sequence[tuple[str, str]],
        ranks: Mapping[str, int],
    ):
        self.source = source
        self.inputs, self.columns = zip(*columns, strict=True)
        self.ranks = ranks
        self.indices = None
        if all(column.isdecimal() for column in self.columns):
            self.indices = [int(column) for column in self.columns]

    def __call__(self, number: int, line: str) -> Row | None:
        """Returns the row; None for the header."""
        where = f"{self.source}:{number}"
        cells = line.split("\t")
        if self.indices is None:
            self.indices = self._find_indices(cells, where)
            return None
        if len(cells) <= max(self.indices):
            raise ValueError(
                f"{where} has {len(cells)} tab-separated columns; column "
                f"{max(self.indices)} (from 0) is needed. Correct or remove "
                "the line."
            )
        fields = {}
        for name, index in zip(self.inputs, self.indices, strict=True):
            if self.ranks[name] == 1:
                fields[name] = cells[index]
            else:
                fields.setdefault(name, []).append(cells[index])
        return Row(number, fields)

    def _find_indices(self, names: list[str], where: str) -> list[int]:
        for column in self.columns:
            if column not in names:
                raise ValueError(
                    f"{where} has no column {column!r}; the header has "
                    f"{shortened(', '.join(names), 300)}. Give one of these, "
                    "or, for a file without a header, indices from 0."
                )
        text_files.check_unique(self.columns, names, where)
        return [names.index(column) for column in self.columns]


def parse_object(
    source: str, ranks: Mapping[str, int], number: int, line: str
) -> Row | None:
    """Returns the row of a JSON object, None for an empty line.

    Keys that are not inputs are kept.

    Args:
      source: name of the file, for messages.
      ranks: ranks of the inputs of the model.
      number: line number, from 1.
      line: its text.

    Raises:
      ValueError: if the line is not a JSON object, an input not in `OPTIONAL`
        is missing, an input has the wrong type, or a text has an unpaired
        surrogate. The message names file and line.
    """
    if not line.strip():
        return None
    where = f"{source}:{number}"
    try:
        fields = json_files.parse(line, where)
        if "\\u" in line:  # JSON may escape an unpaired surrogate.
            text = json.dumps(fields, ensure_ascii=False)
            json_files.check(text, str, where, "the line")
        for name, rank in ranks.items():
            if name in fields or name not in OPTIONAL:
                kind = str if rank == 1 else [str]
                json_files.check(fields.get(name), kind, where, name)
    except ValueError as error:
        raise ValueError(
            f"{error} Expected an object such as {_example(ranks)}."
        ) from None
    return Row(number, fields)


def _example(ranks: Mapping[str, int]) -> str:
    """Returns an example of an object for a model, for messages."""
    texts = {1: "...", 2: ["...", "..."]}
    return json.dumps({name: texts[rank] for name, rank in ranks.items()})
