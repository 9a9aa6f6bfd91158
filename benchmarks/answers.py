r"""Raw texts -> ms until a label or vector, of ours and of other libraries.

    python -m benchmarks.answers --precision=float32,bfloat16,int8 \
      --optimum_python=.venv-optimum/bin/python --json=answers.json

Our SavedModel, Predictor and exports for other runtimes, each with its own
tokenizer, beside transformers, optimum and OpenVINO's own conversion; with
--task=vectors, beside the last and fastembed. All open or convert one Hugging
Face folder with random weights, and their answers are compared with those of
our Predictor in float32. Each is a process of its own; they run in turns.
"""

import contextlib
import os
import pathlib
import re
import shutil
import statistics
import sys
import tempfile
import time

import numpy as np
from absl import flags

from benchmarks import comparison, processes, settings, turns
from benchmarks.peers import answers
from run_scripts.flags import common_flags
from tfrecords.io import json_files

FLAGS = flags.FlagValues()
settings.define_machine_flags(FLAGS)
flags.DEFINE_string("size", "base", "Model size.", flag_values=FLAGS)
flags.DEFINE_list(
    "requests",
    ["1x8", "1x32", "1x128", "1x384", "64x32"],
    "Rows x tokens of each request, [CLS] and [SEP] included.",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "precision",
    ["float32"],
    f"Precisions, a table for each: {', '.join(answers.PRECISIONS)}.",
    flag_values=FLAGS,
)
flags.DEFINE_enum(
    "task",
    "classification",
    answers.TASKS,
    "Labels, or vectors.",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "libraries",
    list(answers.LIBRARIES),
    "Libraries to time; those without the precision or task are left out.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "optimum_python",
    sys.executable,
    "A Python with optimum-onnx, which needs an older transformers.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "folder",
    "",
    "Folder to keep the models in; those that it has are not made anew. "
    "Default: a temporary one.",
    flag_values=FLAGS,
)

PACKAGES = (
    *("ai-edge-litert", "fastembed", "nncf", "onnxruntime", "openvino"),
    "transformers",
)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Words have letters of the first half, continuations of the second, so that the
# longest entry that begins a text is the word that was meant.
HALVES = ("abcdefghijklm", "nopqrstuvwxyz")


def make_vocabulary(size: int) -> list[str]:
    """Returns special tokens, words, and a continuation for each third word."""
    rng = np.random.default_rng(1)
    entries = dict.fromkeys(SPECIAL)
    while len(entries) < size:
        is_word = len(entries) % 4 > 0
        letters = rng.choice([*HALVES[not is_word]], rng.integers(3, 9))
        entries["##" * (not is_word) + "".join(letters)] = None
    return [*entries]


def make_texts(entries: list[str], rows: int, tokens: int) -> list[str]:
    """Returns texts of exactly `tokens` tokens with [CLS] and [SEP]."""
    rng = np.random.default_rng(tokens)
    words = [x for x in entries if x[0] in HALVES[0]]
    ends = [x.removeprefix("##") for x in entries if x[0] == "#"]
    texts = []
    for _ in range(rows):
        text = [str(word) for word in rng.choice(words, tokens - 2)]
        for i in range(1, len(text), 5):  # One of five continues a word.
            text[i - 1 : i + 1] = [text[i - 1] + str(rng.choice(ends)), ""]
        texts.append(" ".join(filter(None, text)))
    return texts


def prepare(folder: pathlib.Path, values: flags.FlagValues):
    """Writes the Hugging Face folder.

    Returns:
      Request -> its texts, and request -> our Predictor's answers to them.
    """
    import keras

    from bert_tf import config as bert_config
    from bert_tf.checkpoint import model_folders
    from bert_tf.model import models

    keras.utils.set_random_seed(1)
    # Weights larger than usual, so that answers differ; GELU as in most folders
    # of transformers.
    config = bert_config.BertConfig.from_name(
        values.size, initializer_range=0.05, hidden_act="gelu_erf"
    )
    entries = make_vocabulary(config.vocab_size)
    labels = ["no", "yes"]
    ours, source = folder / "ours", str(folder / "model")
    if not os.path.exists(source):
        ours.mkdir(exist_ok=True)
        model_folders.save_model(
            str(ours),
            models.for_task("classification", config, len(labels)),
            metadata={
                "task": "classification",
                "do_lower_case": True,
                "labels": labels,
            },
            vocabulary="".join(f"{entry}\n" for entry in entries).encode(),
        )
        run(
            "run_scripts.convert_checkpoint",
            f"--from={ours}",
            "--to=hugging_face",
            f"--output_dir={source}",
        )
    texts = {
        request: make_texts(entries, *map(int, request.split("x")))
        for request in values.requests
    }
    predictor = answers.make(
        answers.Setting(source, "float32", values.task), "predictor"
    )
    return texts, {name: predictor.run(batch) for name, batch in texts.items()}


def run(module: str, *arguments: str, python: str = sys.executable) -> None:
    """Runs a module of this project in a new process.

    Raises:
      RuntimeError: if it fails, with the end of its output.
    """
    processes.run(module, [python, "-m", module, *arguments])


def export(name: str, setting: answers.Setting, source: str) -> None:
    """Writes the files of a library, if it does not read the folder itself."""
    if name in answers.CONVERTED:
        new = f"{setting.folder}-new"
        # fastembed reads the files that optimum writes.
        is_optimum = name in ("optimum", "fastembed")
        run(
            "benchmarks.peers.answers",
            *(name, setting.precision, setting.task, source, new),
            python=FLAGS.optimum_python if is_optimum else sys.executable,
        )
        os.rename(new, setting.folder)
        return
    words = [f"--model_dir={source}", f"--export_dir={setting.folder}"]
    if name == "saved_model":
        words.append(f"--precision={setting.precision}")
    else:
        words += [f"--format={name}", "--noreport"]
        words += {
            "float32": [],
            "bfloat16": ["--precision=bfloat16"],
            "int8": ["--quantize=dynamic"],
        }[setting.precision]
    if setting.task == "vectors":
        words += ["--kind=sentence_embedding", "--pooling=mean"]
    run("run_scripts.export_savedmodel", *words)


def start(name: str, setting: answers.Setting) -> tuple[turns.Worker, dict]:
    """Returns a worker that is ready, and what is known of it by then."""
    begin = time.perf_counter()
    python = FLAGS.optimum_python if name == "optimum" else sys.executable
    worker = turns.Worker(name, setting, python=python)
    worker.wait()
    files = pathlib.Path(setting.folder).rglob("*")
    return worker, {
        "start_seconds": time.perf_counter() - begin,
        "disk_bytes": sum(x.stat().st_size for x in files if x.is_file()),
        "requests": {},
    }


def difference(found, expected) -> tuple[int, float]:
    """Returns how many labels differ, and the largest difference of a number.

    Args:
      found: answers of a library to a request.
      expected: those of our Predictor.
    """
    if isinstance(expected, np.ndarray):
        return 0, float(np.max(np.abs(found - expected)))
    pairs = list(zip(found, expected, strict=True))
    return (
        sum(a != b for (a, _), (b, _) in pairs),
        # Of two classes, the probability of the same one.
        max(
            abs(x - y) if a == b else abs(1 - x - y) for (a, x), (b, y) in pairs
        ),
    )


def measure(workers, known, texts, expected) -> None:
    """Times each request in turns and adds what was measured to `known`."""
    for request, batch in texts.items():
        firsts, warm = {}, {}
        for name, worker in workers.items():
            worker.ask(batch)
            (firsts[name],), (found,) = worker.ask(1)
            warm[name] = turns.warm_up(worker, FLAGS.seconds)
            labels, number = difference(found, expected[request])
            known[name]["requests"][request] = {
                "first_seconds": firsts[name],
                "other_labels": labels,
                "difference": number,
            }
        for name, times in turns.take(workers, FLAGS.rounds, warm).items():
            p50, p99 = np.percentile(times.step_seconds, [50, 99]).tolist()
            rounds = np.reshape(times.step_seconds, [FLAGS.rounds, -1])
            known[name]["peak_bytes"] = times.peak_bytes
            known[name]["requests"][request] |= {
                # Medians, since a single hiccup is a large part of a mean.
                "seconds": np.median(rounds, axis=1).tolist(),
                "p50": p50,
                "p99": p99,
            }


def format_table(known: dict[str, dict]) -> str:
    """Returns a Markdown table: of each request p50 and p99 in milliseconds.

    In brackets the median over rounds of the ratio to the fastest library that
    is not ours, if there is one. "first" is the first answer to the first
    request, after the start of the process and the opening of the model.
    """
    requests = next(iter(known.values()))["requests"]
    best = {}
    for request in requests:
        medians = {
            name: statistics.median(x["requests"][request]["seconds"])
            for name, x in known.items()
        }
        theirs = set(medians) - set(answers.OURS) or set(medians)
        best[request] = min(theirs, key=medians.get)
    lines = [
        f"| | {' | '.join(requests)} | start s | first ms | peak MB | MB on "
        "disk | other labels, largest difference |",
        "| --- |" + (len(requests) + 5) * " --- |",
    ]
    for name, side in known.items():
        cells = [name]
        for request, of in side["requests"].items():
            base = known[best[request]]["requests"][request]["seconds"]
            ratio, _, _ = turns.spread(turns.ratios(of["seconds"], base))
            times = f"{1e3 * of['p50']:.1f}, {1e3 * of['p99']:.1f}"
            cells.append(f"{times} ({ratio:.2f}x)")
        each = side["requests"].values()
        first = next(iter(each))["first_seconds"]
        cells += [
            f"{side['start_seconds']:.1f}",
            f"{1e3 * first:.0f}",
            f"{side['peak_bytes'] / 1e6:.0f}",
            f"{side['disk_bytes'] / 1e6:.0f}",
            f"{sum(x['other_labels'] for x in each)}, "
            f"{max(x['difference'] for x in each):.0e}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def compare(precision: str, names, folder: pathlib.Path, texts, expected):
    """Starts the libraries, times them, prints a table.

    Returns:
      Library -> its measurements; and a line for each failure.
    """
    workers, known, failures = {}, {}, []
    source = str(folder / "model")
    try:
        for name in names:
            path = str(folder / f"{name}-{FLAGS.task}-{precision}")
            is_source = name not in (*answers.OURS, *answers.CONVERTED)
            if is_source or name == "predictor":
                path = source
            setting = answers.Setting(path, precision, FLAGS.task)
            try:
                if not os.path.exists(path):
                    export(name, setting, source)
                workers[name], known[name] = start(name, setting)
            except RuntimeError as error:
                reason = " ".join(str(error).splitlines()[-2:])
                failures.append(f"skipped: {name}: {reason}")
        if workers:
            measure(workers, known, texts, expected)
    finally:
        for worker in workers.values():
            worker.stop()
    return known, failures


def main(argv: list[str]) -> None:
    """Prints a table of each precision and writes `--json`."""
    common_flags.parse(FLAGS, argv, __doc__)
    settings.among("precision", FLAGS.precision, answers.PRECISIONS)
    for request in FLAGS.requests:
        if not re.fullmatch(r"[1-9]\d*x([3-9]|[1-9]\d+)", request):
            raise ValueError(
                f"--requests: {request!r} should be rows x tokens, such as "
                "1x8, of at least three tokens."
            )
    settings.among("libraries", FLAGS.libraries, answers.LIBRARIES)
    if not shutil.which(FLAGS.optimum_python):
        raise ValueError(
            f"--optimum_python={FLAGS.optimum_python} is no program; give the "
            "path of a Python, or omit it."
        )
    machine = comparison.machine(PACKAGES)
    print(machine)
    report = {"machine": machine, "size": FLAGS.size, "tables": {}}
    with contextlib.ExitStack() as stack:
        folder = FLAGS.folder or stack.enter_context(
            tempfile.TemporaryDirectory()
        )
        folder = pathlib.Path(folder, FLAGS.size)
        folder.mkdir(parents=True, exist_ok=True)
        texts, expected = prepare(folder, FLAGS)
        for precision in FLAGS.precision:
            names = [
                name
                for name in FLAGS.libraries
                if precision in answers.LIBRARIES[name][0]
                and FLAGS.task in answers.LIBRARIES[name][1]
            ]
            known, failures = compare(precision, names, folder, texts, expected)
            print(f"\n{FLAGS.task}, {FLAGS.size}, {precision}\n")
            table = [format_table(known)] if known else []
            print(*table, *failures, sep="\n", flush=True)
            report["tables"][precision] = known
            if FLAGS.json:  # After each, in case the run is stopped.
                json_files.write(FLAGS.json, report)


if __name__ == "__main__":
    common_flags.run(main)
