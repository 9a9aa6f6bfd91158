"""The timed functions run, and the table is correct; nothing is timed."""

import pytest

from benchmarks import input_pipeline
from tfrecords import schema
from tfrecords.io import records


@pytest.mark.parametrize("name", ["pretraining", "classification"])
def test_records_can_be_written_and_read(tmp_path, name):
    sizes = {"max_seq_length": 16, "max_predictions_per_seq": 2}
    folder = str(tmp_path)
    input_pipeline.write_records(folder, name, sizes, 2005, 3)
    found = records.Records.open(folder)
    assert len(found) == 2005 and len(found.paths) == 3
    found.check(schema.SCHEMAS[name], sizes)
    assert found.get([5]) == found.get([1005]) != found.get([6])
    if name == "pretraining":
        for step in input_pipeline.reading_steps(found, 4).values():
            step()


def test_wrong_numbers_are_refused_before_the_work():
    with pytest.raises(ValueError, match="'-1' should be 0 or a positive int"):
        input_pipeline.main(["input_pipeline", "--examples=-1"])


def test_the_table_shows_medians(capsys):
    input_pipeline.show(
        {"at example 10": [0.5, 0.25, 1]},
        {
            "batches, 32": [(1, 2), (3, 4)],
            "batches, streamed, 32": [(2, 2), (4.5, 4)],
        },
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == "at example 10 0.50 (0.25 to 1.00)".split()
    assert "batches, 32 2 3".split() in map(str.split, lines)
    assert lines[-1].split() == "32 1.75 (1.50 to 2.00)".split()
