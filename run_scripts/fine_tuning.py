"""A task's records and scores, flags -> a fine-tuned model, its predictions.

What every fine-tuning runner does: a runner defines its flags, says what
`work.Work` they mean and calls `run`. One command trains, keeps the model that
is best on dev in `best/`, evaluates and predicts; given again, it goes on.
"""

import functools
import os

from absl import flags, logging

from bert_tf.training import (
    checkpoints,
    checksums,
    evaluation,
    loop,
    model_folders,
    run_folder,
    strategies,
)
from bert_tf.workflows import dev_results, run_history, training_phases
from run_scripts import run_checks
from run_scripts.flags import fine_tuning_flags, model_flags, training_flags
from run_scripts.work import FindWork, Outputs, Predict, Run, Sets, Work
from tfrecords.io import atomic_files, records
from tfrecords.reading import batches


def run(values: flags.FlagValues, script: str, find_work: FindWork) -> None:
    """Does what --do_train, --do_eval and --do_predict ask for.

    Args:
      values: the script's flags, those of `define_fine_tuning` among them.
      script: its name, for run.flags.
      find_work: what to do, with which model.

    Raises:
      ValueError: for what is wrong with flags, files or models.
    """
    if not (values.do_train or values.do_eval or values.do_predict):
        raise ValueError(
            "Nothing to do: add one or more of --do_train, --do_eval and "
            "--do_predict."
        )
    strategy = training_flags.make_strategy(values, values.do_train)
    with run_folder.open_run(values.output_dir, strategy):
        source = strategies.chief_first(strategy, lambda: find_source(values))
        prepared = _prepare(values, find_work(source), strategy, source)
        _train_and_predict(values, script, prepared, strategy, source)


def find_source(values) -> str | None:
    """Returns the model folder to begin with, if the flags name one.

    To train, that is --init_checkpoint; else the model that was trained in
    --output_dir, or --init_checkpoint if none was.
    """
    if not values.do_train:
        try:
            return checkpoints.find(values.output_dir)
        except checksums.DamagedError:
            raise  # Another model than the one that is there is no answer.
        except ValueError:
            if not values.init_checkpoint:
                raise
    return model_flags.find_init_checkpoint(values)


def _open_records(values, work: Work, tokenizer) -> Sets:
    """Returns split to records; makes those that are missing.

    Raises:
      ValueError: if a split that the flags need is not there.
    """
    folder = values.records_dir or os.path.join(values.output_dir, "records")
    splits = work.make_records(tokenizer, folder)
    for flag, kinds in (
        ("do_train", ("train",)),
        ("do_eval", ("dev",)),
        ("do_predict", work.predicted),
    ):
        has_split = any(split.startswith(kinds) for split in splits)
        if values[flag].value and not has_split:
            raise ValueError(
                f"--{flag} needs a {' or '.join(kinds)} file of {work.name}; "
                f"there is only {', '.join(splits) or 'another'}. Add the "
                "file, or leave the flag away."
            )
    return {split: records.Records.open(splits[split]) for split in splits}


def _prepare(values, work: Work, strategy, source: str | None) -> Run:
    """Makes or opens the records, and builds a model with its first weights."""
    if source and not values.do_train:
        _take_over(
            values, source, ("max_seq_length", "precision", *work.description)
        )
    tokenizer, vocab_file = fine_tuning_flags.find_tokenizer(values, source)
    config = fine_tuning_flags.find_config(values, tokenizer.vocab_size, source)
    fine_tuning_flags.check_length(values, config)
    sets = strategies.chief_first(
        strategy, lambda: _open_records(values, work, tokenizer)
    )
    if values.do_train:
        run_checks.refuse_bad(values, [sets["train"]], config, vocab_file)
    model = loop.build_model(
        work.bert_task,
        config,
        strategy,
        training_flags.find_config(values),
    )
    description = {
        "task_name": work.name,
        "do_lower_case": tokenizer.do_lower_case,
        "max_seq_length": values.max_seq_length,
        "precision": values.precision,  # Exports answer in it, too.
    } | model_folders.newly_initialized_metadata(
        work.description["task"], config, source
    )
    return Run(
        work,
        model,
        sets,
        fine_tuning_flags.find_bucket_lengths(values, sets),
        vocab_file,
        description | work.description,
    )


def _take_over(values, folder: str, names: tuple[str, ...]) -> None:
    """Sets flags that were not given to what the model was trained with."""
    path = os.path.join(folder, model_folders.METADATA)
    found = atomic_files.read_json(path)
    for name in names:
        if name in values and name in found and not values[name].present:
            values[name].value = found[name]


def _load_trained(prepared: Run, folder: str) -> None:
    """Loads encoder and head of a model that has the task's labels."""
    path = os.path.join(folder, model_folders.METADATA)
    found = atomic_files.read_json(path)
    work, wanted = prepared.work, prepared.description
    for name in ("task", "labels"):
        if found.get(name) != wanted.get(name):
            raise ValueError(
                f"{folder} is a model of {name} {found.get(name)}; {work.name} "
                f"has {wanted.get(name)}. Add --do_train, or give the "
                f"output_dir of a run of the same {name}."
            )
    model_folders.load_weights(prepared.model, folder)


def _make_predict(prepared: Run, batch_size: int) -> Predict:
    """Returns split -> named outputs for each of its examples, in order."""
    prediction_step = evaluation.make_prediction_step(prepared.model)

    def predict(split: str) -> Outputs:
        found = prepared.sets[split]
        return evaluation.predict(
            prediction_step,
            batches.evaluation_batches(
                found,
                prepared.work.inputs,
                found.manifest.sizes,
                batch_size=batch_size,
                vocab_size=prepared.model.config.vocab_size,
                bucket_lengths=prepared.bucket_lengths,
            ),
        )

    return predict


def _train(values, script: str, prepared: Run, strategy, on_checkpoint) -> str:
    """Trains for --num_train_epochs; returns the weights' sha256."""
    found, work = prepared.sets["train"], prepared.work
    steps = fine_tuning_flags.find_steps(values, len(found))
    # Batches of one call are stacked, so all have the same length.
    bucket_lengths = prepared.bucket_lengths
    if values.steps_per_loop > 1:
        bucket_lengths = ()
    settings = {
        "task": work.name,
        "config": prepared.model.config.to_dict(),
        "sizes": found.manifest.sizes,
        "records": found.manifest.digest,
        "init_checkpoint": values.init_checkpoint,
        "num_train_steps": steps.to_train,
        "num_warmup_steps": steps.to_warm_up,
        "bucket_lengths": list(bucket_lengths) or None,
    } | training_flags.run_settings(values)
    logging.info(
        "%s  examples %d  epochs %g  steps %d  %s",
        work.name,
        len(found),
        values.num_train_epochs,
        steps.to_train,
        f"encoder of {values.init_checkpoint}"
        if values.init_checkpoint
        else "from scratch: no --init_checkpoint",
    )
    is_chief = strategies.is_chief(strategy)
    run_folder.check(values.output_dir, settings, is_chief=is_chief)
    if is_chief:
        run_history.write_flag_values(values, script, values.output_dir)
    phase = training_phases.make_phase(
        found,
        work.bert_task.schema,
        found.manifest.sizes,
        num_steps=steps.to_train,
        vocab_size=prepared.model.config.vocab_size,
        batch_size=values.train_batch_size,
        seed=values.seed,
        bucket_lengths=bucket_lengths,
    )
    return loop.train(
        work.bert_task,
        prepared.model,
        [phase],
        strategy=strategy,
        settings=settings,
        metadata=prepared.description,
        vocab_file=prepared.vocab_file,
        num_warmup_steps=steps.to_warm_up,
        on_checkpoint=on_checkpoint,
        save_checkpoints_steps=steps.between_checkpoints,
        **training_flags.training_keywords(values),
    )


def _train_and_predict(values, script, prepared: Run, strategy, source) -> None:
    """Trains, evaluates and predicts, each if its flag is given."""
    folder, work = values.output_dir, prepared.work
    predict = _make_predict(prepared, values.eval_batch_size)
    score = work.make_score(prepared.sets)

    def evaluate() -> dict[str, dict[str, float]]:
        return {
            split: score(split, predict(split))
            for split in prepared.sets
            if split.startswith("dev")
        }

    if values.do_train:
        if source:
            model_folders.load_encoder(prepared.model, source)
        keep_best = dev_results.make_keep_best(
            prepared.model,
            evaluate,
            folder,
            best_metric=work.best_metric,
            describe=lambda scores: (
                prepared.description | work.describe(scores)
            ),
            vocab_file=prepared.vocab_file,
        )
        on_checkpoint = keep_best if values.do_eval else None
        weights_sha256 = _train(
            values, script, prepared, strategy, on_checkpoint
        )
        source = checkpoints.find(folder)
    if not strategies.is_chief(strategy):
        return  # What is left is for one process.
    _load_trained(prepared, source)
    # These weights stay: what is evaluated need not be predicted again.
    predict = functools.cache(predict)
    if values.do_eval:
        # First: it may read a file that nothing else has read.
        majority_baseline = work.majority_baseline(prepared.sets)
        dev_results.write(
            evaluate(),
            majority_baseline,
            checkpoints.step_of(source),
            folder,
            task_name=work.name,
            best_metric=work.best_metric,
        )
    if values.do_predict:
        work.write_predictions(
            prepared.sets, predict, os.path.join(folder, "predictions")
        )
    if values.do_train:
        step = checkpoints.newest_step(folder)
        logging.info("step %d  weights sha256 %s", step, weights_sha256)
