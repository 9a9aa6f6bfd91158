r"""Folders of runs -> one HTML page of scores, errors and data.

    python -m run_scripts.report --run_dirs=runs/sst-2,runs/sst-2-lora \
      --output_file=report.html

Every run with --do_eval writes the page of its own as report.html in its
folder. This command writes one to --output_file, also of several runs side by
side: a verdict in words; scores beside the baseline, of each class; curves;
confusion; the most wrong rows, and rows whose label is probably wrong; lengths
and cuts; settings and digests. Of a pre-training run, it has curves, and the
same masks filled by each checkpoint.
"""

import dataclasses

from run_scripts.flags import common_flags
from tfrecords.options import REQUIRED, Options, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportConfig(Options):
    """Which runs to show, and where."""

    run_dirs: tuple[str, ...] = option(
        REQUIRED,
        "Output folders of one or more runs of the same task, comma-separated.",
        reads=True,
    )
    output_file: str = option(
        "report.html", "HTML file to write, atomically.", writes="file"
    )


FLAGS = common_flags.make_flags(ReportConfig)


def main(argv: list[str]) -> None:
    """Writes the page."""
    common_flags.parse(FLAGS, argv, __doc__)
    from bert_tf.contrib.apps.report import report

    config = common_flags.config(ReportConfig, FLAGS)
    report.write(config.run_dirs, config.output_file)


run = common_flags.command(main)

if __name__ == "__main__":
    run()
