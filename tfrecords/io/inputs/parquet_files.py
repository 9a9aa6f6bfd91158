"""Parquet file, or stream of Arrow -> names of its columns, rows of values.

Both need pyarrow, which the extra `parquet` installs. A stream of Arrow is what
Hugging Face's `datasets` keeps on a disk.
"""

import contextlib
import io
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import IO, Any

from tfrecords import libraries
from tfrecords.io import json_files, storage
from tfrecords.io.inputs import file_kinds

_JSON = "arrow.json"  # The type of a column whose values are JSON texts.
# Where a writer keeps its own types; as long as the name that replaces it.
_STORED_TYPES, _UNUSED = b"ARROW:schema", b"arrow-schema"


class Table:
    """An open file.

    Args:
      path: its path, for messages.
      schema: a pyarrow.Schema.
      batches: number of rows, and names of columns, None for all -> batches
        of up to so many rows.
      json_columns: names of columns whose values are JSON texts.
      unread: names of columns that pyarrow cannot read -> why.

    Attributes:
      names: names of the columns.
      metadata: what the writer added, bytes -> bytes.
    """

    def __init__(
        self,
        path: str,
        schema: Any,
        batches: Callable[[int, list[str] | None], Iterator[Any]],
        json_columns: Collection[str] = (),
        unread: Mapping[str, str] | None = None,
    ):
        self.path = path
        self.names = list(schema.names)
        self.metadata = schema.metadata or {}
        self._batches = batches
        self._unread = unread or {}
        self._json = {*json_columns, *(x.name for x in schema if _is_json(x))}

    def batches(
        self, num_rows: int, columns: Collection[str] | None = None
    ) -> Iterator[list[list]]:
        """Yields the values of up to `num_rows` rows: a list for each name.

        Args:
          num_rows: rows in memory.
          columns: those to read; values of others are None. Default: all.

        Raises:
          ValueError: if pyarrow cannot read one of them, Python cannot hold a
            value, or a value of a JSON column is not JSON.
        """
        wanted = self.names if columns is None else columns
        for name in filter(self._unread.get, wanted):
            raise ValueError(
                f"{self.path}: pyarrow cannot read the column {name!r} "
                f"({self._unread[name]}). Write the file without it, or as "
                "text: polars.read_parquet(...).with_columns(polars.col("
                f"{name!r}).cast(polars.String)).write_parquet(...)."
            )
        names = None
        if columns is not None:
            names = [name for name in self.names if name in columns]
        first = 1
        for batch in self._batches(num_rows, names):
            nulls = [None] * batch.num_rows
            values = []
            for index, name in enumerate(self.names):
                if names is None or name in names:
                    column = batch.column(index if names is None else name)
                    values.append(self._values(column, name, first))
                else:
                    values.append(nulls)
            yield values
            first += batch.num_rows

    def _values(self, column: Any, name: str, first: int) -> list:
        """Returns the values of a column; `first` is the number of its row."""
        try:
            values = column.to_pylist()
        except (ValueError, OverflowError) as error:
            if type(error) not in (ValueError, OverflowError):
                raise  # The file is damaged.
            raise ValueError(
                f"{self.path}: the column {name!r} has a value that Python "
                f"cannot hold ({error}). Convert the column to strings, or "
                "leave it out."
            ) from None
        if name not in self._json:
            return values
        return [
            _decode(value, f"{self.path}:{number}: {name!r}")
            for number, value in enumerate(values, first)
        ]


def _is_json(field: Any) -> bool:
    """Returns whether a column has JSON texts, or lists of them."""
    kind = getattr(field.type, "extension_name", "")  # Unknown before 19.
    kind = kind or (field.metadata or {}).get(b"ARROW:extension:name", b"")
    inner = getattr(field.type, "value_field", None)
    return kind in (_JSON, _JSON.encode()) or bool(inner and _is_json(inner))


def _decode(value: Any, where: str) -> Any:
    """Returns the value of a JSON text, or of each in a list."""
    if isinstance(value, list):
        return [_decode(item, where) for item in value]
    if isinstance(value, str):
        return json_files.parse_valid(value, where, object)
    return value


@contextlib.contextmanager
def open_table(path: str) -> Iterator[Table]:
    """Yields the `Table` of a file.

    Raises:
      ValueError: if it is missing, damaged or of another kind, or pyarrow is
        not installed.
      OSError: if it cannot be read.
    """
    try:
        file = storage.open_bytes(path)
        head = file.peek()
    except FileNotFoundError:
        raise ValueError(f"No input file at {path}; check the path.") from None
    with file:
        kind = file_kinds.kind_of(head)
        is_stream = kind is file_kinds.ARROW_STREAM
        if kind and kind not in file_kinds.TABLES:
            raise ValueError(f"{path} is {kind.name}, not Parquet; {kind.fix}.")
        with libraries.extra("parquet", f"Reading {path}"):
            import pyarrow
            import pyarrow.parquet
        try:
            yield (_open_stream if is_stream else _open_parquet)(path, file)
        # A damaged length may be larger than the memory.
        except (
            pyarrow.ArrowException,
            OSError,
            UnicodeDecodeError,
            MemoryError,
        ) as error:
            if getattr(error, "errno", None):  # An error of disk or network.
                raise
            reason = " ".join((str(error) or repr(error)).split())
            raise ValueError(
                f"{path} is damaged or not a Parquet file ({reason}); copy it "
                "again, or set --input_format."
            ) from error


def _open_stream(path: str, file: IO[bytes]) -> Table:
    import pyarrow

    reader = pyarrow.ipc.open_stream(file)

    def batches(num_rows, _):
        for batch in reader:
            batch.validate(full=True)  # Damage would end this process.
            for begin in range(0, batch.num_rows, num_rows):
                yield batch.slice(begin, num_rows)

    return Table(path, reader.schema, batches)


def _open_parquet(path: str, file: IO[bytes]) -> Table:
    import pyarrow
    from pyarrow import parquet

    source, unread = path if storage.is_local(path) else file, {}
    try:
        opened = parquet.ParquetFile(source, page_checksum_verification=True)
    except pyarrow.ArrowNotImplementedError as error:
        # Of a type of its writer, such as polars' 128-bit integers. Without
        # these, such a column has bytes, and the others can be read.
        opened = parquet.ParquetFile(
            source,
            metadata=_plain_metadata(file),
            page_checksum_verification=True,
        )
        unread = {
            name: str(error)
            for name, physical, logical in _columns(opened)
            if physical == "FIXED_LEN_BYTE_ARRAY" and logical == "NONE"
        }
    return Table(
        path,
        opened.schema_arrow,
        lambda rows, names: opened.iter_batches(rows, columns=names),
        {name for name, _, logical in _columns(opened) if logical == "JSON"},
        unread,
    )


def _columns(file: Any) -> Iterator[tuple[str, str, str]]:
    """Yields name, physical and logical type of the columns of a file."""
    for i in range(len(file.schema)):
        column = file.schema.column(i)
        name = column.path.partition(".")[0]
        yield name, column.physical_type, column.logical_type.type


def _plain_metadata(file: IO[bytes]) -> Any:
    """Returns the metadata of a Parquet file without its writer's types."""
    from pyarrow import parquet

    file.seek(-8, io.SEEK_END)
    size = int.from_bytes(file.read(4), "little")
    file.seek(-8 - size, io.SEEK_END)
    footer = file.read().replace(_STORED_TYPES, _UNUSED)
    return parquet.read_metadata(io.BytesIO(footer[-4:] + footer))
