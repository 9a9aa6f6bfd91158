"""Flags of SQuAD: which files they mean, and what is said if there are none."""

import pytest
from absl import flags

from run_scripts.flags import common_flags, squad_flags
from tfrecords.tasks import squad_examples


@pytest.fixture
def values():
    found = flags.FlagValues()
    common_flags.define_max_seq_length(found, 384)
    squad_flags.define_data(found)
    squad_flags.define_answers(found)
    return found


def parse(values, *arguments):
    values(["test", *map(str, arguments)])
    return values


@pytest.fixture
def folder(tmp_path):
    for name in ("train-v1.1", "dev-v1.1", "train-v2.0", "dev-v2.0", "other"):
        (tmp_path / f"{name}.json").write_text("{}")
    return tmp_path


def test_defaults_are_the_originals(values):
    parse(values)
    assert squad_flags.settings(values) == squad_examples.Settings(
        max_seq_length=384,
        doc_stride=128,
        max_query_length=64,
        version_2_with_negative=False,
    )
    assert (values.n_best_size, values.max_answer_length) == (20, 30)


@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_a_folder_has_the_files_of_each_version(values, folder, version):
    arguments = [f"--data_dir={folder}"]
    arguments += ["--version_2_with_negative"] * (version == "v2.0")
    assert squad_flags.find_files(parse(values, *arguments)) == {
        split: str(folder / f"{split}-{version}.json")
        for split in ("train", "dev")
    }


def test_a_file_of_ones_own_stands_for_the_folders(values, folder):
    other = folder / "other.json"
    files = squad_flags.find_files(
        parse(values, f"--data_dir={folder}", f"--predict_file={other}")
    )
    assert files["test"] == str(other)
    assert set(files) == {"train", "dev", "test"}
    # A name alone is one in the folder, as for other tasks.
    by_name = parse(values, f"--data_dir={folder}", "--predict_file=other.json")
    assert squad_flags.find_files(by_name) == files


def test_the_dev_file_is_not_predicted_twice(values, folder):
    dev = folder / "dev-v1.1.json"
    files = squad_flags.find_files(
        parse(values, f"--data_dir={folder}", f"--predict_file={dev}")
    )
    assert set(files) == {"train", "dev"}


def test_absent_files_are_named(values, tmp_path):
    with pytest.raises(
        ValueError, match="--dev_file=none.json: there is no file"
    ):
        squad_flags.find_files(parse(values, "--dev_file=none.json"))


def test_no_data_is_said(values, tmp_path):
    with pytest.raises(ValueError, match="No data: give --data_dir=FOLDER of"):
        squad_flags.find_files(parse(values))
    with pytest.raises(ValueError, match=f"which {tmp_path} has not"):
        squad_flags.find_files(parse(values, f"--data_dir={tmp_path}"))
