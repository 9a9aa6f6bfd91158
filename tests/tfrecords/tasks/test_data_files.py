"""data_files.py: official files, files given by flags, and missing files."""

import pathlib

import planted_swag
import pytest

from tfrecords.tasks.ner_files import NerData
from tfrecords.tasks.squad_files import SquadData
from tfrecords.tasks.swag_files import SwagData


def test_official_names_are_found_in_a_folder(tmp_path):
    for name in ("eng.train", "eng.testb", "my.dev"):
        (tmp_path / name).write_text("sea B-SEA\n")
    data = NerData(data_dir=str(tmp_path), dev_file="my.dev")
    assert data.find_files() == {
        "train": str(tmp_path / "eng.train"),
        "dev": str(tmp_path / "my.dev"),
        "test": str(tmp_path / "eng.testb"),
    }


def test_test_files_may_have_no_tags(tmp_path):
    path = tmp_path / "f"
    path.write_text("sea B-SEA\n")
    data = NerData(test_has_tags=False)
    dev, test = (data.read(split, str(path)) for split in ("dev", "test"))
    assert dev.sentences[0].tags == ("B-SEA",)
    assert dev.entity_types == ["SEA"]
    assert test.sentences[0].tags == ()
    assert test.sentences[0].columns == (("sea", "B-SEA"),)


def test_labels_come_from_the_option_or_the_training_file(tmp_path):
    path = tmp_path / "f"
    path.write_text("sea B-SEA\n")
    files = {"train": str(path)}
    assert NerData().collect_labels(files).tags == ["O", "B-SEA", "I-SEA"]
    labels = NerData(entity_types=("X", "SEA")).collect_labels(files)
    assert labels.tags == ["O", "B-SEA", "I-SEA", "B-X", "I-X"]
    path.write_text("the DET\ncat NOUN\n")
    assert NerData().collect_labels(files) == (["DET", "NOUN"], "plain")
    labels = NerData(entity_types=("NOUN", "DET", "X")).collect_labels(files)
    assert labels == (["DET", "NOUN", "X"], "plain")
    labels = NerData(entity_types=("A",), tag_scheme="IO").collect_labels({})
    assert labels == (["O", "I-A"], "IO")
    for text, tag in (("the DET\n", "DET"), ("the O\n", "O")):
        path.write_text(text)
        message = f"has no entities: every tag is {tag}.*--tag_column"
        with pytest.raises(ValueError, match=message):
            NerData().collect_labels(files)
    with pytest.raises(ValueError, match="are unknown: .*--entity_types=LOC"):
        NerData().collect_labels({"dev": "f"})


@pytest.fixture
def folder(tmp_path):
    for name in ("train-v1.1", "dev-v1.1", "train-v2.0", "dev-v2.0", "other"):
        (tmp_path / f"{name}.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_the_version_selects_the_official_files(folder, version):
    data = SquadData(
        data_dir=str(folder), version_2_with_negative=version == "v2.0"
    )
    assert data.find_files() == {
        split: str(folder / f"{split}-{version}.json")
        for split in ("train", "dev")
    }


def test_a_file_given_by_a_flag_is_in_the_folder_or_elsewhere(
    folder, monkeypatch
):
    other = str(folder / "other.json")
    files = SquadData(data_dir=str(folder), predict_file=other).find_files()
    assert files["test"] == other
    assert set(files) == {"train", "dev", "test"}
    # A bare name is looked for in the folder, as for other tasks, and then in
    # the working directory.
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    for name in ("other.json", "here.json"):
        pathlib.Path(name).write_text("{}")
    by_name = SquadData(data_dir=str(folder), predict_file="other.json")
    assert by_name.find_files() == files
    by_name = SquadData(data_dir=str(folder), predict_file="here.json")
    assert by_name.find_files()["test"] == "here.json"
    both = SquadData(
        data_dir=str(folder), predict_file="other.json, dev-v1.1.json"
    )
    assert both.find_files()["test"] == f"{other},{folder}/dev-v1.1.json"


def test_the_dev_file_is_not_predicted_twice(folder):
    dev = str(folder / "dev-v1.1.json")
    data = SquadData(data_dir=str(folder), predict_file=dev)
    assert set(data.find_files()) == {"train", "dev"}


@pytest.fixture
def swag_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    planted_swag.write("train.csv", planted_swag.rows(1))
    planted_swag.write("other.csv", planted_swag.rows(1))


def test_without_a_folder_only_files_given_by_flags_are_used(swag_folder):
    assert SwagData(data_dir=".").find_files() == {"train": "./train.csv"}
    assert SwagData(data_dir=".", dev_file="other.csv").find_files() == {
        "train": "./train.csv",
        "dev": "./other.csv",
    }
    data = SwagData(test_file="other.csv")
    assert data.find_files() == {"test": "other.csv"}


@pytest.mark.parametrize("kind", [NerData, SquadData, SwagData])
def test_missing_files_raise(kind, tmp_path):
    with pytest.raises(
        ValueError, match="--dev_file=none: there is no file none. Give "
    ):
        kind(dev_file="none").find_files()
    with pytest.raises(ValueError, match="No data: give --data_dir=FOLDER of"):
        kind().find_files()
    with pytest.raises(ValueError, match=f"; {tmp_path} has none of them"):
        kind(data_dir=str(tmp_path)).find_files()
