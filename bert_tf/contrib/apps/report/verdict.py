"""Scores, intervals and baselines of a run -> the verdict in words.

For each scored split: its score and interval, whether it is above the baselines
on the same rows, and what to do next.
"""

from collections.abc import Mapping

from bert_tf.checkpoint import run_models
from bert_tf.contrib.apps.report.run_data import RunData

# Training rows of a class up to which few-shot training learns more.
_FEW = 64
_BASELINES = {
    "ndcg@10": "Passages in an arbitrary order have",
    "mrr": "Passages in an arbitrary order have",
    "entity_f1": "Each word with its most frequent tag has",
}
_COMPARED = {
    "above": "the score is above it",
    "below": "the score is below it",
    "equal": "the score is the same",
    "unclear": "it is within the interval, so these rows cannot tell which is "
    "better",
}


def make(run: RunData) -> list[str]:
    """Returns a paragraph for each scored split, test first, and the advice."""
    results, metric = run.results, run.results["best_metric"]
    dev = [x for x in results if x.startswith("dev") and metric in results[x]]
    test = [x for x in results if x.startswith("test") and metric in results[x]]
    found = {split: _compare_all(run, split, metric) for split in test + dev}
    paragraphs = [text for text, _ in found.values()]
    if run.settings and test:
        paragraphs[-1] += " The model was chosen on dev; test decided nothing."
    elif run.settings and results[dev[-1]][metric] is not None:
        paragraphs[-1] += (
            " The model was chosen on dev, so that this score can be too good: "
            "a --test_file with labels shows more."
        )
    # By dev: what is chosen by a test file is no longer tested by it.
    advice = _advise(run, dev[0], found[dev[0]][1])
    return [*paragraphs, f"Next: {advice}"]


def _compare_all(
    run: RunData, split: str, metric: str
) -> tuple[str, dict[str, str]]:
    """Returns the text about a split, and baseline -> key of `_COMPARED`."""
    results, found = run.results, {}
    score = results[split][metric]
    if score is None:
        text = f"{metric} on {split}: undefined, {run_models.UNDEFINED}."
        return text, {"baseline": "equal"}  # A constant is no better.
    interval = results.get(run_models.INTERVALS, {}).get(split, {})
    text = f"{metric} on {split}: {score:.4g}"
    if interval.get("low") is not None:
        text += (
            f", with a 95 % interval from {interval['low']:.4g} to "
            f"{interval['high']:.4g}, by drawing the {interval['size']:,} "
            f"{interval['unit']} again (bootstrap)."
        )
    else:
        text += "; its interval is not known."
    baselines = results[run_models.BASELINE].get(split, {})
    if metric in baselines:
        # A constant has no correlation with anything.
        value = baselines[metric] or 0.0
        name = _BASELINES.get(metric, "The best constant answer has")
        if results["task_name"] == "NER" and not run.labels:
            name = _BASELINES["entity_f1"]
        found["baseline"] = _compare(score, interval, value)
        text += f" {name} {value:.4g}: {_COMPARED[found['baseline']]}."
    else:
        text += " There is no baseline to compare it with."
    words = results.get(run_models.WORD_BASELINE, {}).get(split, {})
    rows = run.rows.get(split)
    if words.get(metric) is not None:
        found["words"] = _compare(score, interval, words[metric])
        text += (
            " TF-IDF with logistic regression, which sees only words, has "
            f"{words[metric]:.4g} on the same rows: "
            f"{_COMPARED[found['words']]}."
        )
    elif run.labels and rows and "text_b" not in rows[0]:
        if "train" not in run.manifests:
            text += (
                " There are no training rows at hand to fit TF-IDF with "
                "logistic regression on, and to compare it."
            )
    return text, found


def _compare(score: float, interval: Mapping, other: float) -> str:
    """Returns the key of `_COMPARED` for a score and that of a baseline."""
    if interval.get("low") is not None:
        if interval["low"] <= other <= interval["high"]:
            return "unclear"
    if score == other:
        return "equal"
    return "above" if score > other else "below"


def _advise(run: RunData, split: str, found: Mapping[str, str]) -> str:
    """Returns what to do next, given the comparisons with the baselines."""
    baseline, words = found.get("baseline", ""), found.get("words", "above")
    train = run.manifests.get("train")
    read = "read the most wrong rows below, and " * bool(run.rows.get(split))
    if not run.settings:  # It was not trained here.
        if baseline == "unclear":
            return "evaluate more rows, or train on rows of this table."
        if baseline in ("below", "equal"):
            return (
                "see whether the labels of the model mean the same in this "
                "table; then train on rows of it."
            )
        return f"if the score is not enough, {read}train on rows of this table."
    is_better = baseline in ("above", "") and words == "above"
    if not is_better and train and run.labels:
        if train.num_examples < _FEW * len(run.labels):
            return (
                f"{train.num_examples:,} training rows of {len(run.labels)} "
                "labels are few. Label more, or try run_few_shot, which needs "
                "fewer."
            )
    if baseline in ("below", "equal") or words in ("below", "equal"):
        return (
            "see whether the loss below falls. Then try another "
            "--init_checkpoint, more --num_train_epochs, or another "
            "--learning_rate."
        )
    if not is_better:
        return (
            "evaluate more rows, which makes the interval narrower; or train "
            "longer, or from a larger --init_checkpoint."
        )
    return f"if the score is not enough, {read}label more rows."
