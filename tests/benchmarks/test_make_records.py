"""Ours makes records, and the table is correct; no time is checked."""

import pytest

from benchmarks import make_records
from tfrecords.io import records
from tfrecords.text import documents, text_files


@pytest.fixture
def text(tmp_path):
    for name in "ab":
        lines = [f"Line {i} of {name}.\nIt ends.\n\n" for i in range(40)]
        (tmp_path / f"{name}.txt").write_text("".join(lines))
    return tmp_path


def set_flags(text, tiny_vocab_file, *more):
    flags = [f"--input_file={text}/*.txt", f"--vocab_file={tiny_vocab_file}"]
    make_records.FLAGS(["benchmark", *flags, "--max_seq_length=32", *more])


def test_each_file_contributes_its_share_of_documents(
    text, tmp_path, tiny_vocab_file
):
    set_flags(text, tiny_vocab_file, "--max_megabytes=0.0004")
    (tmp_path / "few").mkdir()
    num_bytes = make_records.write_text(str(tmp_path / "few"))
    assert 400 < num_bytes < 480  # The last document is not truncated.
    paths = text_files.expand_inputs(f"{tmp_path}/few/*.txt")
    assert len(paths) == 2
    assert {len(d.sentences) for d in documents.read_documents(paths)} == {2}


@pytest.mark.slow
def test_a_round_of_ours_and_of_only_writing(text, tmp_path, tiny_vocab_file):
    set_flags(text, tiny_vocab_file)
    command = make_records.commands(str(text))["ours"]
    folder = tmp_path / "out"
    folder.mkdir()
    turn = make_records.run("ours", command, str(folder))
    found = records.Records.open(str(folder / "ours" / "train"))
    assert turn.num_examples == len(found) > 80
    alone = make_records.write_alone(str(folder), len(found))
    assert alone.num_examples == len(found)
    assert 0 < alone.seconds < turn.seconds
    written = records.Records.open(str(folder / "write"))
    assert written.get(range(len(found))) == found.get(range(len(found)))


def test_ratios_are_of_examples_per_second():
    rounds = [
        {
            "ours": make_records.Turn(seconds, 1000, 10**8),
            "peer": make_records.Turn(10.0, 500, 2 * 10**8),
        }
        for seconds in (1.0, 2.0, 4.0)
    ]
    ours, peer = make_records.format_table(rounds).splitlines()[2:]
    assert ours == "| ours | 1000 | 2.0 | 500 | 1.00x (1.00 to 1.00) | 100 |"
    assert peer == "| peer | 500 | 10.0 | 50 | 10.00x (5.00 to 20.00) | 200 |"
