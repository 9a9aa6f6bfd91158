"""run_swag end to end with a two-layer model, and errors."""

import csv

import numpy as np
import planted_swag as planted
import pytest
import served

from bert_tf.tasks import swag
from run_scripts import run_glue, run_swag
from tfrecords.io import json_files


@pytest.fixture(scope="module")
def base_flags(tiny_model_flags):
    return [
        *tiny_model_flags,
        "--max_seq_length=32",
        "--train_batch_size=4",
        "--eval_batch_size=4",
        "--learning_rate=1e-3",
        "--num_train_epochs=2",
        # Each length is traced; auto would be six.
        "--bucket_lengths=24,32",
    ]


def run(*flags):
    run_swag.main(["run_swag", *map(str, flags)])


@pytest.fixture(scope="module")
def swag_run(tmp_path_factory, base_flags):
    """A finished run with four endings, and two in the test file."""
    folder = tmp_path_factory.mktemp("swag")
    planted.write(folder / "train.csv", planted.rows(10))
    planted.write(folder / "val.csv", planted.rows(6))
    cells = planted.rows(5, 2, is_labelled=False)
    for row in cells[::2]:  # So that the predictions differ.
        row[7:9] = row[8:6:-1]
    names = planted.header(2, is_labelled=False)
    planted.write(folder / "test.csv", cells, names)
    output = folder / "run"
    flags = [
        f"--data_dir={folder}",
        f"--output_dir={output}",
        "--do_train",
        "--do_eval",
        "--do_predict",
        *base_flags,
    ]
    run(*flags)
    return flags, output


@pytest.mark.slow
def test_swag_end_to_end(swag_run):
    flags, output = swag_run
    results = json_files.read(output / "eval_results.json")
    assert results["task_name"] == "SWAG"
    assert set(results["dev"]) == {"loss", "accuracy"}
    description = json_files.read(output / "best/model.json")
    assert description["task"] == "multiple_choice"
    assert "--data_dir" in (output / "run.flags").read_text()
    header, *lines = (output / "predictions/test.csv").read_text().splitlines()
    assert header == ",pred"
    rows = [line.split(",") for line in lines]
    assert [row[0] for row in rows] == ["0", "1", "2", "3", "4"]
    assert {row[1] for row in rows} <= {"0", "1"}

    # Evaluation and prediction alone reproduce the results.
    (output / "predictions/test.csv").unlink()
    again = [flag for flag in flags if flag != "--do_train"]
    run(*again, "--bucket_lengths=none")
    found = json_files.read(output / "eval_results.json")
    assert found["dev"] == pytest.approx(results["dev"])
    assert (output / "predictions/test.csv").read_text() == "\n".join(
        [header, *lines, ""]
    )


@pytest.mark.slow
def test_an_export_equals_the_predicted_files(swag_run, tmp_path):
    _, output = swag_run
    with open(output.parent / "test.csv", newline="") as file:
        rows = [
            {
                "context": row["sent1"],
                "endings": [
                    f"{row['sent2']} {row[f'ending{i}']}" for i in range(2)
                ],
            }
            for row in csv.DictReader(file)
        ]
    answers = served.answers(output, rows, tmp_path)
    with open(output / "predictions/test.csv", newline="") as file:
        expected = [int(row["pred"]) for row in csv.DictReader(file)]
    assert [row["choice"] for row in answers] == expected
    assert len(expected) == 5 and len(set(expected)) > 1


def test_the_prediction_is_the_best_ending_of_each_row(tmp_path):
    logits = np.array([[0.0, 2.0, 1.0], [3.0, 2.0, -np.inf]])
    path = tmp_path / "predictions/test.csv"
    swag.Swag().write_predictions(
        lambda split: {"logits": logits}, str(tmp_path / "predictions")
    )
    assert path.read_text() == ",pred\n0,1\n1,0\n"


def test_a_row_with_three_endings_is_refused(tmp_path, base_flags):
    rows = planted.rows(4)
    rows[2][10] = ""
    planted.write(tmp_path / "train.csv", rows)
    with pytest.raises(ValueError, match="train.csv:4: 3 endings where the"):
        run(
            f"--data_dir={tmp_path}",
            f"--output_dir={tmp_path / 'run'}",
            "--do_train",
            *base_flags,
        )
    assert not (tmp_path / "run/records").exists()


@pytest.mark.slow
def test_a_model_of_another_task_is_refused(swag_run, tmp_path):
    _, output = swag_run
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\nThe sea\t1\nsea\t0\n")
    with pytest.raises(
        ValueError, match="is a model with task multiple_choice; SST-2 has"
    ):
        run_glue.main(
            [
                "run_glue",
                "--task_name=SST-2",
                f"--data_dir={tmp_path}",
                f"--init_checkpoint={output}",
                f"--output_dir={tmp_path / 'run'}",
                "--do_eval",
                "--max_seq_length=32",
            ]
        )
