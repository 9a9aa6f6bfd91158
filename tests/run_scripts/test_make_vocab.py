import logging
import pathlib
import subprocess
import sys

import pytest

from run_scripts import make_vocab
from tfrecords.text import vocab

TEXT = """The captain sailed north.
The ship sails north again.

Captains sail ships.
A ship sailed.
"""


@pytest.fixture
def make(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT * 3)
    (tmp_path / "b.txt").write_text(TEXT)

    def run(*more):
        make_vocab.main(
            [
                "make_vocab",
                f"--input_file={tmp_path}/a.txt,{tmp_path}/b.txt",
                f"--output_file={tmp_path}/out/vocab.txt",
                *more,
            ]
        )
        return vocab.read(f"{tmp_path}/out/vocab.txt")

    return run


def test_a_vocabulary_is_written_and_counts_are_logged(make, caplog):
    caplog.set_level(logging.INFO, logger="absl")
    entries = make("--vocab_size=150")
    assert len(entries) == 150
    assert "ship" in entries
    last = caplog.records[-1].getMessage()
    for part in (
        "vocab.txt  documents 6  sentences 16  words 76",
        "entries 150  coverage 1.00000  seconds ",
    ):
        assert part in last


def test_a_different_vocabulary_is_replaced_only_with_overwrite(make, tmp_path):
    first = make("--vocab_size=150")
    assert make("--vocab_size=150") == first
    with pytest.raises(ValueError, match="vocab.txt exists with other.*--ov"):
        make("--vocab_size=140")
    assert vocab.read(f"{tmp_path}/out/vocab.txt") == first
    assert len(make("--vocab_size=140", "--overwrite")) == 140


def test_accents_are_stripped_with_a_warning_unless_it_is_meant(
    make, tmp_path, caplog
):
    (tmp_path / "b.txt").write_text("schön ist schon\n" * 9)
    stripped = make("--vocab_size=150")
    assert "schön (9) and schon (9) -> schon" in caplog.text
    caplog.clear()
    assert make("--vocab_size=150", "--do_lower_case") == stripped
    assert "schön" in make(
        "--vocab_size=150", "--nostrip_accents", "--overwrite"
    )
    assert not [x for x in caplog.records if x.levelname != "INFO"]


@pytest.mark.slow
def test_the_command_imports_no_keras(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    code = f"""
import sys
from run_scripts import make_vocab
make_vocab.main(["", "--input_file={tmp_path}/a.txt",
    "--output_file={tmp_path}/vocab.txt", "--vocab_size=150"])
print([x for x in ("tensorflow_text", "keras") if x in sys.modules])
"""
    found = subprocess.check_output(
        [sys.executable, "-c", code],
        cwd=pathlib.Path(__file__).parents[2],
        text=True,
    )
    assert found == "['tensorflow_text']\n"
