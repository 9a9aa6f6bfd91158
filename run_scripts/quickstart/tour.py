r"""Text of this machine -> vocabulary, records, BERT, SavedModel, one page.

    python -m run_scripts.quickstart --output_dir=runs/quickstart

Every stage of the house in order, each the script that a long run would use,
with its command shown. The text is the documentation of the libraries
installed here; the task is to tell which of them a description comes from,
with few labels. A control learns the task from scratch. One's own text and
task:

    python -m run_scripts.quickstart --output_dir=runs/own \
      --corpus='books/*.txt' --glue_dir=glue/SST-2 --task_name=SST-2

Stages that are done are skipped when the same command runs again.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

from absl import flags, logging

from bert_tf import config
from bert_tf.training import reporting, run_folder
from run_scripts import (
    export_savedmodel,
    make_pretraining_records,
    make_vocab,
    run_glue,
    run_pretraining,
)
from run_scripts.flags import common_flags
from run_scripts.quickstart import corpus, page
from run_scripts.quickstart import summary as quickstart_summary
from run_scripts.quickstart import task as quickstart_task
from tfrecords.io import atomic_files
from tfrecords.text import text_files, vocab

FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "output_dir", "runs/quickstart", "Folder for all of it.", flag_values=FLAGS
)
flags.DEFINE_string(
    "corpus",
    None,
    "Text of one's own to pre-train on, as comma-separated globs.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "glue_dir", None, "Folder of a GLUE task's files.", flag_values=FLAGS
)
flags.DEFINE_string(
    "task_name", None, "Name of that task, such as SST-2.", flag_values=FLAGS
)
flags.DEFINE_integer(
    "num_train_steps",
    2000,
    "Optimizer steps of pre-training.",
    lower_bound=1,
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "vocab_size", 8000, "Entries of the vocabulary.", flag_values=FLAGS
)

MAX_SEQ_LENGTH = 64


def show(script: str, arguments: dict) -> list[str]:
    """Prints the command that a stage is; returns its flags."""
    words = [f"--{name}={x}" for name, x in arguments.items() if x != ""]
    lines = " \\\n    ".join([f"$ python -m {script}", *words])
    print(f"\n{lines}", flush=True)
    return words


def call(script, **arguments) -> None:
    """Runs a script in this process."""
    words = show(script.__name__, arguments)
    script.main([script.__name__.split(".")[-1], *words])


def call_fresh(script: str, **arguments) -> None:
    """Runs a script in a process of its own, as a user of an export would."""
    words = show(script, arguments)
    subprocess.run([sys.executable, "-m", script, *words], check=True)


def inside(*names: str) -> str:
    """Returns a path in --output_dir."""
    return os.path.join(FLAGS.output_dir, *names)


def find_task():
    """Returns the task to fine-tune on."""
    where = FLAGS.output_dir, FLAGS.glue_dir
    return quickstart_task.find(*where, FLAGS.task_name)


def make_corpus() -> None:
    """Writes the documentation of the installed libraries as documents."""
    if FLAGS.corpus and FLAGS.glue_dir:
        return  # Nothing of it would be read.
    corpus.write_corpus(
        inside("corpus.txt"), inside("train.tsv"), inside("dev.tsv")
    )


def learn_vocabulary() -> None:
    """Learns a vocabulary and writes the sizes of a small model for it."""
    call(
        make_vocab,
        input_file=FLAGS.corpus or inside("corpus.txt"),
        output_file=inside("vocab.txt"),
        vocab_size=FLAGS.vocab_size,
    )
    # A few thousand steps are not enough to leave the plateau of unigrams
    # with the initial weights of the paper, which suit a width of 768: at 128
    # the attended context is then a hundredth of the residual. Nor do they
    # suffice to overfit, so there is no dropout.
    config.BertConfig.from_name(
        "tiny",
        vocab_size=len(vocab.read(inside("vocab.txt"))),
        initializer_range=0.05,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    ).to_json_file(inside("bert_config.json"))


def make_records() -> None:
    """Makes masked-LM and next-sentence examples."""
    call(
        make_pretraining_records,
        input_file=FLAGS.corpus or inside("corpus.txt"),
        vocab_file=inside("vocab.txt"),
        output_dir=inside("records"),
        max_seq_length=MAX_SEQ_LENGTH,
        max_predictions_per_seq=10,
        dupe_factor=2,
        held_out_prob=0.03,
    )


def pretrain() -> None:
    """Pre-trains and evaluates on held-out documents."""
    steps = FLAGS.num_train_steps
    call(
        run_pretraining,
        input_file=inside("records", "train"),
        eval_input_file=inside("records", "held_out"),
        vocab_file=inside("vocab.txt"),
        bert_config_file=inside("bert_config.json"),
        output_dir=inside("pretrained"),
        train_batch_size=32,
        learning_rate=6e-4,
        num_train_steps=steps,
        num_warmup_steps=max(1, steps // 10),
        save_checkpoints_steps=max(1, steps // 8),
        max_eval_steps=30,
        log_every_steps=max(1, min(50, steps // 12)),
    )


def fine_tune(output_dir: str, init_checkpoint: str) -> None:
    """Fine-tunes a model; with no checkpoint, trains it from scratch."""
    if FLAGS.glue_dir:
        data = {"task_name": FLAGS.task_name, "data_dir": FLAGS.glue_dir}
    else:
        task = find_task()
        data = {
            "task_name": task.name,
            "train_file": task.files["train"],
            "dev_file": task.files["dev"],
            "text_column": ",".join(task.text_columns),
            "label_column": task.label_column,
            "labels": ",".join(task.labels),
            "num_train_epochs": 20,
        }
    call(
        run_glue,
        **data,
        do_train=True,
        do_eval=True,
        vocab_file=inside("vocab.txt"),
        bert_config_file=inside("bert_config.json"),
        init_checkpoint=init_checkpoint,
        output_dir=output_dir,
        max_seq_length=MAX_SEQ_LENGTH,
        train_batch_size=16,
        learning_rate=3e-4,
        log_every_steps=25,
    )


def export_both() -> None:
    """Exports the fine-tuned model and the pre-trained one."""
    call(
        export_savedmodel,
        model_dir=inside("fine_tuned"),
        export_dir=inside("exports", "fine_tuned"),
        overwrite=True,
    )
    call(
        export_savedmodel,
        model_dir=inside("pretrained"),
        export_dir=inside("exports", "fill_mask"),
        overwrite=True,
    )


def predict() -> None:
    """Predicts dev texts and fills masks, in fresh processes."""
    task = find_task()
    quickstart_task.write_texts(task, FLAGS.glue_dir, inside("texts.tsv"))
    is_pair = len(task.text_columns) == 2
    call_fresh(
        "run_scripts.predict",
        export_dir=inside("exports", "fine_tuned"),
        input_file=inside("texts.tsv"),
        text_a_column="text_a",
        text_b_column="text_b" if is_pair else "",
        output_file=inside("predictions.jsonl"),
    )
    quickstart_task.write_masked(inside("masked.txt"))
    call_fresh(
        "run_scripts.predict",
        export_dir=inside("exports", "fill_mask"),
        input_file=inside("masked.txt"),
        output_file=inside("filled.jsonl"),
    )


def run_stages() -> dict[str, float]:
    """Runs what is not done yet; returns the seconds of every stage."""
    stages: dict[str, Callable[[], None]] = {
        "corpus": make_corpus,
        "vocabulary": learn_vocabulary,
        "records": make_records,
        "pretraining": pretrain,
        "fine_tuning": lambda: fine_tune(
            inside("fine_tuned"), inside("pretrained")
        ),
        "from_scratch": lambda: fine_tune(inside("from_scratch"), ""),
        "export": export_both,
        "prediction": predict,
    }
    seconds = {}
    for name, stage in stages.items():
        mark = inside("stages", f"{name}.json")
        if os.path.exists(mark):
            logging.info("%s is done already", name)
        else:
            begin = time.monotonic()
            stage()
            os.makedirs(os.path.dirname(mark), exist_ok=True)
            atomic_files.write_json(
                mark, {"seconds": round(time.monotonic() - begin, 1)}
            )
        seconds[name] = atomic_files.read_json(mark)["seconds"]
    return seconds


def main(argv: list[str]) -> None:
    """Runs every stage, then writes summary.json and page.png."""
    common_flags.parse(FLAGS, argv, __doc__)
    task = find_task()  # Before the hours of work that come before it.
    if FLAGS.corpus:
        text_files.expand_inputs(FLAGS.corpus)
    names = ("corpus", "glue_dir", "task_name", "num_train_steps", "vocab_size")
    run_folder.write_or_check(
        FLAGS.output_dir,
        {name: FLAGS[name].value for name in names},
        has_begun=os.path.isdir(inside("stages")),
    )
    seconds = run_stages()
    served = quickstart_task.served_score(
        task, FLAGS.glue_dir, inside("predictions.jsonl")
    )
    summary = quickstart_summary.summarise(FLAGS.output_dir, seconds, served)
    atomic_files.write_json(inside("summary.json"), summary)
    page.draw(FLAGS.output_dir, summary)
    print(json.dumps(summary, indent=2))
    logging.info(
        "pre-trained %.3f  from scratch %.3f  in %s; look at %s",
        summary["pretrained_accuracy"],
        summary["from_scratch_accuracy"],
        reporting.format_seconds(summary["seconds"]["total"]),
        inside("page.png"),
    )


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()
