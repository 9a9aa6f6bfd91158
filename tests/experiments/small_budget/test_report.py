"""Curves of pre-training: hours follow the tokens of both sequence lengths."""

import json

import pytest

from experiments.small_budget import jobs as budget_jobs
from experiments.small_budget import report
from experiments.small_budget.jobs import Settings
from tfrecords.io import json_files


def test_hours_of_a_curve_follow_the_tokens(tmp_path):
    settings = Settings(
        output_dir=str(tmp_path),
        corpus="text",
        vocab_file="vocab.txt",
        train_hours=2.0,
    )
    # 10 steps of 64 tokens and 5 of 128: as many tokens in each phase.
    run = tmp_path / budget_jobs.pretrained_name("budget", 0)
    scored = tmp_path / budget_jobs.scored_name("budget", 0)
    for folder in (run / "logs/eval", scored):
        folder.mkdir(parents=True)
    json_files.write(
        run / "run.json",
        {
            "num_train_steps": 15,
            "phases": [10, 5],
            "sizes": [{"max_seq_length": 64}, {"max_seq_length": 128}],
        },
    )
    scores = {"masked_lm_accuracy": 0.3, "perplexity": 90.0}
    (run / "logs/eval/steps.jsonl").write_text(
        "".join(
            json.dumps(scores | {"step": step}) + "\n" for step in (5, 10, 15)
        )
    )
    assert report.read_curve("budget", 0, settings) is None
    json_files.write(
        scored / "eval_results.json",
        {"masked_lm_accuracy": 0.4, "perplexity": 80.0},
    )
    curve = report.read_curve("budget", 0, settings)
    assert curve.hours.tolist() == pytest.approx([0.5, 1.0, 2.0])
    assert (curve.steps, curve.accuracy, curve.perplexity) == (15, 0.4, 80.0)
    assert curve.accuracies.tolist() == [0.3] * 3
