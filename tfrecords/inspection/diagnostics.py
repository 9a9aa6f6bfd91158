"""Checks before a run -> diagnostics: severity, problem, fix."""

from collections.abc import Callable
from typing import NamedTuple

# An error makes a run useless; a warning may be intended; a note only informs.
ERROR, WARNING, NOTE = "error", "warning", "note"


class Diagnostic(NamedTuple):
    """A problem, or a note, and what to do about it."""

    severity: str  # ERROR, WARNING or NOTE.
    check: str  # Name of the check, a word or two.
    text: str  # The value, the expected one, and what to do.

    def __str__(self) -> str:
        return f"{self.severity}: {self.check}: {self.text}"


def attempt(check: str, function: Callable, *args, **kwargs):
    """Calls a function and turns an error that it raises into a diagnostic.

    Returns:
      (result, []), or (None, [diagnostic]) for a ValueError or OSError.
    """
    try:
        return function(*args, **kwargs), []
    except (ValueError, OSError) as error:
        return None, [Diagnostic(ERROR, check, str(error))]


def errors(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """Returns the diagnostics that are errors."""
    return [one for one in diagnostics if one.severity == ERROR]
