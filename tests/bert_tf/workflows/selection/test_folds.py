"""Folds of run_glue: a prediction for each row, killed or not."""

import json

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from bert_tf.tasks import glue
from bert_tf.tasks.texts.options import LabelledData
from bert_tf.workflows import trials
from bert_tf.workflows.selection import folds
from run_scripts import run_glue
from tfrecords.io import json_files

ROWS = [
    (f"the cat sat {i}", "abb"[i % 3], f"author {i // 2}") for i in range(12)
]


@pytest.fixture
def table(tmp_path):
    """A table of 12 rows in groups of two."""
    path = tmp_path / "table.jsonl"
    names = "text", "label", "author"
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in ROWS]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def flags(table, tiny_model_flags):
    return [
        *(f"--train_file={table}", "--text_column=text", *tiny_model_flags),
        *("--folds=3", "--group_column=author", "--max_seq_length=16"),
        *("--train_batch_size=4", "--learning_rate=1e-2"),
        *("--num_train_epochs=2", "--do_train", "--do_eval"),
    ]


def run(output_dir, *words):
    run_glue.main(["run_glue", f"--output_dir={output_dir}", *words])


@pytest.fixture
def in_this_process(monkeypatch):
    """Runs start here; kills the n-th start if `kills` has n."""
    kills, starts = set(), []

    class Process:
        def __init__(self, command, env):
            starts.append(command)
            if len(starts) in kills:
                command = [*command, "--stop_at_step=2"]
            run_glue.main(["run_glue", *command[3:]])

        def wait(self):
            return 0

        poll = wait

    monkeypatch.setattr(trials.subprocess, "Popen", Process)
    return kills


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_folds_that_were_killed_end_with_the_same_rows_and_scores(
    flags, table, tmp_path, in_this_process
):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run(whole, *flags)
    in_this_process.add(5)  # The second fold.
    with pytest.raises(BaseException, match="because of --stop_at_step"):
        run(killed, *flags)
    assert len(json_files.read(killed / "trials.json")["trials"]) == 1
    run(killed, *flags)
    for name in ("predictions/out_of_fold.jsonl", "trials.json"):
        a, b = ((x / name).read_text() for x in (whole, killed))
        assert a.replace(str(whole), "") == b.replace(str(killed), "")
    assert not (whole / "best").exists()

    lines = (whole / "predictions/out_of_fold.jsonl").read_text().splitlines()
    rows = list(map(json.loads, lines))
    assert [(row["text_a"], row["label"]) for row in rows] == [
        (text, label) for text, label, _ in ROWS
    ]
    groups = {
        (row["fold"], group)
        for row, (*_, group) in zip(rows, ROWS, strict=True)
    }
    assert len(groups) == 6 and {fold for fold, _ in groups} == {0, 1, 2}
    for fold in range(3):
        path = whole / f"trials/seed_12345-fold_{fold}/predictions/dev.jsonl"
        own = map(json.loads, path.read_text().splitlines())
        own = [{"fold": fold} | row for row in own]
        assert own == [row for row in rows if row["fold"] == fold]
    written = json_files.read(whole / "trials.json")
    (setting,) = written["settings"]
    scores = [trial["score"] for trial in written["trials"]]
    assert setting["num_runs"] == 3
    assert setting["mean"] == pytest.approx(np.mean(scores))
    assert setting["standard_deviation"] == pytest.approx(
        np.std(scores, ddof=1)
    )
    labels, predicted = ([r[x] for r in rows] for x in ("label", "predicted"))
    found = written["out_of_fold"]
    assert found["rows"] == 12
    assert found["accuracy"] == accuracy_score(labels, predicted)
    macro = f1_score(labels, predicted, average="macro")
    assert found["macro_f1"] == pytest.approx(macro)
    with pytest.raises(ValueError, match="table.jsonl has changed since"):
        table.write_text(table.read_text().replace("cat", "dog"))
        run(whole, *flags)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--folds=7"], "folds=7: train has 6 groups, and each fold needs one"),
        (["--dev_share=0.2"], "dev_share=0.2: --folds makes dev"),
        (["--fold=3"], "fold=3 should be below --folds=3"),
        (
            ["--dev_file={}"],
            "=3 takes dev from the rows of train, and there is",
        ),
        (["--do_predict"], "=3: a model of each fold is no one model"),
        (["--nodo_eval"], "and --folds train, and evaluate on dev: add"),
        (["--train_file=", "--dev_file={}", "--labels=a,b"], "takes dev from"),
        (
            ["--long_text=windows", "--steps_per_loop=2"],
            "long_text=windows cannot be used with --steps_per_loop",
        ),
    ],
)
def test_folds_that_cannot_be_are_refused_before_training(
    flags, table, tmp_path, words, message
):
    words = [word.format(table) for word in words]
    with pytest.raises(ValueError, match=message):
        run(tmp_path / "run", *flags, *words)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("label", "more", "rows", "expected"),
    [
        (
            *("a,b", {"multi_label": True, "labels": ("a", "b")}),
            [(["a"], ["a"]), (["a", "b"], ["b"]), ([], ["a"])],
            {"rows": 3, "micro_f1": 4 / 6, "macro_f1": (1 / 2 + 1) / 2},
        ),
        (
            *("1.5", {"labels": ("score",)}),
            [(1.0, 2.0), (2.0, 3.0), (3.0, 4.0)],
            {"rows": 3, "pearson": 1.0, "spearman": 1.0},
        ),
    ],
)
def test_rows_with_several_labels_or_a_score_have_their_metrics(
    tmp_path, monkeypatch, label, more, rows, expected
):
    table = tmp_path / "table.csv"
    table.write_text("text,label\n" + f'x,"{label}"\n' * 3)
    data = LabelledData(
        train_file=str(table), text_column=("text",), folds=3, **more
    )
    task = glue.from_data(data)
    assigned = folds.assign(task)
    assert sorted(assigned) == [0, 1, 2]
    for fold, (true, predicted) in zip(assigned, rows, strict=True):
        folder = tmp_path / f"{fold}" / "predictions"
        folder.mkdir(parents=True)
        row = {"label": true, "predicted": predicted}
        (folder / "dev.jsonl").write_text(json.dumps(row) + "\n")
    monkeypatch.setattr(folds.glue_examples, "read_split", lambda *a, **k: ())
    runs = [(str(tmp_path / f"{fold}"), "") for fold in range(3)]
    found = folds.write(task, runs, str(tmp_path))
    assert found == pytest.approx(expected)
