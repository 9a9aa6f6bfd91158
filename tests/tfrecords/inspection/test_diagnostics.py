"""findings.py: faults as lines, and what raises turned into them."""

import pytest

from tfrecords.inspection import diagnostics


def test_a_finding_is_a_line():
    found = diagnostics.Diagnostic(
        diagnostics.ERROR, "ids", "too high. Lower them."
    )
    assert str(found) == "error: ids: too high. Lower them."


def test_what_raises_becomes_an_error():
    value, found = diagnostics.attempt("number", int, "7")
    assert (value, found) == (7, [])
    value, found = diagnostics.attempt("number", int, "seven")
    assert value is None
    assert [f.severity for f in found] == [diagnostics.ERROR]
    assert "seven" in found[0].text
    _, found = diagnostics.attempt("file", open, "/nowhere/at/all")
    assert "/nowhere/at/all" in found[0].text


def test_what_is_no_mistake_of_a_user_goes_on():
    with pytest.raises(TypeError):
        diagnostics.attempt("number", int, [])


def test_errors_are_told_from_the_rest():
    found = [
        diagnostics.Diagnostic(severity, "x", "y")
        for severity in (
            diagnostics.NOTE,
            diagnostics.ERROR,
            diagnostics.WARNING,
        )
    ]
    assert diagnostics.errors(found) == [found[1]]
