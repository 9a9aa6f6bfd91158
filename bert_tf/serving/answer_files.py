"""Rows and their answers -> file of JSON lines, CSV, TSV or Parquet."""

import contextlib
import csv
import functools
import itertools
import json
import os
import pickle
import tempfile
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from bert_tf.serving.text_rows import BadLine, prefixed
from tfrecords import libraries
from tfrecords.io import atomic_files
from tfrecords.tables import parts

# Ending of a file -> separator of its cells, None of Parquet.
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".parquet": None}
_NOT_WRITTEN = (".arrow", ".xls", ".xlsx")
_ROWS_AT_ONCE = 1024
_ERROR = "error"  # Column of the rows without an answer, if there are any.


def is_table(path: str) -> bool:
    """Returns whether an output is a table, by the ending of its name.

    Raises:
      ValueError: for a table of another kind, or a compressed one; or if it is
        Parquet, and pyarrow is not installed.
    """
    ending = parts.ending(path)
    if ending in _NOT_WRITTEN:
        raise ValueError(
            f"--output_file={path}: tables are .csv, .tsv or .parquet, and "
            "other files JSON lines. Give a name that ends so, or in .jsonl."
        )
    if ending not in _SEPARATORS:
        return False
    if not path.lower().endswith(ending):
        raise ValueError(
            f"--output_file={path}: tables are not compressed. Give a name "
            f"that ends in {ending}."
        )
    if ending == ".parquet":
        with libraries.extra("parquet", f"Writing {path}"):
            import pyarrow.parquet  # noqa: F401
    return True


def default_outputs(names: Iterable[str], is_table: bool) -> list[str]:
    """Returns the outputs that are written: none with values per token.

    In a table probabilities have columns, and logits would say the same.
    """
    unwanted = ("sequence_output", "encoder_outputs", "input_mask")
    # A copy of `pooled_output`.
    unwanted += ("default", "logits") if is_table else ("default",)
    return [name for name in names if not name.startswith(unwanted)]


def name_inputs(
    inputs: Iterable[str], answers: Iterable[str]
) -> dict[str, str]:
    """Returns the columns of the input -> their names beside the answers."""
    taken = {_ERROR, *answers}
    return {name: prefixed(name, taken) for name in inputs}


@contextlib.contextmanager
def open_file(path: str) -> Iterator[Callable[[Iterable[tuple]], None]]:
    """Yields a function that adds pairs of a Row and its answer, or a BadLine.

    An answer is a line of JSON, or the cells of a table, by their columns. All
    rows of a table have the same columns, of the input and then of the answers,
    with `error` last; those of the input that an answer may have, too, are
    `prefixed`. Cells of CSV and TSV are `to_text`. A column of Parquet has a
    type, and is text if its cells have several.

    Args:
      path: of the file, written atomically.

    Raises:
      ValueError: naming a column of bytes, which a CSV cannot have.
      OSError: if the file cannot be written.
    """
    if not is_table(path):
        with atomic_files.atomic_file(path) as file:
            yield functools.partial(_write_lines, file)
        return
    separator = _SEPARATORS[parts.ending(path)]
    inputs, answers = {}, {}  # Columns, in the order in which they are found.
    with (
        atomic_files.atomic_file(path, "w" if separator else "wb") as file,
        # All columns are known only when all rows are.
        tempfile.TemporaryFile(
            dir=os.path.dirname(os.path.realpath(path))
        ) as spool,
    ):

        def write(rows: Iterable[tuple]) -> None:
            for row, found in rows:
                if isinstance(found, BadLine):
                    found = {_ERROR: found.message}
                pair = [row.cells, found]
                if separator:
                    pair = [
                        {x: to_text(y, x) for x, y in z.items()} for z in pair
                    ]
                inputs.update(dict.fromkeys(row.cells))
                answers.update(dict.fromkeys(found))
                pickle.dump([*map(dict, pair)], spool)

        yield write
        if _ERROR in answers:
            answers[_ERROR] = answers.pop(_ERROR)
        names = name_inputs(inputs, answers)
        header = [*names.values(), *answers]

        def read() -> Iterator[list]:
            spool.seek(0)
            with contextlib.suppress(EOFError):
                while True:
                    cells, answer = pickle.load(spool)
                    row = {names[x]: y for x, y in cells.items()} | answer
                    yield [row.get(name) for name in header]

        if not separator:
            _write_parquet(file, header, read)
        elif header:
            # A carriage return in a cell has quotes only if rows end in one.
            ends = types.SimpleNamespace(
                write=lambda row: file.write(row.removesuffix("\r\n") + "\n")
            )
            writer = csv.writer(ends, delimiter=separator)
            writer.writerow(header)
            writer.writerows(read())


def _write_lines(file, pairs: Iterable[tuple]) -> None:
    for row, found in pairs:
        if isinstance(found, BadLine):
            found = {"line": row.line, _ERROR: found.message}
            found = json.dumps(found, ensure_ascii=False)
        file.write(found + "\n")
    file.flush()


def to_text(value: Any, column: str) -> str:
    """Returns a value as a cell: text, "" for null and NaN, or JSON.

    Raises:
      ValueError: naming the column, if it has bytes.
    """
    if isinstance(value, str):
        return value
    if value is None or value != value:
        return ""
    if isinstance(value, bytes):
        raise ValueError(
            f"The column {column!r} has bytes, which are no text. Give an "
            "--output_file that ends in .parquet, or an input without it."
        )
    if isinstance(value, bool | list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _write_parquet(
    file, header: Sequence[str], read: Callable[[], Iterator[list]]
) -> None:
    """Writes rows, which are read twice: first for the type of each column."""
    import pyarrow
    import pyarrow.parquet

    def batches() -> Iterator[list[tuple]]:
        rows = read()
        while batch := list(itertools.islice(rows, _ROWS_AT_ONCE)):
            yield list(zip(*batch, strict=True))

    schema = pyarrow.schema([(name, pyarrow.null()) for name in header])
    for batch in batches():
        for i, (name, values) in enumerate(zip(header, batch, strict=True)):
            try:
                found = pyarrow.schema([(name, pyarrow.array(values).type)])
                known = pyarrow.schema([schema.field(i)])
                (field,) = pyarrow.unify_schemas(
                    [known, found], promote_options="permissive"
                )
            except pyarrow.ArrowException:
                field = pyarrow.field(name, pyarrow.string())
            schema = schema.set(i, field)
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        for batch in batches():
            columns = [
                [x if x is None else to_text(x, field.name) for x in values]
                if field.type == pyarrow.string()
                else values
                for field, values in zip(schema, batch, strict=True)
            ]
            writer.write_table(pyarrow.table(columns, schema))
