"""make_glue_records, and the flags that it shares with run_glue."""

import json

import pytest

from run_scripts import make_glue_records
from tfrecords.io import records


@pytest.fixture
def cola(tmp_path):
    folder = tmp_path / "CoLA"
    folder.mkdir()
    (folder / "train.tsv").write_text("a\t1\t\tThe sea.\na\t0\t*\tSea the.\n")
    (folder / "dev.tsv").write_text("a\t1\t\tThe ship.\n")
    return folder


def run(*flags):
    make_glue_records.main(["make_glue_records", *flags])


def test_each_split_gets_a_folder_of_records(cola, tmp_path, tiny_vocab_file):
    run(
        "--task_name=cola",
        f"--data_dir={cola}",
        f"--vocab_file={tiny_vocab_file}",
        f"--output_dir={tmp_path / 'records'}",
        "--max_seq_length=16",
    )
    assert len(records.Records.open(str(tmp_path / "records" / "train"))) == 2
    dev = json.loads((tmp_path / "records/dev/manifest.json").read_text())
    assert dev["schema_name"] == "classification"
    assert dev["sizes"] == {"max_seq_length": 16}
    assert dev["flags"]["task_name"] == "CoLA"


def test_a_custom_table(tmp_path, tiny_vocab_file):
    table = tmp_path / "mine.csv"
    table.write_text("a,b,grade\nthe sea,the ship,1.5\nhe,she,2\n")
    run(
        f"--train_file={table}",
        "--text_column=a,b",
        "--label_column=grade",
        "--labels=score",
        "--dev_share=0",
        f"--vocab_file={tiny_vocab_file}",
        f"--output_dir={tmp_path / 'records'}",
    )
    found = records.Records.open(str(tmp_path / "records" / "train"))
    assert found.manifest.schema_name == "regression"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "No data: give --task_name"),
        (["--task_name=CoLA"], "No data: give --task_name"),
        (["--task_name=glue", "--data_dir=x"], "No task named 'glue'"),
        (["--train_file=x.csv"], "--train_file=x.csv: there is no file"),
        (
            ["--dev_file=x.csv", "--text_column=a", "--labels=no,yes"],
            "--dev_file=x.csv: there is no file x.csv. Give a TSV",
        ),
    ],
)
def test_missing_and_contradicting_data_flags_are_refused(
    tmp_path, tiny_vocab_file, flags, message
):
    with pytest.raises(ValueError, match=message):
        run(
            *flags,
            f"--vocab_file={tiny_vocab_file}",
            f"--output_dir={tmp_path / 'records'}",
        )
    assert not (tmp_path / "records").exists()


def test_a_missing_vocabulary_is_named(cola, tmp_path):
    with pytest.raises(ValueError, match="No vocabulary at .*nowhere.txt"):
        run(
            "--task_name=CoLA",
            f"--data_dir={cola}",
            "--vocab_file=nowhere.txt",
            f"--output_dir={tmp_path / 'records'}",
        )
