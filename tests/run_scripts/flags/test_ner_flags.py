"""Facts of the flags of CoNLL files: which files, which tags."""

import pytest
from absl import flags

from run_scripts.flags import ner_flags


def values(*words):
    found = flags.FlagValues()
    ner_flags.define_data(found)
    found(["test", *map(str, words)])
    return found


def test_official_names_are_found_in_a_folder(tmp_path):
    for name in ("eng.train", "eng.testb", "my.dev"):
        (tmp_path / name).write_text("sea B-SEA\n")
    found = ner_flags.find_files(
        values(f"--data_dir={tmp_path}", "--dev_file=my.dev")
    )
    assert found == {
        "train": str(tmp_path / "eng.train"),
        "dev": str(tmp_path / "my.dev"),
        "test": str(tmp_path / "eng.testb"),
    }


def test_files_are_read_once_and_test_files_may_lack_tags(tmp_path):
    path = tmp_path / "f"
    path.write_text("sea B-SEA\n")
    read = ner_flags.make_reader(
        values("--notest_has_tags"),
        {"dev": str(path), "test": str(path)},
        ["SEA"],
    )
    assert read("dev").sentences[0].tags == ("B-SEA",)
    assert read("test").sentences[0].tags == ()
    assert read("test").sentences[0].columns == (("sea", "B-SEA"),)
    path.unlink()
    assert read("dev").entity_types == ["SEA"]


def test_labels_are_those_of_the_flag_or_the_training_file(tmp_path):
    path = tmp_path / "f"
    path.write_text("sea B-SEA\n")
    files = {"train": str(path)}
    labels = ner_flags.find_labels(values(), files, None)
    assert labels == ["O", "B-SEA", "I-SEA"]
    assert ner_flags.types_of(labels) == ["SEA"]
    labels = ner_flags.find_labels(values("--entity_types=X,SEA"), files, None)
    assert labels == ["O", "B-SEA", "I-SEA", "B-X", "I-X"]


def test_a_tagger_keeps_the_order_of_its_labels(tmp_path):
    (tmp_path / "model.json").write_text(
        '{"task": "tagging", "labels": ["O", "I-X", "B-X"]}'
    )
    labels = ner_flags.find_labels(values(), {}, str(tmp_path))
    assert labels == ["O", "I-X", "B-X"]
    same = values("--entity_types=X")
    assert ner_flags.find_labels(same, {}, str(tmp_path)) == labels
    with pytest.raises(
        ValueError, match=f"--entity_types=X,Y: {tmp_path} tags X. Leave"
    ):
        ner_flags.find_labels(values("--entity_types=X,Y"), {}, str(tmp_path))


def test_data_must_be_named():
    with pytest.raises(ValueError, match="No data in --data_dir=/none: give"):
        ner_flags.find_files(values("--data_dir=/none"))
    with pytest.raises(ValueError, match="--entity_types=LOC,MISC,ORG,PER"):
        ner_flags.find_labels(values(), {"dev": "f"}, None)
