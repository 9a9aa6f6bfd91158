"""The committed figures agree with the code.

Their bytes depend on the version of matplotlib, so texts and colors are
compared.
"""

import re
import subprocess

import numpy as np
import pytest

from docs import figures
from tfrecords import schema
from tfrecords.pretraining import masking, packing


def contents(path):
    """Texts and fill colors of an SVG file, in order."""
    # Matplotlib writes each text as a comment before its glyphs.
    return re.findall(r"<!-- (.*?) -->|fill: (#\w+)", path.read_text(), re.S)


@pytest.mark.parametrize("name", figures.FIGURES)
def test_committed_figures_are_up_to_date(name, tmp_path):
    drawn = contents(figures.draw(name, tmp_path))
    assert len(drawn) > 20
    committed = contents(figures.FOLDER / f"{name}.svg")
    assert drawn == committed, f"Run python docs/figures.py {name}."


def test_the_same_code_writes_the_same_bytes(tmp_path):
    first = figures.draw("masking", tmp_path).read_bytes()
    assert figures.draw("masking", tmp_path).read_bytes() == first


def test_rooms_are_the_folders():
    for name, *_, rows in figures.PANELS:
        drawn = {room for _, rooms, *_ in rows for room in rooms.split()}
        folder = figures.ROOT / name
        assert all((folder / room).exists() for room in drawn)
        folders = {path.name for path in folder.iterdir() if path.is_dir()}
        assert folders - {"__pycache__"} <= drawn, name


def test_a_packed_row_has_all_features_of_its_examples():
    _, row = figures.pack()
    assert row.keys() == schema.PACKED_PRETRAINING.keys()
    assert row["example_numbers"].shape == (1, 24)
    assert row["example_numbers"].max() == 3
    unpacked, _ = packing.separate(row)
    joined = packing.join(unpacked, np.array([3]), figures.PACKED.sizes)
    for name, array in joined.items():
        np.testing.assert_array_equal(array, row[name], name)


def test_attention_masks_follow_from_example_numbers():
    for title, tokens, numbers, attends in figures.make_masks():
        numbers = np.array(numbers)
        is_token = np.array(tokens) != "[PAD]"
        np.testing.assert_array_equal(numbers > 0, is_token)
        expected = np.broadcast_to(is_token, attends.shape)
        if "Packed" in title:
            expected = numbers[:, None] == numbers
        if "ausal" in title:
            expected = np.tril(expected)
        np.testing.assert_array_equal(attends, expected, title)


def test_masked_units_are_tokens_words_and_spans():
    words = figures.TEXT.split()
    assert tuple(figures.SEEDS) == masking.UNITS
    for unit, seed in figures.SEEDS.items():
        tokens, positions = figures.mask_text(unit, seed)
        others = set(range(len(words))) - set(positions)
        assert all(tokens[i] == words[i] for i in others)
        assert len(positions) == 5
        cut = [
            i
            for i, word in enumerate(words)
            if word.startswith("##") and (i in others) != (i - 1 in others)
        ]
        assert bool(cut) == (unit == "tokens"), unit


def test_learning_curves_are_short_and_say_where_they_are_from():
    header = figures.DATA.read_text().splitlines()[0]
    assert re.match(r"# make quickstart, commit \w{7,}, \d+ x \w", header)
    curves = figures.read_curves()
    assert list(curves) == [curve for _, curve, *_ in figures.CURVES]
    for points in curves.values():
        assert 0 < len(points) <= figures.MOST_POINTS
        assert np.isfinite(points).all()
        assert (np.diff(points[:, 0]) > 0).all()


def test_curves_are_means_of_logged_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "DATA", tmp_path / "quickstart.csv")
    monkeypatch.setattr(figures, "MOST_POINTS", 2)
    for _, curve, *_ in figures.CURVES:
        run, part, name = curve.split("/")
        path = tmp_path / run / "logs" / part / "steps.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        names = sorted({c.split("/")[2] for _, c, *_ in figures.CURVES})
        lines = [
            "{"
            + ", ".join(f'"{n}": {step // 4}' for n in ["step", *names])
            + "}"
            for step in (4, 8, 12, 16)
        ]
        path.write_text("\n".join([*lines, ""]))
    # Of git and lscpu.
    output = "Model name: A processor\n"
    monkeypatch.setattr(subprocess, "check_output", lambda *_, **__: output)
    figures.thin_logs(tmp_path)
    assert figures.DATA.read_text().splitlines()[0].endswith("x A processor")
    curves = figures.read_curves()
    for points in curves.values():
        np.testing.assert_array_equal(points, [[1.5, 1.5], [3.5, 3.5]])
