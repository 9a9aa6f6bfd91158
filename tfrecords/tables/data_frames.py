"""pandas.DataFrame -> Python values of its columns; pandas is not imported."""

import sys
from typing import Any

from tfrecords.options import quoted
from tfrecords.tables import table_files


def is_frame(value: Any) -> bool:
    """Returns whether a value is a DataFrame; False if pandas is not in use."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def read_column(frame, name: str, types: tuple[type, ...] = ()) -> list:
    """Returns the values of a column; those of NumPy as Python's.

    Args:
      frame: a DataFrame.
      name: of the column.
      types: those that a value may have. Default: any, and what is missing is
        None.

    Raises:
      ValueError: if the column is missing or there twice, or a value has
        another type; the message has the label of the row.
    """
    count = list(frame.columns).count(name)
    if count != 1:
        raise ValueError(
            f"The DataFrame has {'several columns' if count else 'no column'} "
            f"{name!r}; its columns are {table_files.listed(frame.columns)}. "
            "Name another with text_column or the like, or rename it."
        )
    values = [
        x.tolist() if hasattr(x, "tolist") else x for x in frame[name].tolist()
    ]
    if not types:
        missing = frame[name].isna().tolist()
        return [None if x else y for x, y in zip(missing, values, strict=True)]
    for label, value in zip(frame.index, values, strict=True):
        if not isinstance(value, types):
            raise ValueError(
                f"Row {label!r} of the DataFrame has {quoted(value)} "
                f"({type(value).__name__}) in column {name!r}; expected "
                f"{' or '.join(x.__name__ for x in types)}. Take the row out, "
                f"such as by frame.dropna(subset=[{name!r}]), or convert the "
                f"column, such as by frame[{name!r}].fillna('').astype(str)."
            )
    return values
