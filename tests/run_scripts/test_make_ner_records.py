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


def test_columns_are_part_of_the_records_identity(tmp_path, tiny_vocab_file):
    path = tmp_path / "train"
    path.write_text("1 the O O\n2 sea B-SEA B-X\n# end\n")
    flags = [
        f"--train_file={path}",
        f"--vocab_file={tiny_vocab_file}",
        f"--output_dir={tmp_path / 'records'}",
        "--word_column=2",
        "--comment_prefix=#",
    ]
    with pytest.raises(ValueError, match=f"{path}:3: 2 columns, '# end'"):
        run(*flags[:-1])
    path.write_text("1 the O O\n2 sea B-SEA B-SEA\n# end the file\n")
    run(*flags, "--tag_column=4")
    manifest = json.loads(
        (tmp_path / "records/train/manifest.json").read_text()
    )
    flags_there = manifest["flags"]
    assert flags_there["word_column"] == 2
    assert flags_there["tag_column"] == 4
    assert flags_there["comment_prefix"] == "#"
    run(*flags, "--tag_column=4")
    with pytest.raises(ValueError, match="tag_column 4 there, 3 now"):
        run(*flags, "--tag_column=3")


def test_records_made_before_there_were_column_flags_are_kept(
    tmp_path, tiny_vocab_file
):
    path = planted.write(tmp_path / "eng.train", planted.sentences(6))
    flags = [
        f"--train_file={path}",
        f"--vocab_file={tiny_vocab_file}",
        f"--output_dir={tmp_path / 'records'}",
        "--max_seq_length=16",
    ]
    run(*flags)
    manifest_file = tmp_path / "records/train/manifest.json"
    content = json.loads(manifest_file.read_text())
    for name in ("word_column", "tag_column", "comment_prefix"):
        assert content["flags"].pop(name) is None
    manifest_file.write_text(json.dumps(content))
    run(*flags)
    assert json.loads(manifest_file.read_text()) == content
    with pytest.raises(ValueError, match="word_column None there, 1 now"):
        run(*flags, "--word_column=1")


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
