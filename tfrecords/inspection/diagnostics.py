"""What was seen of a run that is to begin -> findings: a fault, and its fix."""

from collections.abc import Callable
from typing import NamedTuple

# An error spoils a run; a warning may be meant so; a note is for knowing.
ERROR, WARNING, NOTE = "error", "warning", "note"


class Diagnostic(NamedTuple):
    """One thing that was found.

    Attributes:
      severity: ERROR, WARNING or NOTE.
      check: what was looked at, in a word or two.
      text: what is there, what was expected, and what to do.
    """

    severity: str
    check: str
    text: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.check}: {self.text}"


def attempt(check: str, function: Callable, *args, **kwargs):
    """Calls what raises a ValueError for a fault.

    Args:
      check: of the finding that an error becomes.
      function: to call.
      *args: of the function.
      **kwargs: of the function.

    Returns:
      What it returns, or None; and the findings: none, or the error.
    """
    try:
        return function(*args, **kwargs), []
    except (ValueError, OSError) as error:
        return None, [Diagnostic(ERROR, check, str(error))]


def errors(found: list[Diagnostic]) -> list[Diagnostic]:
    """Returns those that spoil a run."""
    return [finding for finding in found if finding.severity == ERROR]
