"""A large text file -> parts that begin between documents.

Read one by one, the parts give the documents, line numbers and counts of the
file. It is first cut into ranges of equal size, without regard to its lines. A
job for each range counts the lines that begin in it, and finds the first of
them before which the file can be divided. A range without such a line is added
to the part before it. With documents A to E, and - for a blank line:

  file    AAA--BBBBBBB-CCCC-DDDDDDD-E
  ranges  |        |        |
  parts   |           |            |
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from tfrecords.io import progress
from tfrecords.io.inputs import file_kinds
from tfrecords.text import documents, text_files

# One or two seconds of tokenizing, more than an engine needs to start a job.
PART_BYTES = 16 << 20
# Formats in which documents are consecutive lines.
_FORMATS = ("sentences", "jsonl", "wikiextractor")


class _Range(NamedTuple):
    path: str
    input_format: str
    begin: int
    end: int


class _Lines(NamedTuple):
    start: int | None  # The first byte of a part, if one begins in the range.
    before: int  # Lines that begin in the range and before that byte.
    total: int  # Lines that begin in the range.


def split(
    files: Sequence[tuple[str, int]],
    input_format: str,
    workers: progress.Engine,
) -> list[tuple[str, list[text_files.Part]]]:
    """Returns the format of each file and its parts, in order.

    Files of up to two ranges are not divided, nor are compressed and Parquet
    files, and those of the format "text", which are one document each.

    Args:
      files: path of each file, and its size in bytes.
      input_format: one of `documents.INPUT_FORMATS`. "auto" is detected here
        if a file is large, since its parts begin without its first lines.
      workers: examines the ranges.

    Raises:
      ValueError: if a file is missing or not text.
      OSError: if it cannot be read.
    """
    formats = [input_format] * len(files)
    ranges = [[] for _ in files]
    for index, (path, size) in enumerate(files):
        if size <= 2 * PART_BYTES:
            continue
        kind = file_kinds.of_file(path)
        if file_kinds.compression(kind, path):
            continue
        if input_format == "auto":
            formats[index] = documents.detect_format(path)
        if formats[index] in _FORMATS:
            ranges[index] = [
                _Range(
                    path, formats[index], begin, min(begin + PART_BYTES, size)
                )
                for begin in range(0, size, PART_BYTES)
            ]
    jobs = list(itertools.chain.from_iterable(ranges))
    lines = {}
    if jobs:
        weights = [job.end - job.begin for job in jobs]
        lines = dict(
            workers.run(
                _examine, jobs, weights, name="split files", unit="bytes"
            )
        )
    parts = [_join(group, lines) for group in ranges]
    return list(zip(formats, parts, strict=True))


def _examine(job: _Range) -> _Lines:
    """Finds where a part begins in a range, and counts lines."""
    start, before, total = (None if job.begin else 0), 0, 0
    # From one byte earlier, which tells whether a line begins with the range;
    # if none does, the first line read is the rest of one of another range.
    position = max(0, job.begin - 1)
    part = text_files.Part(position, job.end)
    for line in text_files.read_bytes(job.path, part):
        if position >= job.begin:
            if start is None and _is_boundary(line, job.input_format):
                start, before = position, total
            total += 1
        position += len(line)
    return _Lines(start, before, total)


def _is_boundary(line: bytes, input_format: str) -> bool:
    """Returns whether a file can be divided before a line.

    It is decoded and stripped as by the readers: some white space is not ASCII.
    """
    if not line.endswith(b"\n"):  # The range ends within it.
        return False
    text = line.decode("utf-8", "replace").strip()
    if input_format == "sentences":
        return not text
    return input_format == "jsonl" or documents.is_doc_tag(text)


def _join(ranges, lines) -> list[text_files.Part]:
    """Returns the parts of a file, given the `_Lines` of its ranges."""
    starts, first_line = [], 1
    for job in ranges:
        start, before, total = lines[job]
        if start is not None:
            starts.append((start, first_line + before))
        first_line += total
    if len(starts) < 2:
        return [text_files.WHOLE]
    ends = [start for start, _ in starts[1:]] + [ranges[-1].end]
    return [
        text_files.Part(begin, end, first_line)
        for (begin, first_line), end in zip(starts, ends, strict=True)
    ]
