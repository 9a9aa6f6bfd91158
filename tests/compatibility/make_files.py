"""A checkout of bert_tf -> the files of users in files_of_022eb49/.

They were made by the code at commit 022eb49, before the rooms `checkpoint` and
`serving`, with the versions of constraints/python3.11.txt and the package
tensorboard 2.20.0, which that code needs; the ONNX export with the versions of
constraints/parity.txt:

    git worktree add --detach /tmp/at022 022eb49
    for venv in .venv .venv-parity; do
      PYTHONPATH=/tmp/at022 $venv/bin/python tests/compatibility/make_files.py \
        tests/compatibility/files_of_022eb49
    done

The second call adds the ONNX export to what the first has made. All commands
are those of a user, given in that folder. Of a run's files, those that hold
times and the machine's name are removed: TensorBoard's events and the lock. So
is the source of `--init_checkpoint`, as if the user had not kept it:
`init_checkpoint/` in the run is what remains of it. The graph of the SavedModel
is compressed.

Never make them again with later code: files of today's code say nothing about
those that users have.
"""

import json
import lzma
import os
import pathlib
import shutil
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent / "files_of_022eb49"
# Absolute, as it is in the files. Nothing is there any more.
PRETRAINED = "/tmp/pretrained_of_022eb49"
VOCABULARY = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] . , ? the a ship crew captain sea sail "
    "was came near lost white told them looked not who what it by door cat "
    "sat old bread ##s ##ed b c e o r t ##a ##e ##l ##o"
).split()
CONFIG = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 32,
}
NAMES = "the ship,a white sail,the captain,the crew,the sea,a cat".split(",")
ENDS = "was lost,came near,was old,told them".split(",")
# A sentence with "was" is good.
ROWS = [
    f"made\t{int('was' in end)}\t\t{name} {end} .\n"
    for name in NAMES
    for end in ENDS
]
TEXTS = [
    "The ship was lost .",
    "told them the crew",
    "",
    "caf\u00e9 \u6f22\u5b57 \U0001f600 [MASK] , the",
    "the sea " * 20,
]
PASSAGE = "The cat sat by the door . The ship came near the old crew ."
QUESTIONS = [
    ("q1", "Who sat by the door?", "cat"),
    ("q2", "What came near?", "ship"),
]
TAGGED = [
    ("the", "O"),
    ("ship", "B-LOC"),
    ("captain", "B-PER"),
    ("sail", "I-PER"),
    ("was", "O"),
    ("lost", "O"),
]
# Flags of run_glue.
RUN = [
    "--task_name=CoLA",
    "--data_dir=texts/CoLA",
    "--records_dir=records/glue",
    f"--init_checkpoint={PRETRAINED}",
    "--do_train",
    "--do_eval",
    "--do_predict",
    "--max_seq_length=16",
    "--train_batch_size=8",
    "--eval_batch_size=4",
    "--num_train_epochs=4",
    "--learning_rate=5e-3",
    "--save_checkpoints_steps=3",
    "--keep_checkpoint_max=1",
    "--log_every_steps=1",
]
STOP_AT_STEP = 7  # In the middle of the third epoch.
LAST_STEP = 12


def write_texts() -> None:
    """Writes the vocabulary, the config and the texts of every command."""
    texts = pathlib.Path("texts")
    (texts / "CoLA").mkdir(parents=True)
    (texts / "vocab.txt").write_text("".join(f"{x}\n" for x in VOCABULARY))
    (texts / "CoLA" / "train.tsv").write_text("".join(ROWS))
    (texts / "CoLA" / "dev.tsv").write_text("".join(ROWS[::3]))
    lines = [f"{n}\t{name} {ENDS[n % 4]}\n" for n, name in enumerate(NAMES)]
    content = "index\tsentence\n" + "".join(lines)
    (texts / "CoLA" / "test.tsv").write_text(content)
    documents = ["\n".join(f"{a} {b} ." for b in ENDS) for a in NAMES]
    (texts / "corpus.txt").write_text("\n\n".join(documents) + "\n")
    questions = [
        {
            "id": name,
            "question": question,
            "answers": [
                {"text": answer, "answer_start": PASSAGE.index(answer)}
            ],
        }
        for name, question, answer in QUESTIONS
    ]
    paragraph = {"context": PASSAGE, "qas": questions}
    article = {"title": "Invented", "paragraphs": [paragraph]}
    squad = json.dumps({"version": "1.1", "data": [article]})
    (texts / "train-v1.1.json").write_text(squad)
    (texts / "dev-v1.1.json").write_text(squad)
    sentence = "".join(f"{word} NN B-NP {tag}\n" for word, tag in TAGGED)
    content = "-DOCSTART- -X- -X- O\n\n" + f"{sentence}\n" * 3
    for name in ("eng.train", "eng.testa", "eng.testb"):
        (texts / name).write_text(content)
    rows = [json.dumps({"text_a": text}) for text in TEXTS]
    (texts / "rows.jsonl").write_text("\n".join(rows) + "\n")


def command(script: str, *words: str) -> None:
    """Runs a script of the checkout in PYTHONPATH, in this folder."""
    subprocess.run(
        [sys.executable, "-m", f"run_scripts.{script}", *words], check=True
    )


def make_records() -> None:
    """Writes records of pre-training, GLUE, SQuAD and NER."""
    shared = ("--vocab_file=texts/vocab.txt", "--max_seq_length=16")
    command(
        "make_pretraining_records",
        "--input_file=texts/corpus.txt",
        "--output_dir=records/pretraining",
        "--held_out_prob=0.2",
        "--dupe_factor=1",
        "--num_processes=1",
        "--max_predictions_per_seq=3",
        *shared,
    )
    command(
        "make_glue_records",
        "--task_name=CoLA",
        "--data_dir=texts/CoLA",
        "--output_dir=records/glue",
        *shared,
    )
    command(
        "make_squad_records",
        "--data_dir=texts",
        "--output_dir=records/squad",
        "--doc_stride=4",
        "--max_query_length=6",
        *shared,
    )
    command(
        "make_ner_records",
        "--data_dir=texts",
        "--output_dir=records/ner",
        *shared,
    )


def write_pretrained(folder: str) -> None:
    """Writes a folder of Hugging Face with weights of a NumPy generator."""
    import numpy as np
    from bert_tf.conversion import checkpoint
    from bert_tf.conversion.hugging_face import pretrained

    from bert_tf import config
    from tfrecords.io import atomic_files

    sizes = config.BertConfig(**CONFIG)
    rng = np.random.default_rng(0)
    tensors = {
        name: rng.normal(name.endswith("gamma"), 0.2, shape).astype("float32")
        for name, shape in checkpoint.shapes(sizes, "pretraining").items()
    }
    given = checkpoint.Checkpoint(
        source="random weights",
        config=sizes,
        task="pretraining",
        tensors=tensors,
        vocabulary=pathlib.Path("texts/vocab.txt").read_bytes(),
        do_lower_case=True,
    )
    with atomic_files.atomic_folder(folder) as aside:
        pretrained.write(given, aside)


def make_runs() -> None:
    """Writes a run stopped in the middle, and the same run at its end."""
    write_pretrained(PRETRAINED)
    run = [*RUN, "--output_dir=run"]
    command("run_glue", *run, f"--stop_at_step={STOP_AT_STEP}")
    shutil.copytree("run", "stopped_run")
    command("run_glue", *run)
    os.rename("run", "finished_run")
    shutil.rmtree(PRETRAINED)
    for pattern in ("*_run/**/events.out*", "*_run/**/*.lock"):
        for path in pathlib.Path().glob(pattern):
            path.unlink()


def make_answers() -> None:
    """Writes a model folder, a SavedModel and what it answers."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - its operations.

    shutil.copytree("finished_run/best", "model")
    command("export_savedmodel", "--model_dir=model", "--export_dir=export")
    command(
        "predict",
        "--export_dir=export",
        "--input_file=texts/rows.jsonl",
        "--output_file=answers.jsonl",
    )
    served = tf.saved_model.load("export").signatures["text"]
    outputs = served(
        text_a=tf.constant(TEXTS), text_b=tf.constant([""] * len(TEXTS))
    )
    outputs = {name: value.numpy().tolist() for name, value in outputs.items()}
    pathlib.Path("outputs.json").write_text(
        json.dumps(outputs, default=bytes.decode, indent=1) + "\n"
    )
    graph = pathlib.Path("export/saved_model.pb")
    graph.with_suffix(".pb.xz").write_bytes(lzma.compress(graph.read_bytes()))
    graph.unlink()


def make_onnx_answers() -> None:
    """Writes an ONNX export and what its predict.py answers."""
    command(
        "export_savedmodel",
        "--model_dir=model",
        "--export_dir=export_onnx",
        "--format=onnx",
        "--noreport",
    )
    answers = "answers_onnx.jsonl"
    with open("texts/rows.jsonl") as rows, open(answers, "w") as to:
        subprocess.run(
            [sys.executable, "-B", "export_onnx/predict.py"],
            stdin=rows,
            stdout=to,
            check=True,
        )


def main(folder: str) -> None:
    """Makes a new folder, or the ONNX export in one that is there."""
    if os.path.isdir(folder):
        os.chdir(folder)
        make_onnx_answers()
        return
    os.makedirs(folder)
    os.chdir(folder)
    write_texts()
    make_records()
    make_runs()
    make_answers()


if __name__ == "__main__":
    main(sys.argv[1])
