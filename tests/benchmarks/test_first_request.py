"""A tiny export is measured, and the table is correct; no time is checked."""

import pytest

from benchmarks import first_request


def test_a_table_has_medians_and_ranges():
    rounds = {
        "without": [[2.0, 0.0, 4.0, 0.25, 0.25], [1.0, 0.0, 3.0, 0.5, 0.25]],
        "with": [[2.0, 8.0, 0.5, 0.25, 0.25]],
    }
    lines = first_request.format_table(rounds).splitlines()
    assert lines[0] == (
        "| warm-up | load, s | replay, s | first request, s | second request, "
        "s | third request, s |"
    )
    assert lines[2].startswith(
        "| without | 1.50 (1.00 to 2.00) | 0.00 (0.00 to 0.00) | 3.50 (3.00 to"
    )
    assert lines[3].count("|") == lines[1].count("|") == 7


@pytest.mark.slow
def test_an_export_is_measured(exported, capsys):
    pytest.importorskip("tensorflow_serving")
    path = exported("regression").path
    first_request.main(["main", f"--export_dir={path}", "--rounds=1"])
    without, replayed = capsys.readouterr().out.splitlines()[2:]
    assert without.startswith("| without | ")
    assert replayed.startswith("| with | ")
