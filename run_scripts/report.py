r"""Folders of runs -> one HTML page of scores, errors and data.

    python -m run_scripts.report --run_dirs=runs/sst-2,runs/sst-2-lora \
      --output_file=report.html

Every run with --do_eval writes the page of its own as report.html in its
folder. This command writes it again, or that of several runs side by side: a
verdict in words; scores beside the baseline, of each class; curves; confusion;
the most wrong rows, and rows whose label is probably wrong; lengths and cuts;
settings and digests. Of a pre-training run, it has curves, and the same masks
filled by each checkpoint.
"""

from bert_tf.contrib.apps.report.options import ReportConfig
from run_scripts.flags import common_flags

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
