"""make_ner_records: a folder for each split, and unknown tags."""

import json

import planted_ner as planted
import pytest

from run_scripts import make_ner_records
from tfrecords.io import records


def run(*flags):
    make_ner_records.main(["make_ner_records", *map(str, flags)])


def test_records_of_each_split(tmp_path, tiny_vocab_file):
    planted.write(tmp_path / "eng.train", planted.sentences(6))
    planted.write(tmp_path / "eng.testa", planted.sentences(3, 1))
    flags = [
        f"--data_dir={tmp_path}",
        f"--vocab_file={tiny_vocab_file}",
        f"--output_dir={tmp_path / 'records'}",
        "--max_seq_length=16",
    ]
    run(*flags)
    manifest = json.loads(
        (tmp_path / "records/train/manifest.json").read_text()
    )
    assert manifest["schema_name"] == "tagging"
    assert manifest["flags"]["labels"] == [
        *["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    ]
    assert manifest["statistics"]["sentences"] == 6
    assert len(records.Records.open(str(tmp_path / "records/dev"))) == 2
    before = (tmp_path / "records/dev/manifest.json").stat().st_mtime_ns
    run(*flags)
    after = (tmp_path / "records/dev/manifest.json").stat().st_mtime_ns
    assert after == before


def test_an_entity_type_missing_in_train_is_refused(tmp_path, tiny_vocab_file):
    planted.write(tmp_path / "eng.train", planted.sentences(6))
    path = planted.write(tmp_path / "eng.testa", [[("sea", "B-SEA")]])
    with pytest.raises(ValueError, match=f"{path}:3: unknown tag 'B-SEA'"):
        run(
            f"--data_dir={tmp_path}",
            f"--vocab_file={tiny_vocab_file}",
            f"--output_dir={tmp_path / 'records'}",
        )
    assert not (tmp_path / "records").exists()
