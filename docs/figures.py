"""Code and logs of this project -> the figures of the documentation.

    python docs/figures.py [rooms packed_row ...]
    python docs/figures.py --quickstart_dir=runs/quickstart learning_curves

The second command first draws the pages of a quickstart run (page.html, its
report, bert-explore), and thins its logs to figures/data/quickstart.csv. It
needs the extras explore and browser, and Chromium: two minutes. Coordinates are
pixels; a figure is 700 pixels wide. The same code and version of matplotlib
write the same bytes.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

import matplotlib
import numpy as np
from matplotlib import patches
from matplotlib.figure import Figure

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # For `python docs/figures.py`.

from docs import pictures  # noqa: E402
from tfrecords.pretraining import (  # noqa: E402
    examples,
    masking,
    packing,
    token_files,
)
from tfrecords.pretraining.settings import Settings  # noqa: E402

FOLDER = ROOT / "docs" / "figures"
WIDTH = 700

# Colors of areas, and the same dark enough for white text.
BLUE, ORANGE, GREEN, GREY = "#bcd8f2", "#fbd0a0", "#9fd8bf", "#d5d5d5"
DARK = {BLUE: "#1f6fb4", ORANGE: "#b85c00", GREEN: "#00795a", GREY: "#6b6b6b"}
INK = "#222222"
MONOSPACE = "DejaVu Sans Mono"


# Drawing.


def canvas(height):
    """Returns a figure and axes in pixels, y downwards."""
    figure = Figure(figsize=(WIDTH / 96, height / 96), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.axis("off")
    return figure, axes


def write(axes, x, y, text, size=16, **style):
    """Writes text that begins at x and is centered vertically at y."""
    style = {"color": INK, "va": "center_baseline"} | style
    axes.text(x, y, text, fontsize=size * 0.75, **style)


def box(axes, x, y, width, height, text="", fill="white", **style):
    """Draws a rectangle with text in its middle."""
    edge = style.pop("edge", "white")
    colors = {"facecolor": fill, "edgecolor": edge, "clip_on": False}
    axes.add_patch(patches.Rectangle((x, y), width, height, **colors))
    color = "white" if fill in DARK.values() else INK
    style = {"ha": "center", "va": "center", "color": color} | style
    if text != "":
        write(axes, x + width / 2, y + height / 2, text, **style)


def arrow(axes, begin, end):
    """Draws an arrow from one point to another."""
    style = {"arrowstyle": "-|>", "color": DARK[GREY], "linewidth": 1.8}
    style |= {"shrinkA": 0, "shrinkB": 0, "mutation_scale": 14}
    axes.annotate("", end, begin, arrowprops=style)


# Architecture.

# Height of each row, its modules, a remark, and whether it is a stage.
TFRECORDS = (
    (76, "schema.py engines inspection", "features; where jobs run; checks", 0),
    (160, "text tables pretraining tasks io", "text, tables to records", 1),
    (244, "reading", "batch order, padding, dynamic masking", 1),
)
BERT_TF = (
    (382, "config.py model tasks training", "model, losses, train loop", 1),
    (466, "checkpoint", "models on disk", 1),
    (550, "serving", "exports; strings to answers", 1),
    (634, "workflows", "what commands do", 0),
    (718, "contrib", "search, runtimes, apps, formats: they use the core", 0),
)
RUN_SCRIPTS = (
    (
        852,
        "flags recipes quickstart",
        "a script is its flags and one call",
        0,
    ),
)
PANELS = (
    ("tfrecords/", "text to batches", 8, 276, BLUE, TFRECORDS),
    ("bert_tf/", "batches to a served model", 314, 440, ORANGE, BERT_TF),
    ("run_scripts/", "flags to runs", 784, 106, GREEN, RUN_SCRIPTS),
)
ARTEFACTS = {
    "text files": 112,
    "TFRecords": 196,
    "batches": 299,
    "checkpoints": 424,
    "SavedModel": 508,
    "answers": 592,
}


def rooms():
    """Draws the packages and the data flow through them."""
    figure, axes = canvas(896)
    for name, purpose, top, height, color, rows in PANELS:
        box(axes, 176, top, 516, height, fill=color)
        write(axes, 190, top + 22, name, 19, weight="bold", family=MONOSPACE)
        write(axes, 680, top + 22, purpose, 17, ha="right")
        for y, names, remark, is_stage in rows:
            left = 190
            for room in names.split():
                width = 26 + 9.8 * len(room)
                box(axes, left, y - 25, width, 32, room, family=MONOSPACE)
                left += width + 8
            write(axes, 192, y + 20, remark, 16)
            if is_stage:
                axes.plot((78, 190), (y - 9, y - 9), color=DARK[GREY], lw=1.2)
    heights = list(ARTEFACTS.values())
    for begin, end in zip(heights, heights[1:], strict=False):
        arrow(axes, (78, begin + 18), (78, end - 18))
    for name, y in ARTEFACTS.items():
        box(axes, 8, y - 18, 140, 36, name, DARK[GREY], size=18)
    for top in (284, 754):
        arrow(axes, (640, top + 30), (640, top))
        write(axes, 630, top + 15, "imports", 15, ha="right")
    return figure


# Packed rows.

DOCUMENTS = "the cat sat | it purred || a dog barks || we ran | home"
PACKED = Settings(
    max_seq_length=24,
    max_predictions_per_seq=3,
    max_examples_per_row=4,
    dupe_factor=1,
    short_seq_prob=0.0,
    random_seed=183,
)


def pack():
    """Returns a vocabulary and the packed row of `DOCUMENTS`."""
    sentences = [text.split("|") for text in DOCUMENTS.split("||")]
    words = DOCUMENTS.replace("|", "").split()
    entries = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", *words]
    lengths = [len(text.split()) for texts in sentences for text in texts]
    documents = token_files.Documents(
        tokens=np.array([entries.index(word) for word in words]),
        sentence_bounds=np.cumsum([0, *lengths]),
        document_bounds=np.cumsum([0, *map(len, sentences)]),
        numbers=np.arange(len(sentences)),
    )
    vocabulary = masking.Vocabulary.of(entries)
    (row,) = examples.make_examples(
        documents, vocabulary, PACKED, 0, collections.Counter()
    )
    return entries, row


def packed_row():
    """Draws a row that examples share, and the same in rows of their own."""
    entries, packed = pack()
    row = {name: array[0] for name, array in packed.items()}
    unpacked, _ = packing.separate(packed)
    light = ["white", BLUE, ORANGE, GREEN]
    figure, axes = canvas(614)

    def draw_cells(left, top, name, values, numbers, height=28, **style):
        """Draws values, each in the color of its example; 0 is padding."""
        write(axes, left, top - 13, name, 15.5, family=MONOSPACE)
        for i, (value, number) in enumerate(zip(values, numbers, strict=True)):
            fill = DARK[light[number]] if value == "[MASK]" else light[number]
            style["edge"] = "white" if number else GREY
            box(axes, left + 28 * i, top, 28, height, value, fill, **style)

    def draw_tokens(top, name, ids, numbers):
        tokens = [entries[i] if i else "" for i in ids]
        draw_cells(14, top, name, tokens, numbers, 62, rotation=90, size=15)

    numbers = row["example_numbers"]
    draw_tokens(58, "input_word_ids", row["input_word_ids"], numbers)
    # Slots of examples, and of masked tokens: 0 where they are unused.
    is_example = row["next_sentence_weights"].astype(int)
    slots = np.arange(1, 1 + len(is_example)) * is_example
    is_masked = row["masked_lm_weights"].astype(int)
    of_masked = numbers[row["masked_lm_positions"]] * is_masked
    for left, top, name, owners in (
        (14, 150, "input_type_ids", numbers),
        (14, 206, "position_ids", numbers),
        (14, 262, "example_numbers", numbers),
        (14, 318, "cls_positions", slots),
        (202, 318, "next_sentence_labels", slots),
        (458, 318, "masked_lm_positions", of_masked),
    ):
        draw_cells(left, top, name, row[name].tolist(), owners, size=15)
    for i, ids in enumerate(unpacked["input_word_ids"]):
        owners = unpacked["input_mask"][i] * (i + 1)
        draw_tokens(402 + 68 * i, "", ids, owners)
    for y, title, mask in (
        (18, "Three examples in one row", row["input_mask"]),
        (382, "The same in rows of their own", unpacked["input_mask"]),
    ):
        write(axes, 14, y, title, 18, weight="bold")
        text = f"{mask.sum()} of {mask.size} positions are tokens"
        write(axes, 686, y, text, 16, ha="right")
    return figure


# Attention masks.

# Tokens and their example numbers.
SINGLE = "[CLS] the cat sat [SEP] it ran [SEP] [PAD] [PAD]", "1111111100"
SHARED = "[CLS] the cat [SEP] [CLS] it ran [SEP] [PAD] [PAD]", "1111222200"


def make_masks():
    """Returns a title, tokens, example numbers and attention [S, S] of each."""
    import tensorflow as tf

    from bert_tf.model import fused, layers

    single, shared = (
        tf.constant([[int(digit) for digit in digits]])
        for _, digits in (SINGLE, SHARED)
    )
    blocks = layers.packed_attention_mask(shared)
    scores = tf.zeros((1, 1, 10, 1))  # All equal before the mask.
    return [
        (
            title,
            tokens.split(),
            [int(digit) for digit in digits],
            fused.attention_weights(scores, scores, mask).numpy()[0, 0] > 0,
        )
        for title, (tokens, digits), mask in (
            ("Padding mask", SINGLE, single),
            ("Packed row", SHARED, blocks),
            ("Causal", SINGLE, layers.causal_mask(single)),
            ("Packed row, causal", SHARED, layers.causal_mask(blocks)),
        )
    ]


def attention_masks():
    """Draws which positions (columns) each position (a row) attends to."""
    figure, axes = canvas(796)
    size = 27  # Width and height of a cell.
    style = {"size": 15, "color": DARK[GREY]}
    for i, (title, tokens, numbers, attends) in enumerate(make_masks()):
        left, top = 62 + 352 * (i % 2), 92 + 376 * (i // 2)
        write(axes, left, top - 76, title, 18, weight="bold")
        for row, token in enumerate(tokens):
            y = top + size * row
            write(axes, left - 6, y + size / 2, token, ha="right", **style)
            x = left + size * (row + 0.6)
            turned = {"rotation": 90, "va": "bottom", "ha": "center"}
            write(axes, x, top - 6, token, **style, **turned)
            dark = DARK[(GREY, BLUE, ORANGE)[numbers[row]]]
            for column, is_seen in enumerate(attends[row]):
                x = left + size * column
                fill = dark if is_seen else "white"
                box(axes, x, y, size, size, "", fill, edge=GREY)
    text = "Each position (row) attends to the filled columns."
    write(axes, WIDTH / 2, 772, text, 17, ha="center")
    return figure


# Masking.

TEXT = (
    "[CLS] a young phil ##har ##mon ##ic played out ##side in the warm even "
    "##ing rain [SEP]"
)
SEEDS = {"tokens": 46, "words": 46, "spans": 44}  # Keys: masking.UNITS.


def mask_text(unit, seed):
    """Returns the tokens that the model reads, and positions of masked ones."""
    words = TEXT.split()
    entries = list(dict.fromkeys(["[PAD]", "[MASK]", *words]))
    masked = masking.mask(
        np.array([[entries.index(word) for word in words]]),
        np.array([len(words)]),
        np.array([seed], np.uint64),
        masking.Vocabulary.of(entries),
        masking.Rules(max_predictions_per_seq=8, masked_lm_prob=0.3, unit=unit),
    )
    tokens = [entries[i] for i in masked.input_word_ids[0]]
    return tokens, masked.positions[0][masked.weights[0] > 0].tolist()


def masking_units():
    """Draws a text masked by tokens, words and spans, and the 80/10/10 mix."""
    words = TEXT.split()
    figure, axes = canvas(690)
    mix = masking.Mix()
    kinds = {
        "mask": (DARK[BLUE], mix.mask, "[MASK]"),
        "random": (DARK[ORANGE], mix.random, "random"),
        "same": (DARK[GREEN], mix.same, "same"),
    }
    write(axes, 14, 20, "Text", 18, weight="bold")
    for row, word in enumerate(words):
        write(axes, 14, 55 + 31 * row, word, 17, va="center")
    for column, (unit, seed) in enumerate(SEEDS.items()):
        left = 116 + 194 * column
        write(axes, left, 20, f"--masking={unit}", 16.5, weight="bold")
        tokens, positions = mask_text(unit, seed)
        for row, (word, token) in enumerate(zip(words, tokens, strict=True)):
            fill, color = "white", DARK[GREY]
            if row in positions:
                kind = {"[MASK]": "mask", word: "same"}.get(token, "random")
                fill, color = kinds[kind][0], "white"
            style = {"size": 17, "color": color, "edge": GREY}
            box(axes, left, 40 + 31 * row, 184, 30, token, fill, **style)
    text = "What masked positions hold by default"
    write(axes, 14, 598, text, 18, weight="bold")
    left = 14
    for fill, share, name in kinds.values():
        width = 674 * share
        box(axes, left, 620, width, 56, f"{share:.0%}\n{name}", fill, size=15.5)
        left += width
    return figure


# Learning curves.

DATA = FOLDER / "data" / "quickstart.csv"
MOST_POINTS = 100  # Points of a curve.
LINE, FAINT, DOTS = {}, {"alpha": 0.45}, {"marker": "o", "markersize": 5}
# Panel, run, part and name in its log, color, label, style.
CURVES = (
    (0, "pretrained/train/masked_lm_loss", BLUE, "training", FAINT),
    (0, "pretrained/eval/masked_lm_loss", BLUE, "held-out", DOTS),
    (1, "pretrained/train/masked_lm_accuracy", BLUE, "training", FAINT),
    (1, "pretrained/eval/masked_lm_accuracy", BLUE, "held-out", DOTS),
    (1, "pretrained/eval/unigram_accuracy", GREY, "most frequent token", LINE),
    (2, "pretrained/train/learning_rate", BLUE, "one cycle", LINE),
    (3, "fine_tuned/dev/accuracy", BLUE, "pre-trained", DOTS),
    (3, "from_scratch/dev/accuracy", ORANGE, "from scratch", DOTS),
)
TITLES = (
    "Pre-training: masked-LM loss, nats",
    "Masked-LM accuracy",
    "Learning rate",
    "Which library: dev accuracy",
)


def thin_logs(quickstart_dir):
    """Thins the logs of a quickstart run to `DATA`."""
    from bert_tf.workflows import run_history

    def run(*command):
        return subprocess.check_output(command, text=True, cwd=ROOT).strip()

    processor = re.search(r"Model name: *(.*)", run("lscpu"))[1]
    commit = run("git", "rev-parse", "--short", "HEAD")
    text = f"# make quickstart, commit {commit}, {os.cpu_count()} x {processor}"
    lines = [text, "curve,step,value"]
    for _, curve, *_ in CURVES:
        run, part, name = curve.split("/")
        log = run_history.read_log(os.path.join(quickstart_dir, run), part)
        points = np.array(
            [(step, values[name]) for step, values in log.items()]
        )
        parts = min(len(points), MOST_POINTS)
        for group in np.array_split(points, parts):  # Means of steps.
            step, value = group.mean(axis=0)
            lines.append(f"{curve},{step:g},{value:.4g}")
    DATA.write_text("\n".join([*lines, ""]), encoding="utf-8")


def write_page(quickstart_dir):
    """Writes the page of a quickstart run again, with the code of today."""
    from run_scripts.quickstart import page, task

    folder = pathlib.Path(quickstart_dir)
    settings = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    flags = settings["glue_dir"], settings["task_name"]
    page.write(quickstart_dir, summary, task.find(quickstart_dir, *flags))


def read_curves():
    """Returns {curve: points [N, 2]} of `DATA`."""
    points = collections.defaultdict(list)
    for line in DATA.read_text(encoding="utf-8").splitlines()[2:]:
        curve, step, value = line.split(",")
        points[curve].append((float(step), float(value)))
    return {curve: np.array(pairs) for curve, pairs in points.items()}


def learning_curves():
    """Draws pre-training, and fine-tuning beside a control from scratch."""
    figure = Figure(figsize=(WIDTH / 96, 640 / 96), layout="constrained")
    panels = figure.subplots(2, 2).flat
    points = read_curves()
    for panel, curve, color, label, style in CURVES:
        style = {"color": DARK[color], "label": label} | style
        panels[panel].plot(*points[curve].T, **style)
    for axes, title in zip(panels, TITLES, strict=True):
        axes.set(title=title, xlabel="step")
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.22)}
        axes.legend(edgecolor="none", ncols=2, **place)  # It hides no line.
        axes.locator_params(nbins=5)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylim(bottom=0)
    return figure


FIGURES = {
    "rooms": rooms,
    "packed_row": packed_row,
    "attention_masks": attention_masks,
    "masking": masking_units,
    "learning_curves": learning_curves,
}
SETTINGS = {
    "font.family": "DejaVu Sans",  # Comes with matplotlib.
    "font.size": 11.5,
    "svg.fonttype": "path",
    "svg.hashsalt": "bert_tf",  # Seed of names; random by default.
}


def draw(name, folder=FOLDER):
    """Draws a figure as an SVG file; returns its path."""
    path = pathlib.Path(folder, f"{name}.svg")
    with matplotlib.rc_context(SETTINGS):
        FIGURES[name]().savefig(path, metadata={"Date": None})
    return path


def main():
    """Draws the figures named on the command line, by default all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", choices=[*FIGURES, []], metavar="name"
    )
    parser.add_argument("--quickstart_dir", help="Run to take the curves from.")
    arguments = parser.parse_args()
    if arguments.quickstart_dir:
        thin_logs(arguments.quickstart_dir)
        write_page(arguments.quickstart_dir)
        pictures.photograph(arguments.quickstart_dir)
    for name in arguments.names or FIGURES:
        print(draw(name))
        pictures.note(f"{name}.svg")


if __name__ == "__main__":
    main()
