"""One example, a vocabulary -> its pieces as a person reads them.

S places in an example, P masked slots.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tfrecords.text import vocab

# What stands at a place: as in the text; [CLS] and the like; [UNK]; masked, and
# shown as [MASK], as a random token, or as it was.
TEXT, SPECIAL, UNKNOWN, MASK, RANDOM, KEPT = (
    "text",
    "special",
    "unknown",
    "mask",
    "random",
    "kept",
)
MASKED = (MASK, RANDOM, KEPT)
_SEGMENTS = "ABCDEFGHIJ"
# By `pairs` of the manifest.
_NEXT_SENTENCE_LABELS = {
    "next_sentence": ("next", "random"),
    "sentence_order": ("in order", "swapped"),
}
_UNKNOWN_TOKEN, _MASK_TOKEN = "[UNK]", "[MASK]"


class Piece(NamedTuple):
    """What one place holds.

    Attributes:
      shown: the entry that the model reads.
      original: the entry before masking; of others the same.
      kind: one of the names above.
      segment: 0 for A, 1 for B.
    """

    shown: str
    original: str
    kind: str
    segment: int


def name_of(token_id: int, entries: Sequence[str] | None) -> str:
    """Returns an entry, or its id where the vocabulary does not say."""
    if entries is not None and 0 <= token_id < len(entries):
        return entries[token_id]
    return f"<{token_id}>"


def pieces(
    example: Mapping[str, np.ndarray], entries: Sequence[str] | None
) -> list[Piece]:
    """Returns the pieces of one example, without padding.

    Args:
      example: features of a schema that begins with `schema.ENCODER_INPUTS`,
        each [S] or [P].
      entries: the vocabulary; without one ids are shown.
    """
    originals = {}
    for place, original, weight in zip(
        example.get("masked_lm_positions", ()),
        example.get("masked_lm_ids", ()),
        example.get("masked_lm_weights", ()),
        strict=True,
    ):
        if weight > 0:
            originals[int(place)] = int(original)
    found = []
    for place in np.flatnonzero(example["input_mask"]).tolist():
        shown_id = int(example["input_word_ids"][place])
        shown = name_of(shown_id, entries)
        original = name_of(originals.get(place, shown_id), entries)
        found.append(
            Piece(
                shown,
                original,
                _kind(shown, original, place in originals),
                int(example["input_type_ids"][place]),
            )
        )
    return found


def _kind(shown: str, original: str, is_masked: bool) -> str:
    if is_masked and shown == original:
        return KEPT
    if is_masked:
        return MASK if shown == _MASK_TOKEN else RANDOM
    if shown == _UNKNOWN_TOKEN:
        return UNKNOWN
    return SPECIAL if shown in vocab.SPECIAL_TOKENS else TEXT


def plain(piece: Piece) -> str:
    """Returns a piece in letters: {what stood there -> what is shown}."""
    if piece.kind == KEPT:
        return f"{{{piece.original} = kept}}"
    if piece.kind in MASKED:
        return f"{{{piece.original} -> {piece.shown}}}"
    return piece.shown


def segments(
    found: Sequence[Piece], paint=lambda text, piece: text
) -> list[str]:
    """Returns a line for each segment: A, then B.

    Pieces of a word are joined, and their ## stays: look##ed.

    Args:
      found: from `pieces`.
      paint: text and its piece -> the text in colour.
    """
    lines: dict[int, str] = {}
    before = SPECIAL
    for piece in found:
        line = lines.get(piece.segment, "")
        # After [CLS] it goes on with a word that was cut.
        is_joined = piece.original.startswith("##") and before != SPECIAL
        if line and not is_joined:
            line += " "
        lines[piece.segment] = line + paint(plain(piece), piece)
        before = piece.kind
    return [
        f"{_SEGMENTS[segment % len(_SEGMENTS)]} {line}"
        for segment, line in sorted(lines.items())
    ]


def describe_label(name: str, value: float | int, flags: Mapping) -> str:
    """Returns a label with its name, where the manifest's flags say it.

    Args:
      name: of the feature.
      value: the label.
      flags: what the records were made with.
    """
    names: Sequence[str] = ()
    if name == "label_ids":
        names = flags.get("labels") or ()
    if name == "next_sentence_labels":
        kind = flags.get("pairs", "next_sentence")
        names = _NEXT_SENTENCE_LABELS.get(kind, ())
    is_named = isinstance(value, int) and 0 <= value < len(names)
    return f"{name} {value:g}" + (f": {names[value]}" if is_named else "")


def describe_tags(
    example: Mapping[str, np.ndarray], found: Sequence[Piece], flags: Mapping
) -> str:
    """Returns how many words have a tag here, and those that are not O.

    Words are shown by their first piece and the ## that follow it.

    Args:
      example: of `schema.TAGGING`, each [S].
      found: from `pieces`.
      flags: what the records were made with.
    """
    labels = flags.get("labels") or ()
    tagged = np.flatnonzero(example["tag_weights"]).tolist()
    named = []
    for place in tagged:
        tag = int(example["tag_ids"][place])
        label = labels[tag] if tag < len(labels) else f"<{tag}>"
        word = found[place].shown
        for piece in found[place + 1 :]:
            if not piece.shown.startswith("##"):
                break
            word += piece.shown
        if label != "O":
            named.append(f"{word} {label}")
    return ", ".join([f"{len(tagged)} words tagged", *named])
