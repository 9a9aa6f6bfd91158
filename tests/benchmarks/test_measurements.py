"""What the small benchmarks measure runs; no time is checked."""

import json

import pytest

from benchmarks import input_pipeline, make_records, startup
from tfrecords import schema
from tfrecords.io import records
from tfrecords.text import documents, text_files


@pytest.mark.slow
def test_a_script_is_started_with_each_argument(tmp_path, capsys):
    path = tmp_path / "startup.json"
    startup.main(
        ["startup", "--scripts=score_squad", "--rounds=1", f"--json={path}"]
    )
    starts = json.loads(path.read_text())["starts"]
    assert [each["argument"] for each in starts] == list(startup.ARGUMENTS)
    for each in starts:
        assert len(each["seconds"]) == 1 and min(each["seconds"]) > 0
        assert min(each["peak_bytes"]) > 10e6  # Python needs 10 MB.
    assert "| score_squad | " in capsys.readouterr().out


def test_records_to_read_have_their_number_files_and_schema(tmp_path, capsys):
    sizes = {"max_seq_length": 16, "max_predictions_per_seq": 2}
    folder = str(tmp_path)
    input_pipeline.write_records(folder, "pretraining", sizes, 2005, 3)
    found = records.Records.open(folder)
    assert len(found) == 2005 and len(found.paths) == 3
    found.check(schema.SCHEMAS["pretraining"], sizes)
    assert found.get([5]) == found.get([1005]) != found.get([6])
    for step in input_pipeline.reading_steps(found, 4).values():
        step()
    input_pipeline.show(
        {"at example 10": [0.5, 0.25, 1]},
        {
            "batches, 32": [(1, 2), (3, 4)],
            "batches, streamed, 32": [(2, 2), (4.5, 4)],
        },
    )
    # The ratio of streamed batches is that of each round.
    *_, last = capsys.readouterr().out.splitlines()
    assert last.split() == "32 1.75 (1.50 to 2.00)".split()


@pytest.fixture
def text(tmp_path):
    for name in "ab":
        lines = [f"Line {i} of {name}.\nIt ends.\n\n" for i in range(40)]
        (tmp_path / f"{name}.txt").write_text("".join(lines))
    return tmp_path


def set_flags(text, tiny_vocab_file, *more):
    flags = [f"--input_file={text}/*.txt", f"--vocab_file={tiny_vocab_file}"]
    make_records.FLAGS(["benchmark", *flags, "--max_seq_length=32", *more])


def test_each_file_contributes_its_share_of_documents(text, tiny_vocab_file):
    set_flags(text, tiny_vocab_file, "--max_megabytes=0.0004")
    (text / "few").mkdir()
    num_bytes = make_records.write_text(str(text / "few"))
    assert 400 < num_bytes < 480  # The last document is not truncated.
    paths = text_files.expand_inputs(f"{text}/few/*.txt")
    assert len(paths) == 2
    assert {len(d.sentences) for d in documents.read_documents(paths)} == {2}


@pytest.mark.slow
def test_the_bare_writer_writes_what_ours_has_made(text, tiny_vocab_file):
    set_flags(text, tiny_vocab_file)
    command = make_records.commands(str(text))["ours"]
    folder = text / "out"
    folder.mkdir()
    turn = make_records.run("ours", command, str(folder))
    found = records.Records.open(str(folder / "ours" / "train"))
    assert turn.num_examples == len(found) > 80
    alone = make_records.write_alone(str(folder), len(found))
    assert alone.num_examples == len(found)
    assert 0 < alone.seconds < turn.seconds
    written = records.Records.open(str(folder / "write"))
    assert written.get(range(len(found))) == found.get(range(len(found)))
