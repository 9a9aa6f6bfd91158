r"""Records, a vocabulary -> examples as a person reads them, histograms.

    python -m run_scripts.show_records --records=records/train \
      --vocab_file=vocab.txt --num_records=3 --png=records.png

Prints word pieces joined to words with their ## left, segments A and B on a
line each, masked places as {what stood there -> what is shown}, and labels by
their names. In colour on a terminal, unless NO_COLOR is set. --png draws
lengths, masked tokens and [UNK] of a sample.
"""

import os
import sys
from collections.abc import Iterator

import numpy as np
from absl import flags, logging

from run_scripts import records_page, run_checks
from run_scripts.flags import common_flags
from tfrecords import schema
from tfrecords.inspection import record_text, samples
from tfrecords.io import records
from tfrecords.text import vocab

FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "records",
    None,
    "Folder that a make_*_records script wrote, or TFRecord files of any "
    "BERT as comma-separated globs.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "vocab_file",
    None,
    "Their vocabulary; without it ids are shown.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "num_records", 5, "Records to show.", lower_bound=0, flag_values=FLAGS
)
flags.DEFINE_integer(
    "first", 0, "Number of the first, from 0.", lower_bound=0, flag_values=FLAGS
)
flags.DEFINE_string("png", None, "File for the histograms.", flag_values=FLAGS)
common_flags.require(FLAGS, "records")

_COLOURS = {
    record_text.SPECIAL: "2",  # Dim.
    record_text.UNKNOWN: "1;31",  # Bold red.
    record_text.MASK: "33",  # Yellow.
    record_text.RANDOM: "35",  # Magenta.
    record_text.KEPT: "32",  # Green.
}
_SECOND_SEGMENT = "36"  # Cyan.
_MOST_VALUES = 12


def paint(text: str, piece: record_text.Piece) -> str:
    """Returns a piece's text in the colour of what it is."""
    colour = _COLOURS.get(piece.kind, _SECOND_SEGMENT if piece.segment else "")
    return f"\033[{colour}m{text}\033[0m" if colour else text


def has_colour() -> bool:
    """Returns whether to print in colour (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def example_lines(example: dict, entries, making: dict, colour: bool):
    """Yields the lines of one example: counts and labels, then its segments.

    Args:
      example: name to array, of a schema that begins with ENCODER_INPUTS.
      entries: of the vocabulary, or None.
      making: flags that the records were made with.
      colour: whether to paint.
    """
    found = record_text.pieces(example, entries)
    kinds = [piece.kind for piece in found]
    counts = [f"{len(found)} tokens of {len(example['input_mask'])}"]
    if "masked_lm_weights" in example:
        counts.append(f"{sum(k in record_text.MASKED for k in kinds)} masked")
    counts.append(f"{kinds.count(record_text.UNKNOWN)} [UNK]")
    if "choices" in example:
        choice = example["choices"]
        counts.insert(0, f"choice {choice}")
        if "label_ids" in example and choice == example["label_ids"][0]:
            counts.insert(1, "the right one")
    for name in ("next_sentence_labels", "label_ids", "label_scores"):
        if name in example and "choices" not in example:
            value = np.asarray(example[name]).reshape(-1)[0].item()
            counts.append(record_text.describe_label(name, value, making))
    yield "  " + ", ".join(counts)
    painted = [found, paint] if colour else [found]
    for line in record_text.segments(*painted):
        yield f"  {line}"
    if "tag_weights" in example:
        yield "  " + record_text.describe_tags(example, found, making)


def record_lines(
    found: records.Records, index: int, entries, colour: bool
) -> Iterator[str]:
    """Yields the lines of one record; of a row of several, each of them."""
    yield f"record {index}: {found.describe(index)}"
    features = samples.features_of(found, index)
    try:
        schema_name = samples.schema_name(found)
        known = schema.SCHEMAS[schema_name]
    except ValueError:
        known = {}
    if known:
        sizes = samples.sizes_of(found, schema_name)
        batch, _ = samples.unpack(
            {
                # The last dimension is shown as it is.
                name: features[name].reshape(
                    1, *schema.shape_of(feature, sizes)[:-1], -1
                )
                for name, feature in known.items()
            }
        )
        making = found.manifest.flags if found.manifest else {}
        for row in range(len(batch["input_mask"])):
            example = {name: array[row] for name, array in batch.items()}
            yield from example_lines(example, entries, making, colour)
    for name in sorted(set(features) - set(known)):
        values = features[name].tolist()
        more = f" ... of {len(values)}" * (len(values) > _MOST_VALUES)
        words = " ".join(map(_word, values[:_MOST_VALUES]))
        yield f"  {name}: {words}{more}"


def _word(value) -> str:
    return repr(value) if isinstance(value, bytes) else f"{value:g}"


def draw(found: records.Records, entries, path: str) -> None:
    """Draws the histograms of a sample."""
    name = samples.schema_name(found)
    sizes = samples.sizes_of(found, name)
    indices = samples.spread(len(found), run_checks.EXAMPLES)
    batch = samples.read(found, name, sizes, indices)
    batch, _ = samples.unpack(batch)
    unk_id = entries.index("[UNK]") if entries else None
    num_examples = len(batch["input_mask"])
    title = (
        f"{FLAGS.records}: {num_examples:,} examples of {len(found):,} records"
    )
    records_page.draw(batch, unk_id, title, path)
    logging.info("%s  examples %d", path, num_examples)


def main(argv: list[str]) -> None:
    """Prints examples, and draws the histograms if asked to."""
    common_flags.parse(FLAGS, argv, __doc__)
    found = records.Records.open(FLAGS.records)
    entries = vocab.read(FLAGS.vocab_file) if FLAGS.vocab_file else None
    if FLAGS.first >= len(found):
        raise ValueError(
            f"--first={FLAGS.first}: {FLAGS.records} has {len(found)} records, "
            "numbered from 0."
        )
    colour = has_colour()
    end = min(FLAGS.first + FLAGS.num_records, len(found))
    for index in range(FLAGS.first, end):
        for line in record_lines(found, index, entries, colour):
            print(line)
        print()
    if FLAGS.png:
        draw(found, entries, FLAGS.png)


def run() -> None:
    """Console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()
