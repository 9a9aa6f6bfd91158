"""other_libraries.txt -> inventories for Sphinx, names as users write them."""

import functools
import importlib
import pathlib
import zlib
from typing import NamedTuple

TABLE = pathlib.Path(__file__).with_suffix(".txt")
# Libraries whose classes have other names than those that users write.
_MODULES = {"keras": "keras", "tf": "tensorflow"}


class Row(NamedTuple):
    """A name of another library."""

    name: str
    kind: str  # Role in Sphinx's Python domain: class, function, ...
    address: str  # URL of the page.

    @property
    def site(self) -> str:
        """The first part of the address."""
        return "/".join(self.address.split("/")[:3]) + "/"


def rows() -> list[Row]:
    """Returns the rows of the table."""
    lines = TABLE.read_text("utf-8").splitlines()
    return [Row(*x.split()) for x in lines if x and not x.startswith("#")]


def write_inventories(folder: pathlib.Path) -> dict[str, tuple[str, str]]:
    """Writes an inventory, such as keras.io.inv, for each site of the table.

    Returns:
      The value of `intersphinx_mapping`: name -> (site, file).
    """
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for site in sorted({row.site for row in rows()}):
        name = site.split("/")[2]
        lines = [
            f"{row.name} py:{row.kind} 1 {row.address.removeprefix(site)} -\n"
            for row in rows()
            if row.site == site
        ]
        header = (
            f"# Sphinx inventory version 2\n# Project: {name}\n"
            "# Version: \n# The rest is compressed with zlib.\n"
        )
        path = folder / f"{name}.inv"
        body = zlib.compress("".join(lines).encode())
        path.write_bytes(header.encode() + body)
        mapping[name] = (site, str(path))
    return mapping


def use_public_names() -> None:
    """Renames classes, such as keras.src.models.model.Model to keras.Model.

    Sphinx names the types in signatures by `__module__` and `__qualname__`.
    """
    for row in rows():
        library, _, rest = row.name.partition(".")
        if row.kind != "class" or library not in _MODULES:
            continue
        module = importlib.import_module(_MODULES[library])
        value = functools.reduce(getattr, rest.split("."), module)
        if f"{value.__module__}.{value.__qualname__}" != row.name:
            value.__module__, _, value.__qualname__ = row.name.rpartition(".")
