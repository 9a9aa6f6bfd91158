"""Text files -> documents of sentences.

Five formats; all except Parquet are UTF-8, plain or compressed (.gz, .bz2, .xz
and .zst):

  sentences      one sentence per line, a blank line between documents, as
                 for the original's create_pretraining_data.py.
  text           paragraphs with a blank line between them, their lines
                 wrapped or not, as in a book. A file is one document.
  wikiextractor  <doc ...>, the title, paragraphs of one line, </doc>.
  jsonl          one JSON object per line; one of its fields is a document.
  parquet        a table; one of its columns holds documents.
"""

import dataclasses
import html
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from absl import logging

from tfrecords import libraries
from tfrecords.io.inputs import file_kinds
from tfrecords.options import REQUIRED, Options, option
from tfrecords.text import text_files

INPUT_FORMATS = (
    *("auto", "sentences", "text", "wikiextractor", "jsonl", "parquet"),
)

# Lines from which "auto" detects the format.
_DETECTION_LINES = 200
# A sentence ends with one of these, perhaps followed by closing quotes.
_SENTENCE_END = re.compile(r"[.?!…。？！।؟:;][\s\"'”’»)\]_*]*$")
_TITLE = re.compile(r'title="(.*)"\s*>')
# Codes of Wikipedias, which sentencex knows and langcodes does not.
_WIKIPEDIAS = ("cbk-zam", "eml", "nds-nl", "roa-tara", "rsk", "tok")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextOptions(Options):
    """The text to read, and how to read it."""

    input_file: str = option(
        REQUIRED,
        "Input files, in UTF-8 (plain, .gz, .bz2, .xz or .zst) or Parquet: "
        "paths or globs separated by commas, on this machine or in a store "
        "such as gs://.",
    )
    input_format: str = option(
        "auto",
        "sentences: one sentence per line, a blank line between documents. "
        "text: paragraphs; each file is a document. wikiextractor: files of "
        "<doc ...> elements. jsonl: one JSON object per line; parquet: a "
        "table; each row is a document. auto: detected for each file.",
        choices=INPUT_FORMATS,
    )
    text_field: str = option(
        "text",
        "Field or column that holds the text, in JSON lines and Parquet.",
    )
    language: str = option(
        "en", "Language code of the text, for splitting it into sentences."
    )

    def __post_init__(self):
        super().__post_init__()
        _check_language(self.language)

    def paths(self) -> list[str]:
        """Returns the input files, as `text_files.expand_inputs`."""
        return text_files.expand_inputs(self.input_file)

    def reading(self) -> dict[str, str]:
        """Returns the settings of `read_file`."""
        return {
            "input_format": self.input_format,
            "language": self.language,
            "text_field": self.text_field,
        }


class Document(NamedTuple):
    """Consecutive sentences of one text."""

    sentences: list[str]  # At least one, stripped of whitespace at both ends.
    source: str  # "file:line" where the document begins.
    # Number of sentences in each line, or paragraph if lines are wrapped.
    line_lengths: list[int] | None = None


def read_documents(
    paths: Iterable[str],
    *,
    statistics: text_files.ReadStatistics | None = None,
    **settings: str,
) -> Iterator[Document]:
    """Streams the documents of files, one document in memory at a time.

    The arguments are those of `read_file`.

    Raises:
      ValueError: if no file has a sentence, or as `read_file`.
    """
    statistics = statistics or text_files.ReadStatistics()
    for path in paths:
        yield from read_file(path, statistics=statistics, **settings)
    statistics.check()


def read_file(
    path: str,
    *,
    language: str = "en",
    input_format: str = "auto",
    text_field: str = "text",
    statistics: text_files.ReadStatistics,
    part: text_files.Part = text_files.WHOLE,
) -> Iterator[Document]:
    """Streams the documents of one file, or of one of its parts.

    The documents depend only on the file and the arguments. A file without
    sentences is not an error here; `statistics.check()` checks all files.

    Args:
      path: file to read.
      language: code such as "en" or "de", for splitting into sentences; not
        used for the format "sentences".
      input_format: one of INPUT_FORMATS; "auto" detects the file's format.
      text_field: field or column of "jsonl" and "parquet" with the text.
      statistics: the counts of this file are added to it. The parts of a file
        count it once, and not whether it is empty, which no part can know.
      part: one of `file_parts.split`, with the format given there.

    Yields:
      Documents, each with at least one sentence.

    Raises:
      ValueError: if the file is missing, damaged or not of its format, or if
        the format or language is unknown.
      OSError: if it cannot be read.
    """
    if input_format not in INPUT_FORMATS:
        raise ValueError(
            f"input_format={input_format!r} should be one of "
            f"{', '.join(INPUT_FORMATS)}."
        )
    language = _check_language(language)
    sentences_before = statistics.sentences
    input_format, documents = _read(
        path, input_format, text_field, statistics, part
    )
    for line, paragraphs in documents:
        # Lines of "sentences" are not split further.
        parts = [[paragraph] for paragraph in paragraphs]
        if input_format != "sentences":
            parts = [_segment(language, paragraph) for paragraph in paragraphs]
        sentences = list(itertools.chain.from_iterable(parts))
        if sentences:
            statistics.add_document(len(sentences))
            yield Document(sentences, f"{path}:{line}", list(map(len, parts)))
    statistics.files += part.begin == 0
    if part == text_files.WHOLE and statistics.sentences == sentences_before:
        statistics.empty_files += 1
        logging.warning("%s has no sentences", path)


def _check_language(language: str) -> str:
    """Returns the code whose rules split sentences: pt for pt_BR.

    sentencex falls back to a related language, then to English.
    """
    code = language.lower().replace("_", "-")
    if code in ("en", *_WIKIPEDIAS):
        return code
    # Would take jp, cn or dk as a language with the rules of English.
    with libraries.extra("pretraining", f"--language={language}"):
        import langcodes

    code = code.partition("-")[0]
    if not langcodes.tag_is_valid(code):
        raise ValueError(
            f"--language={language} is not a known code; give one of ISO 639, "
            "such as en, de, fr or zh."
        )
    return code


# (number of the first line, paragraphs) of each document.
_Documents = Iterator[tuple[int, list[str]]]


def detect_format(path: str) -> str:
    """Returns the format of a file, detected from its beginning.

    Raises:
      ValueError, OSError: as `read_file`.
    """
    statistics = text_files.ReadStatistics()
    return _read(path, "auto", "", statistics, text_files.WHOLE)[0]


def _read(
    path, input_format, text_field, statistics, part
) -> tuple[str, _Documents]:
    """Returns the format and the documents, as paragraphs or sentences."""
    if input_format == "auto" and file_kinds.is_table(path):
        input_format = "parquet"
    if input_format == "parquet":
        from tfrecords.text import dumps

        rows = dumps.read_parquet(path, text_field, statistics)
        return input_format, _read_rows(rows)
    lines = text_files.read_lines(path, statistics, part)
    first_line = part.first_line
    if input_format == "auto":
        head = list(itertools.islice(lines, _DETECTION_LINES))
        _check_is_corpus(head, path)
        input_format = guess_format(head)
        logging.debug("%s is read as %s", path, input_format)
        lines = itertools.chain(head, lines)
    if input_format == "sentences":
        # A blank line between documents.
        documents = split_paragraphs(lines, first_line)
    elif input_format == "text":
        documents = _read_text(lines)
    elif input_format == "jsonl":
        from tfrecords.text import dumps

        rows = dumps.read_json_lines(
            lines, path, text_field, statistics, first_line
        )
        documents = _read_rows(rows)
    else:
        documents = _read_wikiextractor(lines, path, statistics, first_line)
    return input_format, documents


def guess_format(lines: Iterable[str]) -> str:
    """Returns the format of a file, detected from its first lines.

    It is "wikiextractor" if the first line with text begins with `<doc`, and
    "jsonl" if that line is a JSON object. It is "sentences" if at least half of
    the lines directly followed by another line end as sentences do: in wrapped
    paragraphs only few do. Otherwise, and if a blank line follows each line, it
    is "text".
    """
    lines = [line.strip() for line in lines]
    first = next(filter(None, lines), "")
    if is_doc_tag(first):
        return "wikiextractor"
    if is_json(first):
        return "jsonl"
    return "sentences" if _are_sentences(lines) else "text"


def _check_is_corpus(lines: Sequence[str], path: str) -> None:
    """Raises ValueError if a file, by its first lines, is of another format."""
    first = next(filter(None, map(str.strip, lines)), "")
    # Of JSON lines, only the ending can be wrong.
    text = "" if is_json(first) else "".join(lines).lstrip()
    if kind := file_kinds.text_kind(text, path):
        raise ValueError(
            f"{path} is {kind.name}; {kind.fix}. --input_format=text reads it "
            "as text."
        )


def is_json(line: str) -> bool:
    """Returns whether a line is a JSON object."""
    try:
        return line.startswith("{") and isinstance(json.loads(line), dict)
    except json.JSONDecodeError:
        return False
    except (ValueError, RecursionError):  # Too long a number, or too deep.
        return True


def _are_sentences(lines: list[str]) -> bool:
    """Returns whether lines end as sentences; see `guess_format`."""
    followed = [
        line for line, after in itertools.pairwise(lines) if line and after
    ]
    ended = sum(bool(_SENTENCE_END.search(line)) for line in followed)
    return bool(followed) and 2 * ended >= len(followed)


def _read_text(lines: Iterable[str]) -> _Documents:
    """Yields one document, the paragraphs of the file."""
    paragraphs = list(split_paragraphs(lines))
    if paragraphs:
        yield paragraphs[0][0], [" ".join(rows) for _, rows in paragraphs]


def _read_rows(rows: Iterable[tuple[int, str]]) -> _Documents:
    """Yields one document for each row, the paragraphs of its text.

    Whether its lines are paragraphs or wrapped is detected for each text, as
    "auto" does for files.
    """
    for number, text in rows:
        lines = [line.strip() for line in text.split("\n")]
        if _are_sentences(lines[:_DETECTION_LINES]):
            yield number, [line for line in lines if line]
        else:
            for _, paragraphs in _read_text(lines):
                yield number, paragraphs


def split_paragraphs(
    lines: Iterable[str], first_line: int = 1
) -> Iterator[tuple[int, list[str]]]:
    """Yields (number of the first line, stripped lines) of each paragraph.

    `first_line` is the number of the first of the lines.
    """
    numbered = enumerate(map(str.strip, lines), first_line)
    for has_text, group in itertools.groupby(
        numbered, lambda pair: pair[1] != ""
    ):
        if has_text:
            rows = list(group)
            yield rows[0][0], [line for _, line in rows]


def is_doc_tag(line: str) -> bool:
    """Returns whether a stripped line of "wikiextractor" is a <doc ...>."""
    return line.startswith("<doc ")


def _read_wikiextractor(
    lines: Iterable[str],
    path: str,
    statistics: text_files.ReadStatistics,
    first_line: int,
) -> _Documents:
    """Yields the paragraphs of each <doc ...>, without its title."""
    start, tag, rows = 0, "", []  # No <doc> is open while start is 0.
    # The added <doc> closes one that is still open at the end of the lines.
    lines = itertools.chain(lines, ["<doc >"])
    for number, line in enumerate(lines, first_line):
        line = line.strip()
        is_open = is_doc_tag(line)
        if start and (is_open or line == "</doc>"):
            title = _TITLE.search(tag)
            if title is None or rows[:1] == [title.group(1)]:
                del rows[:1]
            yield start, list(map(html.unescape, rows))
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
                f"{path}:{number}: {line[:40]!r} is outside of <doc ...> and "
                "</doc>; is the file WikiExtractor's output? Set "
                "--input_format or correct the file."
            )


def _segment(language: str, paragraph: str) -> list[str]:
    """Splits a paragraph into sentences."""
    with libraries.extra("pretraining", "Splitting text into sentences"):
        import sentencex

    pieces = sentencex.segment(language, paragraph)
    return [piece for piece in map(str.strip, pieces) if piece]
