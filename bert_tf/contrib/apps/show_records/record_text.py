"""Records, a vocabulary -> readable text.

S positions in an example, P masked slots.
"""

import dataclasses
import itertools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from absl import logging

from tfrecords import schema
from tfrecords.inspection import samples
from tfrecords.io import atomic_files, streams
from tfrecords.io import records as records_lib
from tfrecords.options import REQUIRED, Options, option
from tfrecords.text import vocab

# Kinds of tokens that are not masked; special tokens are [CLS], [SEP] etc.
TEXT, SPECIAL, UNKNOWN = "text", "special", "unknown"
# Kinds of masked tokens: shown as [MASK], as a random token, or unchanged.
MASKED = MASK, RANDOM, KEPT = "mask", "random", "kept"
_SEGMENTS = "ABCDEFGHIJ"
# Keyed by `pairs` of the manifest's flags.
_NEXT_SENTENCE_LABELS = {
    "next_sentence": ("next", "random"),
    "sentence_order": ("in order", "swapped"),
}
_UNKNOWN_TOKEN, _MASK_TOKEN = "[UNK]", "[MASK]"
_COLORS = {
    SPECIAL: "2",  # Dim.
    UNKNOWN: "1;31",  # Bold red.
    MASK: "33",  # Yellow.
    RANDOM: "35",  # Magenta.
    KEPT: "32",  # Green.
}
_SECOND_SEGMENT = "36"  # Cyan.
_MAX_VALUES = 12
_DRAWN_EXAMPLES = 8192


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShowOptions(Options):
    """The records to print or draw."""

    records: str = option(
        REQUIRED,
        "Records to show: a folder written by a make_*_records script, or "
        "TFRecord files of any BERT, as comma-separated globs.",
        reads=True,
    )
    vocab_file: str | None = option(
        None,
        "Vocabulary of the records; without it, token ids are shown.",
        reads=True,
    )
    num_records: int = option(5, "Number of records to show.", at_least=0)
    page: str | None = option(
        None, "HTML file to write the histograms to.", writes="file"
    )


class Piece(NamedTuple):
    """One token of an example."""

    shown: str  # The entry that the model reads.
    original: str  # The entry before masking; equals `shown` if not masked.
    kind: str  # One of the constants above.
    segment: int  # 0 for A, 1 for B.


def name_of(token_id: int, entries: Sequence[str] | None) -> str:
    """Returns the entry of an id, or `<id>` if it has none."""
    if entries is not None and 0 <= token_id < len(entries):
        return entries[token_id]
    return f"<{token_id}>"


def pieces(
    example: Mapping[str, np.ndarray], entries: Sequence[str] | None
) -> list[Piece]:
    """Returns the pieces of one example, without padding.

    Args:
      example: features of a schema that includes `schema.ENCODER_INPUTS`, each
        [S] or [P].
      entries: the vocabulary; None to show ids.
    """
    originals = {}
    if "masked_lm_weights" in example:
        is_used = example["masked_lm_weights"] > 0
        positions = example["masked_lm_positions"][is_used].tolist()
        ids = example["masked_lm_ids"][is_used].tolist()
        originals = dict(zip(positions, ids, strict=True))
    tokens = []
    for position in np.flatnonzero(example["input_mask"]).tolist():
        shown_id = int(example["input_word_ids"][position])
        shown = name_of(shown_id, entries)
        original = name_of(originals.get(position, shown_id), entries)
        kind = _kind(shown, original, position in originals)
        segment = int(example["input_type_ids"][position])
        tokens.append(Piece(shown, original, kind, segment))
    return tokens


def _kind(shown: str, original: str, is_masked: bool) -> str:
    if is_masked and shown == original:
        return KEPT
    if is_masked:
        return MASK if shown == _MASK_TOKEN else RANDOM
    if shown == _UNKNOWN_TOKEN:
        return UNKNOWN
    return SPECIAL if shown in vocab.SPECIAL_TOKENS else TEXT


def plain(piece: Piece) -> str:
    """Returns a piece as text: {original -> shown} if it is masked."""
    if piece.kind == KEPT:
        return f"{{{piece.original} = kept}}"
    if piece.kind in MASKED:
        return f"{{{piece.original} -> {piece.shown}}}"
    return piece.shown


def paint(text: str, piece: Piece) -> str:
    """Returns the text of a piece in the color of its kind."""
    color = _COLORS.get(piece.kind, _SECOND_SEGMENT if piece.segment else "")
    return f"\033[{color}m{text}\033[0m" if color else text


def segments(
    tokens: Sequence[Piece], paint=lambda text, piece: text
) -> list[str]:
    """Returns a line for each segment: A, then B.

    The pieces of a word are joined and keep their ##: look##ed.

    Args:
      tokens: result of `pieces`.
      paint: (text, its piece) -> the text in color.
    """
    lines: dict[int, str] = {}
    before = SPECIAL
    for piece in tokens:
        line = lines.get(piece.segment, "")
        # After [CLS] a ## piece continues a word that was truncated.
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
    """Returns a label as text, with its name if the flags include it."""
    names: Sequence[str] = ()
    if name == "label_ids":
        names = flags.get("labels") or ()
    if name == "next_sentence_labels":
        kind = flags.get("pairs", "next_sentence")
        names = _NEXT_SENTENCE_LABELS.get(kind, ())
    is_named = isinstance(value, int) and 0 <= value < len(names)
    return f"{name} {value:g}" + (f": {names[value]}" if is_named else "")


def describe_labels(multi_hot: np.ndarray, flags: Mapping) -> str:
    """Returns the labels of a row, with their names if the flags include them.

      labels glad, calm

    Args:
      multi_hot: [C], 1 for each label of the row.
      flags: of the manifest.
    """
    names = flags.get("labels") or range(len(multi_hot))
    found = [str(names[i]) for i in np.flatnonzero(multi_hot)]
    return f"labels {', '.join(found) or 'none'}"


def describe_tags(
    example: Mapping[str, np.ndarray], tokens: Sequence[Piece], flags: Mapping
) -> str:
    """Returns the number of tagged words, and the words whose tag is not O.

    A word is shown as its first piece and the ## pieces that follow it. The
    example has the features of `schema.TAGGING`, each [S]; `tokens` are its
    `pieces`.
    """
    labels = flags.get("labels") or ()
    tagged = np.flatnonzero(example["tag_weights"]).tolist()
    named = []
    for position in tagged:
        tag = int(example["tag_ids"][position])
        label = labels[tag] if tag < len(labels) else f"<{tag}>"
        following = (piece.shown for piece in tokens[position + 1 :])
        word = tokens[position].shown + "".join(
            itertools.takewhile(lambda shown: shown.startswith("##"), following)
        )
        if label != "O":
            named.append(f"{word} {label}")
    return ", ".join([f"{len(tagged)} words tagged", *named])


def show(options: ShowOptions) -> None:
    """Prints examples, in color on a terminal; writes `options.page`, if set.

    Raises:
      ValueError: if records or vocabulary cannot be read.
    """
    records = records_lib.Records.open(options.records)
    if options.page:
        inputs = [("records", path) for path in records.paths]
        streams.check_output(
            "page", options.page, [*inputs, ("vocab_file", options.vocab_file)]
        )
    entries = vocab.read(options.vocab_file) if options.vocab_file else None
    # NO_COLOR: see no-color.org.
    has_color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for index in range(min(options.num_records, len(records))):
        for line in _record_lines(records, index, entries, has_color):
            print(line)
        print()
    if options.page:
        _draw(records, entries, options)


def _record_lines(
    records: records_lib.Records, index: int, entries, has_color: bool
) -> Iterator[str]:
    """Yields the lines of a record, or of each example in a packed row."""
    yield f"record {index}: {records.describe(index)}"
    features = samples.features_of(records, index)
    try:
        schema_name = samples.schema_name(records)
        known = schema.SCHEMAS[schema_name]
    except ValueError:
        known = {}
    # Files of several schemas may be given; the schema is that of the first.
    if known and known.keys() <= features.keys():
        sizes = samples.sizes_of(records, schema_name)
        batch, _ = samples.unpack(
            {
                # The last dimension keeps its stored size.
                name: features[name].reshape(
                    1, *schema.shape_of(feature, sizes)[:-1], -1
                )
                for name, feature in known.items()
            }
        )
        flags = records.manifest.flags if records.manifest else {}
        for row in range(len(batch["input_mask"])):
            example = {name: array[row] for name, array in batch.items()}
            yield from _example_lines(example, entries, flags, has_color)
    else:
        known = {}
    for name in sorted(set(features) - set(known)):
        values = features[name].tolist()
        more = f" ... of {len(values)}" * (len(values) > _MAX_VALUES)
        words = " ".join(map(_word, values[:_MAX_VALUES]))
        yield f"  {name}: {words}{more}"


def _word(value) -> str:
    return repr(value) if isinstance(value, bytes) else f"{value:g}"


def _example_lines(
    example: dict, entries, flags: Mapping, has_color: bool
) -> Iterator[str]:
    """Yields the lines of an example: counts and labels, then its segments."""
    tokens = pieces(example, entries)
    kinds = [piece.kind for piece in tokens]
    counts = [f"{len(tokens)} tokens of {len(example['input_mask'])}"]
    if "masked_lm_weights" in example:
        counts.append(f"{sum(kind in MASKED for kind in kinds)} masked")
    counts.append(f"{kinds.count(UNKNOWN)} [UNK]")
    if "choices" in example:
        choice = example["choices"]
        kind = "text" if "texts_of_a_row" in flags else "choice"
        counts.insert(0, f"{kind} {choice}")
        if "label_ids" in example and choice == example["label_ids"][0]:
            counts.insert(1, "correct")
        if "passage_grades" in example:
            is_there = example["passage_weights"][choice]
            grade = f"grade {example['passage_grades'][choice]:g}"
            counts.insert(1, grade if is_there else "missing")
    for name in (
        *("next_sentence_labels", "label_ids", "label_scores"),
        "example_weights",
    ):
        if name in example and "choices" not in example:
            value = np.asarray(example[name]).reshape(-1)[0].item()
            counts.append(describe_label(name, value, flags))
    if "multi_hot_labels" in example:
        counts.append(describe_labels(example["multi_hot_labels"], flags))
    yield "  " + ", ".join(counts)
    painted = [tokens, paint] if has_color else [tokens]
    for line in segments(*painted):
        yield f"  {line}"
    if "tag_weights" in example:
        yield "  " + describe_tags(example, tokens, flags)


def _draw(records, entries, options) -> None:
    from bert_tf.contrib.apps.show_records import histograms

    name = samples.schema_name(records)
    sizes = samples.sizes_of(records, name)
    indices = samples.spread(len(records), _DRAWN_EXAMPLES)
    batch, _ = samples.unpack(samples.read(records, name, sizes, indices))
    unk_id = entries.index(_UNKNOWN_TOKEN) if entries else None
    num_examples = len(batch["input_mask"])
    title = (
        f"{options.records}: {num_examples:,} examples from {len(records):,} "
        "records"
    )
    with atomic_files.atomic_file(options.page) as file:
        file.write(histograms.make(batch, unk_id, title))
    logging.info("%s  examples %d", options.page, num_examples)
