"""JSON text or file <-> its value."""

import json
import reprlib
from collections.abc import Mapping

from tfrecords.io import atomic_files, streams


def write(path: str, content: Mapping) -> None:
    """Writes a JSON file atomically."""
    with atomic_files.atomic_file(path) as file:
        json.dump(content, file, indent=2)
        file.write("\n")


def read(path: str, expected: type = dict):
    """Returns the content of a JSON file, which in our files is an object.

    Args:
      path: path of the file.
      expected: type of the content; `object` for any.

    Raises:
      ValueError: naming the file, if it is not JSON or of another type.
    """
    streams.check_has_end(path)
    with open(path, "rb") as file:
        content = parse(file.read(), path)
    if not isinstance(content, expected):
        wanted = {dict: "one JSON object, {...}", list: "a JSON list, [...]"}
        raise ValueError(
            f"{path} should hold {wanted[expected]}; it holds "
            f"{reprlib.repr(content)}. Copy or make it again."
        )
    return content


def parse(content: bytes, source: str):
    """Returns the value of a JSON text in UTF-8, with or without a BOM.

    Raises:
      ValueError: naming `source`, if it is not JSON.
    """
    try:
        return json.loads(content.decode("utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{source} is not JSON: {error}.") from error
    except RecursionError:
        raise ValueError(
            f"{source} has JSON with brackets nested deeper than Python reads; "
            "none of its values should be. Copy or make it again."
        ) from None
