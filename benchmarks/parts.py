r"""A fine-tuning command -> seconds of each of its parts, on clock and CPU.

    python -m benchmarks.parts run_glue --task_name=MRPC --data_dir=glue/MRPC \
      --init_checkpoint=runs/tiny --do_train --do_eval --output_dir=runs/mrpc

Runs the command in this process, and prints a table. Tracing and compiling is
the first call of a step for each shape; a part within another, such as the
scores of an evaluation, counts once, as the inner one.
"""

import functools
import importlib
import sys
import time

import numpy as np

# Part -> its functions: module, class or "", name.
PARTS = {
    "records": [
        ("bert_tf.workflows.fine_tuning", "", "_open_records"),
        ("bert_tf.workflows.fine_tuning", "", "_check_records"),
    ],
    "model and weights": [
        ("bert_tf.workflows.fine_tuning", "", "_build_model"),
        ("bert_tf.workflows.initial_model", "", "load_initial_weights"),
        ("bert_tf.training.loop", "", "_resume"),
        ("bert_tf.checkpoint.model_folders", "", "load_weights"),
    ],
    "steps": [("bert_tf.training.train_step", "TrainStep", "__call__")],
    "evaluation": [("bert_tf.training.evaluation", "", "predict")],
    "saving": [
        ("bert_tf.training.checkpoints", "RunCheckpoints", "save"),
        ("bert_tf.workflows.dev_results", "", "save_best"),
    ],
    "scores and report": [
        ("bert_tf.workflows.fine_tuning", "", "_write_results"),
        ("run_scripts.flags.common_flags", "", "write_report"),
    ],
}
COMPILING = "tracing and compiling"
# Seconds on the clock, and of all threads on the CPU.
seconds = {name: np.zeros(2) for name in ("imports", *PARTS, COMPILING)}
_running: list[np.ndarray] = []  # Seconds of the parts within each part.


def _now() -> np.ndarray:
    return np.array([time.perf_counter(), time.process_time()])


def timed(part: str, function):
    """Returns `function`, whose time counts as that of `part`."""
    shapes = set()

    @functools.wraps(function)
    def call(*args, **kwargs):
        name = part
        if part == "steps" and _shape(args) not in shapes:
            shapes.add(_shape(args))
            name = COMPILING
        _running.append(np.zeros(2))
        begin = _now()
        try:
            return function(*args, **kwargs)
        finally:
            took = _now() - begin
            seconds[name] += took - _running.pop()
            if _running:
                _running[-1] += took

    return call


def _shape(args):
    """Returns the shape of the batch of a TrainStep on one replica."""
    return tuple(args[1]["input_mask"].shape)


def main() -> None:
    """Runs the command, then prints the table."""
    if sys.argv[1:2] not in (["run_glue"], ["run_ner"]):
        sys.exit(f"Name run_glue or run_ner, then its flags.\n\n{__doc__}")
    script = sys.argv.pop(1)
    sys.argv[0] = "-m"  # As for run_scripts started by Python.
    begin = _now()
    command = importlib.import_module(f"run_scripts.{script}")
    for part, functions in PARTS.items():
        for module, owner, name in functions:
            holder = importlib.import_module(module)
            holder = getattr(holder, owner) if owner else holder
            setattr(holder, name, timed(part, getattr(holder, name)))
    seconds["imports"] = _now() - begin
    try:
        command.run()
    finally:
        rest = _now() - begin - sum(seconds.values())
        print("| part | s | CPU s |\n| --- | --: | --: |")
        for part, (took, cpu) in (seconds | {"the rest": rest}).items():
            print(f"| {part} | {took:.1f} | {cpu:.1f} |")


if __name__ == "__main__":
    main()
