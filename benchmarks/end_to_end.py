r"""MRPC, CoNLL -> seconds from command to result, of ours and other libraries.

    python -m benchmarks.end_to_end --data_dir=glue/MRPC --ner_dir=conll2003 \
      --vocab_file=vocab.txt --rounds=3 --json=end_to_end.json

train: three epochs of MRPC in batches of 32, in bfloat16, from the same random
weights to a model folder. predict: its labels of 10,000 sentences, from
a text file to a file. train_few: as train, on 300 rows. ner: the same on 1,000
sentences, if --ner_dir is given; KerasHub has no tagger. Start-up, tracing,
tokenization, checkpoints and the accuracy on dev after each epoch are part of
the time; in ours, also the scores and the report. Ours and Trainer keep the
best model. Each command is a new process, and they run in turn.
`benchmarks.parts` says where ours spends its time.
"""

import pathlib
import statistics
import sys
import tempfile
import time

from absl import flags

from benchmarks import comparison, processes, settings, turns
from benchmarks.peers import fine_tuning
from run_scripts.flags import common_flags
from tfrecords.io import json_files

PEERS = ("hugging_face", "keras_hub")
FLAGS = flags.FlagValues()
settings.define_machine_flags(FLAGS)
flags.DEFINE_string("data_dir", None, "Folder of MRPC.", flag_values=FLAGS)
flags.DEFINE_string("ner_dir", None, "Folder of CoNLL.", flag_values=FLAGS)
flags.DEFINE_string("vocab_file", None, "Vocabulary.", flag_values=FLAGS)
flags.DEFINE_string("size", "small", "Model size.", flag_values=FLAGS)
flags.DEFINE_list(
    "peers",
    list(PEERS),
    f"Libraries to compare with ours: {', '.join(PEERS)}.",
    flag_values=FLAGS,
)
common_flags.require(FLAGS, "data_dir", "vocab_file")

NUM_DEV_ROWS = 400
NUM_FEW_ROWS = 300
NUM_SENTENCES = {"eng.train": 1000, "eng.testa": 200}
NUM_LINES = 10_000
TASKS = ("train", "predict", "train_few", "ner")


def prepare(folder: pathlib.Path, values: flags.FlagValues) -> None:
    """Writes rows, lines and, for each library, a model to start from."""
    from bert_tf import config as bert_config
    from bert_tf.checkpoint import model_folders
    from bert_tf.model import models
    from tfrecords.tasks import glue_rows, glue_tables

    source = pathlib.Path(values.data_dir, "train.tsv")
    header, *table = source.read_bytes().splitlines(keepends=True)
    parts = {"train": table[NUM_DEV_ROWS:], "dev": table[:NUM_DEV_ROWS]}
    (folder / "few").mkdir()
    for name, part in parts.items():
        (folder / f"{name}.tsv").write_bytes(header + b"".join(part))
        few = header + b"".join(part[:NUM_FEW_ROWS])
        (folder / "few" / f"{name}.tsv").write_bytes(few)
    task = glue_tables.find("MRPC")
    table = {
        name: [
            (*row.texts, row.label)
            for row in glue_rows.read_rows(
                task, str(folder / f"{name}.tsv"), is_labelled=True
            )
        ]
        for name in parts
    }
    few = {name: rows[:NUM_FEW_ROWS] for name, rows in table.items()}
    json_files.write(str(folder / "train.json"), table)
    json_files.write(str(folder / "train_few.json"), few)
    rows = table["train"]
    texts = [text for row in rows for text in row[:2]]
    lines = [texts[i % len(texts)] for i in range(NUM_LINES)]
    (folder / "lines.txt").write_text("\n".join(lines) + "\n", "utf-8")
    json_files.write(str(folder / "predict.json"), [[t, "", 0] for t in lines])
    if values.ner_dir:
        prepare_ner(folder, pathlib.Path(values.ner_dir))
    model = models.for_task(
        "pretraining", bert_config.BertConfig.from_name(values.size)
    )
    (folder / "ours").mkdir()
    model_folders.save_model(
        str(folder / "ours"),
        model,
        metadata={"task": "pretraining", "do_lower_case": True},
        vocabulary=pathlib.Path(values.vocab_file).read_bytes(),
    )
    for name in values.peers:
        run(
            "run_scripts.convert_checkpoint",
            f"--from={folder / 'ours'}",
            f"--to={name}",
            f"--output_dir={folder / name}",
        )


def prepare_ner(folder: pathlib.Path, source: pathlib.Path) -> None:
    """Writes the first sentences of CoNLL's files, also as JSON."""
    splits = []
    for name, number in NUM_SENTENCES.items():
        blocks = (source / name).read_text("utf-8").strip().split("\n\n")
        blocks = [x for x in blocks if not x.startswith("-DOCSTART-")][:number]
        (folder / name).write_text("\n\n".join(blocks) + "\n", "utf-8")
        lines = [[x.split() for x in block.splitlines()] for block in blocks]
        splits.append([[[x[0] for x in s], [x[-1] for x in s]] for s in lines])
    table = dict(zip(("train", "dev"), splits, strict=True))
    json_files.write(str(folder / "ner.json"), table)


def run(module: str, *arguments: str) -> None:
    """Runs a module of this project in a new process.

    Raises:
      RuntimeError: if it fails, with the end of its output.
    """
    processes.run(module, [sys.executable, "-m", module, *arguments])


def train_ours(folder: pathlib.Path, output: pathlib.Path, task: str) -> None:
    """Fine-tunes; the best model is in `best/` of the run."""
    data = folder / "few" if task == "train_few" else folder
    script = "run_ner" if task == "ner" else "run_glue"
    run(
        f"run_scripts.{script}",
        *(["--task_name=MRPC"] if script == "run_glue" else []),
        f"--data_dir={data}",
        f"--init_checkpoint={folder / 'ours'}",
        "--do_train",
        "--do_eval",
        f"--num_train_epochs={fine_tuning.EPOCHS}",
        f"--train_batch_size={fine_tuning.BATCH_SIZE}",
        f"--learning_rate={fine_tuning.LEARNING_RATE}",
        f"--max_seq_length={fine_tuning.MAX_LENGTH}",
        "--precision=bfloat16",
        f"--output_dir={output / task}",
    )


def predict_ours(folder: pathlib.Path, output: pathlib.Path) -> None:
    """Predicts with the best model."""
    run(
        "run_scripts.predict",
        f"--model_dir={output / 'train'}",
        f"--input_file={folder / 'lines.txt'}",
        f"--output_file={output / 'answers.jsonl'}",
    )


def run_task(name: str, task: str, folder: pathlib.Path, output: pathlib.Path):
    """Runs a task of one library; `output` keeps what train has written."""
    if name == comparison.OURS:
        if task == "predict":
            predict_ours(folder, output)
        else:
            train_ours(folder, output, task)
        return
    predicts = task == "predict"
    model = output / "train" if predicts else folder / name
    written = output / ("answers.json" if predicts else task)
    rows = folder / f"{task}.json"
    run(
        f"benchmarks.peers.{name}_runs",
        task.partition("_")[0],
        str(model),
        str(rows),
        str(written),
    )


def measure(values: flags.FlagValues) -> dict[str, dict[str, list[float]]]:
    """Returns task -> library -> seconds of each round."""
    names = comparison.with_ours(values.peers)
    tasks = TASKS if values.ner_dir else TASKS[:-1]
    seconds = {
        task: {x: [] for x in names if (x, task) != ("keras_hub", "ner")}
        for task in tasks
    }
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        prepare(folder, values)
        for number in range(values.rounds):
            for name in turns.order(names, number):
                output = folder / f"{name}-{number}"
                output.mkdir()
                for task in tasks:
                    if name not in seconds[task]:
                        continue
                    begin = time.perf_counter()
                    run_task(name, task, folder, output)
                    took = time.perf_counter() - begin
                    seconds[task][name].append(took)
                    print(f"{task} {name} {took:.1f} s", flush=True)
    return seconds


def main(argv: list[str]) -> None:
    """Prints a table of each task and writes `--json`."""
    common_flags.parse(FLAGS, argv, __doc__)
    settings.among("peers", FLAGS.peers, PEERS)
    machine = comparison.machine(comparison.with_ours(FLAGS.peers))
    print(machine)
    seconds = measure(FLAGS)
    for task, of_each in seconds.items():
        print(f"\n{task}, {FLAGS.size}")
        print("| | s | x ours, median (range) |\n| --- | --- | --- |")
        for name, each in of_each.items():
            ratios = turns.ratios(each, of_each[comparison.OURS])
            median, least, most = turns.spread(ratios)
            print(
                f"| {name} | {statistics.median(each):.1f} "
                f"| {median:.2f} ({least:.2f} to {most:.2f}) |"
            )
    if FLAGS.json:
        report = {"machine": machine, "size": FLAGS.size, "seconds": seconds}
        json_files.write(FLAGS.json, report)


if __name__ == "__main__":
    common_flags.run(main)
