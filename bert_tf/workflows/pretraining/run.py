"""PretrainingConfig -> a pre-trained model and its held-out metrics."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from absl import logging

from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.config import BertConfig
from bert_tf.tasks import pretraining
from bert_tf.training import (
    loop,
    optimizers,
    run_checks,
    run_folder,
    strategies,
)
from bert_tf.workflows import (
    dev_results,
    initial_model,
    run_history,
    training_phases,
)
from bert_tf.workflows.pretraining import data as data_lib
from bert_tf.workflows.pretraining import time_budget
from bert_tf.workflows.pretraining.config import PretrainingConfig
from bert_tf.workflows.pretraining.data import PretrainingData
from bert_tf.workflows.pretraining.held_out import (
    EarlyStopping,
    HeldOutEvaluation,
)
from tfrecords.io import records as records_lib
from tfrecords.text import vocab

# Steps of a run whose number of steps is not known yet.
_ENOUGH_TO_TIME = 10**6


def pretrain(config: PretrainingConfig) -> None:
    """Pre-trains and evaluates; resumes a stopped run.

    Raises:
      ValueError: if settings, records or model are invalid or do not match.
      FloatingPointError: if a loss or gradient is not finite.
      stopping.Stopped: at `stop_at_step`, or after a signal.
    """
    do_train = bool(config.do_train and config.input_file)
    if not do_train and not (config.do_eval and config.eval_input_file):
        raise ValueError(
            "Nothing to do: give --input_file=RECORDS to train, "
            "--eval_input_file=RECORDS to evaluate, or both."
        )
    if config.do_eval and not config.eval_input_file:
        logging.warning(
            "no --eval_input_file: nothing is evaluated; --nodo_eval turns "
            "this warning off"
        )
    strategy = loop.open_strategy(config, do_train)
    config = dataclasses.replace(
        config,
        do_train=do_train,  # Not without records to train on.
        input_mode=strategies.choose_input_mode(strategy, config.input_mode),
    )
    # Locked until the end: a second run would truncate the logs of this one.
    with run_folder.open_run(config.output_dir, strategy) as folder:
        source = initial_model.open_model(config, folder, config.do_train)
        _train_and_evaluate(config, folder, strategy, source)


def _train_and_evaluate(
    given: PretrainingConfig,
    folder: run_folder.RunFolder,
    strategy: tf.distribute.Strategy,
    source: Checkpoint | None,
) -> None:
    """Trains from a model or from scratch, or only evaluates a model."""
    made_with = data_lib.read_vocabulary_of_records(given)
    vocabulary, rules = initial_model.choose_vocabulary(
        given, source, made_with.rules
    )
    sha256 = vocabulary.sha256() if vocabulary else made_with.sha256
    bert_config = _choose_config(given, source, vocabulary, made_with.size)
    # All records are opened and checked before the model is built.
    config = given.with_steps(_ENOUGH_TO_TIME if given.train_hours else None)
    phases, held_out = _open_records(config, bert_config, sha256, strategy)
    if not config.do_train:
        _evaluate(config, bert_config, strategy, held_out, source, folder)
        return
    _refuse_bad_records(config, folder, phases, bert_config, vocabulary)
    teacher = None
    if config.teacher:
        from bert_tf.workflows import teachers

        teacher = teachers.load(
            phases[0].task,
            config,
            bert_config,
            strategy,
            max_seq_length=max(x.sizes["max_seq_length"] for x in phases),
            vocabulary=vocabulary,
            vocabulary_sha256=sha256,
            rules=rules,
        )
    if given.train_hours is not None:
        config = _fit_steps(
            *(given, folder, phases, bert_config, teacher, strategy)
        )
        phases = data_lib.open_phases(config, bert_config, sha256)
    settings = _run_settings(
        config, bert_config, phases, teacher, given.train_hours
    ) | initial_model.identity(source, config, folder)
    _check_folder(config, settings, folder)
    if folder.is_chief:
        # With the number of steps instead of hours, to repeat the run.
        flags = given if given.train_hours is None else config
        run_history.write_flags("run_pretraining", folder.path, flags)
    model = loop.build_model(pretraining.TASK, bert_config, strategy, config)
    # A run that resumes restores its weights with the optimizer's state.
    if source and not folder.newest_step():
        _load_weights(model, source)
    if teacher:
        teacher.copy_layers(model)
    evaluate = None
    if held_out:
        evaluate = HeldOutEvaluation(config, model, held_out, strategy, folder)
    _train(
        config,
        model,
        phases,
        teacher,
        strategy=strategy,
        settings=settings,
        vocabulary=vocabulary,
        rules=rules,
        evaluate=evaluate,
    )
    # A finished run may be evaluated later, or on other records.
    step = config.num_train_steps
    if evaluate and not strategies.of_chief(
        strategy, lambda: evaluate.is_done(step)
    ):
        evaluate(step)


def _evaluate(
    config: PretrainingConfig,
    bert_config: BertConfig,
    strategy: tf.distribute.Strategy,
    held_out: PretrainingData,
    source: Checkpoint,
    folder: run_folder.RunFolder,
) -> None:
    """Evaluates a model that was trained before, on pairs of the same kind."""
    task, missing = source.task, source.missing()
    if task != "pretraining" or missing:
        raise ValueError(
            f"{source.path()} has task {task}"
            + f", without {', '.join(missing)}" * bool(missing)
            + ": its pre-training heads are not trained. Train them with "
            "--do_train and --input_file."
        )
    pretraining.check_labels(
        source.model_json(), source.path(), held_out.records
    )
    model = loop.build_model(pretraining.TASK, bert_config, strategy, config)
    source.assign_to(model)
    evaluate = HeldOutEvaluation(config, model, held_out, strategy, folder)
    evaluate(source.step)


def _open_records(
    config: PretrainingConfig,
    bert_config: BertConfig,
    sha256: str | None,
    strategy: tf.distribute.Strategy,
) -> tuple[list[PretrainingData], PretrainingData | None]:
    """Returns the phases, [] without training, and the held-out data if any."""
    phases, held_out = [], None
    if config.do_train:
        phases = data_lib.open_phases(config, bert_config, sha256)
    for phase in phases:
        run_checks.check_batch(
            strategy, phase.batch_size, config.gradient_accumulation_steps
        )
    if config.do_eval and config.eval_input_file:
        held_out = data_lib.open_data(
            config, config.eval_input_file, bert_config, sha256
        )
    opened = [*phases, held_out] if held_out else phases
    pretraining.check_pairs([data.records for data in opened])
    # The phases of a batch-size ramp share their records.
    for records in dict.fromkeys(data.records for data in opened):
        if records.manifest:
            folder = os.path.dirname(records.paths[0])
            records_lib.check_digests(folder, records.manifest.shards)
    return phases, held_out


def _refuse_bad_records(
    config: PretrainingConfig,
    folder: run_folder.RunFolder,
    phases: Sequence[PretrainingData],
    bert_config: BertConfig,
    vocabulary: vocab.Vocabulary | None,
) -> None:
    """Raises ValueError if the doctor finds an error in the records."""
    from bert_tf.workflows import record_checks

    # The phases of a batch-size ramp share their records.
    opened = list(dict.fromkeys(phase.records for phase in phases))
    record_checks.refuse_bad_records(
        config, folder, opened, bert_config, vocabulary
    )


def _fit_steps(
    given: PretrainingConfig,
    folder: run_folder.RunFolder,
    phases: Sequence[PretrainingData],
    bert_config: BertConfig,
    teacher: Any,
    strategy: tf.distribute.Strategy,
) -> PretrainingConfig:
    """Returns the config with the steps that fit its `train_hours`.

    A run that has begun keeps its number of steps.
    """
    steps = None
    if folder.newest_step():
        before = folder.settings()
        folder.check(before | {"train_hours": given.train_hours})
        steps = before.get("num_train_steps")
    task = phases[0].task
    steps = steps or time_budget.measure_steps(
        teacher.with_losses(task) if teacher else task,
        _loop_phases(phases, bert_config, given),
        bert_config,
        given,
        strategy,
    )
    return given.with_steps(steps)


def _choose_config(
    config: PretrainingConfig,
    source: Checkpoint | None,
    vocabulary: vocab.Vocabulary | None,
    vocab_size: int | None,
) -> BertConfig:
    """Returns the config of the model, for `objective`.

    `vocab_size` is that of the records, where `vocabulary` is not known.
    """
    if vocabulary:
        vocab_size = len(vocabulary.entries())
    bert_config = dataclasses.replace(
        initial_model.choose_config(config, vocab_size, source),
        classifier_pooling="",  # Of a head that is not trained here.
    )
    is_causal = bert_config.is_causal
    if config.objective:
        is_causal = config.objective == "left_to_right"
    if is_causal != bert_config.is_causal and not (
        is_causal and config.do_train
    ):
        own = "left_to_right" if bert_config.is_causal else "masked_lm"
        raise ValueError(
            f"--objective={config.objective}, but the bert_config.json of the "
            f"model is for {own}. Omit the flag, or use another config."
        )
    return dataclasses.replace(bert_config, is_causal=is_causal)


def _load_weights(model: keras.Model, source: Checkpoint) -> None:
    """Loads the weights of a pre-trained model, or the encoder of another."""
    if source.task == "pretraining":
        initial_model.load_initial_weights(source, model)
        return
    logging.info(
        "%s has task %s: heads are newly initialized",
        source.path(),
        source.task,
    )
    initial_model.load_initial_weights(source, model.encoder)


def _run_settings(
    config: PretrainingConfig,
    bert_config: BertConfig,
    phases: Sequence[PretrainingData],
    teacher: Any,
    train_hours: float | None,
) -> dict:
    """Returns the settings that identify this run, for run.json."""
    settings = {
        "task": "pretraining",
        "config": bert_config.to_dict(),
        "sizes": phases[0].sizes,
        "records": phases[0].digest,
        "init_checkpoint": initial_model.name_of(config),
        "num_train_steps": config.num_train_steps,
        "num_warmup_steps": config.num_warmup_steps,
    }
    if len(phases) > 1:
        settings |= {
            "sizes": [phase.sizes for phase in phases],
            "records": [phase.digest for phase in phases],
            "phases": [phase.num_steps for phase in phases],
        }
    if config.batch_size_ramp:
        settings["batch_sizes"] = [phase.batch_size for phase in phases]
    if train_hours is not None:
        settings["train_hours"] = train_hours
    settings |= config.decisive_settings()
    return settings | (teacher.settings() if teacher else {})


def _check_folder(
    config: PretrainingConfig, settings: dict, folder: run_folder.RunFolder
) -> None:
    """Checks a run before it writes anything but its run.json.

    Further training must not leave an old `best/`, the model that other
    commands take from the folder.
    """
    optimizers.make_schedule(
        config, config.num_train_steps, config.num_warmup_steps
    )
    folder.check(settings)
    if not config.early_stopping_evaluations:
        dev_results.check_updated(
            folder, config.num_train_steps, "--early_stopping_evaluations"
        )


def _train(
    config: PretrainingConfig,
    model: keras.Model,
    phases: Sequence[PretrainingData],
    teacher: Any,
    *,
    vocabulary: vocab.Vocabulary | None,
    rules: Mapping[str, bool],
    evaluate: HeldOutEvaluation | None,
    **keywords,
) -> None:
    """Trains to `num_train_steps`; `keywords` are passed to `loop.train`."""
    task = phases[0].task
    metadata = {
        "task": task.name,
        **rules,
        "max_seq_length": max(x.sizes["max_seq_length"] for x in phases),
        **task.metadata(),
    }
    content = vocabulary and vocabulary.content
    on_checkpoint = evaluate
    if config.early_stopping_evaluations:
        on_checkpoint = EarlyStopping(evaluate, metadata, content)
    loop.train(
        teacher.with_losses(task) if teacher else task,
        model,
        _loop_phases(phases, model.config, config),
        config,
        metadata=metadata,
        vocabulary=content,
        on_checkpoint=on_checkpoint,
        num_warmup_steps=config.num_warmup_steps,
        **keywords,
    )


def _loop_phases(
    phases: Sequence[PretrainingData],
    bert_config: BertConfig,
    config: PretrainingConfig,
) -> list[loop.Phase]:
    return [
        training_phases.make_phase(
            phase.records,
            phase.task.schema,
            phase.sizes,
            num_steps=phase.num_steps,
            vocab_size=bert_config.vocab_size,
            input_mode=config.input_mode,
            first_batch=phase.first_batch,
            batch_size=phase.batch_size,
            seed=config.seed,
        )
        for phase in phases
    ]
