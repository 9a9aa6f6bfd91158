"""other_libraries.txt -> inventories for Sphinx, names as users write them."""

import functools
import importlib
import pathlib
import zlib
from typing import NamedTuple

TABLE = pathlib.Path(__file__).with_suffix(".txt")
_MODULES = {"tf": "tensorflow"}


class Row(NamedTuple):
    """A name of another library."""

    name: str
    kind: str  # Of Sphinx's Python domain: class, function, ...
    address: str  # Of its page.

    @property
    def library(self) -> str:
        """The first part of the name."""
        return self.name.partition(".")[0]


def rows() -> list[Row]:
    """Returns the rows of the table."""
    lines = TABLE.read_text("utf-8").splitlines()
    return [Row(*x.split()) for x in lines if x and not x.startswith("#")]


def write_inventories(folder: pathlib.Path) -> dict[str, tuple[str, str]]:
    """Writes an `objects.inv` for each library.

    Returns:
      The value of `intersphinx_mapping`: library -> (site, file).
    """
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for library in dict.fromkeys(row.library for row in rows()):
        own = [row for row in rows() if row.library == library]
        site = "/".join(own[0].address.split("/")[:3]) + "/"
        lines = [
            f"{row.name} py:{row.kind} 1 {row.address.removeprefix(site)} -\n"
            for row in own
        ]
        header = (
            f"# Sphinx inventory version 2\n# Project: {library}\n"
            "# Version: \n# The rest is compressed with zlib.\n"
        )
        path = folder / f"{library}.inv"
        body = zlib.compress("".join(lines).encode())
        path.write_bytes(header.encode() + body)
        mapping[library] = (site, str(path))
    return mapping


def use_public_names() -> None:
    """Renames classes, such as keras.src.models.model.Model to keras.Model.

    Sphinx names the types in signatures by `__module__` and `__qualname__`.
    """
    for row in rows():
        if row.kind != "class":
            continue
        module, _, rest = row.name.partition(".")
        library = importlib.import_module(_MODULES.get(module, module))
        value = functools.reduce(getattr, rest.split("."), library)
        if f"{value.__module__}.{value.__qualname__}" != row.name:
            value.__module__, _, value.__qualname__ = row.name.rpartition(".")
