"""Lines of a file or a pipe -> batches of rows, as soon as they are there.

A line is a text, a row of a TSV or a JSON object. What a model takes is its
inputs: name -> rank, 1 for a text and 2 for a list of them.
"""

import contextlib
import json
import os
import select
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

_BYTES_AT_ONCE = 1 << 16


class Row(NamedTuple):
    """One line of input: its number from 1, and what it gives by name."""

    line: int
    values: dict


class Lines:
    """Bytes of an open file or pipe -> lines of text.

    Args:
      descriptor: file descriptor to read.
      name: of the file, for messages.

    Attributes:
      name: as given.
      size: bytes in all, None for a pipe.
      num_read: bytes read.
      num_replaced: invalid pieces of UTF-8 that became U+FFFD.
    """

    def __init__(self, descriptor: int, name: str):
        self.name = name
        status = os.fstat(descriptor)
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None
        self.num_read = 0
        self.num_replaced = 0
        self._descriptor = descriptor

    def __iter__(self) -> Iterator[str | None]:
        """Yields lines without their end, and None before it has to wait."""
        rest = b""
        while True:
            if not select.select([self._descriptor], [], [], 0)[0]:
                yield None
            block = os.read(self._descriptor, _BYTES_AT_ONCE)
            self.num_read += len(block)
            *lines, rest = (rest + block).split(b"\n")
            if not block and rest:
                lines = [rest]  # The last line need not have an end.
            for line in lines:
                yield self._decode(line.removesuffix(b"\r"))
            if not block:
                return

    def _decode(self, line: bytes) -> str:
        text = line.decode("utf-8", errors="replace")
        if "\ufffd" in text:
            self.num_replaced += text.count("\ufffd")
            self.num_replaced -= line.count("\ufffd".encode())
        return text


@contextlib.contextmanager
def open_lines(path: str) -> Iterator[Lines]:
    """Opens a file to read its lines; "-" is stdin."""
    if path == "-":
        yield Lines(sys.stdin.fileno(), "stdin")
        return
    with open(path, "rb", buffering=0) as file:
        yield Lines(file.fileno(), path)


def _numbered(lines: Lines) -> Iterator[tuple[int, str] | None]:
    """Yields lines with their numbers, and None where `lines` does."""
    number = 0
    for line in lines:
        if line is None:
            yield None
            continue
        number += 1
        if number == 1:
            line = line.removeprefix("\ufeff")  # A byte order mark.
        yield number, line


def read_texts(lines: Lines, name: str, rank: int) -> Iterator[Row | None]:
    """Yields a row for each line, and None where `lines` does.

    Args:
      lines: of text; words are what stands between spaces.
      name: of the input.
      rank: 2 if it takes words.
    """
    for numbered in _numbered(lines):
        if numbered is None:
            yield None
            continue
        number, line = numbered
        yield Row(number, {name: line if rank == 1 else line.split()})


def _find_columns(names: list[str], wanted: list[str], where: str) -> list[int]:
    for name in wanted:
        if name not in names:
            raise ValueError(
                f"{where} has no column {name!r}; this line names "
                f"{', '.join(names)}. Give one of these, or, for a file "
                "without names, numbers from 0."
            )
    return [names.index(name) for name in wanted]


def read_columns(
    lines: Lines, columns: Sequence[tuple[str, str]], ranks: Mapping[str, int]
) -> Iterator[Row | None]:
    """Yields rows of a TSV, and None where `lines` does.

    Args:
      lines: of cells between tabs.
      columns: input and column, all by name or all by number from 0; several
        columns of one input make a list.
      ranks: inputs of the model.

    Raises:
      ValueError: if a row lacks a column; it names file and line.
    """
    wanted = [column for _, column in columns]
    places = None
    if all(column.isdecimal() for column in wanted):
        places = [int(column) for column in wanted]
    for numbered in _numbered(lines):
        if numbered is None:
            yield None
            continue
        number, line = numbered
        where = f"{lines.name}:{number}"
        cells = line.split("\t")
        if places is None:
            places = _find_columns(cells, wanted, where)
            continue
        if len(cells) <= max(places):
            raise ValueError(
                f"{where} has {len(cells)} columns between tabs; number "
                f"{max(places)} (from 0) is wanted. Mend or remove the line."
            )
        values = {}
        for (name, _), place in zip(columns, places, strict=True):
            if ranks[name] == 1:
                values[name] = cells[place]
            else:
                values.setdefault(name, []).append(cells[place])
        yield Row(number, values)


def read_objects(
    lines: Lines, ranks: Mapping[str, int], optional: Sequence[str] = ()
) -> Iterator[Row | None]:
    """Yields rows of JSON lines, and None where `lines` does.

    Empty lines are passed over. Keys that the model does not take stay.

    Args:
      lines: each an object with the inputs as keys.
      ranks: inputs of the model.
      optional: inputs that need not be there.

    Raises:
      ValueError: if a line is no object, or an input is missing or is no text
        or list of texts, or a text has half a surrogate pair; it names file
        and line.
    """
    for numbered in _numbered(lines):
        if numbered is None:
            yield None
            continue
        number, line = numbered
        if not line.strip():
            continue
        where = f"{lines.name}:{number}"
        try:
            values = json.loads(line)
            if "\\u" in line:  # Half a surrogate pair is JSON, and no text.
                json.dumps(values, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{where} holds no text: {error}. Take the half surrogate out."
            ) from None
        except ValueError as error:
            raise ValueError(
                f"{where} is no JSON: {error}. Expected an object such as "
                f"{_example(ranks)}."
            ) from None
        _check_values(values, ranks, optional, where)
        yield Row(number, values)


def _example(ranks: Mapping[str, int]) -> str:
    """Returns an object that a model takes, for messages."""
    kinds = {1: "...", 2: ["...", "..."]}
    return json.dumps({name: kinds[rank] for name, rank in ranks.items()})


def _check_values(values, ranks, optional, where: str) -> None:
    names = [n for n in ranks if n not in optional]
    absent = [
        n for n in names if not isinstance(values, dict) or n not in values
    ]
    if absent:
        raise ValueError(
            f"{where} has no {' and no '.join(map(repr, absent))}; expected "
            f"an object such as {_example(ranks)}."
        )
    for name, rank in ranks.items():
        value = values.get(name, "" if rank == 1 else [])
        texts = [value] if rank == 1 else value
        if not isinstance(texts, list) or not all(
            isinstance(text, str) for text in texts
        ):
            kind = "a text" if rank == 1 else "a list of texts"
            raise ValueError(
                f"{where}: {name!r} is {json.dumps(value)[:40]}; it should be "
                f"{kind}, as in {_example(ranks)}."
            )


def make_tensor(rows: Sequence[Row], name: str, rank: int) -> tf.Tensor:
    """Returns an input of all rows: [N] string, or [N, C] padded with "".

    A text that a row does not give is "".
    """
    if rank == 1:
        texts = [row.values.get(name, "") for row in rows]
        return tf.constant(texts, tf.string)
    lists = [row.values.get(name, []) for row in rows]
    most = max(map(len, lists), default=0)
    padded = [texts + [""] * (most - len(texts)) for texts in lists]
    return tf.reshape(tf.constant(padded, tf.string), [len(rows), most])


def make_batches(
    rows: Iterable[Row | None], batch_size: int
) -> Iterator[list[Row]]:
    """Yields full batches; less where more would have to be waited for."""
    batch = []
    for row in rows:
        if row is not None:
            batch.append(row)
        if batch and (row is None or len(batch) == batch_size):
            yield batch
            batch = []
    if batch:
        yield batch
