"""run_growth.py: each measured value is there; times are only compared."""

import pytest

from benchmarks import run_growth


@pytest.mark.slow
def test_starts_steps_and_restarts_are_measured(tmp_path, tiny_vocab_file):
    for name in "abc":
        text = "".join(f"Line {i} of {name}.\nIt ends.\n" for i in range(60))
        (tmp_path / f"{name}.txt").write_text(text)
    run_growth.FLAGS(
        [
            "benchmark",
            f"--input_file={tmp_path}/*.txt",
            f"--vocab_file={tiny_vocab_file}",
            "--times=2",
            "--steps=4",
            "--restarts=0,1",
        ]
    )
    folder = str(tmp_path)
    (start,) = run_growth.measure_starts(folder)
    assert start["examples"] > 100
    records = f"{folder}/records-2"
    (steps,) = run_growth.measure_steps(folder, records)
    undisturbed, resumed = run_growth.measure_restarts(folder, records)
    assert steps["steps"] == 4 and resumed["restarts"] == 1
    # Python alone needs 10 MB.
    assert min(steps["early_bytes"], steps["late_bytes"]) > 10e6
    assert min(resumed["seconds"], undisturbed["seconds"]) > 0
    table = run_growth.format_table([undisturbed, resumed])
    first, second = (row.split(" | ") for row in table.splitlines()[2:])
    assert first[2] == "" and second[0] == "| 1"
    added = resumed["seconds"] - undisturbed["seconds"]
    assert float(second[2]) == pytest.approx(added, 0.01)
