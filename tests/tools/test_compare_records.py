"""compare_records: a table, a conclusion, and an exit status."""

import pathlib

import pytest

from run_scripts import make_pretraining_records
from tools import compare_records
from tools.record_comparison import SAME, UNCLEAR, Measure

TEXT = pathlib.Path(__file__).parents[1] / "data" / "sentences.txt"
SIZES = ("--max_seq_length=32", "--max_predictions_per_seq=5")


@pytest.fixture(scope="module")
def folders(tmp_path_factory, tiny_vocab_file):
    """Folder of record sets: both modes and other masks, three seeds each."""
    root = tmp_path_factory.mktemp("records")
    kinds = {
        "ours": ["--num_processes=1"],
        "original": ["--compat=original"],
        "more_masks": ["--compat=original", "--masked_lm_prob=0.3"],
    }
    for kind, changes in kinds.items():
        for seed in range(3):
            make_pretraining_records.main(
                [
                    "make_pretraining_records",
                    f"--input_file={TEXT}",
                    f"--vocab_file={tiny_vocab_file}",
                    f"--output_dir={root / f'{kind}-{seed}'}",
                    f"--random_seed={seed}",
                    "--dupe_factor=20",
                    *SIZES,
                    *changes,
                ]
            )
    return root


@pytest.fixture
def run(folders, tiny_vocab_file, capsys):
    """Two globs, flags -> exit status and printed lines."""

    def compare(first, second, *more):
        status = 0
        try:
            compare_records.main(
                [
                    "compare_records",
                    f"--input_file={folders}/{first}/train",
                    f"--other_input_file={folders}/{second}/train",
                    f"--vocab_file={tiny_vocab_file}",
                    *more,
                ]
            )
        except SystemExit as stop:
            status = stop.code
        return status, capsys.readouterr().out.splitlines()

    return compare


def test_both_modes_give_the_same_distributions(run):
    status, lines = run("ours-*", "original-*")
    assert status == 0
    assert lines[0].startswith("first: 3 sets, ")
    assert lines[1].startswith("second: 3 sets, ")
    rows = [line for line in lines if line.endswith("  same")]
    assert len(rows) == 12
    assert lines[-1].startswith("No significant differences: ")


def test_other_masks_differ(run):
    status, lines = run("ours-*", "more_masks-*")
    assert status == 2
    assert lines[-1].startswith("Significant differences: ")
    assert "masked tokens, given the length" in lines[-1]
    (row,) = (n for n in lines if n.startswith("masked tokens, given"))
    assert row.endswith("  differs")


def test_an_unclear_measure_is_named_with_what_to_do():
    same = Measure("length", (1.0,), (1.0,), None, 0.9, SAME)
    unclear = Measure("pairs", (1.0,), (2.0,), None, 1e-6, UNCLEAR)
    verdict, line = compare_records.conclude([same, unclear], 0.01)
    assert verdict == UNCLEAR and compare_records.STATUS[verdict] == 3
    assert "similar: pairs. Give several sets per side" in line
