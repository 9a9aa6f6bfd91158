"""Default, help and bounds of a setting -> field of a frozen dataclass.

A command's settings are a frozen dataclass; `run_scripts/flags` makes a flag
from each field, so that each setting's name, default and help are defined once:

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Windows(Options):
        doc_stride: int = option(128, "Tokens between windows.", at_least=1)
"""

import dataclasses
import errno
import math
import os
import re
import reprlib
import types
import typing
from collections.abc import Sequence
from typing import Any

REQUIRED = dataclasses.MISSING
# Largest absolute value of an integer option without bounds of its own: larger
# ones are mistakes.
MAX_INTEGER = 10**12
MAX_SEQ_LENGTH = 2**16 - 1  # Positions are stored as uint16.
# What is read of a text that is too long, see `LongTextOptions`.
LONG_TEXT = ("cut", "head_tail", "windows", "windows_max")
# Windows of a text in a record, which limits the memory of a batch.
MAX_WINDOWS = 8
MAX_BATCH_SIZE = 1_000_000
# gs://bucket/folder, and gs:/bucket/folder, as os.path.normpath leaves it.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/|.*://")

_MAX_NAMES = 10  # In a message, see `some`.
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 300  # More than `quoted` shows.


def option(
    default: Any,
    help: str,  # Named as in absl and argparse.
    *,
    choices: tuple[str, ...] | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    needs: str | None = None,
    instead_of: str | None = None,
    decides: str | None = None,
    old_name: str | None = None,
    on_disk: bool = False,
    reads: bool = False,
    writes: str | None = None,
) -> Any:
    """Returns a field of an `Options` dataclass.

    Args:
      default: the default value, or REQUIRED.
      help: the text for `--help`.
      choices: the allowed strings.
      at_least: the smallest allowed value.
      at_most: the largest allowed value.
      above: a value that is too small, as all below it.
      needs: another option, without which only the default is allowed.
      instead_of: another option that cannot be given as well; both are None by
        default.
      decides: "always" or "unless_default" if it affects the final weights of
        a run, see `TrainingConfig.decisive_settings`.
      old_name: a flag that is accepted in its place.
      on_disk: whether it is a path that cannot be in a store. Without it, a
        folder named `gs:` would be made for `gs://bucket`.
      reads: whether it is the path of an input; from a store, scripts copy it.
      writes: "file" or "folder" for the path of an output; to a store, scripts
        copy it.
    """
    metadata = {"help": help, "choices": choices}
    metadata |= {"on_disk": on_disk, "reads": reads, "writes": writes}
    metadata |= {"at_least": at_least, "at_most": at_most, "above": above}
    metadata |= {"needs": needs, "instead_of": instead_of, "decides": decides}
    metadata |= {"old_name": old_name}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Base class of dataclasses whose fields are made by `option`.

    Raises:
      ValueError: for a value that is not an allowed choice or is out of bounds,
        an option without another one that it needs, or with one that it
        replaces, a number that is not finite, an address of a store for an
        output that must be on a disk, a string instead of a tuple of strings,
        a required string that is empty, a tuple without a string that is
        required or by default None, a required one with an empty string, or a
        path as in `check_path`.
    """

    def __post_init__(self):
        types_of = field_types(type(self))
        for field in dataclasses.fields(self):
            value, known = getattr(self, field.name), field.metadata
            if value is None or not known:
                continue
            if types_of[field.name] is tuple and isinstance(value, str):
                raise ValueError(
                    f"--{field.name}={value!r} should be a tuple, such as "
                    f"{(value,)!r}."
                )
            if types_of[field.name] is tuple and field.default is REQUIRED:
                if not value or not all(map(str.strip, value)):
                    raise ValueError(
                        f"--{field.name}={','.join(value)} has an empty entry. "
                        "Give one or more, separated by commas."
                    )
            is_omitted = field.default is None and value == ()
            if is_omitted or value == "" and field.default is REQUIRED:
                raise ValueError(
                    f"--{field.name} is empty. Give a value; in a shell, the "
                    "variable that should hold it may not be set."
                )
            if known["choices"] and value not in known["choices"]:
                raise ValueError(
                    f"--{field.name}={value}: choose one of "
                    f"{', '.join(known['choices'])}."
                )
            if known["on_disk"]:
                check_on_disk(field.name, value)
            if known["reads"] or known["writes"]:
                _check_local(field.name, value)
            if _is_path(field):
                check_path(f"--{field.name}", value)
            least, most = known["at_least"], known["at_most"]
            if types_of[field.name] is int:
                least = -MAX_INTEGER if least is None else least
                most = MAX_INTEGER if most is None else most
            self._check_others(field)
            bound = ""
            # `not value >= least`, so that NaN is out of bounds.
            if least is not None and not value >= least:
                bound = f"at least {least}"
            elif most is not None and not value <= most:
                bound = f"at most {most}"
            elif isinstance(value, float) and not math.isfinite(value):
                bound = "a finite number"
            elif known["above"] is not None and not value > known["above"]:
                bound = f"above {known['above']:g}"
            if bound:
                raise ValueError(f"--{field.name}={value} should be {bound}.")

    def _check_others(self, field: dataclasses.Field) -> None:
        """Raises ValueError if other options do not fit one that is given."""
        name, value = field.name, getattr(self, field.name)
        needed, other = field.metadata["needs"], field.metadata["instead_of"]
        shown = ",".join(value) if isinstance(value, tuple) else value
        is_missing = needed and getattr(self, needed) in (None, False)
        if is_missing and value != field.default:
            raise ValueError(
                f"--{name}={shown} needs --{needed}. Add it, or omit --{name}."
            )
        if other and getattr(self, other) is not None:
            raise ValueError(
                f"--{name}={shown} is given instead of --{other}, which is "
                f"{getattr(self, other)}. Omit one of the two."
            )


def is_address(path: str) -> bool:
    """Returns whether a path is an address of a store, such as gs://bucket."""
    return bool(_ADDRESS.match(path))


def _is_path(field: dataclasses.Field) -> bool:
    """Returns whether the value of an option is a path, or several."""
    known = field.metadata
    is_marked = known["reads"] or known["writes"] or known["on_disk"]
    return is_marked or field.name.endswith(("_file", "_dir"))


def check_path(name: str, value: str | tuple[str, ...]) -> None:
    """Raises ValueError for a path with ~, or that is a loop of links.

    A shell replaces ~ only where a word begins, and not in `--flag=~/path`.

    Args:
      name: of the option, such as --output_dir.
      value: a path, or several, separated by commas if it is a string.
    """
    for path in value.split(",") if isinstance(value, str) else value:
        home = os.path.expanduser(path)
        if home != path:
            raise ValueError(
                f"{name}={path}: no shell has replaced the ~, and nothing here "
                f"does. Give {home}, or ./{path} if this is its name."
            )
        try:
            os.stat(path)
        except OSError as error:  # Others are reported when it is used.
            if error.errno == errno.ELOOP:
                raise ValueError(
                    f"{name}={path} is a loop of symbolic links. Correct the "
                    "link, or give another path."
                ) from None


def check_on_disk(name: str, path: str) -> None:
    """Raises ValueError if the path of an output is an address of a store.

    Args:
      name: name of the flag.
      path: its value.
    """
    if is_address(path):
        raise ValueError(
            f"--{name}={path} is not a path on a disk; this output cannot be "
            "written to a store. Give a local path, which may be on a mounted "
            "store."
        )


def _check_local(name: str, value: str | tuple[str, ...]) -> None:
    """Raises ValueError for an address that a script would have replaced."""
    for path in value.split(",") if isinstance(value, str) else value:
        if is_address(path):
            raise ValueError(
                f"--{name}={path} is in a store. Scripts copy inputs and "
                "outputs there; in Python, give local paths, such as those of "
                "tfrecords.io.stored_folders.fetch."
            )


def quoted(value: Any) -> str:
    """Returns a value as messages quote it, shortened to about 100 characters.

    Without reprlib, a huge value would take long, and a deep one fail.
    """
    return shortened(_REPR.repr(value))


def shortened(text: str, most: int = 100) -> str:
    """Returns a text, or its first `most` characters and "..."."""
    return text if len(text) <= most else f"{text[:most]}..."


def some(
    names: Sequence[str], separator: str = ", ", most: int = _MAX_NAMES
) -> str:
    """Returns the first names of a list, and how many more there are."""
    last = [f"and {len(names) - most} more"] * (len(names) > most)
    return separator.join([*names[:most], *last])


def to_number(value: Any) -> float:
    """Returns a cell, a word of a flag or a number as a float; NaN for others.

    Unlike `float`, it takes neither the underscores of Python's source code nor
    digits of other scripts; nan, inf and what is too large, as 1e400, are NaN.
    """
    try:
        check_plain(value)
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def to_index(word: str) -> int | None:
    """Returns a word of at most 18 digits as an int; None for others."""
    is_index = word.isdecimal() and word.isascii() and len(word) <= 18
    return int(word) if is_index else None


def check_plain(number: Any) -> None:
    """Raises ValueError for digits or underscores that only Python reads."""
    # Spaces beside it may be of any kind.
    text = number.strip() if isinstance(number, str) else ""
    if not text.isascii() or "_" in text:
        raise ValueError(
            f"{quoted(number)} should have digits from 0 to 9, and no _"
        )


def field_types(cls: type) -> dict[str, type]:
    """Returns the type of each field of a dataclass; int for `int | None`."""
    types_of = {}
    for name, hint in typing.get_type_hints(cls).items():
        if isinstance(hint, types.UnionType):
            (hint,) = set(hint.__args__) - {types.NoneType}
        types_of[name] = typing.get_origin(hint) or hint
    return types_of
