"""compare_records: a table, a conclusion, and an exit status."""

import counted_examples
import pytest

from tfrecords.text import vocab
from tools import compare_records, record_comparison
from tools.record_comparison import DIFFERS, SAME, UNCLEAR, Measure


@pytest.fixture
def words(tmp_path):
    """A command that compares three records with themselves."""
    vocab_file = str(tmp_path / "vocab.txt")
    vocab.write(counted_examples.ENTRIES, vocab_file)
    counted_examples.write(str(tmp_path / "set"), vocab_file)
    flags = [f"--{x}input_file={tmp_path}/set" for x in ("", "other_")]
    return ["compare_records", *flags, f"--vocab_file={vocab_file}"]


def test_records_equal_themselves_in_every_measure(words, capsys):
    compare_records.main(words)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        f"{x}: 1 sets, 3 examples" for x in ("first", "second")
    ]
    assert sum(line.endswith("  same") for line in lines) == 12
    assert lines[-1].startswith("No significant differences: ")


@pytest.mark.parametrize(
    ("verdict", "status", "end"),
    [
        (DIFFERS, 2, "Significant differences: pairs."),
        (UNCLEAR, 3, "similar: pairs. Give several sets per side"),
    ],
)
def test_the_worst_measure_is_named_and_gives_the_status(
    words, capsys, monkeypatch, verdict, status, end
):
    same = Measure("length", (1.0,), (1.0,), None, 0.9, SAME)
    other = Measure("pairs", (1.0,), (2.0,), None, 1e-6, verdict)
    monkeypatch.setattr(record_comparison, "compare", lambda *_: [same, other])
    with pytest.raises(SystemExit) as stop:
        compare_records.main(words)
    assert stop.value.code == status
    *_, line = capsys.readouterr().out.splitlines()
    assert end in line
