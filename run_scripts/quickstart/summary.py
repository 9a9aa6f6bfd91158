"""What the stages of a quickstart left -> the numbers of its summary.json."""

import os

from bert_tf.training import checkpoints
from tfrecords.io import atomic_files


def best_state(run_dir: str) -> dict:
    """Returns `metric` and its best dev `value` of a fine-tuning run."""
    return atomic_files.read_json(
        os.path.join(run_dir, checkpoints.BEST, checkpoints.STATE)
    )


def summarise(folder: str, seconds: dict[str, float], served: float) -> dict:
    """Returns accuracies, the margin over the control, and seconds.

    Args:
      folder: of the quickstart.
      seconds: of each stage.
      served: score of the SavedModel's answers.
    """
    results = atomic_files.read_json(
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
    summary["served_accuracy"] = served
    total = round(sum(seconds.values()), 1)
    return summary | {"seconds": seconds | {"total": total}}
