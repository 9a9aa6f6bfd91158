r"""GLUE files, or a table of one's own -> a fine-tuned model, predictions.

    python -m run_scripts.run_glue \
      --task_name=SST-2 --data_dir=glue/SST-2 --init_checkpoint=runs/tiny \
      --do_train --do_eval --do_predict --output_dir=runs/sst-2

Makes the records first, keeps the model that is best on dev in `best/`, writes
`eval_results.json` and, in `predictions/`, what the GLUE site takes. Without
--init_checkpoint it trains from scratch. AX is predicted by a model of MNLI:

    python -m run_scripts.run_glue \
      --task_name=AX --data_dir=glue/AX --init_checkpoint=runs/mnli \
      --do_predict --output_dir=runs/ax

A table of one's own takes the flags that make_glue_records shows.
"""

import math
import os

from absl import flags, logging

from bert_tf import (
    checkpoints,
    checksums,
    model_folders,
    run_folders,
    run_lock,
    stopping,
    strategies,
    training,
)
from bert_tf.tasks import glue
from run_scripts import (
    common_flags,
    glue_flags,
    glue_results,
    model_flags,
    run_checks,
    run_history,
    training_flags,
    training_phases,
)
from tfrecords import records, whole_files

FLAGS = flags.FlagValues()
glue_flags.define_data(FLAGS)
glue_flags.define_bucket_lengths(FLAGS)
common_flags.define_vocabulary(FLAGS)
common_flags.define_max_seq_length(FLAGS)
model_flags.define_model(FLAGS)
training_flags.define_training(FLAGS, learning_rate=5e-5, train_batch_size=32)
run_checks.define_quick(FLAGS)
# Once an epoch, unless the flag says otherwise.
FLAGS.set_default("save_checkpoints_steps", None)
flags.DEFINE_string(
    "records_dir",
    None,
    "Folder for the records; default: records in --output_dir.",
    flag_values=FLAGS,
)
flags.DEFINE_bool("do_train", False, "Whether to train.", flag_values=FLAGS)
flags.DEFINE_bool(
    "do_eval",
    False,
    "Whether to evaluate on dev, and to keep the best model in training.",
    flag_values=FLAGS,
)
flags.DEFINE_bool(
    "do_predict", False, "Whether to predict the test sets.", flag_values=FLAGS
)
flags.DEFINE_float(
    "num_train_epochs",
    3.0,
    "Times that the training rows are seen.",
    lower_bound=0.0,
    flag_values=FLAGS,
)
flags.DEFINE_float(
    "warmup_proportion",
    0.1,
    "Share of the optimizer steps in which the learning rate rises.",
    lower_bound=0.0,
    upper_bound=1.0,
    flag_values=FLAGS,
)
common_flags.require(FLAGS, "output_dir")


def find_source() -> str | None:
    """Returns the model folder to begin with, if the flags name one.

    To train, that is --init_checkpoint; else the model that was trained in
    --output_dir, or --init_checkpoint if none was.
    """
    if not FLAGS.do_train:
        try:
            return checkpoints.find(FLAGS.output_dir)
        except checksums.DamagedError:
            raise  # Another model than the one that is there is no answer.
        except ValueError:
            if not FLAGS.init_checkpoint:
                raise
    return model_flags.find_init_checkpoint(FLAGS)


def open_records(task, tokenizer) -> dict[str, records.Records]:
    """Returns split to records; makes those that are missing.

    Raises:
      ValueError: if a split that the flags need is not there.
    """
    folder = FLAGS.records_dir or os.path.join(FLAGS.output_dir, "records")
    splits = glue_flags.make_records(FLAGS, task, tokenizer, folder)
    for flag, kind in (
        ("do_train", "train"),
        ("do_eval", "dev"),
        ("do_predict", "test"),
    ):
        has_split = any(split.startswith(kind) for split in splits)
        if FLAGS[flag].value and not has_split:
            raise ValueError(
                f"--{flag} needs a {kind} file of {task.name}; there is only "
                f"{', '.join(splits)}. Add the file, or leave the flag away."
            )
    return {split: records.Records.open(splits[split]) for split in splits}


def prepare(strategy, source: str | None) -> glue_results.Run:
    """Makes or opens the records, and builds a model with its first weights."""
    task = glue_flags.find_task(FLAGS)
    tokenizer, vocab_file = glue_flags.find_tokenizer(FLAGS, source)
    config = model_flags.find_config(FLAGS, tokenizer.vocab_size, source)
    glue_flags.check_length(FLAGS, config)
    sets = strategies.chief_first(
        strategy, lambda: open_records(task, tokenizer)
    )
    if FLAGS.do_train:
        run_checks.refuse_bad(FLAGS, [sets["train"]], config, vocab_file)
    if task.is_regression:
        bert_task = glue.regression_task(task.name)
    else:
        bert_task = glue.classification_task(task.name, len(task.labels))
    model = training.build_model(
        bert_task,
        config,
        strategy,
        seed=FLAGS.seed,
        precision=FLAGS.precision,
        remat=FLAGS.remat,
    )
    description = {
        "task": "regression" if task.is_regression else "classification",
        "task_name": task.name,
        "labels": list(task.labels),
        "do_lower_case": tokenizer.do_lower_case,
        "max_seq_length": FLAGS.max_seq_length,
    }
    sizes = {"max_seq_length": FLAGS.max_seq_length}
    return glue_results.Run(
        task,
        bert_task,
        model,
        sets,
        sizes,
        glue_flags.find_bucket_lengths(FLAGS, sets),
        vocab_file,
        description,
    )


def load_trained(run: glue_results.Run, folder: str) -> None:
    """Loads encoder and head of a model that has the task's labels."""
    path = os.path.join(folder, model_folders.DESCRIPTION)
    labels = whole_files.read_json(path).get("labels")
    if labels != list(run.task.labels):
        raise ValueError(
            f"{folder} predicts labels {labels}; {run.task.name} has "
            f"{list(run.task.labels)}. Add --do_train, or give the output_dir "
            "of a run with these labels."
        )
    model_folders.load_weights(run.model, folder)


def train(run: glue_results.Run, strategy, on_checkpoint) -> str:
    """Trains for --num_train_epochs; returns the weights' sha256."""
    found = run.sets["train"]
    # run_classifier.py: main.
    steps_per_epoch = len(found) / FLAGS.train_batch_size
    num_train_steps = max(1, int(steps_per_epoch * FLAGS.num_train_epochs))
    num_warmup_steps = int(num_train_steps * FLAGS.warmup_proportion)
    # Batches of one call are stacked, so all have the same length.
    bucket_lengths = () if FLAGS.steps_per_loop > 1 else run.bucket_lengths
    settings = {
        "task": run.task.name,
        "config": run.model.config.to_dict(),
        "sizes": run.sizes,
        "records": found.manifest.digest,
        "init_checkpoint": FLAGS.init_checkpoint,
        "num_train_steps": num_train_steps,
        "num_warmup_steps": num_warmup_steps,
        "bucket_lengths": list(bucket_lengths) or None,
    } | training_flags.run_settings(FLAGS)
    keywords = training_flags.training_keywords(FLAGS)
    if keywords["save_checkpoints_steps"] is None:
        calls = math.ceil(steps_per_epoch / FLAGS.steps_per_loop)
        keywords["save_checkpoints_steps"] = calls * FLAGS.steps_per_loop
    logging.info(
        "%s  examples %d  epochs %g  steps %d  %s",
        run.task.name,
        len(found),
        FLAGS.num_train_epochs,
        num_train_steps,
        f"encoder of {FLAGS.init_checkpoint}"
        if FLAGS.init_checkpoint
        else "from scratch: no --init_checkpoint",
    )
    is_chief = strategies.is_chief(strategy)
    run_folders.check(FLAGS.output_dir, settings, is_chief=is_chief)
    if is_chief:
        run_history.write_flags(FLAGS, "run_glue", FLAGS.output_dir)
    return training.train(
        run.bert_task,
        run.model,
        [
            training_phases.make_phase(
                found,
                run.bert_task.schema,
                run.sizes,
                num_steps=num_train_steps,
                vocab_size=run.model.config.vocab_size,
                batch_size=FLAGS.train_batch_size,
                seed=FLAGS.seed,
                bucket_lengths=bucket_lengths,
            )
        ],
        strategy=strategy,
        settings=settings,
        description=run.description,
        vocab_file=run.vocab_file,
        num_warmup_steps=num_warmup_steps,
        on_checkpoint=on_checkpoint,
        **keywords,
    )


def train_and_predict(strategy, source, run: glue_results.Run) -> None:
    """Does what --do_train, --do_eval and --do_predict ask for."""
    predict = glue_results.make_predict(run, FLAGS.eval_batch_size)
    evaluate = glue_results.make_evaluate(run, predict)
    if FLAGS.do_train:
        if source:
            model_folders.load_encoder(run.model, source)
        keep_best = glue_results.make_keep_best(run, evaluate, FLAGS.output_dir)
        on_checkpoint = keep_best if FLAGS.do_eval else None
        weights_sha256 = train(run, strategy, on_checkpoint)
        source = checkpoints.find(FLAGS.output_dir)
    if not strategies.is_chief(strategy):
        return  # What is left is for one process.
    load_trained(run, source)
    if FLAGS.do_eval:
        step = checkpoints.step_of(source)
        glue_results.write_results(run, evaluate(), step, FLAGS.output_dir)
    if FLAGS.do_predict:
        folder = os.path.join(FLAGS.output_dir, "predictions")
        for split, name in run.task.predictions.items():
            if split in run.sets:
                path = os.path.join(folder, f"{name}.tsv")
                glue_results.write_predictions(run.task, path, predict(split))
    if FLAGS.do_train:
        step = checkpoints.newest_step(FLAGS.output_dir)
        logging.info("step %d  weights sha256 %s", step, weights_sha256)


def main(argv: list[str]) -> None:
    """Makes records, trains, evaluates and predicts, as the flags say."""
    common_flags.parse(FLAGS, argv, __doc__)
    if not (FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict):
        raise ValueError(
            "Nothing to do: add one or more of --do_train, --do_eval and "
            "--do_predict."
        )
    strategy = training_flags.make_strategy(FLAGS, FLAGS.do_train)
    with (
        stopping.at_once_on_sigterm(),
        strategies.clear_errors(strategy),
        run_lock.lock(FLAGS.output_dir, strategies.is_chief(strategy)),
    ):
        source = strategies.chief_first(strategy, find_source)
        train_and_predict(strategy, source, prepare(strategy, source))


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()
