r"""Fine-tuned model -> size, differences, score and times in each format.

    python -m benchmarks.export_formats --model_dir=runs/sst-2 \
      --report_file=dev.tsv --calibration_file=train.txt

Exports the model in each format with float32, float16 and int8 weights, each
in a process of its own, and prints a row of each report. The files are those of
export_savedmodel; it needs the extra `export`.
"""

import os
import subprocess
import sys
import tempfile

from absl import flags

from benchmarks import settings
from bert_tf.serving.runtimes import config
from run_scripts.flags import common_flags
from tfrecords.io import json_files

# Title of the weights -> flags of export_savedmodel.
WEIGHTS = {
    "float32": (),
    "float16": ("--half",),
    "int8_dynamic": ("--quantize=dynamic",),
    "int8_static": ("--quantize=static",),
}

FLAGS = flags.FlagValues()
flags.DEFINE_string("model_dir", None, "Model to export.", flag_values=FLAGS)
flags.DEFINE_string("report_file", None, "Labelled dev set.", flag_values=FLAGS)
flags.DEFINE_string(
    "calibration_file", None, "Typical texts.", flag_values=FLAGS
)
flags.DEFINE_list(
    "formats",
    list(config.MODULES),
    f"Formats to export, of {', '.join(config.MODULES)}.",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "weights",
    list(WEIGHTS),
    f"Dtypes of the weights, of {', '.join(WEIGHTS)}.",
    flag_values=FLAGS,
)
common_flags.require(FLAGS, "model_dir", "report_file", "calibration_file")


def export(name: str, weights: str, folder: str) -> dict:
    """Returns the report of an export in a new process."""
    words = [
        f"--model_dir={FLAGS.model_dir}",
        f"--export_dir={folder}",
        f"--format={name}",
        f"--report_file={FLAGS.report_file}",
        *WEIGHTS[weights],
    ]
    if weights == "int8_static":
        words += [f"--calibration_file={FLAGS.calibration_file}"]
    subprocess.run(
        [sys.executable, "-m", "run_scripts.export_savedmodel", *words],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return json_files.read(os.path.join(folder, "report.json"))


def row(name: str, weights: str, report: dict) -> str:
    """Returns the row of the table for a report."""
    times = [
        f"{of[name]:.3g} ({of['savedmodel']:.3g})"
        for of in report["milliseconds"].values()
    ]
    largest = max(report["largest_difference"]["texts"].values())
    score = report.get("accuracy") or report.get("pearson") or {}
    cells = [
        name,
        weights,
        f"{report['bytes'][name] / 1e6:.1f}",
        f"{largest:.1e}",
        f"{100 * score.get(name, float('nan')):.2f}",
        *times,
    ]
    return f"| {' | '.join(cells)} |"


def main(argv: list[str]) -> None:
    """Prints the table."""
    common_flags.parse(FLAGS, argv, __doc__)
    settings.among("formats", FLAGS.formats, config.MODULES)
    settings.among("weights", FLAGS.weights, WEIGHTS)
    print(
        "| format | weights | MB | largest difference | score | ms, batch 1 "
        "(SavedModel) | ms, batch 16 (SavedModel) |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in FLAGS.formats:
        for weights in FLAGS.weights:
            with tempfile.TemporaryDirectory() as folder:
                report = export(name, weights, os.path.join(folder, "export"))
            print(row(name, weights, report), flush=True)


if __name__ == "__main__":
    common_flags.run(main)
