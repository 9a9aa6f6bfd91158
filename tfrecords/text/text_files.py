"""Names and globs -> text files -> lines, with counts."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from absl import logging

from tfrecords.io import storage
from tfrecords.io.inputs import file_kinds

_HEAD = 4096  # Bytes of a line that are examined.


class Part(NamedTuple):
    """Consecutive lines of a file."""

    begin: int = 0  # Its first byte, at which a line begins.
    end: int | None = None  # The byte after its last one; None for all bytes.
    first_line: int = 1  # Number of its first line.


WHOLE = Part()


@dataclasses.dataclass
class ReadStatistics:
    """Counts of a reader; those of several readers can be added."""

    files: int = 0  # Read to the end.
    empty_files: int = 0  # Files without a sentence, among `files`.
    documents: int = 0  # With at least one sentence.
    sentences: int = 0
    invalid_characters: int = 0  # Invalid UTF-8 replaced by U+FFFD.
    unclosed_documents: int = 0  # <doc ...> without </doc>.
    rows_without_text: int = 0  # JSON lines or Parquet rows with null text.
    duplicate_documents: int = 0  # Omitted because they repeat others.
    duplicate_lines: int = 0  # Omitted from documents that are kept.

    def add(self, other: "ReadStatistics") -> None:
        """Adds the counts of a reader of other files."""
        for field in dataclasses.fields(self):
            total = getattr(self, field.name) + getattr(other, field.name)
            setattr(self, field.name, total)

    def add_document(self, num_sentences: int) -> None:
        """Counts a document."""
        self.documents += 1
        self.sentences += num_sentences

    def check(self) -> None:
        """Raises ValueError if no file had a sentence."""
        if not self.sentences:
            raise ValueError(
                f"There is no sentence in any of the {self.files} input "
                "files; check --input_file and --input_format."
            )

    def __str__(self) -> str:
        counts = dataclasses.asdict(self).items()
        return "  ".join(f"{name} {count}" for name, count in counts if count)


def expand_inputs(patterns: str, in_order: bool = False) -> list[str]:
    """Returns the matching files, sorted and without duplicates.

    Args:
      patterns: names or globs, separated by commas; local, also with `**`, or
        in a store, such as `gs://bucket/*.txt`.
      in_order: whether to return the files of each pattern in turn instead; a
        file named twice is there twice.

    Raises:
      ValueError: if a pattern matches no file.
      OSError: if a store cannot be reached.
    """
    files = []
    for pattern in filter(None, map(str.strip, patterns.split(","))):
        paths = storage.find(pattern)
        if not paths:
            is_folder = storage.is_folder(pattern)
            hint = f" It is a folder: give {pattern}/*." if is_folder else ""
            raise ValueError(
                f"Input pattern {pattern!r} matches no file.{hint} Check the "
                "path, and quote globs so that the shell does not expand them."
            )
        files += sorted(set(paths))  # Several ** find a file twice.
    if not files:
        raise ValueError(
            "No input file is given; name files or globs, separated by commas."
        )
    return files if in_order else sorted(set(files))


def check_encoding(data: bytes, path: str, line: int = 1) -> None:
    """Raises ValueError if a file, or a line of it, begins as no UTF-8 does.

    Args:
      data: the bytes; only the first ones are examined.
      path: path of the file, for the message.
      line: number of the line, from 1; the first bytes of others are free.
    """
    head, where = data[:_HEAD], f"{path}:{line}"
    if line == 1:
        file_kinds.check(head, where)
    if b"\0" in head and (
        8 * head.count(0) > len(head) or not file_kinds.is_utf8(head)
    ):
        raise ValueError(
            f"{where}: zero bytes, as in UTF-16 or in a binary file. Give "
            "text in UTF-8; iconv converts it."
        )


def check_line(
    line: bytes, number: int, path: str, is_table: bool = False
) -> None:
    """Raises ValueError for the first lines of a file that is not UTF-8 text.

    Args:
      line: a line of the file. UTF-16 without a mark is seen in one of the
        first two; others are not examined.
      number: number of the line, from 1.
      path: path of the file, for the message.
      is_table: whether a carriage return within the first line is an error;
        otherwise only in a file without any other line end.
    """
    if number > 2:
        return
    check_encoding(line, path, number)
    has_end = line.endswith(b"\n") and not is_table
    if number == 1 and not has_end and b"\r" in line.rstrip(b"\r\n"):
        raise ValueError(
            f"{path}:1: the lines end with a carriage return alone, as on old "
            "Macs, so that they are read as one. Convert them, for example "
            "with: tr '\\r' '\\n'"
        )


def check_not_json(line: str, path: str, wanted: str) -> None:
    """Raises ValueError if the first line of a file is JSON.

    Args:
      line: the line.
      path: path of the file, for the message.
      wanted: what to give instead.
    """
    if not line.startswith(("{", "[")):
        return
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return
    # One row, or all; [[1]] and the like may be text.
    row = value[0] if isinstance(value, list) and value else value
    if isinstance(row, dict):
        kind = "JSON lines" if row is value else "JSON"
        raise ValueError(f"{path}:1: the file is {kind}. Give {wanted}.")


def check_unique(
    wanted: Iterable[str], header: Sequence[str], where: str
) -> None:
    """Raises ValueError if a wanted column is there more than once."""
    for name in wanted:
        if header.count(name) > 1:
            raise ValueError(
                f"{where}: {header.count(name)} columns have the name "
                f"{name!r}. Rename all but the one to read."
            )


def has_token(text: str) -> bool:
    """Returns whether a text is not blank: U+200B, too, is no token."""
    return any(x.isprintable() and not x.isspace() for x in text)


class Decoder:
    """Lines as bytes -> text; the first byte that is no UTF-8 is a warning.

    Args:
      path: path of the file, for messages.
      is_table: as for `check_line`.

    Attributes:
      num_replaced: number of U+FFFD that replaced invalid UTF-8.
    """

    def __init__(self, path: str, is_table: bool = False):
        self.path, self.is_table = path, is_table
        self.num_replaced = 0

    def __call__(self, line: bytes, number: int) -> str:
        """Returns a line as text, without a byte order mark.

        Args:
          line: the line, with or without its end.
          number: its number, from 1.

        Raises:
          ValueError: as `check_line`.
        """
        check_line(line, number, self.path, self.is_table)
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as error:
            if not self.num_replaced:
                logging.warning(
                    "%s:%d: byte %#04x is not UTF-8; such bytes are replaced. "
                    "If the text is in another encoding, such as latin-1, "
                    "convert it, for example with iconv",
                    self.path,
                    number,
                    line[error.start],
                )
        text = line.decode("utf-8", "replace")
        # Those that are in the file itself were not replaced.
        replaced = text.count("\ufffd") - line.count(b"\xef\xbf\xbd")
        self.num_replaced += replaced
        return text


def read_lines(
    path: str, statistics: ReadStatistics, part: Part = WHOLE
) -> Iterator[str]:
    """Yields decoded lines; invalid UTF-8 is replaced, counted and logged.

    Args:
      path: a file, plain or compressed.
      statistics: counts invalid characters.
      part: lines to read; all of a compressed file.

    Raises:
      ValueError: if the file is missing, not text or damaged.
      OSError: if it cannot be read.
    """
    decode = Decoder(path)
    for number, data in enumerate(read_bytes(path, part), part.first_line):
        yield decode(data, number)
    if decode.num_replaced:
        statistics.invalid_characters += decode.num_replaced
        name = path
        if part != WHOLE:
            name = f"{path} from line {part.first_line} to {number}"
        logging.warning(
            "%s has %d invalid UTF-8 sequences in total",
            name,
            decode.num_replaced,
        )


def read_bytes(path: str, part: Part = WHOLE) -> Iterator[bytes]:
    """Yields lines as bytes; the arguments are those of `read_lines`.

    A part may also begin and end within lines.

    Raises:
      ValueError: if the file is missing or damaged.
      OSError: if it cannot be read.
    """
    begin, end, _ = part
    try:
        with file_kinds.open_text(path) as file:
            if end is None:
                yield from file
                return
            file.seek(begin)
            while begin < end and (line := file.readline(end - begin)):
                yield line
                begin += len(line)
    except FileNotFoundError:
        raise ValueError(f"No input file at {path}; check the path.") from None
