"""run_data.py: folders that are no run with results; sessions."""

import json
import math

import pytest

from bert_tf.contrib.apps.report import report, run_data

RESULTS = {
    "task_name": "RTE",
    "step": 2,
    "best_metric": "accuracy",
    "dev": {"accuracy": 0.5},
    "majority_baseline": {},
}


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no eval_results.json. Give the"):
        run_data.read(str(tmp_path))
    results = {"step": 2, "perplexity": 8.0}
    (tmp_path / "eval_results.json").write_text(json.dumps(results))
    with pytest.raises(ValueError, match="eval_results.json is not of a fin"):
        run_data.read(str(tmp_path))


def test_runs_of_several_tasks_are_refused(tmp_path, monkeypatch):
    class Run:
        def __init__(self, name):
            self.results = {"task_name": name}

    monkeypatch.setattr(run_data, "read", Run)
    output = tmp_path / "report.html"
    with pytest.raises(ValueError, match="of several tasks: CoLA, RTE. Make"):
        report.write(["RTE", "CoLA"], str(output))
    assert not output.exists()


def test_an_error_is_a_warning(tmp_path, caplog):
    report.write_own(str(tmp_path))
    assert "there is no report.html: " in caplog.messages[-1]


def test_damaged_and_cut_lines_of_logs_are_left_out(tmp_path, caplog):
    (tmp_path / "eval_results.json").write_text(json.dumps(RESULTS))
    for split in ("train", "dev"):
        (tmp_path / "logs" / split).mkdir(parents=True)
        (tmp_path / "logs" / split / "steps.jsonl").write_text(
            '{"step": 1, "loss": 2.0}\n{"step": 2, "lo'
        )
    session = {"seconds": 1.5, "peak_memory_gb": 1}
    lines = [session, session | {"seconds": math.nan}, session]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "logs/sessions.jsonl").write_text(f'{text}{{"sec')
    run = run_data.read(str(tmp_path))
    assert run.train_log == run.dev_logs["dev"] == {1: {"loss": 2.0}}
    assert run.sessions == [session, session]
    assert "sessions.jsonl:2: seconds is nan; it should be" in caplog.text


def rows_of(*labels):
    row = {"source": "a.csv:1", "text_a": "x", "probabilities": [0.5, 0.5]}
    return [row | {"label": x, "predicted": x} for x in labels]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (rows_of("bad", "good"), ""),
        (rows_of(["bad"], ["good"]), ""),
        (rows_of(["bad", "good"], []), ""),
        (rows_of("bad"), r"dev.jsonl has 0 rows of 'good'; eval_res.* has 1"),
        (
            rows_of("bad", "good", "good"),
            "has 2 rows of 'good'; eval.* has 1",
        ),
        (rows_of("bad", "fair"), "dev.jsonl:2: the labels .* bad, good. Eval"),
        (rows_of("bad", ["good"]), "dev.jsonl:2: label is .* be a string"),
        (rows_of(["bad"], "good"), "dev.jsonl:2: label is 'good'.* be a list"),
        ([{"source": "a", "text_a": None}], "dev.jsonl:1: text_a is missing"),
        ([x | {"predicted": 1} for x in rows_of("bad")], ":1: predicted is 1;"),
        ([x | {"probabilities": [1]} for x in rows_of("bad")], "the number of"),
        ([x | {"probabilities": "x"} for x in rows_of("bad")], "should be a l"),
    ],
)
def test_rows_are_those_of_the_scores(tmp_path, rows, message):
    scores = {"f1": 0.5, "support": 1}
    classes = {"dev": {"bad": scores, "good": scores}}
    content = json.dumps(RESULTS | {"classes": classes})
    (tmp_path / "eval_results.json").write_text(content)
    (tmp_path / "predictions").mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "predictions/dev.jsonl").write_text(lines)
    if not message:
        assert run_data.read(str(tmp_path)).rows == {"dev": rows}
        return
    with pytest.raises(ValueError, match=message):
        run_data.read(str(tmp_path))


CLASS = {"f1": 0.5, "support": 3}
TWO = {"bad": CLASS, "good": CLASS}


@pytest.mark.parametrize(
    ("split", "classes", "matrix"),
    [
        ("dev", {"bad": CLASS}, [[2, 1], [0, 3]]),
        ("dev", {}, [[2, 1], [0, 3]]),
        ("dev", TWO, [[1], [1]]),
        ("dev", {"bad": CLASS, "good": CLASS | {"x": 1}}, [[2, 1], [0, 3]]),
        ("dev2", TWO, [[2, 1], [0, 3]]),
    ],
)
def test_classes_and_confusion_matrix_fit(tmp_path, split, classes, matrix):
    path = tmp_path / "eval_results.json"

    def write(split, classes, matrix):
        found = {
            "classes": {split: classes},
            "confusion_matrix": {split: matrix},
        }
        path.write_text(json.dumps(RESULTS | found))

    write("dev", TWO, [[2, 1], [0, 3]])
    assert run_data.read(str(tmp_path)).labels == ["bad", "good"]
    write(split, classes, matrix)
    with pytest.raises(ValueError, match=f"of {split} are not complete. Eval"):
        run_data.read(str(tmp_path))


def test_rows_of_scores_have_no_labels(tmp_path):
    (tmp_path / "eval_results.json").write_text(json.dumps(RESULTS))
    (tmp_path / "predictions").mkdir()
    row = {"source": "a", "text_a": "x", "label": 1.5, "predicted": 2}
    path = tmp_path / "predictions/dev.jsonl"
    path.write_text(json.dumps(row) + "\n")
    assert run_data.read(str(tmp_path)).rows == {"dev": [row]}
    path.write_text(json.dumps(row | {"label": math.inf}) + "\n")
    with pytest.raises(ValueError, match="dev.jsonl:1: label is inf; it shoul"):
        run_data.read(str(tmp_path))
