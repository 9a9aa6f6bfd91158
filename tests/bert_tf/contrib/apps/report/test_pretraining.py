"""Report of a pre-training run: words, curves, the same masks at each step."""

import html
import json
import re

import exports
import numpy as np
import planted_records
import pytest

from bert_tf.contrib.apps.report import pretraining, report

TOKEN = 30
RESULTS = {"step": 2, "loss": 3.0, "masked_lm_accuracy": 0.25}
LINES = [
    {"step": 1, "masked_lm_loss": 4.0, "masked_lm_accuracy": 0.125},
    {"step": 2, "masked_lm_loss": 3.0, "masked_lm_accuracy": 0.25},
]


@pytest.fixture
def run(tmp_path):
    """Folder of a run whose second checkpoint fills each mask with a token."""
    batch = planted_records.make_batch(6, mask_share=1.0)
    records, _ = planted_records.write(tmp_path / "held_out", batch)
    folder = tmp_path / "run"
    model = exports.make_model("pretraining")
    (bias,) = (
        x for x in model.weights if x.shape == (model.config.vocab_size,)
    )
    for step in (1, 2):
        path = folder / f"checkpoints/step-{step:08d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        exports.save_model(model, "pretraining", path)
        bias.assign(np.eye(len(bias.numpy()))[TOKEN] * 1000)
    (folder / "run.json").write_text(json.dumps({"task": "pretraining"}))
    flags = f"# run_scripts.run_pretraining\n\n--eval_input_file={records}\n"
    (folder / "run.flags").write_text(flags)
    results = RESULTS | {"unigram_accuracy": 0.0625}
    (folder / "eval_results.json").write_text(json.dumps(results))
    for split, more in (("train", {}), ("eval", {"unigram_accuracy": 0.0625})):
        (folder / "logs" / split).mkdir(parents=True)
        text = "".join(json.dumps(line | more) + "\n" for line in LINES)
        (folder / "logs" / split / "steps.jsonl").write_text(text)
    return folder


def text_of(content):
    found = html.unescape(re.sub("<[^>]*>", " ", content))
    return " ".join(found.split())


def test_the_same_masks_are_filled_at_each_checkpoint(run, eagerly):
    output = run / "report.html"
    report.write([str(run)], str(output))
    content = output.read_text("utf-8")
    text = text_of(content)
    assert "<script" not in content and "http" not in content
    for expected in (
        "pre-training, run run",
        "0.25. Always answering the most frequent token has 0.0625: the score",
        "held out masked LM loss",
        "always the most frequent token",
        "text was step 1 step 2",
    ):
        assert expected in text
    with open(exports.VOCAB_FILE, encoding="utf-8") as file:
        token = file.read().split("\n")[TOKEN]
    # Two masks of each of four rows, and all are filled alike by the second.
    assert text.count("\u25b6[MASK]\u25c0") == 8
    assert text.count(f"{token} 100%") == 8
    assert pretraining.make(str(run)) == content


def test_what_is_missing_is_said(run, tmp_path):
    (run / "run.flags").unlink()
    (run / "eval_results.json").unlink()
    text = text_of(pretraining.make(str(run)))
    assert "Nothing was evaluated on held-out records" in text
    assert "No masks are filled: " in text
    for folder in (run / "checkpoints").iterdir():
        folder.rename(tmp_path / folder.name)
    text = text_of(pretraining.make(str(run)))
    assert "The run has kept no checkpoint." in text


def test_a_run_is_reported_alone(run, tmp_path):
    with pytest.raises(
        ValueError, match="run is a pre-training run, which has"
    ):
        report.write([str(tmp_path / "other"), str(run)], str(tmp_path / "x"))
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("unigram", "expected"),
    [
        (0.0625, "the score is above it."),
        (0.25, "the score is not above it."),
        (None, "0.25."),
    ],
)
def test_words_are_true(unigram, expected):
    found = pretraining.verdict(RESULTS | {"unigram_accuracy": unigram})
    assert expected in found[0]
    assert len(found) == (1 if unigram is None else 2)
    assert ("doctor" in found[-1]) == (unigram == 0.25)
