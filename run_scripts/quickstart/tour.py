r"""Text on this machine -> vocabulary, records, BERT, SavedModel, one page.

    python -m run_scripts.quickstart --output_dir=runs/quickstart

Runs every stage of the project in order, with the same scripts as for a long
run, and prints each command. The text is the documentation of the installed
libraries; the task, with few labels, is to predict which of them a paragraph
comes from. A control is trained on the task from scratch. With your own text
and task:

    python -m run_scripts.quickstart --output_dir=runs/own \
      --corpus='books/*.txt' --glue_dir=glue/SST-2 --task_name=SST-2

A rerun of the same command skips the stages that are done.
"""

import dataclasses
import functools
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from types import ModuleType

from absl import logging

from bert_tf import config as bert_config
from bert_tf.checkpoint import checksums, run_models
from bert_tf.training import stopping
from run_scripts import (
    export_savedmodel,
    make_pretraining_records,
    make_vocab,
    run_glue,
    run_pretraining,
)
from run_scripts.flags import common_flags
from run_scripts.quickstart import corpus
from run_scripts.quickstart import task as quickstart_task
from tfrecords import libraries
from tfrecords.io import json_files
from tfrecords.options import Options, option
from tfrecords.tasks import glue_tables
from tfrecords.text import text_files, vocab, vocab_learning


@dataclasses.dataclass(frozen=True, kw_only=True)
class TourConfig(Options):
    """Text, task and output folder of the quickstart."""

    output_dir: str = option("runs/quickstart", "Output folder.", on_disk=True)
    corpus: str | None = option(
        None,
        "Your own text to pre-train on, as comma-separated globs. Default: the "
        "documentation of the installed libraries.",
    )
    glue_dir: str | None = option(
        None,
        "Folder of a GLUE task's files, to fine-tune on. Default: the task "
        "made of the documentation.",
    )
    task_name: str | None = option(
        None, "With --glue_dir: name of the GLUE task, such as SST-2."
    )
    num_train_steps: int = option(
        2200, "Optimizer steps of pre-training.", at_least=1
    )
    vocab_size: int = option(
        8000,
        "Number of vocabulary entries.",
        at_least=1,
        at_most=vocab_learning.MAX_ENTRIES,
    )

    def path(self, *names: str) -> str:
        """Returns a path in `output_dir`."""
        return os.path.join(self.output_dir, *names)

    def choose_task(self) -> glue_tables.GlueTask:
        """Returns the task to fine-tune on."""
        return quickstart_task.find(
            self.output_dir, self.glue_dir, self.task_name
        )


FLAGS = common_flags.make_flags(TourConfig)

MAX_SEQ_LENGTH = 64


def show(script: str, arguments: dict) -> list[str]:
    """Prints the command of a stage; returns its flags."""
    words = [f"--{name}={x}" for name, x in arguments.items() if x != ""]
    quoted = map(shlex.quote, words)
    lines = " \\\n    ".join([f"$ python -m {script}", *quoted])
    print(f"\n{lines}", flush=True)
    return words


def call(script: ModuleType, **arguments) -> None:
    """Runs a script in this process."""
    words = show(script.__name__, arguments)
    script.main([script.__name__.split(".")[-1], *words])


def call_fresh(script: str, **arguments) -> None:
    """Runs a script in a new process, as a user of an export would.

    Raises:
      ValueError: if it fails; it has printed why.
    """
    words = show(script, arguments)
    done = subprocess.run(
        [sys.executable, "-m", script, *words], env=stopping.child_environment()
    )
    if done.returncode:
        raise ValueError(
            f"{script} failed, see above. The same command of the quickstart "
            "starts again from this stage."
        )


# Stages.


def make_corpus(config: TourConfig) -> None:
    """Writes the documentation of the installed libraries as documents."""
    if config.corpus and config.glue_dir:
        return  # It would not be used.
    corpus.write_corpus(
        config.path("corpus.txt"),
        config.path("train.tsv"),
        config.path("dev.tsv"),
    )


def learn_vocabulary(config: TourConfig) -> None:
    """Learns a vocabulary and writes the config of a small model for it."""
    call(
        make_vocab,
        input_file=config.corpus or config.path("corpus.txt"),
        output_file=config.path("vocab.txt"),
        vocab_size=config.vocab_size,
    )
    # For few steps, see docs/guide/small_budget.md: with the paper's settings
    # they do not leave the plateau on which context is not used.
    bert_config.BertConfig.from_name(
        "tiny",
        vocab_size=len(vocab.read(config.path("vocab.txt"))),
        norm_first=True,
        initializer_range=bert_config.SMALL_INIT,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    ).to_json_file(config.path("bert_config.json"))


def make_records(config: TourConfig) -> None:
    """Makes masked-LM examples."""
    call(
        make_pretraining_records,
        input_file=config.corpus or config.path("corpus.txt"),
        vocab_file=config.path("vocab.txt"),
        output_dir=config.path("records"),
        max_seq_length=MAX_SEQ_LENGTH,
        pairs="none",
        masking_time="dynamic",
        masked_lm_prob=0.4,
        max_predictions_per_seq=26,
        held_out_prob=0.03,
    )


def pretrain(config: TourConfig) -> None:
    """Pre-trains and evaluates on held-out documents."""
    steps = config.num_train_steps
    call(
        run_pretraining,
        input_file=config.path("records", "train"),
        eval_input_file=config.path("records", "held_out"),
        vocab_file=config.path("vocab.txt"),
        bert_config_file=config.path("bert_config.json"),
        output_dir=config.path("pretrained"),
        train_batch_size=16,
        optimizer="muon",
        learning_rate=5e-3,
        adam_beta_2=0.98,
        learning_rate_schedule="one_cycle",
        num_train_steps=steps,
        warmup_proportion=0.25,
        save_checkpoints_steps=max(1, steps // 5),
        max_eval_steps=30,
        log_every_steps=max(1, min(50, steps // 12)),
    )


def fine_tune(config: TourConfig, pretrained: str = "pretrained") -> None:
    """Fine-tunes the pre-trained model; without one, trains the control."""
    if config.glue_dir:
        data = {"task_name": config.task_name, "data_dir": config.glue_dir}
    else:
        task = config.choose_task()
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
        vocab_file=config.path("vocab.txt"),
        bert_config_file=config.path("bert_config.json"),
        init_checkpoint=pretrained and config.path(pretrained),
        output_dir=config.path("fine_tuned" if pretrained else "from_scratch"),
        max_seq_length=MAX_SEQ_LENGTH,
        train_batch_size=16,
        learning_rate=3e-4,
        log_every_steps=25,
    )


def export_both(config: TourConfig) -> None:
    """Exports the fine-tuned model and the pre-trained one."""
    for run, export in (
        ("fine_tuned", "fine_tuned"),
        ("pretrained", "fill_mask"),
    ):
        call(
            export_savedmodel,
            model_dir=config.path(run),
            export_dir=config.path("exports", export),
            overwrite=True,
        )


def predict(config: TourConfig) -> None:
    """Predicts dev texts and fills masks, in fresh processes."""
    task = config.choose_task()
    quickstart_task.write_texts(task, config.glue_dir, config.path("texts.tsv"))
    is_pair = len(task.text_columns) == 2
    call_fresh(
        "run_scripts.predict",
        export_dir=config.path("exports", "fine_tuned"),
        input_file=config.path("texts.tsv"),
        columns="text_a=text_a" + ",text_b=text_b" * is_pair,
        output_file=config.path("predictions.jsonl"),
    )
    quickstart_task.write_masked(config.path("masked.txt"))
    call_fresh(
        "run_scripts.predict",
        export_dir=config.path("exports", "fill_mask"),
        input_file=config.path("masked.txt"),
        output_file=config.path("filled.jsonl"),
    )


STAGES: dict[str, Callable[[TourConfig], None]] = {
    "corpus": make_corpus,
    "vocabulary": learn_vocabulary,
    "records": make_records,
    "pretraining": pretrain,
    "fine_tuning": fine_tune,
    "from_scratch": functools.partial(fine_tune, pretrained=""),
    "export": export_both,
    "prediction": predict,
}


def run_stages(config: TourConfig) -> dict[str, float]:
    """Runs the stages that are not done; returns the seconds of each stage."""
    seconds = {}
    for name, stage in STAGES.items():
        mark = config.path("stages", f"{name}.json")
        if os.path.exists(mark):
            logging.info("%s is already done", name)
        else:
            begin = time.monotonic()
            stage(config)
            os.makedirs(os.path.dirname(mark), exist_ok=True)
            json_files.write(
                mark, {"seconds": round(time.monotonic() - begin, 1)}
            )
        seconds[name] = json_files.read(mark)["seconds"]
    return seconds


def summarise(
    config: TourConfig, seconds: dict[str, float], served: float | None
) -> dict:
    """Returns accuracies (`served` included), margin over control, seconds."""
    results = run_models.read_results(config.path("pretrained"))
    names = ("masked_lm_accuracy", "unigram_accuracy")
    # The metric and its best value on dev.
    pretrained, scratch = (
        checksums.read_state(config.path(run, run_models.BEST))
        for run in ("fine_tuned", "from_scratch")
    )
    accuracies = pretrained["value"], scratch["value"]
    margin = None if None in accuracies else accuracies[0] - accuracies[1]
    total = round(sum(seconds.values()), 1)
    return {name: results[name] for name in names} | {
        "pretrained_accuracy": pretrained["value"],
        "from_scratch_accuracy": scratch["value"],
        # Metric of both: accuracy, unless a GLUE task has another one.
        "metric": scratch["metric"],
        "margin": margin,  # None if a correlation is undefined.
        "served_accuracy": served,
        "seconds": seconds | {"total": total},
    }


def main(argv: list[str]) -> None:
    """Runs every stage, then writes summary.json and page.html."""
    common_flags.parse(FLAGS, argv, __doc__)
    config = common_flags.config(TourConfig, FLAGS)
    from bert_tf.training import reporting, run_folder
    from run_scripts.quickstart import page

    # Fails now, not after minutes of pre-training.
    with libraries.extra("pretraining", "The quickstart"):
        import sentencex  # noqa: F401

    task = config.choose_task()  # Fails now, not after hours of pre-training.
    if config.corpus:
        text_files.expand_inputs(config.corpus)
    settings = dataclasses.asdict(config)
    run_folder.write_or_check(
        settings.pop("output_dir"),
        settings,
        has_begun=os.path.isdir(config.path("stages")),
    )
    seconds = run_stages(config)
    served = quickstart_task.served_score(
        task, config.glue_dir, config.path("predictions.jsonl")
    )
    summary = summarise(config, seconds, served)
    json_files.write(config.path("summary.json"), summary)
    page.write(config.output_dir, summary, task)
    print(json.dumps(summary, indent=2))
    logging.info(
        "pre-trained %s  from scratch %s  in %s; look at %s",
        page.shown(summary["pretrained_accuracy"]),
        page.shown(summary["from_scratch_accuracy"]),
        reporting.format_seconds(summary["seconds"]["total"]),
        config.path("page.html"),
    )


run = common_flags.command(main)

if __name__ == "__main__":
    run()
