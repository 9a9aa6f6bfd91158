r"""SavedModel -> seconds of its first requests, with and without warm-up.

    python -m benchmarks.first_request --export_dir=served/sst-2/1

In each round a new process loads the export in a session, as TensorFlow Serving
does, and calls its `serving_default` three times with the same text. A second
process first replays the export's warm-up requests, as the server does. Needs
the package tensorflow-serving-api.
"""

import json
import os
import subprocess
import sys
import time

from absl import flags

from benchmarks import turns
from run_scripts.flags import common_flags

FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "export_dir",
    None,
    "SavedModel that export_savedmodel wrote.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "rounds", 5, "Processes of each kind.", lower_bound=1, flag_values=FLAGS
)
common_flags.require(FLAGS, "export_dir")

REQUESTS = 3
_TEXT = "It rained for days, and the river rose over the old bridge. " * 3


def measure(export_dir: str, is_warm: bool) -> list[float]:
    """Returns the seconds of loading, of the replay, and of each request."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  Its ops are in the graph.
    from tensorflow_serving.apis import prediction_log_pb2

    from bert_tf.serving import warmup

    path = os.path.join(export_dir, warmup.PATH)
    logs = [
        prediction_log_pb2.PredictionLog.FromString(record.numpy())
        for record in tf.data.TFRecordDataset(path)
    ]
    seconds, begin = [], time.perf_counter()

    def lap():
        nonlocal begin
        seconds.append(time.perf_counter() - begin)
        begin = time.perf_counter()

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        proto = tf.compat.v1.saved_model.load(session, ["serve"], export_dir)
        lap()
        for log in logs if is_warm else ():
            request = log.predict_log.request
            definition = proto.signature_def[request.model_spec.signature_name]
            inputs = {n: tf.make_ndarray(x) for n, x in request.inputs.items()}
            _call(session, definition, inputs)
        lap()
        definition = proto.signature_def["serving_default"]
        inputs = warmup.inputs_of(definition, _TEXT, len(_TEXT.split()))
        inputs = {name: tf.make_ndarray(x) for name, x in inputs.items()}
        for _ in range(REQUESTS):
            _call(session, definition, inputs)
            lap()
    return seconds


def _call(session, definition, inputs) -> None:
    session.run(
        {name: info.name for name, info in definition.outputs.items()},
        {definition.inputs[name].name: x for name, x in inputs.items()},
    )


def in_new_process(export_dir: str, is_warm: bool) -> list[float]:
    """Returns the result of `measure`, called in a process of its own."""
    code = (
        "import json, sys\n"
        "from benchmarks import first_request\n"
        "export_dir, is_warm = json.loads(sys.argv[1])\n"
        "print(json.dumps(first_request.measure(export_dir, is_warm)))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, json.dumps([export_dir, is_warm])],
        check=True,
        stdout=subprocess.PIPE,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
    ).stdout
    return json.loads(answer.splitlines()[-1])


def format_table(rounds: dict[str, list[list[float]]]) -> str:
    """Returns a Markdown table of medians and ranges.

    Args:
      rounds: "without" and "with" -> results of `measure`.
    """
    ordinals = ("first", "second", "third")[:REQUESTS]
    names = ("load", "replay", *(f"{name} request" for name in ordinals))
    lines = [
        f"| warm-up | {', s | '.join(names)}, s |",
        "| --- |" + " --- |" * len(names),
    ]
    for kind, results in rounds.items():
        cells = [kind]
        for seconds in zip(*results, strict=True):
            median, least, most = turns.spread(seconds)
            cells.append(f"{median:.2f} ({least:.2f} to {most:.2f})")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(argv: list[str]) -> None:
    """Measures in turns, and prints the table."""
    common_flags.parse(FLAGS, argv, __doc__)
    rounds = {"without": [], "with": []}
    for _ in range(FLAGS.rounds):
        for kind, results in rounds.items():
            results.append(in_new_process(FLAGS.export_dir, kind == "with"))
    print(format_table(rounds))


if __name__ == "__main__":
    common_flags.run(main)
