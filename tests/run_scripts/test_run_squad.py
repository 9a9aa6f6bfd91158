"""run_squad end to end with a two-layer model, and errors."""

import json
import pathlib
from typing import NamedTuple

import planted_squad as planted
import pytest
import served

from bert_tf.tasks import squad_scores
from run_scripts import run_squad
from tfrecords.io import json_files

WORDS = "the old captain sat near a ship . the crew was not there ,".split()


@pytest.fixture(scope="module")
def base_flags(tiny_model_flags):
    return [
        *tiny_model_flags,
        "--max_seq_length=24",
        "--doc_stride=7",
        "--max_query_length=5",
        "--max_answer_length=4",
        "--n_best_size=6",
        "--train_batch_size=8",
        "--eval_batch_size=4",
        "--learning_rate=1e-2",
        "--num_train_epochs=6",
        # Tracing one length is faster than tracing several.
        "--bucket_lengths=none",
    ]


def run(*flags):
    run_squad.main(["run_squad", *map(str, flags)])


def passage(number):
    """Returns a passage of several windows, different for each number."""
    return " ".join(
        WORDS[(number + i * (number + 3)) % len(WORDS)] for i in range(40)
    )


def write(folder, version):
    """Writes train and dev files; in 2.0 some questions have no answer."""
    paragraphs = []
    for number in range(9):
        text = passage(number)
        answer = " ".join(text.split(" ")[number : number + 2])
        known = {} if version == "v1.1" else {"is_impossible": False}
        questions = [
            planted.question(
                f"{number} a", f"where was {answer} ?", text, answer, **known
            )
        ]
        if version == "v2.0":
            questions.append(
                planted.question(
                    f"{number} b", "the sea ?", text, is_impossible=True
                )
            )
        paragraphs.append((text, questions))
    content = planted.article(*paragraphs, version=version)
    for split in ("train", "dev"):
        path = folder / f"{split}-{version}.json"
        path.write_text(json.dumps(content), encoding="utf-8")
    return [
        {"id": qa["id"], "question": qa["question"], "context": text}
        for text, questions in paragraphs
        for qa in questions
    ]


class SquadRun(NamedTuple):
    """A finished run, its flags but for --do_train, its dev questions."""

    version: str
    output: pathlib.Path
    flags: list[str]
    rows: list[dict]


@pytest.fixture(scope="module", params=["v1.1", "v2.0"])
def squad_run(request, tmp_path_factory, base_flags):
    folder = tmp_path_factory.mktemp("squad")
    # Files of the other version in the same folder have no effect.
    write(folder, {"v1.1": "v2.0", "v2.0": "v1.1"}[request.param])
    rows = write(folder, request.param)
    flags = [
        f"--data_dir={folder}",
        f"--output_dir={folder / 'run'}",
        "--do_eval",
        "--do_predict",
        *base_flags,
        *["--version_2_with_negative"] * (request.param == "v2.0"),
    ]
    run(*flags, "--do_train")
    return SquadRun(request.param, folder / "run", flags, rows)


@pytest.mark.slow
def test_squad_end_to_end(squad_run, tmp_path):
    version, output, flags, rows = squad_run
    is_version_2 = version == "v2.0"
    results = json_files.read(output / "eval_results.json")
    description = json_files.read(output / "best/model.json")
    assert description["task"] == "spans"
    assert description["doc_stride"] == 7
    assert description["version_2_with_negative"] == is_version_2
    folder = output / "predictions"
    predictions = json_files.read(folder / "predictions.json")

    # The scores are those of the predictions file.
    dev = output.parent / f"dev-{version}.json"
    scores = squad_scores.score(
        *squad_scores.read_answers(str(dev)), predictions
    )
    assert scores.items() <= results["dev"].items()
    assert results["majority_baseline"]["dev"].keys() == scores.keys()
    for row in rows:
        assert predictions[row["id"]] in row["context"]
    assert (folder / "null_odds.json").exists() == is_version_2
    threshold = results["dev"].get("null_score_diff_threshold")
    assert description.get("null_score_diff_threshold") == threshold

    # --do_predict alone uses threshold and windows of the model.
    files = {file: json_files.read(file) for file in folder.iterdir()}
    (folder / "predictions.json").unlink()
    run(*flags[:2], "--do_predict", "--eval_batch_size=4")
    assert {file: json_files.read(file) for file in folder.iterdir()} == files
    if is_version_2:
        run(
            *flags,
            f"--init_checkpoint={output}",
            f"--records_dir={output / 'records'}",
            f"--output_dir={tmp_path}",
            "--null_score_diff_threshold=-1e9",
        )
        path = tmp_path / "predictions/predictions.json"
        assert set(json_files.read(path).values()) == {""}
        scores = json_files.read(tmp_path / "eval_results.json")["dev"]
        assert scores["NoAns_exact"] == 100


@pytest.mark.slow
def test_an_export_equals_the_predicted_files(squad_run, tmp_path):
    version, output, _, rows = squad_run
    answers = served.answers(output, rows, tmp_path)
    expected = json_files.read(output / "predictions/predictions.json")
    assert {row["id"]: row["answer"] for row in answers} == expected
    assert len(expected) == len(rows) >= 9
    nbest = json_files.read(output / "predictions/nbest_predictions.json")
    for row in answers:
        theirs = nbest[row["id"]]
        assert [x["answer"] for x in row["nbest"]] == [
            x["text"] for x in theirs
        ]
        assert [x["probability"] for x in row["nbest"]] == pytest.approx(
            [x["probability"] for x in theirs], abs=1e-5
        )
    if version == "v2.0":
        # Both occur, so the threshold is tested.
        assert 0 < sum(text == "" for text in expected.values()) < len(rows)
        odds = json_files.read(output / "predictions/null_odds.json")
        assert {row["id"]: row["null_odds"] for row in answers} == (
            pytest.approx(odds, abs=1e-5)
        )


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_a_file_to_predict_needs_no_answers(tmp_path, base_flags):
    write(tmp_path, "v2.0")
    asked = tmp_path / "asked.json"
    question = {"id": "x", "question": "Who?"}
    content = planted.article((passage(0), [question]), version="v2.0")
    asked.write_text(json.dumps(content))
    output = tmp_path / "run"
    run(
        f"--train_file={tmp_path / 'train-v2.0.json'}",
        f"--predict_file={asked}",
        f"--output_dir={output}",
        "--do_train",
        "--do_predict",
        "--version_2_with_negative",
        "--null_score_diff_threshold=-1e9",
        *base_flags,
        "--num_train_epochs=1",
    )
    # A threshold that is not tuned is kept as given.
    answers = json_files.read(output / "predictions/predictions.json")
    assert answers == {"x": ""}
    for step in (output / "checkpoints").iterdir():
        description = json_files.read(step / "model.json")
        assert description["null_score_diff_threshold"] == -1e9


def test_bad_input_leaves_no_records(tmp_path, base_flags):
    write(tmp_path, "v1.1")
    path = tmp_path / "train-v1.1.json"
    content = json_files.read(path)
    answer = content["data"][0]["paragraphs"][1]["qas"][0]["answers"][0]
    start = answer["answer_start"] = answer["answer_start"] + 1
    path.write_text(json.dumps(content))
    with pytest.raises(
        ValueError, match=f"question '1 a': at answer_start {start}"
    ):
        run(
            f"--data_dir={tmp_path}",
            f"--output_dir={tmp_path / 'run'}",
            "--do_train",
            *base_flags,
        )
    assert not (tmp_path / "run/records").exists()
