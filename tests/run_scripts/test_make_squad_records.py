"""make_squad_records: a folder for each split, and files are checked."""

import json
import os

import planted_squad as planted
import pytest

from run_scripts import make_squad_records
from tfrecords.io import records

PASSAGE = "The captain sat on the warm stone."


@pytest.fixture
def folder(tmp_path):
    for split, count in (("train", 3), ("dev", 2)):
        questions = [
            planted.question(f"{split} {n}", "Who sat?", PASSAGE, "captain")
            for n in range(count)
        ]
        path = tmp_path / f"{split}-v1.1.json"
        path.write_text(json.dumps(planted.article((PASSAGE, questions))))
    return tmp_path


def run(folder, vocab_file, *flags):
    make_squad_records.main(
        [
            "make_squad_records",
            f"--data_dir={folder}",
            f"--vocab_file={vocab_file}",
            f"--output_dir={folder / 'records'}",
            "--max_seq_length=24",
            *flags,
        ]
    )


def test_each_split_gets_a_folder(folder, tiny_vocab_file):
    run(folder, tiny_vocab_file, "--doc_stride=5")
    train = records.Records.open(str(folder / "records/train"))
    assert train.manifest.schema_name == "spans"
    assert train.manifest.flags["doc_stride"] == 5
    assert len(train) == 3
    dev = records.Records.open(str(folder / "records/dev"))
    assert (dev.manifest.schema_name, len(dev)) == ("encoder_inputs", 2)


def test_files_of_the_wrong_version_are_refused(folder, tiny_vocab_file):
    for split in ("train", "dev"):
        os.rename(folder / f"{split}-v1.1.json", folder / f"{split}-v2.0.json")
    with pytest.raises(ValueError, match="train-v2.0.json has version '1.1'"):
        run(folder, tiny_vocab_file, "--version_2_with_negative")
    assert not (folder / "records").exists()
