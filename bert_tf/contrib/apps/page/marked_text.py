"""Texts with spans of characters, explanations -> HTML without scripts.

All text is escaped. Styles are inline, so that a fragment looks the same in a
file and in a page.
"""

import html
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bert_tf.contrib.apps import attributions
from bert_tf.serving.answers.multi_label import Labels
from bert_tf.serving.answers.score import Score

# Blue and orange differ for color-blind readers, too. Red, green, blue.
_ADDS, _SUBTRACTS = (33, 113, 205), (230, 97, 1)
_MAX_OPACITY = 0.6  # Black text stays readable.
# Colors of spans with names, such as entities, in turn.
_LIGHT = ("#cfe3f7", "#fbd9b5", "#cdeccd", "#ead1f0", "#f5e6a3", "#d5d8dc")
_BLOCK = (
    "background:#fff;color:#111;margin:10px 0;padding:8px 12px;"
    "border:1px solid #ccc;border-radius:6px;line-height:2;"
    "white-space:pre-wrap;overflow-wrap:anywhere"
)
_NOTE = "color:#555;font-size:90%"
_MOST = 3  # Words that are named below a text.

HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Explanations</title>
</head>
<body style="font-family:sans-serif;max-width:60em;margin:2em auto;\
padding:0 1em;background:#fff;color:#111">
<h1>Explanations</h1>
<p>How much each word adds to the answer, by integrated gradients (Sundararajan
et al. 2017, arXiv 1703.01365), compared with a text of [MASK]. Point at a word
for its number. The darkest color is the same for all texts.</p>
"""
TAIL = "</body>\n</html>\n"


class Span(NamedTuple):
    """Characters to mark: `text[start:end]`.

    Attributes:
      start, end: where it is, end exclusive.
      color: CSS color of the background.
      title: shown when one points at it.
      name: shown after it, in small capitals.
    """

    start: int
    end: int
    color: str
    title: str
    name: str = ""


def mark(text: str, spans: Iterable[Span]) -> str:
    """Returns a text in which spans, sorted and disjoint, are marked."""
    parts, last = [], 0
    for span in spans:
        name = html.escape(span.name)
        if name:
            name = f' <b style="font-size:70%">{name}</b>'
        parts += [
            html.escape(text[last : span.start]),
            f'<mark style="background:{span.color};color:#111;padding:2px 1px;'
            f'border-radius:3px" title="{html.escape(span.title)}">',
            html.escape(text[span.start : span.end]),
            f"{name}</mark>",
        ]
        last = span.end
    parts.append(html.escape(text[last:]))
    return f'<div style="{_BLOCK}">{"".join(parts)}</div>'


def colors(names: Iterable[str]) -> dict[str, str]:
    """Returns a light color for each name, in turn."""
    return {
        name: _LIGHT[i % len(_LIGHT)]
        for i, name in enumerate(dict.fromkeys(names))
    }


def largest(explanation: attributions.Explanation) -> float:
    """Returns the largest attribution of a word, without its sign."""
    return max((abs(word.value) for word in explanation.words), default=0)


def explained(
    explanation: attributions.Explanation, most: float | None = None
) -> str:
    """Returns the answer, and the texts with the attributions of words.

    Args:
      explanation: of an answer.
      most: value of the darkest color, the same for all texts of a page; None
        for the `largest` of this one.
    """
    most = largest(explanation) if most is None else most
    answer = explanation.answer
    if isinstance(answer, Score):
        output, parts = "score", [f"<p>score <b>{answer.score:.4g}</b></p>"]
    else:
        label = max(answer.probabilities, key=answer.probabilities.get)
        output = f"probability of {label}"
        parts = [bars(answer.probabilities.items())]
        if isinstance(answer, Labels):
            found = ", ".join(answer.labels) or "none"
            parts.insert(0, f"<p>labels <b>{html.escape(found)}</b></p>")
    parts.append(attributed(explanation, most))
    added = explanation.output - explanation.baseline
    parts.append(
        f'<p style="{_NOTE}">{html.escape(output)}: '
        f"{_number(explanation.baseline, answer)} with [MASK] for every word, "
        f"{_amount(added, answer)} by the words, "
        f"{_number(explanation.output, answer)} in all. The words' sum differs "
        f"by {explanation.error:.1g} ({explanation.steps} steps).</p>"
    )
    if explanation.num_cut:
        count = explanation.num_cut
        parts.append(warn(f"The last {count} tokens were cut, and not read."))
    return "\n".join(parts)


def attributed(explanation: attributions.Explanation, most: float) -> str:
    """Returns the texts: blue words raise the output, orange words lower it.

    A word has its points of probability (or of the score), and its share of all
    changes, upwards and downwards: those add up to 100 %.
    """
    parts, answer = [], explanation.answer
    total = sum(abs(word.value) for word in explanation.words) or 1.0
    words = {
        word: f"{_amount(word.value, answer)} ({abs(word.value) / total:.0%})"
        for word in explanation.words
    }
    for name, text in explanation.texts.items():
        spans = [
            Span(word.start, word.end, _shade(word.value, most), title)
            for word, title in words.items()
            if word.name == name
        ]
        parts.append(mark(text, spans))
    swatches = [
        f'<span style="background:{_shade(value, most)};color:#111;'
        f'padding:2px 6px;border-radius:3px">{_amount(value, answer)}</span>'
        for value in (-most, most)
    ]
    legend = f"lowers {swatches[0]} to {swatches[1]} raises."
    if not isinstance(answer, Score):
        legend += (
            " +20 points: the word raises the probability by 20 of 100, as "
            "from 50 % to 70 %."
        )
    legend += (
        " In brackets, the word's part of all changes, up and down: 20% is a "
        "fifth of them."
    )
    first = sorted(words, key=lambda word: -abs(word.value))[:_MOST]
    if first:
        named = "; ".join(f"{x.text} {words[x]}" for x in first)
        parts.append(f"<p>Most: {html.escape(named)}</p>")
    return "\n".join([*parts, f'<p style="{_NOTE}">{legend}</p>'])


def _amount(value: float, answer) -> str:
    """Returns a change of a score, or of a probability in points."""
    is_score = isinstance(answer, Score)
    return f"{value:+.4f}" if is_score else f"{100 * value:+.1f} points"


def _number(value: float, answer) -> str:
    """Returns a score, or a probability in percent."""
    return f"{value:.4f}" if isinstance(answer, Score) else f"{value:.1%}"


def likely(tokens: Sequence[str], log_probabilities: Sequence[float]) -> str:
    """Returns WordPieces, the less likely ones in darker orange.

    Args:
      tokens: T WordPieces.
      log_probabilities: T natural logarithms.
    """
    most = max(map(abs, log_probabilities), default=0.0)
    text, spans = "", []
    for token, value in zip(tokens, log_probabilities, strict=True):
        text += " " if text else ""
        title = f"{value:.4f}, probability {math.exp(value):.4g}"
        color = _shade(value, most)
        spans.append(Span(len(text), len(text) + len(token), color, title))
        text += token
    legend = f"darker: less likely, down to {-most:.4g}"
    return f'{mark(text, spans)}<p style="{_NOTE}">{legend}</p>'


def _shade(value: float, most: float) -> str:
    color = _ADDS if value > 0 else _SUBTRACTS
    opacity = _MAX_OPACITY * abs(value) / most if most else 0
    return "rgba({},{},{},{:.3f})".format(*color, opacity)


def bars(values: Iterable[tuple[str, float]]) -> str:
    """Returns a bar for each name and probability, the largest first."""
    rows = [
        '<div class="bar" style="display:flex;align-items:center;gap:10px;'
        'max-width:40em">'
        f'<span style="width:35%;overflow-wrap:anywhere">{html.escape(name)}'
        f'</span><span style="width:4em">{value:.4f}</span>'
        f'<span style="flex:1"><span style="display:block;height:12px;'
        f"border-radius:3px;background:#2171cd;width:{100 * value:.1f}%"
        f'"></span></span></div>'
        for name, value in sorted(values, key=lambda x: -x[1])
    ]
    return "".join(rows)


def boxed(content: str) -> str:
    """Returns HTML on white, for a page that may be dark."""
    style = "background:#fff;color:#111;padding:12px;border-radius:6px"
    return f'<div class="result" style="{style}">{content}</div>'


def warn(message: str) -> str:
    """Returns a message that is easily seen."""
    style = "background:#fff3cd;color:#111;padding:6px 12px;border-radius:6px"
    return (
        f'<p class="result" role="alert" style="{style}">'
        f"{html.escape(message)}</p>"
    )


def numbered(line: int, section: str) -> str:
    """Returns a section of the file, for a line of the input."""
    heading = f'<section id="line-{line}">\n<h2>Line {line}</h2>\n'
    return f"{heading}{section}\n</section>\n"
