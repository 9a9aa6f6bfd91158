"""A script is started, and the table is correct; no time is checked."""

import json

import pytest

from benchmarks import startup


def test_a_table_has_a_row_for_each_script():
    starts = [
        startup.Start("a", "--help", [0.5, 0.25, 1.0], [2_000_000, 3_000_000]),
        startup.Start("a", "--no_such_flag", [2.0], [4_000_000]),
    ]
    assert startup.format_table(starts).splitlines()[2:] == [
        "| a | 0.50 (0.25 to 1.00) | 3 | 2.00 (2.00 to 2.00) | 4 |"
    ]


@pytest.mark.slow
def test_one_script_is_started(tmp_path, capsys):
    path = tmp_path / "startup.json"
    startup.main(
        ["startup", "--scripts=score_squad", "--rounds=1", f"--json={path}"]
    )
    starts = json.loads(path.read_text())["starts"]
    assert [each["argument"] for each in starts] == list(startup.ARGUMENTS)
    for each in starts:
        assert each["script"] == "score_squad"
        assert len(each["seconds"]) == 1 and min(each["seconds"]) > 0
        # Python needs 10 MB.
        assert min(each["peak_bytes"]) > 10e6
    assert "| score_squad | " in capsys.readouterr().out


def test_unknown_scripts_are_refused():
    with pytest.raises(ValueError, match="--scripts: 'run_gleu' should be one"):
        startup.main(["startup", "--scripts=run_gleu"])
    with pytest.raises(RuntimeError, match="no_such --help: exit status 1"):
        startup.start("no_such", "--help")
