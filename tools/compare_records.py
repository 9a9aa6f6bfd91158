r"""Two sides of pre-training records -> table of differences with p-values.

  python -m tools.compare_records \
    --input_file='records/ours-*/train' \
    --other_input_file='records/original-*/train' --vocab_file=vocab.txt

Compares the random properties of records made from the same text with the same
flags: lengths, segments, next sentences, masks and replacements. The records
may be ours or those of google-research/bert. Prints a table and a conclusion.
Exit status: 0 if the sides do not differ significantly, 2 if they differ, 3 if
that is unclear, 1 for an error.

A side consists of several sets of records, each made with a different
--random_seed; at least five to detect small differences. Examples of the same
document have similar lengths, so with one set per side a difference remains
unclear.
"""

from absl import flags

from run_scripts.flags import common_flags
from tools import record_comparison, record_sets

FLAGS = flags.FlagValues()

flags.DEFINE_string(
    "input_file",
    None,
    "Sets of records, separated by commas: folders written by "
    "make_pretraining_records, each one set, or a glob of them; or a glob of "
    "TFRecord files, which together are one set.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "other_input_file",
    None,
    "Sets of records to compare with those of --input_file.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "vocab_file", None, "Vocabulary of all records.", flag_values=FLAGS
)
flags.DEFINE_float(
    "significance",
    0.01,
    "Probability of a false alarm in any of the measures.",
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
    """Compares records, prints the table, and exits with the status."""
    common_flags.parse(FLAGS, argv, __doc__)
    sides = [
        record_sets.open_sets(patterns)
        for patterns in (FLAGS.input_file, FLAGS.other_input_file)
    ]
    counts = record_sets.count_sides(sides, FLAGS.vocab_file)
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
    """Returns a header line and one line per measure."""
    rows = [("", "first", "second", "chance", "p", "")]
    for measure in measures:
        sides = (
            " ".join(f"{value:.4g}" for value in side)
            for side in (measure.first, measure.second)
        )
        chance = "" if measure.chance is None else f"{measure.chance:.2g}"
        rows.append(
            (measure.name, *sides, chance, f"{measure.p:.2g}", measure.verdict)
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column in (0, 5) else cell.rjust(width)
            for column, (cell, width) in enumerate(
                zip(row, widths, strict=True)
            )
        ).rstrip()
        for row in rows
    ]


def conclude(
    measures: list[record_comparison.Measure], significance: float
) -> tuple[str, str]:
    """Returns the overall verdict and a sentence that states it."""
    names = {
        verdict: ", ".join(m.name for m in measures if m.verdict == verdict)
        for verdict in STATUS
    }
    if names[record_comparison.DIFFERS]:
        return record_comparison.DIFFERS, (
            f"Significant differences: {names[record_comparison.DIFFERS]}."
        )
    if names[record_comparison.UNCLEAR]:
        return record_comparison.UNCLEAR, (
            "Unclear with so few sets, because examples of the same document "
            f"are similar: {names[record_comparison.UNCLEAR]}. Give several "
            "sets per side, each made with a different --random_seed."
        )
    smallest = min(measure.p for measure in measures)
    return record_comparison.SAME, (
        "No significant differences: the smallest p-value of "
        f"{len(measures)} measures is {smallest:.2g}, above {significance:g}."
    )


def run() -> None:
    """Console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()
