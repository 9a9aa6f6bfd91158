"""Rows that annotation tools write -> words with tags, and where they stand.

A row has words and their tags, as Hugging Face's `datasets` has them, or a text
and the character spans of its entities, as doccano, spaCy, Prodigy, Argilla and
Label Studio do:

  {"tokens": ["Ada", "came"], "ner_tags": ["B-PER", "O"]}
  {"text": "Ada came", "entities": [{"start": 0, "end": 3, "label": "PER"}]}

The words of a text are those of `raw_words`: a served tagger splits texts so,
and is trained on the words that it will be given. Each has its place in the
text, so that predicted tags become spans of the text again. In all of these
tools, places count characters from 0 and `end` is exclusive.
"""

import bisect
import dataclasses
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tfrecords.io import json_files
from tfrecords.options import quoted, shortened, some
from tfrecords.tables import table_files
from tfrecords.text import text_files

_WORDS = ("tokens", "words")
_TAGS = ("ner_tags", "tags", "labels")
_TEXT = "text"
_SPANS = ("entities", "spans", "ents", "label", "labels")
_RESPONSES = ".responses"  # End of the name of a column of Argilla.
# Columns that say whether somebody annotated a row.
_ANNOTATED = ("answer", "annotation_id")
MISMATCHES = ("error", "widen", "drop")
_TEXTS_AT_ONCE = 512
_NAMED = 5  # Spans in a message.
_BREAK = re.compile(r"[\t\r\n]")
_FIX = "Give --word_column (words or text) and --tag_column (tags or spans)."


class Row(NamedTuple):
    """Words of a sentence or a text."""

    where: str  # file:line
    words: tuple[str, ...]
    tags: tuple[str, ...]  # Of each word; empty if tags are not read.
    text: str | None = None  # None if the row has words.
    places: tuple[tuple[int, int], ...] = ()  # Of each word in the text.


class Span(NamedTuple):
    """An entity of a text."""

    start: int
    end: int
    label: str
    text: str | None = None  # What the file says that it spans.


@dataclasses.dataclass
class Counts:
    """What was read of a file of annotations."""

    spans: int = 0
    widened_spans: list[str] = dataclasses.field(default_factory=list)
    dropped_spans: list[str] = dataclasses.field(default_factory=list)
    rows_without_annotation: int = 0


def is_table(path: str) -> bool:
    """Returns whether a file has rows, rather than a word on each line."""
    return table_files.format_of(path, default="") in ("jsonl", "parquet")


def read(
    path: str,
    counts: Counts,
    *,
    has_tags: bool = True,
    word_column: str | None = None,
    tag_column: str | None = None,
    span_mismatch: str = "error",
) -> Iterator[Row]:
    """Yields the rows of a file; those that nobody annotated are left out.

    Args:
      path: JSON lines, a list of JSON, or Parquet.
      counts: counts are added to it.
      has_tags: whether tags or spans are read.
      word_column: name of the column of the words, or of the text; None for
        tokens or words, if they are strings, or text.
      tag_column: name of the column of the tags, or of the spans; None for the
        usual ones.
      span_mismatch: what becomes of a span that does not begin and end where
        words do, or overlaps another. error: all are counted, and the first
        named. widen: it gets all words that it touches. drop: it is left out.
        One that touches no word is left out, and of two that overlap the
        shorter or later one.

    Raises:
      ValueError: naming file and line, if a column is missing, or a value has
        another form; if the numbers of words and tags differ; if annotations of
        one row differ; or for spans, see `span_mismatch`.
    """
    rows = _objects(path, (word_column, tag_column))
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{path} is empty; copy or create it again.")
    words, tags = _columns(*first, word_column, tag_column, has_tags)
    rows = itertools.chain([first], rows)
    if _is_words(first[1][words]):
        yield from _tagged(path, rows, words, has_tags and tags)
        return
    from tfrecords.text import raw_words  # Flags are checked without it.

    wrong = []
    rows = _annotated(rows, words, has_tags and tags, counts)
    while some_rows := list(itertools.islice(rows, _TEXTS_AT_ONCE)):
        found = raw_words.split_texts([text for _, text, _ in some_rows])
        for (where, text, spans), split in zip(some_rows, found, strict=True):
            row = Row(where, split[0], (), text, split[1])
            if has_tags:
                tags = _align(row, spans, span_mismatch, counts, wrong)
                row = row._replace(tags=tags)
            yield row
    if wrong:
        raise ValueError(
            f"{path}: {len(wrong)} of {counts.spans} spans do not fit the "
            f"words: {some(wrong, '; ', _NAMED)}. "
            "Correct them, or give --span_mismatch=widen, which moves borders "
            "out to whole words, or drop, which leaves such spans out."
        )


def _objects(path: str, asked) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields file:line and the columns of each row, with text and spans."""
    if content := _list_of(path):
        rows = []
        for number, row in enumerate(json_files.parse(content, path, list), 1):
            where = f"{path}: row {number}"
            if isinstance(row, list) and [type(x) for x in row] == [str, dict]:
                row = {_TEXT: row[0], **row[1]}  # spaCy 2.
            json_files.check(row, dict, where)
            content = json.dumps(row, ensure_ascii=False)
            json_files.check(content, str, where, "the row")
            rows.append((where, _flat(row, where)))
        names = dict.fromkeys(name for _, row in rows for name in row)
        for where, row in rows:
            yield where, {name: row.get(name) for name in names}
        return
    # These may be missing in the first rows.
    late = [*_ANNOTATED, *filter(None, asked)]
    wanted = header = table_files.read_header(path, columns=late)
    if table_files.format_of(path) == "parquet":  # Other columns may be large.
        known = {*_WORDS, *_TAGS, _TEXT, *_SPANS, *asked, *_ANNOTATED}
        wanted = [x for x in header if x in known or _RESPONSES in x] or header
    for where, cells in table_files.read_columns(path, "auto", wanted, _FIX):
        yield where, _flat(dict(zip(wanted, cells, strict=True)), where)


def _list_of(path: str) -> bytes | None:
    """Returns a list of JSON, as Label Studio writes it; None for others."""
    if table_files.format_of(path) != "jsonl":
        return None
    lines = filter(bytes.strip, text_files.read_bytes(path))
    first = next(lines, b"").removeprefix(b"\xef\xbb\xbf")
    if not first.lstrip().startswith(b"["):
        return None
    lines = [first, *lines]
    is_each_one = len(lines) > 1 and first.rstrip().endswith(b"]")
    return b"[%b]" % b",".join(lines) if is_each_one else b"".join(lines)


def _flat(row: dict, where: str) -> dict[str, Any]:
    """Returns a row of Label Studio or Argilla with its text and its spans.

    The spans of each annotator are an entry of the list in a column that ends
    with `.responses`, as in Argilla's own rows.
    """
    if {"data", "annotations"} <= {*row}:  # A task of Label Studio.
        form = {"data": {}, "annotations": [{"result": [{"value?": {}}]}]}
        json_files.check(row, form, where)
        found = []
        for done in row["annotations"]:
            values = [x.get("value") or {} for x in done["result"]]
            if not done.get("was_cancelled"):
                found.append([value for value in values if "start" in value])
        return row["data"] | {f"label{_RESPONSES}": found}
    if {"fields", "responses"} <= {*row}:  # A record of Argilla.
        json_files.check(row, {"fields": {}, "responses": {}}, where)
        flat = {**row["fields"]}
        for name, given in row["responses"].items():
            json_files.check(given, [{}], where, name)
            name += _RESPONSES
            flat[name] = [x.get("value") for x in given]
            flat[f"{name}.status"] = [x.get("status") for x in given]
        return flat
    return row


def _columns(where, row, word_column, tag_column, has_tags) -> tuple:
    """Returns the columns of words and tags, or of text and spans."""
    names = (word_column,) if word_column else (*_WORDS, _TEXT)
    spans = (*sorted(x for x in row if x.endswith(_RESPONSES)), *_SPANS)
    there = [
        (name, _TAGS if _is_words(row[name]) else spans)
        for name in names
        if name in row
        if word_column or name == _TEXT or _is_words(row[name])
    ]
    for name, tags in there:
        for tag in (tag_column,) if tag_column else tags:
            if tag in row and tag != name:
                return name, tag
    if there and not has_tags:
        return there[0][0], None
    asked = [x for x in (word_column, tag_column) if x and x not in row]
    missing = table_files.listed(asked) or "words or text"
    raise ValueError(
        f"{where}: no {missing} with tags, in {table_files.listed(row)}. "
        f"{_FIX} A test file without tags needs --notest_has_tags."
    )


def _is_words(value: Any) -> bool:
    """Returns whether a value has words; spaCy's tokens are objects."""
    return isinstance(value, list) and dict not in map(type, value)


def _tagged(path, rows, words: str, tags: str | None) -> Iterator[Row]:
    """Yields rows of words and, unless `tags` is None, tags."""
    names = table_files.class_names(path, "auto", tags) if tags else ()
    names = {str(number): name for number, name in enumerate(names)}
    for where, row in rows:
        found = [()] * 2
        for index, column in enumerate(filter(None, (words, tags))):
            cell = table_files.to_cell(row[column], f"{where}: {column!r}")
            if not isinstance(cell, list) or "" in cell:
                raise ValueError(
                    f"{where}: {column!r} is {quoted(cell)}; expected a list "
                    f"of strings that are not empty. Correct the row. {_FIX}"
                )
            found[index] = tuple(cell)
        if tags and len(found[0]) != len(found[1]):
            raise ValueError(
                f"{where}: {len(found[0])} words in {words!r} and "
                f"{len(found[1])} tags in {tags!r}. Correct the row."
            )
        if names and not names.keys() >= {*found[1]}:
            raise ValueError(
                f"{where}: {tags!r} is {quoted(row[tags])}, and the file names "
                f"the classes 0 to {len(names) - 1}. Write the file again."
            )
        yield Row(where, found[0], tuple(names.get(x, x) for x in found[1]))


def _annotated(rows, texts: str, spans: str | None, counts: Counts):
    """Yields (where, text, spans) of the rows that somebody annotated."""
    for where, row in rows:
        text = row[texts]
        json_files.check(text, str, where, texts)
        if not spans:
            yield where, text, ()
            continue
        value = _chosen(row, spans, where)
        if value is None:
            counts.rows_without_annotation += 1
            continue
        found = list(_spans(value, f"{where}: {spans!r}"))
        yield where, text, [_in_characters(text, span) for span in found]


def _chosen(row: dict, column: str, where: str) -> Any:
    """Returns the value with the spans of a row; None if nobody annotated it.

    Annotators that differ are an error, as is a null that no tool explains.
    """
    value, answer = row[column], row.get("answer")
    if answer not in (None, "accept"):  # Of Prodigy: reject, ignore.
        return None
    if column.endswith(_RESPONSES):
        json_files.check(value := value or [], list, where, column)
        statuses = row.get(f"{column}.status") or [None] * len(value)
        json_files.check(statuses, list, where, f"{column}.status")
        given = [
            spans
            for spans, status in zip(value, statuses, strict=False)
            if status in (None, "submitted") and spans is not None
        ]
        if any(spans != given[0] for spans in given):
            raise ValueError(
                f"{where}: {len(given)} annotations in {column!r} that differ. "
                "Keep one of them."
            )
        return given[0] if given else None
    # Prodigy and Label Studio leave out what is empty.
    is_empty = value is None and (
        answer or row.get("annotation_id") is not None
    )
    if value is None and not is_empty and "annotation_id" not in row:
        raise ValueError(
            f"{where}: {column!r} is missing or null. Write [] if the text has "
            "no entity, or remove the row."
        )
    return [] if is_empty else value


def _spans(value: Any, where: str) -> Iterator[Span]:
    """Yields the spans of a text in any of their layouts."""
    if isinstance(value, dict):  # Columns of Parquet.
        if value and all(isinstance(x, list) for x in value.values()):
            rows = zip(*value.values(), strict=False)
            value = [dict(zip(value, row, strict=True)) for row in rows]
    for item in value if isinstance(value, list) else [value]:
        start = end = label = text = None
        if isinstance(item, list) and len(item) == 3:
            start, end, label = item
        elif isinstance(item, dict):
            start = item.get("start", item.get("start_offset"))
            end = item.get("end", item.get("end_offset"))
            label = item.get("label", item.get("labels"))
            text = item["text"] if isinstance(item.get("text"), str) else None
        labels = label if isinstance(label, list) and label else [label]
        is_right = all(
            type(x) in (int, float) and x == x // 1 for x in (start, end)
        ) and all(isinstance(x, str) and x.strip() for x in labels)
        if not is_right or any(map(_BREAK.search, labels)):
            raise ValueError(
                f"{where} has {quoted(item)}; expected [start, end, label], or "
                "an object with these, of which start and end count characters "
                "and the label is a name without tabs and line breaks. Correct "
                "the row, or give another --tag_column."
            )
        for label in labels:
            yield Span(int(start), int(end), label.strip(), text)


def _in_characters(text: str, span: Span) -> Span:
    """Returns a span whose places may count units of UTF-16, as JavaScript's.

    Those of Label Studio do, which also says what the span's text is.
    """
    if _is_said(text, span):
        return span
    units = text.encode("utf-16-le")
    ends = (units[: 2 * max(0, x)] for x in span[:2])
    start, end = (len(x.decode("utf-16-le", "ignore")) for x in ends)
    moved = span._replace(start=start, end=end)
    return moved if _is_said(text, moved) else span


def _is_said(text: str, span: Span) -> bool:
    """Returns whether a span has the text that the file gives for it."""
    # Label Studio writes a line break as two characters.
    said = span.text and span.text.replace("\\n", "\n").split()
    return not said or said == text[span.start : span.end].split()


def _align(row: Row, spans, mismatch: str, counts: Counts, wrong: list):
    """Returns the tags in IOB2 of a text's words; adds to counts and `wrong`.

    `mismatch` is one of `MISMATCHES`; spans that are errors go to `wrong`.
    """
    starts, ends = zip(*row.places, strict=True) if row.places else ((), ())
    spans = dict.fromkeys(spans)
    counts.spans += len(spans)
    unused = wrong if mismatch == "error" else counts.dropped_spans
    found = []
    for span in spans:
        first = bisect.bisect_right(ends, span.start)
        last = bisect.bisect_left(starts, span.end)
        reason, is_used = "", False
        if not 0 <= span.start < span.end <= len(row.text):
            reason = f"is empty or not within {len(row.text)} characters"
        elif not _is_said(row.text, span):
            reason = f"is {quoted(span.text)} in the file"
        elif first >= last:
            reason = "has no word"
        elif (starts[first], ends[last - 1]) != span[:2]:
            reason = "does not begin and end where words do"
            is_used = mismatch == "widen"
        if reason and not is_used:
            unused.append(_named(row, span, reason))
        else:
            length = ends[last - 1] - starts[first]
            found.append((-length, first, last, span, reason))
    tags = ["O"] * len(row.words)
    for _, first, last, span, reason in sorted(found, key=lambda x: x[:2]):
        if any(tag != "O" for tag in tags[first:last]):
            reason = "overlaps one that is longer or earlier"
            unused.append(_named(row, span, reason))
            continue
        if reason:
            counts.widened_spans.append(_named(row, span, reason))
        inner = [f"I-{span.label}"] * (last - first - 1)
        tags[first:last] = [f"B-{span.label}", *inner]
    return tuple(tags)


def _named(row: Row, span: Span, reason: str) -> str:
    text = shortened(repr(row.text[max(0, span.start) : span.end]), 60)
    place = f"{span.start}, {span.end}, {shortened(span.label, 40)}"
    return f"{row.where}: {text} [{place}] {reason}"
