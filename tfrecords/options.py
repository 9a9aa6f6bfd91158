"""Default, help and bounds of a setting -> field of a frozen dataclass.

A command's settings are a frozen dataclass; `run_scripts/flags` makes a flag of
each field, so that name, default and help of a setting have one home:

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
    help: str,  # The word that absl and argparse have for it.
    *,
    choices: tuple[str, ...] | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Any:
    """Returns a field of an `Options` dataclass.

    Args:
      default: value of the field if none is given; or REQUIRED.
      help: what it means, for `--help`.
      choices: the only strings that it may be.
      at_least: its least value.
      at_most: its greatest value.
    """
    metadata = {"help": help, "choices": choices}
    metadata |= {"at_least": at_least, "at_most": at_most}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Base of dataclasses whose fields are made by `option`.

    Raises:
      ValueError: for a value that is no choice or out of bounds, or a string
        where several are meant.
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
            # Written so that NaN is out of bounds.
            if least is not None and not value >= least:
                bound = f"at least {least}"
            elif most is not None and not value <= most:
                bound = f"at most {most}"
            if bound:
                raise ValueError(f"--{field.name}={value} should be {bound}.")


def kinds(cls: type) -> dict[str, type]:
    """Returns the type of each field of a dataclass; of `int | None`, int."""
    types_of = {}
    for name, hint in typing.get_type_hints(cls).items():
        if isinstance(hint, types.UnionType):
            (hint,) = set(hint.__args__) - {types.NoneType}
        types_of[name] = typing.get_origin(hint) or hint
    return types_of
