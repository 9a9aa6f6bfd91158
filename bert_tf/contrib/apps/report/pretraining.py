"""Folder of a pre-training run -> report.html: curves, and masks filled.

The same masks of a few held-out rows are filled by each checkpoint that the run
has kept, so that one sees what is learned.

B rows, P masked slots, V vocabulary.
"""

import html
import os
import types
from collections.abc import Mapping

import numpy as np

from bert_tf.checkpoint import keras_models, run_models
from bert_tf.contrib.apps.report import figures, page
from bert_tf.contrib.apps.show_records import record_text
from bert_tf.training import reporting
from bert_tf.workflows import run_history
from bert_tf.workflows.pretraining import data
from tfrecords.options import to_index
from tfrecords.reading import batches

_ACCURACIES = "masked_lm_accuracy", "candidate_accuracy", "next_token_accuracy"
_LOSSES = ("masked_lm_loss", "next_token_loss", "next_sentence_loss")
# What bounds the time: rows, masks of each, and checkpoints.
_ROWS, _MASKS, _CHECKPOINTS = 4, 2, 6
_AROUND = 8  # Tokens shown on both sides of a mask.
_TOP = 3


def make(run_dir: str) -> str:
    """Returns the page of a pre-training run.

    Raises:
      ValueError: naming the file, if one of the run's is damaged.
    """
    settings = run_models.read_settings(run_dir)
    results = {}
    if os.path.lexists(os.path.join(run_dir, run_models.RESULTS)):
        results = run_models.read_results(run_dir)
    run = types.SimpleNamespace(
        source=run_history.read_flags(run_dir),
        settings={n: x for n, x in settings.items() if n != "config"},
        model=settings.get("config") or {},
    )
    name = os.path.basename(os.path.abspath(run_dir))
    return page.document(
        f"pre-training, run {name}",
        page.section("Verdict", *page.paragraphs(verdict(results))),
        page.section("Curves", *curves(run_dir)),
        page.section("The same masks, after more steps", _masks(run_dir, run)),
        page.section("Settings", page.settings(run)),
    )


def verdict(results: Mapping) -> list[str]:
    """Returns what the held-out scores say, and what to do next.

    Args:
      results: content of eval_results.json; empty if there is none.
    """
    name = next((x for x in _ACCURACIES if results.get(x) is not None), None)
    if not name:
        return [
            "Nothing was evaluated on held-out records, so what the model has "
            "learned is not known. Give --eval_input_file and --do_eval."
        ]
    words = reporting.metric_words(name)
    text = (
        f"{words[0].upper()}{words[1:]} on held-out records at step "
        f"{results['step']:,}: {results[name]:.4g}."
    )
    unigram = results.get("unigram_accuracy")
    if unigram is None:
        return [text]
    text += f" Always answering the most frequent token has {unigram:.4g}: "
    if results[name] > unigram:
        return [
            f"{text}the score is above it.",
            "Next: if the held-out loss below still falls, train longer "
            "(--num_train_steps); fine-tune the run on a task to see what it "
            "is worth.",
        ]
    return [
        f"{text}the score is not above it.",
        "Next: train longer (--num_train_steps), or with another "
        "--learning_rate; bert-doctor finds faults of records.",
    ]


def curves(run_dir: str) -> list[str]:
    """Returns the curves of losses and accuracies, with the baseline."""
    losses, accuracies = {}, {}
    for split, shown in (("train", "train"), ("eval", "held out")):
        log = run_history.read_log(run_dir, split)
        for names, found in ((_LOSSES, losses), (_ACCURACIES, accuracies)):
            for name in names:
                words = f"{shown} {reporting.metric_words(name)}"
                found[words] = page.points(log, name)
    baseline = page.points(log, "unigram_accuracy")
    accuracies["always the most frequent token"] = baseline
    return [
        figures.lines({n: x for n, x in found.items() if x}, title)
        for found, title in (
            (losses, "Losses by step"),
            (accuracies, "Accuracies by step"),
        )
    ]


def _masks(run_dir: str, run) -> str:
    """Returns a table: a row for each mask, a column for each checkpoint."""
    folder = os.path.join(run_dir, "checkpoints")
    steps = run_models.steps(folder)
    if not steps:
        return "<p class='soft'>The run has kept no checkpoint.</p>"
    chosen = np.linspace(0, len(steps) - 1, min(len(steps), _CHECKPOINTS))
    steps = [steps[i] for i in chosen.round().astype(int)]
    flags = run.source.flags if run.source else {}
    path = flags.get("eval_input_file") or flags.get("input_file", "")
    columns, shown = {}, []
    try:
        for step in steps:
            model, tokenizer = keras_models.load(
                os.path.join(folder, run_models.name(step))
            )
            entries = tokenizer.vocab if tokenizer else None
            if not shown:
                batch = _read(path.split(",")[0], flags, model.config)
                if "masked_lm_weights" not in batch:
                    return ""  # Of a left-to-right model.
                places = _choose(batch, entries)
                shown = [_around(batch, *x, entries) for x in places]
            logits = model(batch, training=False)["masked_lm_logits"].numpy()
            columns[step] = [
                _answers(logits[row, slot], entries) for row, slot in places
            ]
    except (ValueError, OSError) as error:
        note = f"No masks are filled: {error}"
        return f"<p class='soft'>{html.escape(note)}</p>"
    header = ("text", "was", *(f"step {step:,}" for step in steps))
    rows = zip(*zip(*shown, strict=True), *columns.values(), strict=True)
    note = (
        f"The {_TOP} likeliest tokens, with their probabilities, of the same "
        "masks at each checkpoint that the run has kept (the newest "
        "--keep_checkpoint_max)."
    )
    return f"<p class='soft'>{note}</p>{page.table(header, list(rows))}"


def _read(path: str, flags: Mapping, config) -> Mapping:
    """Returns a batch of the first records."""
    sizes = ("max_seq_length", "max_predictions_per_seq")
    given = {name: to_index(flags.get(name, "")) for name in sizes}
    opened = data.open_data(
        types.SimpleNamespace(**given, input_mode="python"), path, config, None
    )
    found = batches.evaluation_batches(
        opened.records,
        opened.task.schema,
        opened.sizes,
        batch_size=_ROWS,
        vocab_size=config.vocab_size,
        num_batches=1,
    )
    (batch,) = found.take(1)
    return batch


def _choose(batch: Mapping, entries) -> list[tuple[int, int]]:
    """Returns row and slot of some masks: of [MASK] for a word, if any are."""
    places = []
    for row, weights in enumerate(batch["masked_lm_weights"].numpy()):
        slots = np.flatnonzero(weights).tolist()
        pieces = record_text.pieces(_example(batch, row), entries)
        positions = batch["masked_lm_positions"][row].numpy()
        of_slots = {slot: pieces[positions[slot]] for slot in slots}
        masked = [x for x in slots if of_slots[x].kind == record_text.MASK]
        words = [x for x in masked if of_slots[x].original.isalpha()]
        places += [(row, x) for x in (words or masked or slots)[:_MASKS]]
    return places


def _example(batch: Mapping, row: int) -> dict[str, np.ndarray]:
    return {name: values[row].numpy() for name, values in batch.items()}


def _around(batch, row: int, slot: int, entries) -> tuple[str, str]:
    """Returns the tokens around a mask, and the token that was there."""
    example = _example(batch, row)
    place = int(example["masked_lm_positions"][slot])
    pieces = record_text.pieces(example, entries)
    first = max(0, place - _AROUND)
    shown = [piece.shown for piece in pieces[first : place + _AROUND + 1]]
    shown[place - first] = f"\u25b6{shown[place - first]}\u25c0"
    return " ".join(shown), pieces[place].original


def _answers(logits: np.ndarray, entries) -> str:
    """Returns the likeliest tokens of a mask, given its logits [V]."""
    shifted = np.exp(logits - logits.max())
    best = np.argsort(-logits, kind="stable")[:_TOP]
    return " | ".join(
        f"{record_text.name_of(int(i), entries)} "
        f"{shifted[i] / shifted.sum():.0%}"
        for i in best
    )
