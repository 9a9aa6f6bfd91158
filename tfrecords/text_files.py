"""Names and globs -> text files -> lines, and counts of what was in them."""

import dataclasses
import glob
import gzip
import os
import zlib
from collections.abc import Iterator

from absl import logging


@dataclasses.dataclass
class ReadStatistics:
    """What was seen while reading; those of several readers add up.

    Attributes:
      files: files read to their end.
      empty_files: of these, files without a sentence.
      documents: documents with a sentence.
      one_sentence_documents: of these, documents with just one; they give no
        next sentence.
      sentences: sentences in all documents.
      invalid_characters: invalid pieces of UTF-8, replaced by U+FFFD.
      unclosed_documents: <doc ...> without </doc>.
    """

    files: int = 0
    empty_files: int = 0
    documents: int = 0
    one_sentence_documents: int = 0
    sentences: int = 0
    invalid_characters: int = 0
    unclosed_documents: int = 0

    def add(self, other: "ReadStatistics") -> None:
        """Adds the counts of another reader, of other files."""
        for field in dataclasses.fields(self):
            total = getattr(self, field.name) + getattr(other, field.name)
            setattr(self, field.name, total)

    def check(self) -> None:
        """Raises ValueError if no file had a sentence."""
        if not self.sentences:
            raise ValueError(
                f"There is no sentence in any of the {self.files} input "
                "files; check --input_file and --input_format."
            )

    def __str__(self) -> str:
        counts = dataclasses.asdict(self).items()
        return "  ".join(f"{name} {count}" for name, count in counts)


def expand_inputs(patterns: str | list[str]) -> list[str]:
    """Returns the files that match, each once, sorted.

    Args:
      patterns: names or globs (`**` too), separated by commas or in a list.

    Raises:
      ValueError: if a pattern matches no file.
    """
    if isinstance(patterns, str):
        patterns = patterns.split(",")
    files = set()
    for pattern in filter(None, map(str.strip, patterns)):
        matches = glob.glob(pattern, recursive=True)
        found = [path for path in matches if os.path.isfile(path)]
        if not found:
            hint = f" It is a folder: give {pattern}/*." if matches else ""
            raise ValueError(
                f"Input pattern {pattern!r} matches no file.{hint} Check the "
                "path, and quote globs so that the shell leaves them alone."
            )
        files.update(found)
    if not files:
        raise ValueError(
            "No input file is named; give files or globs, separated by commas."
        )
    return sorted(files)


def read_lines(path: str, statistics: ReadStatistics) -> Iterator[str]:
    """Yields lines as text, invalid UTF-8 replaced, counted and logged.

    Args:
      path: a plain or .gz file.
      statistics: counts what is invalid.

    Raises:
      ValueError: if the file is missing or not text, or its .gz is damaged.
    """
    invalid = 0
    for number, data in enumerate(_read_bytes(path), 1):
        if number == 1:
            if data.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise ValueError(
                    f"{path} is UTF-16, UTF-8 was expected; convert it, for "
                    "example with iconv."
                )
            if data.startswith(b"\x1f\x8b"):
                raise ValueError(
                    f"{path} is compressed by gzip; its name should end in .gz."
                )
            data = data.removeprefix(b"\xef\xbb\xbf")  # The mark of UTF-8.
        try:
            yield data.decode("utf-8")
        except UnicodeDecodeError as error:
            if not invalid:
                logging.warning(
                    "%s:%d: byte %#04x is not UTF-8; such bytes are replaced",
                    path,
                    number,
                    data[error.start],
                )
            line = data.decode("utf-8", "replace")
            invalid += line.count("\ufffd") - data.count(b"\xef\xbf\xbd")
            yield line
    if invalid:
        statistics.invalid_characters += invalid
        logging.warning(
            "%s has %d invalid pieces of UTF-8 in all", path, invalid
        )


def _read_bytes(path: str) -> Iterator[bytes]:
    """Yields lines of a plain or .gz file."""
    opener = gzip.open if path.endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            yield from file
    except FileNotFoundError:
        raise ValueError(f"No input file at {path}; check the path.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{path} is a damaged or truncated .gz file ({error}); copy it "
            "again."
        ) from None
