"""JSON text or file <-> its value, of which the types are checked."""

import json
import re
import sys
from collections.abc import Mapping
from typing import Any

from tfrecords.options import quoted

_FIX = "Correct it, or copy or make the file again."
_SURROGATE = re.compile("[\ud800-\udfff]")


class Finite(float):
    """Form of a number that is neither NaN nor infinite."""


_NAMES = {
    str: "a string",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    Finite: "a finite number",
    list: "a list",
    dict: "an object, {...}",
}


def write(path: str, content: Mapping) -> None:
    """Writes a JSON file atomically; "-" is stdout."""
    from tfrecords.io import atomic_files  # Who reads a config writes nothing.

    with atomic_files.atomic_file(path) as file:
        json.dump(content, file, indent=2)
        file.write("\n")


def read(path: str, form: Any = dict) -> Any:
    """Returns the content of a JSON file; arguments are those of `parse`.

    Raises:
      OSError: if it cannot be read.
      ValueError: as in `parse`.
    """
    with open(path, "rb") as file:
        return parse(file.read(), path, form)


def parse(text: bytes | str, where: str, form: Any = dict) -> Any:
    """Returns the value of a JSON text, in which NaN and Infinity are numbers.

    Args:
      text: bytes are UTF-8, with or without a byte order mark.
      where: file, or file:line, for messages.
      form: form of the value, see `check`.

    Raises:
      ValueError: if it is not JSON, or of another form.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        value = json.loads(text)
    except UnicodeDecodeError as error:
        line = 1 + error.object[: error.start].count(b"\n")
        byte = error.object[error.start]
        reason = f"line {line}: byte {byte:#04x} is not UTF-8"
    except RecursionError:
        reason = "brackets are nested deeper than Python reads"
    except ValueError as error:
        # `where` may already have a line number.
        is_one_line = getattr(error, "lineno", 0) == 1
        reason = f"{error.msg}, column {error.colno}" if is_one_line else error
    else:
        check(value, form, where)
        return value
    raise ValueError(
        f"{where} is not JSON ({reason}): {quoted(text[:200])}. {_FIX}"
    )


def parse_valid(text: str, where: str, form: Any = dict) -> Any:
    """Returns `parse`, of which all texts are valid.

    Raises:
      ValueError: as in `parse`, or for an unpaired surrogate, which JSON may
        escape.
    """
    value = parse(text, where, form)
    if "\\u" in text:
        check(json.dumps(value, ensure_ascii=False), str, where, "the line")
    return value


def check(value: Any, form: Any, where: str, entry: str = "") -> None:
    """Raises ValueError unless a value of JSON is of a form.

    Args:
      value: from `parse`.
      form: object for any; str, bool, int, float (any number), Finite, list or
        dict; a range of integers; a tuple of the allowed strings; [form] for a
        list of this form; or {name: form} for an object with at least these
        entries. An entry whose name here ends with "?" may be missing or null;
        "dev*" is all others that begin so, and "*" all others.
      where: file, or file:line, for the message.
      entry: the value's position in the file; "" for all of it.
    """
    if form is object:
        return
    python_type = form if isinstance(form, type) else type(form)
    expected = _NAMES.get(python_type, "")
    if isinstance(form, range):
        python_type = int
        expected = f"an integer from {form.start:,} to {form.stop - 1:,}"
    if isinstance(form, tuple):
        python_type, expected = str, f"one of {', '.join(form)}"
    # The parser makes exactly these types; but for isinstance, True is an int.
    is_right = type(value) is python_type
    if issubclass(python_type, float):
        is_right = type(value) in (int, float)
    if python_type is Finite:
        is_right = is_right and abs(value) <= sys.float_info.max  # Not NaN.
    is_choice = isinstance(form, range | tuple)
    if not is_right or (is_choice and value not in form):
        is_missing = value is None and entry
        shown = "missing or null" if is_missing else quoted(value)
        raise ValueError(
            f"{where}: {entry or 'the content'} is {shown}; it should be "
            f"{expected}. {_FIX}"
        )
    if python_type is str and _SURROGATE.search(value):
        raise ValueError(
            f"{where}: {entry} is {quoted(value)}, which is not valid text: a "
            f"surrogate without its pair. {_FIX}"
        )
    if isinstance(form, list):
        for i, item in enumerate(value):
            check(item, form[0], where, f"{entry}[{i}]")
    elif isinstance(form, dict):
        named = {name.removesuffix("?") for name in form}
        for name, of_entry in form.items():
            key = name.removesuffix("?")
            keys = [key]
            if key.endswith("*"):
                keys = [x for x in value if x.startswith(key[:-1])]
                keys = [x for x in keys if x not in named]
            for found in keys:
                if key == name or value.get(found) is not None:
                    inner = f"{entry}.{found}".removeprefix(".")
                    check(value.get(found), of_entry, where, inner)


def check_thresholds(values: Mapping, num_labels: int, where: str) -> None:
    """Raises ValueError unless `thresholds` are a probability for each label.

    Args:
      values: an object, which may have none.
      num_labels: number of labels; 0 if it is unknown.
      where: file, for the message.
    """
    if "thresholds" not in values:
        return
    found = values["thresholds"]
    # 0, and what float32 rounds to it, would be reached by all.
    is_right = isinstance(found, list) and all(
        type(x) in (int, float) and 1e-38 < x <= 1 for x in found
    )
    if not (is_right and found and num_labels in (0, len(found))):
        raise ValueError(
            f"{where}: thresholds is {quoted(found)}; it should be a list of "
            f"{num_labels or 'one or more'} numbers above 0 and at most 1, one "
            f"for each label. {_FIX}"
        )
