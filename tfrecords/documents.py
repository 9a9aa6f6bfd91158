"""Text files -> documents of sentences.

Three formats, each plain or .gz, and UTF-8:
  sentences      one sentence a line, a blank line between documents, as
                 create_pretraining_data.py of the original reads them.
  text           paragraphs with a blank line between them, their lines
                 wrapped or not, as in a book. A file is one document.
  wikiextractor  <doc ...>, the title, paragraphs of one line, </doc>.
"""

import dataclasses
import glob
import gzip
import html
import itertools
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import sentencex
from absl import logging

INPUT_FORMATS = ("auto", "sentences", "text", "wikiextractor")

# Lines that "auto" looks at to tell sentences from text.
_LINES_TO_JUDGE = 200
# A sentence ends with one of these, and perhaps closing quotes after it.
_SENTENCE_END = re.compile(r"[.?!…。？！।؟:;][\s\"'”’»)\]_*]*$")
_TITLE = re.compile(r'title="(.*)"\s*>')
_LANGUAGE = re.compile(r"[a-z]{2,3}([-_]\w+)*")


class Document(NamedTuple):
    """Consecutive sentences of one text.

    Attributes:
      sentences: without space at either end; at least one.
      source: "file:line" where the document begins.
    """

    sentences: list[str]
    source: str


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


def read_documents(
    paths: Iterable[str],
    *,
    language: str = "en",
    input_format: str = "auto",
    statistics: ReadStatistics | None = None,
) -> Iterator[Document]:
    """Streams the documents of files, one document in memory at a time.

    Args:
      paths: files to read, in this order.
      language: code such as "en" or "de", for the rules of where a sentence
        ends; unused by the format "sentences".
      input_format: one of INPUT_FORMATS; "auto" judges each file by itself.
      statistics: counts what is seen, if given.

    Yields:
      Documents, each with at least one sentence.

    Raises:
      ValueError: if no file has a sentence, or as `read_file` does.
    """
    statistics = ReadStatistics() if statistics is None else statistics
    for path in paths:
        yield from read_file(
            path,
            language=language,
            input_format=input_format,
            statistics=statistics,
        )
    statistics.check()


def read_file(
    path: str,
    *,
    language: str = "en",
    input_format: str = "auto",
    statistics: ReadStatistics,
) -> Iterator[Document]:
    """Streams the documents of one file; what a process of a pool calls.

    The documents depend on nothing but the file and the arguments. A file
    without a sentence is no error here: `statistics.check()` judges all.

    Raises:
      ValueError: if the file is missing or not text, its .gz is damaged, or a
        format or language is unknown.
    """
    if input_format not in INPUT_FORMATS:
        raise ValueError(
            f"input_format={input_format!r} should be one of "
            f"{', '.join(INPUT_FORMATS)}."
        )
    if not _LANGUAGE.fullmatch(language):
        raise ValueError(
            f"language={language!r} is not a code such as en or pt-br."
        )
    sentences_before = statistics.sentences
    lines = _read_lines(path, statistics)
    if input_format == "auto":
        head = list(itertools.islice(lines, _LINES_TO_JUDGE))
        input_format = guess_format(head)
        logging.debug("%s is read as %s", path, input_format)
        lines = itertools.chain(head, lines)
    if input_format == "sentences":
        found = _paragraphs(lines)  # A blank line between documents.
    elif input_format == "text":
        found = _read_text(lines, language)
    else:
        found = _read_wikiextractor(lines, language, path, statistics)
    for line, sentences in found:
        statistics.documents += 1
        statistics.one_sentence_documents += len(sentences) == 1
        statistics.sentences += len(sentences)
        yield Document(sentences, f"{path}:{line}")
    statistics.files += 1
    if statistics.sentences == sentences_before:
        statistics.empty_files += 1
        logging.warning("%s has no sentence", path)


def guess_format(lines: Iterable[str]) -> str:
    """Judges a file by its first lines.

    It is "wikiextractor" if the first line with text begins with `<doc `. It
    is "sentences" if at least half of the lines that another line follows
    without a blank one between end as sentences do: in a wrapped paragraph
    only few do. Otherwise, and also if a blank line follows each line, it is
    "text".
    """
    lines = [line.strip() for line in lines]
    first = next(filter(None, lines), "")
    if first.startswith("<doc "):
        return "wikiextractor"
    followed = [
        line for line, after in itertools.pairwise(lines) if line and after
    ]
    ended = sum(bool(_SENTENCE_END.search(line)) for line in followed)
    return "sentences" if followed and 2 * ended >= len(followed) else "text"


def _read_lines(path: str, statistics: ReadStatistics) -> Iterator[str]:
    """Yields lines as text, invalid UTF-8 replaced, counted and logged."""
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


def _read_text(
    lines: Iterable[str], language: str
) -> Iterator[tuple[int, list[str]]]:
    """Yields (line, sentences) of the file, which is one document."""
    first_line = 0
    sentences = []
    for start, paragraph in _paragraphs(lines):
        first_line = first_line or start
        sentences += _segment(language, " ".join(paragraph))
    if sentences:
        yield first_line, sentences


def _paragraphs(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yields (first line's number, stripped lines) between blank lines."""
    numbered = enumerate(map(str.strip, lines), 1)
    for has_text, group in itertools.groupby(
        numbered, lambda pair: pair[1] != ""
    ):
        if has_text:
            rows = list(group)
            yield rows[0][0], [line for _, line in rows]


def _read_wikiextractor(
    lines: Iterable[str],
    language: str,
    path: str,
    statistics: ReadStatistics,
) -> Iterator[tuple[int, list[str]]]:
    """Yields (line, sentences) of each <doc ...>, without its title."""
    for start, tag, paragraphs in _docs(lines, path, statistics):
        title = _TITLE.search(tag)
        if title is None or paragraphs[:1] == [title.group(1)]:
            del paragraphs[:1]
        sentences = []
        for paragraph in paragraphs:
            sentences += _segment(language, html.unescape(paragraph))
        if sentences:
            yield start, sentences


def _docs(
    lines: Iterable[str], path: str, statistics: ReadStatistics
) -> Iterator[tuple[int, str, list[str]]]:
    """Yields (line, <doc ...>, lines with text before </doc>)."""
    start, tag, rows = 0, "", []  # No <doc> is open while start is 0.
    # A last <doc>, which nobody sees, closes what is open at the end.
    for number, line in enumerate(itertools.chain(lines, ["<doc >"]), 1):
        line = line.strip()
        is_open = line.startswith("<doc ")
        if start and (is_open or line == "</doc>"):
            yield start, tag, rows
            if is_open:
                statistics.unclosed_documents += 1
                logging.warning(
                    "%s:%d: this <doc> is not closed before line %d",
                    path,
                    start,
                    number,
                )
            start, rows = 0, []
        if is_open:
            start, tag = number, line
        elif start and line:
            rows.append(line)
        elif line and line != "</doc>":
            raise ValueError(
                f"{path}:{number}: {line[:40]!r} stands outside of <doc ...> "
                "and </doc>; is it WikiExtractor's output? Set --input_format "
                "or mend the file."
            )


def _segment(language: str, paragraph: str) -> list[str]:
    """Splits a paragraph into sentences."""
    pieces = sentencex.segment(language, paragraph)
    return [piece for piece in map(str.strip, pieces) if piece]
