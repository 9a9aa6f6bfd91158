"""run_squad with files of its own; the rest is in tests/contracts."""

import json

import planted_squad as planted
import pytest

from run_scripts import run_squad
from tfrecords.io import json_files

PASSAGE = "the old captain sat near a ship . the crew was not there ,"


@pytest.mark.usefixtures("eagerly")
def test_a_file_to_predict_needs_no_answers(tmp_path, tiny_model_flags):
    known = planted.question(
        "a", "where ?", PASSAGE, "near a ship", is_impossible=False
    )
    asked = {"id": "x", "question": "Who?"}
    for name, question in (("train", known), ("asked", asked)):
        content = planted.article((PASSAGE, [question]), version="v2.0")
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    output = tmp_path / "run"
    run_squad.main(
        [
            "run_squad",
            *tiny_model_flags,
            f"--train_file={tmp_path / 'train.json'}",
            f"--predict_file={tmp_path / 'asked.json'}",
            f"--output_dir={output}",
            "--do_train",
            "--do_predict",
            "--version_2_with_negative",
            "--null_score_diff_threshold=-1e9",
            "--max_seq_length=24",
            "--doc_stride=7",
            "--max_query_length=5",
            "--num_train_epochs=0",  # One step.
        ]
    )
    # A threshold that is not tuned is kept as given.
    answers = json_files.read(output / "predictions/predictions.json")
    assert answers == {"x": ""}
    (step,) = (output / "checkpoints").iterdir()
    description = json_files.read(step / "model.json")
    assert description["null_score_diff_threshold"] == -1e9
