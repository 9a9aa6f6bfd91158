"""What the stages of a quickstart left -> the numbers of its summary.json."""

import json
import os

from bert_tf import checkpoints, model_folders


def best_state(run_dir: str) -> dict:
    """Returns `metric` and its best dev `value` of a fine-tuning run."""
    return model_folders.read_json(
        os.path.join(run_dir, "best", checkpoints.STATE)
    )


def served_accuracy(dev_file: str, predictions_file: str) -> float:
    """Returns how often the SavedModel's label is the right one."""
    with open(dev_file, encoding="utf-8") as file:
        labels = [line.rstrip("\n").split("\t")[1] for line in file][1:]
    with open(predictions_file, encoding="utf-8") as file:
        predicted = [json.loads(line)["label"] for line in file]
    pairs = list(zip(labels, predicted, strict=True))
    return sum(label == other for label, other in pairs) / len(pairs)


def summarise(
    folder: str, seconds: dict[str, float], *, has_served: bool
) -> dict:
    """Returns accuracies, the margin over the control, and seconds.

    Args:
      folder: of the quickstart.
      seconds: of each stage.
      has_served: whether labels were predicted from the SavedModel.
    """
    results = model_folders.read_json(
        os.path.join(folder, "pretrained", "eval_results.json")
    )
    names = ("masked_lm_accuracy", "unigram_accuracy", "next_sentence_accuracy")
    summary = {name: results[name] for name in names}
    for name, run in (
        ("pretrained_accuracy", "fine_tuned"),
        ("from_scratch_accuracy", "from_scratch"),
    ):
        state = best_state(os.path.join(folder, run))
        summary[name] = state["value"]
    # What the two are: accuracy, unless a GLUE task goes by another metric.
    summary["metric"] = state["metric"]
    summary["margin"] = (
        summary["pretrained_accuracy"] - summary["from_scratch_accuracy"]
    )
    if has_served:
        summary["served_accuracy"] = served_accuracy(
            os.path.join(folder, "dev.tsv"),
            os.path.join(folder, "predictions.jsonl"),
        )
    total = round(sum(seconds.values()), 1)
    return summary | {"seconds": seconds | {"total": total}}
