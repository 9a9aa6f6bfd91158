"""Facts of the flags that say where SWAG's files are."""

import planted_swag as planted
import pytest
from absl import flags

from run_scripts.flags import swag_flags


@pytest.fixture
def find(monkeypatch, tmp_path):
    """Flags -> split to path, in a folder with a train.csv."""
    monkeypatch.chdir(tmp_path)
    planted.write("train.csv", planted.rows(1))
    planted.write("other.csv", planted.rows(1))

    def run(*words):
        values = flags.FlagValues()
        swag_flags.define_data(values)
        values(["swag", *words])
        return swag_flags.find_files(values)

    return run


def test_a_folder_gives_the_official_names(find):
    assert find("--data_dir=.") == {"train": "./train.csv"}
    assert find("--data_dir=.", "--dev_file=other.csv") == {
        "train": "./train.csv",
        "dev": "./other.csv",
    }


def test_without_a_folder_only_named_files_are_taken(find):
    assert find("--test_file=other.csv") == {"test": "other.csv"}


def test_there_must_be_files(find):
    with pytest.raises(ValueError, match="No data: give --data_dir=FOLDER"):
        find()
    with pytest.raises(ValueError, match="No file absent.csv"):
        find("--dev_file=absent.csv")
