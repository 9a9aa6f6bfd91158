"""figures.py: SVG is well-formed, to scale, and its text is escaped."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from bert_tf.contrib.apps.report import figures


def parse(svg):
    root = ElementTree.fromstring(svg)
    assert root.tag == "svg" and root.get("role") == "img"
    return root


def plot(lines):
    """Returns the plot of a plot with its title and legend."""
    root = ElementTree.fromstring(lines)
    title, svg, legend = root
    assert title.text == svg.findtext("title")
    assert legend.findall("span")
    return svg


def test_points_are_to_scale():
    curves = {"a<b": [(0, 1.0), (50, 2.0), (100, 3.0)], "c": [(0, 3.0)]}
    root = plot(figures.lines(curves, 'The "loss"'))
    first, second = root.findall("polyline")
    points = [
        tuple(map(float, x.split(","))) for x in first.get("points").split()
    ]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 == pytest.approx((x0 + x2) / 2) and x2 > x0
    assert y1 == pytest.approx((y0 + y2) / 2, abs=0.1) and y2 < y0
    assert second.get("points") == f"{x0},{y2}"
    page = figures.lines(dict.fromkeys("abcdefgh", [(0, 1.0)]), "Loss")
    styles = [x.get("style") for x in plot(page).findall("polyline")]
    assert len(set(styles)) == 8 and "--c4" not in page


def test_long_curves_are_means_of_consecutive_steps():
    points = [(step, step % 2) for step in range(1000)]
    root = plot(figures.lines({"loss": points}, "Loss"))
    (curve,) = root.findall("polyline")
    heights = {x.split(",")[1] for x in curve.get("points").split()}
    assert len(curve.get("points").split()) == 200
    # Means of five values are 0.4 and 0.6.
    assert len(heights) == 2


@pytest.mark.parametrize("curves", [{}, {"a": []}])
def test_without_points_there_is_no_plot(curves):
    assert figures.lines(curves, "Loss") == ""


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0.31, 0.52, [0.35, 0.4, 0.45, 0.5]),
        (0, 90, [0, 20, 40, 60, 80]),
        (7, 7, [7]),
    ],
)
def test_ticks_are_round(low, high, ticks):
    assert figures._ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize("count", [2, 20])
def test_a_cell_is_as_dark_as_its_share_of_the_row(count):
    counts = np.zeros((count, count), int)
    counts[0, :2] = 3, 1
    labels = [f"<{i}>" for i in range(count)]
    root = parse(figures.matrix(counts.tolist(), labels))
    cells = root.findall("rect")
    assert len(cells) == count**2
    opacity = [x.get("style").rpartition(":")[2] for x in cells[:2]]
    assert opacity == ["0.66", "0.26"]
    assert cells[1].find("title").text == "<0>, predicted as <1>: 1"


def test_the_histogram_counts_all_rows():
    values = np.array([1, 1, 8, 16])
    root = parse(figures.histogram(values, 16, "Lengths", "tokens"))
    titles = [x.find("title").text for x in root.findall("rect")]
    assert titles[0] == "1 to 1: 2" and titles[15] == "16 to 16: 1"
    assert len(titles) == 16
