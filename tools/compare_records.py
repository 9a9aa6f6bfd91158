r"""Two sides of pre-training records -> whether they differ more than chance.

  python -m tools.compare_records \
    --input_file='records/ours-*/train' \
    --other_input_file='records/original-*/train' --vocab_file=vocab.txt

Compares what is random in records made from the same text with the same flags:
lengths, segments, next sentences, masks and what is shown in their place. The
records may be ours or those of google-research/bert. Prints a table and one
closing line. Exit status: 0 same, 2 they differ, 3 unclear, 1 a mistake.

A side is several sets of records, each made with another --random_seed, five
or more if they are to show small differences. Examples of one document are
alike in length, so one set a side can show that nothing differs, and else
leaves it unclear.
"""

from absl import flags

from run_scripts.flags import common_flags
from tfrecords.inspection import record_statistics
from tools import record_comparison

FLAGS = flags.FlagValues()

flags.DEFINE_string(
    "input_file",
    None,
    "Sets of records, separated by commas: folders that make_pretraining_"
    "records wrote, each a set, or a glob of them; or a glob of TFRecord "
    "files, which are one set.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "other_input_file",
    None,
    "Sets of records to compare them with.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "vocab_file", None, "Vocabulary of all of them.", flag_values=FLAGS
)
flags.DEFINE_float(
    "significance",
    0.01,
    "Chance of a false alarm, over all measures together.",
    lower_bound=1e-9,
    upper_bound=0.5,
    flag_values=FLAGS,
)
common_flags.require(FLAGS, "input_file", "other_input_file", "vocab_file")

STATUS = {
    record_comparison.SAME: 0,
    record_comparison.DIFFERS: 2,
    record_comparison.UNCLEAR: 3,
}


def main(argv: list[str]) -> None:
    """Compares records, prints the table, and exits with its status."""
    common_flags.parse(FLAGS, argv, __doc__)
    sides = [
        record_statistics.open_sets(patterns)
        for patterns in (FLAGS.input_file, FLAGS.other_input_file)
    ]
    counts = record_statistics.count_sides(sides, FLAGS.vocab_file)
    for name, side in zip(("first", "second"), counts, strict=True):
        print(
            f"{name}: {len(side)} sets, "
            f"{sum(part.num_examples for part in side)} examples"
        )
    measures = record_comparison.compare(*counts, FLAGS.significance)
    print("\n", "\n".join(table(measures)), "\n", sep="")
    verdict, line = conclude(measures, FLAGS.significance)
    print(line)
    if STATUS[verdict]:
        raise SystemExit(STATUS[verdict])


def table(measures: list[record_comparison.Measure]) -> list[str]:
    """Returns one line for each measure, below a line of headings."""
    rows = [("", "first", "second", "chance", "p", "")]
    for measure in measures:
        values = (
            " ".join(f"{value:.4g}" for value in side)
            for side in (measure.first, measure.second)
        )
        chance = "" if measure.chance is None else f"{measure.chance:.2g}"
        rows.append(
            (measure.name, *values, chance, f"{measure.p:.2g}", measure.verdict)
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place in (0, 5) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def conclude(
    measures: list[record_comparison.Measure], significance: float
) -> tuple[str, str]:
    """Returns the verdict over all measures, and a line that says it."""
    named = {
        verdict: ", ".join(m.name for m in measures if m.verdict == verdict)
        for verdict in STATUS
    }
    if named[record_comparison.DIFFERS]:
        return record_comparison.DIFFERS, (
            f"They differ more than chance: {named[record_comparison.DIFFERS]}."
        )
    if named[record_comparison.UNCLEAR]:
        return record_comparison.UNCLEAR, (
            "Unclear, because examples of one document are alike: "
            f"{named[record_comparison.UNCLEAR]}. Give several sets a side, "
            "each made with another --random_seed."
        )
    least = min(measure.p for measure in measures)
    return record_comparison.SAME, (
        f"They do not differ more than chance: the least p of {len(measures)} "
        f"measures is {least:.2g}, and {significance:g} would be a difference."
    )


def run() -> None:
    """Console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()
