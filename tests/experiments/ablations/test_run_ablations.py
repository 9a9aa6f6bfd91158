"""Results of finished runs -> a report; and run_ablations end to end."""

import json
import pathlib
import shlex

import experiment_plans
import pytest
from ablation_examples import (
    TASKS,
    make_settings,
    write_perplexity,
    write_result,
)

from experiments import commands
from experiments.ablations import (
    checks,
    figure,
    report,
    results,
    run_ablations,
    tables,
)
from experiments.ablations.settings import Settings
from experiments.ablations.tables import PERPLEXITY, Model
from experiments.dev_scores import Score
from run_scripts.flags import common_flags

BASE = Model(4, 64, 4)


def test_scores_are_those_of_finished_seeds_and_the_last_step(tmp_path):
    settings = make_settings(str(tmp_path), num_seeds=3)
    rows = tables.make(["5", "6", "8", "figure5"], BASE, 4)
    for index, value in ((0, 0.5), (2, 0.7)):
        write_result(settings, rows[0], TASKS[0], value, index=index)
        write_perplexity(settings, BASE, 20 * value, index=index)
    # The official score of SQuAD is in percent.
    write_result(settings, rows[0], TASKS[1], 40.0)
    score = Score((0.5, 0.7), "accuracy", 0.5)
    assert score.error == pytest.approx(0.1)  # 0.1414 / sqrt(2)
    scores = results.all_scores(rows, TASKS, settings)
    assert scores[0] == {"SST-2": score, "SQuAD": Score((0.4,), "f1", 0.005)}
    # Tables share a run, and points of the figure do not.
    others = [
        (row.table, row.share, row_scores)
        for row, row_scores in zip(rows[1:], scores[1:], strict=True)
        if row_scores
    ]
    perplexity = Score((10.0, 14.0), "perplexity")
    assert others == [
        ("6", 1.0, {"SST-2": score, PERPLEXITY: perplexity}),
        ("figure5", 1.0, {"SST-2": score}),
    ]
    later = make_settings(str(tmp_path), num_train_steps=200)
    found = results.all_scores(rows, TASKS, later)
    assert not any(PERPLEXITY in row_scores for row_scores in found)


def test_a_report_has_our_numbers_next_to_the_papers_and_false_claims(
    tmp_path,
):
    rows = tables.make(list(tables.TABLES), BASE, 2)
    scores = [
        {"SST-2": Score((0.5 + i / 1000,), "accuracy", 0.5)}
        for i, _ in enumerate(rows)
    ]
    found = checks.make(rows, scores, {task.name: task.kind for task in TASKS})
    settings = make_settings(str(tmp_path))
    text = report.text(rows, scores, found, TASKS, settings, 3725.0, "x")
    figure.draw(rows, scores, found, TASKS, settings)
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
    for part in (
        # 100 steps of 16 x 32 tokens; 42.6 thousand million in the paper.
        "51,200 in total; the paper's read 832,000 times as many",
        "| BERT (masked LM, next sentence) | 50.0 † | - | 84.4 | 88.4 | 86.7",
        "| no next sentence | 50.1 | - | 83.9 | 84.9 | 86.5 | 92.6 | 87.9 |",
        "- Without next sentence prediction SST-2 is lower. Here: BERT (masked "
        "LM, next sentence): 50.0; no next sentence: 50.1; standard error ",
        "Of 13 claims of the paper, 1 hold here, 3 do not, 0 ",
        "claims of ours (controls, and columns that the paper's table does ",
    ):
        assert part in text


def test_the_command_of_the_published_report_is_valid():
    root = pathlib.Path(__file__).parents[3]
    page = (root / "docs" / "ablations.md").read_text("utf-8")
    command = page.rpartition("```sh\n")[2].removesuffix("```\n")
    python, m, module, *arguments = shlex.split(command.replace("\\\n", ""))
    assert (python, m, module) == ("python", "-m", run_ablations.__name__)
    common_flags.parse(run_ablations.FLAGS, [module, *arguments], "")
    settings = common_flags.config(Settings, run_ablations.FLAGS)
    assert (settings.num_train_steps, settings.num_seeds) == (3000, 2)


@pytest.mark.slow
def test_a_plan_is_run_and_reported(tmp_path, tiny_vocab_file, monkeypatch):
    monkeypatch.setattr(commands, "run", experiment_plans.run_all)
    words = [
        "run_ablations",
        *experiment_plans.flags_of_inputs(tmp_path, tiny_vocab_file),
        *("--num_hidden_layers=1", "--hidden_size=16", "--num_seeds=1"),
        *("--num_attention_heads=2", "--max_seq_length=32"),
        *("--num_train_steps=2", "--num_checkpoints=1", "--max_eval_steps=1"),
        *("--train_batch_size=4", "--held_out_prob=0.2"),
        *("--fine_tuning_batch_size=8", "--num_train_epochs=1"),
        "--tables=figure5",
    ]
    run_ablations.main(words)
    folder = tmp_path / "out"
    text = (folder / "report.md").read_text()
    assert "## Pre-training steps (figure 5)" in text
    # The paper's curves are for MNLI.
    assert "Of 2 claims of ours" in text and "and 0 were not run." in text
    assert "claims of the paper" not in text
    written = json.loads((folder / "results.json").read_text())
    assert all(0 <= row["SST-2"][0] <= 1 for row in written["rows"])
    assert (folder / "report.png").stat().st_size > 10000
