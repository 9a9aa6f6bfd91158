"""Default, help and bounds of a setting -> field of a frozen dataclass.

A command's settings are a frozen dataclass; `run_scripts/flags` makes a flag
from each field, so that each setting's name, default and help are defined once:

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Windows(Options):
        doc_stride: int = option(128, "Tokens between windows.", at_least=1)
"""

import dataclasses
import types
import typing
from typing import Any

REQUIRED = dataclasses.MISSING


def option(
    default: Any,
    help: str,  # Named as in absl and argparse.
    *,
    choices: tuple[str, ...] | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Any:
    """Returns a field of an `Options` dataclass.

    Args:
      default: the default value, or REQUIRED.
      help: the text for `--help`.
      choices: the allowed strings.
      at_least: the smallest allowed value.
      at_most: the largest allowed value.
    """
    metadata = {"help": help, "choices": choices}
    metadata |= {"at_least": at_least, "at_most": at_most}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Base class of dataclasses whose fields are made by `option`.

    Raises:
      ValueError: for a value that is not an allowed choice or is out of bounds,
        or a string instead of a tuple of strings.
    """

    def __post_init__(self):
        types_of = kinds(type(self))
        for field in dataclasses.fields(self):
            value, known = getattr(self, field.name), field.metadata
            if value is None or not known:
                continue
            if types_of[field.name] is tuple and isinstance(value, str):
                raise ValueError(
                    f"--{field.name}={value!r} should be a tuple, such as "
                    f"{(value,)!r}."
                )
            if known["choices"] and value not in known["choices"]:
                raise ValueError(
                    f"--{field.name}={value}: choose one of "
                    f"{', '.join(known['choices'])}."
                )
            least, most = known["at_least"], known["at_most"]
            bound = ""
            # `not value >= least`, so that NaN is out of bounds.
            if least is not None and not value >= least:
                bound = f"at least {least}"
            elif most is not None and not value <= most:
                bound = f"at most {most}"
            if bound:
                raise ValueError(f"--{field.name}={value} should be {bound}.")


def kinds(cls: type) -> dict[str, type]:
    """Returns the type of each field of a dataclass; int for `int | None`."""
    types_of = {}
    for name, hint in typing.get_type_hints(cls).items():
        if isinstance(hint, types.UnionType):
            (hint,) = set(hint.__args__) - {types.NoneType}
        types_of[name] = typing.get_origin(hint) or hint
    return types_of
