"""Summary and logs of a quickstart run -> page.html: curves and tables."""

import json
import os

from bert_tf.contrib.apps.report import figures, page, pretraining
from bert_tf.training.reporting import metric_words
from bert_tf.workflows import run_history
from run_scripts.quickstart import task as quickstart_task
from tfrecords.io import atomic_files
from tfrecords.tasks import glue_tables

# Key of the summary -> words of the table.
_WORDS = {
    "masked_lm_accuracy": "masked tokens guessed",
    "unigram_accuracy": "by the most frequent token",
    "pretrained_accuracy": "dev score, pre-trained",
    "from_scratch_accuracy": "dev score, from scratch",
    "margin": "gain of pre-training",
    "served_accuracy": "dev score, SavedModel",
}


def shown(score: float | None) -> str:
    """Returns a score as text."""
    return "undefined" if score is None else f"{score:.3f}"


def _meanings(summary: dict, task: str) -> list[str]:
    """Returns a sentence on each number that needs one."""
    metric = metric_words(summary["metric"])
    return [
        f"Of the tokens masked in held-out documents, "
        f"{summary['masked_lm_accuracy']:.0%} are guessed; the most frequent "
        f"token alone gets {summary['unigram_accuracy']:.0%}.",
        f"On the task, {task}, pre-training adds {shown(summary['margin'])} to "
        f"the {metric} of the same model from scratch.",
        f"The SavedModel, in a fresh process, has "
        f"{shown(summary['served_accuracy'])}; in training it had "
        f"{shown(summary['pretrained_accuracy'])}.",
    ]


def _filled(folder: str) -> list[tuple[str, str]]:
    """Returns each sentence with the candidates for its masks."""
    with open(os.path.join(folder, "filled.jsonl"), encoding="utf-8") as file:
        answers = [json.loads(line) for line in file]
    return [
        (
            answer["text"],
            "; ".join(f"{c['token']} {c['probability']:.2f}" for c in mask[:4]),
        )
        for answer in answers
        for mask in answer["masks"]
    ]


def write(folder: str, summary: dict, task: glue_tables.GlueTask) -> None:
    """Writes `page.html` into the folder of a quickstart run.

    Args:
      folder: --output_dir of the quickstart.
      summary: content of summary.json.
      task: the task, see `task.find`.
    """
    name = "which library" if task.name == "library" else task.name
    metric, dev = summary["metric"], quickstart_task.dev_split(task)
    curves = {
        words: page.points(
            run_history.read_log(os.path.join(folder, run), dev), metric
        )
        for run, words in (
            ("fine_tuned", "pre-trained"),
            ("from_scratch", "from scratch"),
        )
    }
    title = f"{name[0].upper()}{name[1:]}: dev {metric_words(metric)} by step"
    rows = [(words, summary[key]) for key, words in _WORDS.items()] + [
        (f"{stage.replace('_', ' ')}, seconds", seconds)
        for stage, seconds in summary["seconds"].items()
    ]
    content = page.document(
        "From raw text to a served BERT: quickstart",
        page.section(
            "What the numbers mean", *page.paragraphs(_meanings(summary, name))
        ),
        page.section(
            "Training",
            *pretraining.curves(os.path.join(folder, "pretrained")),
            figures.lines(curves, title),
        ),
        page.section(
            "Masked words filled",
            page.table(("text", "guesses, by probability"), _filled(folder)),
        ),
        page.section("Summary", page.table(("", "value"), rows)),
    )
    with atomic_files.atomic_file(os.path.join(folder, "page.html")) as file:
        file.write(content)
