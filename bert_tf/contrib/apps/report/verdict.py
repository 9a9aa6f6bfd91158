"""Scores, intervals and baselines of a run -> the verdict in words.

For each scored split: its score and interval, whether it is above the baselines
on the same rows, and what to do next.
"""

from collections.abc import Mapping

from bert_tf.checkpoint import run_models
from bert_tf.contrib.apps.report.run_data import RunData
from bert_tf.training import reporting

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
    "unclear": "that is within the interval, so these rows do not tell which "
    "is better",
}


def make(run: RunData) -> list[str]:
    """Returns a paragraph for each scored split, test first, and the advice."""
    results, metric = run.results, run.results["best_metric"]
    dev = [x for x in results if x.startswith("dev") and metric in results[x]]
    test = [x for x in results if x.startswith("test") and metric in results[x]]
    found = {split: _compare_all(run, split, metric) for split in test + dev}
    paragraphs = {split: text for split, (text, _) in found.items()}
    best = dev[0]  # Of several, as in MNLI, the others decide nothing.
    if run.settings and test:
        paragraphs[best] += f" The model was chosen on {best}, not on test."
    elif run.settings and results[best][metric] is not None:
        paragraphs[best] += (
            f" The model was chosen on {best}, so this score can be too good: "
            "a --test_file with labels shows more."
        )
    # By dev: what is chosen by a test file is no longer tested by it.
    advice = _advise(run, best, found[best][1])
    return [*paragraphs.values(), f"Next: {advice}"]


def beats_baseline(run: RunData, split: str) -> bool:
    """Returns whether the score of a split is above the baseline, if any."""
    if run.results["best_metric"] not in run.results.get(split, {}):
        return True
    _, found = _compare_all(run, split, run.results["best_metric"])
    return found.get("baseline", "above") == "above"


def _compare_all(
    run: RunData, split: str, metric: str
) -> tuple[str, dict[str, str]]:
    """Returns the text about a split, and baseline -> key of `_COMPARED`."""
    results, found = run.results, {}
    name, score = reporting.metric_words(metric), results[split][metric]
    text = f"{name[0].upper()}{name[1:]} on {split}: "
    if score is None:
        # A constant is no better.
        found["baseline"] = "equal"
        return f"{text}undefined, {run_models.UNDEFINED}.", found
    interval = results.get(run_models.INTERVALS, {}).get(split, {})
    if "low" in interval:
        text += (
            f"{score:.4g}. Its 95 % interval is {interval['low']:.4g} to "
            f"{interval['high']:.4g} (bootstrap over {interval['size']:,} "
            f"{interval['unit']})."
        )
    else:
        text += f"{score:.4g}. Its interval is not known."
    baselines = results[run_models.BASELINE].get(split, {})
    if metric in baselines:
        # A constant has no correlation with anything.
        value = baselines[metric] or 0.0
        name = _BASELINES.get(metric, "The best constant answer has")
        if results["task_name"] == "NER":
            name = _BASELINES["entity_f1"]
        found["baseline"] = _compare(score, interval, value)
        text += f" {name} {value:.4g}: {_COMPARED[found['baseline']]}."
    else:
        text += " There is no baseline to compare it with."
    words = results.get(run_models.WORD_BASELINE, {}).get(split, {})
    if words.get(metric) is not None:
        found["words"] = _compare(score, interval, words[metric])
        text += (
            " TF-IDF with logistic regression, which sees only words, has "
            f"{words[metric]:.4g} on the same rows: "
            f"{_COMPARED[found['words']]}."
        )
    return text, found


def _compare(score: float, interval: Mapping, other: float) -> str:
    """Returns the key of `_COMPARED` for a score and that of a baseline."""
    if score == other:
        return "equal"
    if interval.get("low", score) <= other <= interval.get("high", score):
        return "unclear"
    return "above" if score > other else "below"


def _advise(run: RunData, split: str, found: Mapping[str, str]) -> str:
    """Returns what to do next, given the comparisons with the baselines."""
    baseline, words = found.get("baseline", ""), found.get("words", "above")
    train, rows = run.manifests.get("train"), run.rows.get(split, ())
    has_wrong = any(row["predicted"] != row["label"] for row in rows)
    if rows and not has_wrong:
        return "evaluate more rows: all of these are answered right."
    read = "read the most wrong rows below, and " * has_wrong
    if not run.settings:  # It was not trained here.
        if baseline == "unclear":
            return "evaluate more rows, or train on rows of this table."
        if baseline in ("below", "equal"):
            return (
                "check that the labels of the model mean the same in this "
                "table; then train on rows of it."
            )
        return f"if the score is not enough, {read}train on rows of this table."
    is_better = baseline in ("above", "") and words == "above"
    if not is_better and train and run.labels:
        if train.num_examples < _FEW * len(run.labels):
            text = (
                f"label more rows: {train.num_examples:,} training rows of "
                f"{len(run.labels)} labels are few"
            )
            is_class = rows and isinstance(rows[0]["label"], str)
            if is_class and "few_shot" not in run.settings:
                text += "; or try run_few_shot, which needs fewer"
            return f"{text}."
    if baseline in ("below", "equal") or words in ("below", "equal"):
        return (
            "check that the loss below falls. Then try another "
            "--init_checkpoint, more --num_train_epochs, or another "
            "--learning_rate."
        )
    if not is_better:
        return (
            "evaluate more rows, which makes the interval narrower; or train "
            "longer, or from a larger --init_checkpoint."
        )
    return f"if the score is not enough, {read}label more rows."
