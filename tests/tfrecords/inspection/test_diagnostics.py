"""diagnostics.py: diagnostics as lines, and errors turned into them."""

import pytest

from tfrecords.inspection import diagnostics


def test_a_diagnostic_is_printed_as_one_line():
    found = diagnostics.Diagnostic(
        diagnostics.ERROR, "ids", "too high. Lower them."
    )
    assert str(found) == "error: ids: too high. Lower them."


def test_a_raised_error_becomes_a_diagnostic():
    value, found = diagnostics.attempt("number", int, "7")
    assert (value, found) == (7, [])
    value, found = diagnostics.attempt("number", int, "seven")
    assert value is None
    assert [f.severity for f in found] == [diagnostics.ERROR]
    assert "seven" in found[0].text
    _, found = diagnostics.attempt("file", open, "/nowhere/at/all")
    assert "/nowhere/at/all" in found[0].text


def test_errors_that_no_user_causes_pass_through():
    with pytest.raises(TypeError):
        diagnostics.attempt("number", int, [])


def test_errors_are_selected():
    found = [
        diagnostics.Diagnostic(severity, "x", "y")
        for severity in (
            diagnostics.NOTE,
            diagnostics.ERROR,
            diagnostics.WARNING,
        )
    ]
    assert diagnostics.errors(found) == [found[1]]
