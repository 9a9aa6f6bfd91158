"""Curves, confusion matrix, lengths -> SVG for a page.

Their text and lines have the colors of the page (`currentColor` and its
variables `--c0`, `--c1`, ...), so that they are readable in the dark and in
print; that, and pages without matplotlib, is why they are drawn here.
"""

import html
import math
from collections.abc import Mapping, Sequence

import numpy as np

Points = Sequence[tuple[float, float]]
_WIDTH, _HEIGHT = 420, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 12, 24
_COLORS, _DASHES = 4, ("none", "6 3", "2 2")
_MAX_POINTS = 200  # Of a curve; more are averaged.
_LETTERS = 6  # Of class names that fit above a cell.
_NUMBERED = 12  # Classes up to which a confusion matrix has numbers.


def lines(curves: Mapping[str, Points], title: str) -> str:
    """Returns a plot of curves over steps, with a legend; "" without points.

    Args:
      curves: name -> (step, value), in the order of steps.
      title: what it shows, with the word for the horizontal axis.
    """
    curves = {name: _thinned(points) for name, points in curves.items()}
    points = [point for curve in curves.values() for point in curve]
    if not points:
        return ""
    xs, ys = zip(*points, strict=True)
    x_ticks, y_ticks = _ticks(min(xs), max(xs)), _ticks(min(ys), max(ys))
    low_x, high_x = min(xs), max(max(xs), min(xs) + 1e-9)
    low_y, high_y = min(*ys, y_ticks[0]), max(*ys, y_ticks[-1])
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x_of(value):
        return _LEFT + width * (value - low_x) / (high_x - low_x)

    def y_of(value):
        return _TOP + height * (high_y - value) / ((high_y - low_y) or 1.0)

    parts, legend = [], []
    for value in y_ticks:
        y = y_of(value)
        parts += [
            f'<path class="grid" d="M{_LEFT} {y:.1f}h{width}"/>',
            _text(_LEFT - 6, y + 4, f"{value:.4g}", "end"),
        ]
    for value in x_ticks:
        parts.append(_text(x_of(value), _HEIGHT - _BOTTOM + 16, f"{value:g}"))
    for number, (name, curve) in enumerate(curves.items()):
        where = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in curve)
        color = f"var(--c{number % _COLORS})"
        dashes = _DASHES[number // _COLORS % len(_DASHES)]
        parts.append(
            f'<polyline points="{where}" style="stroke:{color};fill:none;'
            f'stroke-width:1.8;stroke-dasharray:{dashes}"/>'
        )
        if len(curve) < 40:
            parts += [
                f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="2.5" '
                f'style="fill:{color}"/>'
                for x, y in curve
            ]
        mark = "\u2500\u2500" if dashes == "none" else "\u2504\u2504"
        legend.append(
            f'<span style="color:{color}">{mark} {html.escape(name)}</span>'
        )
    plot = _svg(_WIDTH, _HEIGHT, title, parts)
    shown = f"<div>{html.escape(title)}</div>"
    return f'<div class="plot">{shown}{plot}<div>{"".join(legend)}</div></div>'


def matrix(counts: Sequence[Sequence[int]], labels: Sequence[str]) -> str:
    """Returns a confusion matrix: rows are labels, columns predictions.

    The color of a cell is its share of the row.

    Args:
      counts: [C, C].
      labels: [C] names.
    """
    size = 44 if len(labels) <= _NUMBERED else 14
    names = [_shortened(label) for label in labels]
    left = 12 + 7 * max(map(len, names))
    is_turned = size < 44 or max(map(len, names)) > _LETTERS
    top = left if is_turned else 22
    parts = []
    for i, row in enumerate(counts):
        y, total = top + size * i, max(1, sum(row))
        parts.append(_text(left - 6, y + size / 2 + 4, names[i], "end"))
        for j, count in enumerate(row):
            x = left + size * j
            title = f"{labels[i]}, predicted as {labels[j]}: {count}"
            parts.append(
                f'<rect x="{x}" y="{y}" width="{size - 1}" '
                f'height="{size - 1}" style="fill:var(--c{int(i != j)});'
                f'fill-opacity:{0.06 + 0.8 * count / total:.2f}">'
                f"<title>{html.escape(title)}</title></rect>"
            )
            if size == 44:
                parts.append(_text(x + 22, y + 26, str(count)))
    for j, name in enumerate(names):
        x = left + size * j + size / 2
        if not is_turned:
            parts.append(_text(x, top - 6, name))
        else:
            parts.append(
                f'<text transform="translate({x + 4:.0f} {top - 6}) '
                f'rotate(-90)">{html.escape(name)}</text>'
            )
    width, height = left + size * len(labels) + 12, top + size * len(labels) + 6
    return _svg(width, height, "Confusion matrix", parts)


def histogram(
    values: np.ndarray, last: int, title: str, words: str, first: int = 1
) -> str:
    """Returns the distribution of integers from `first` to `last`."""
    counts, edges = np.histogram(
        values, min(32, last - first + 1), (first - 0.5, last + 0.5)
    )
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    step, most = width / len(counts), max(1, counts.max())
    heights = np.maximum(height * counts / most, counts > 0)  # Few are seen.
    parts = [
        f'<rect x="{_LEFT + step * i:.1f}" width="{max(1.0, step - 1):.1f}" '
        f'y="{_TOP + height - heights[i]:.1f}" height="{heights[i]:.1f}" '
        f'style="fill:var(--c0)"><title>{math.ceil(edges[i])} to '
        f"{math.floor(edges[i + 1])}: {n}</title></rect>"
        for i, n in enumerate(counts)
    ]
    parts += [
        _text(_LEFT - 6, _TOP + 10, str(most), "end"),
        _text(_LEFT, _HEIGHT - _BOTTOM + 16, str(first)),
        _text(_LEFT + width, _HEIGHT - _BOTTOM + 16, str(last), "end"),
        _text(_LEFT + width / 2, _HEIGHT - 4, words),
    ]
    return _svg(_WIDTH, _HEIGHT, title, parts)


def _thinned(points: Points) -> Points:
    """Returns at most `_MAX_POINTS` means of consecutive points."""
    each = -(-len(points) // _MAX_POINTS)
    groups = [points[i : i + each] for i in range(0, len(points), each or 1)]
    return [tuple(np.mean(group, axis=0)) for group in groups]


def _ticks(low: float, high: float) -> list[float]:
    """Returns two to six round numbers from about low to high."""
    if low == high:
        return [low]
    step = 10 ** math.floor(math.log10(high - low))
    factor = next(
        x for x in (0.2, 0.25, 0.5, 1, 2) if (high - low) / (step * x) <= 5
    )
    step *= factor
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [step * i for i in range(first, last + 1)] or [low, high]


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{html.escape(text)}</text>"
    )


def _shortened(label: str) -> str:
    return label if len(label) <= 18 else label[:17] + "\u2026"


def _svg(width: float, height: float, title: str, parts: list[str]) -> str:
    return (
        f'<svg role="img" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" aria-label="{html.escape(title)}">'
        f"<title>{html.escape(title)}</title>{''.join(parts)}</svg>"
    )
