"""Lines of a file or a pipe -> batches of texts, as soon as they are there."""

import contextlib
import os
import select
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_BYTES_AT_ONCE = 1 << 16


class Row(NamedTuple):
    """One line of input: its number from 1, and one or two texts."""

    line: int
    texts: tuple[str, ...]


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


def _find_columns(names: list[str], wanted: list[str], where: str) -> list[int]:
    for name in wanted:
        if name not in names:
            raise ValueError(
                f"{where} has no column {name!r}; this line names "
                f"{', '.join(names)}. Give one of these, or, for a file "
                "without names, numbers from 0."
            )
    return [names.index(name) for name in wanted]


def read_rows(lines: Lines, wanted: list[str]) -> Iterator[Row | None]:
    """Yields rows, and None where `lines` does.

    Args:
      lines: of text, or of a TSV if columns are wanted.
      wanted: columns of the texts, all by name or all by number from 0; empty
        for lines of text.

    Raises:
      ValueError: if a row lacks a column; it names file and line.
    """
    columns = None
    if wanted and all(name.isdecimal() for name in wanted):
        columns = [int(name) for name in wanted]
    number = 0
    for line in lines:
        if line is None:
            yield None
            continue
        number += 1
        if number == 1:
            line = line.removeprefix("\ufeff")  # A byte order mark.
        if not wanted:
            yield Row(number, (line,))
            continue
        where = f"{lines.name}:{number}"
        cells = line.split("\t")
        if columns is None:
            columns = _find_columns(cells, wanted, where)
            continue
        if len(cells) <= max(columns):
            raise ValueError(
                f"{where} has {len(cells)} columns between tabs; number "
                f"{max(columns)} (from 0) is wanted. Mend or remove the line."
            )
        yield Row(number, tuple(cells[column] for column in columns))


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
