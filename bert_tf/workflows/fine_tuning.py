"""Task, FineTuningConfig -> fine-tuned model, scores, predictions.

    from bert_tf.tasks import glue
    from bert_tf.workflows import configs, fine_tuning
    from tfrecords.tasks import glue_tables

    task = glue.from_data(glue_tables.GlueData(task_name="RTE", data_dir="RTE"))
    fine_tuning.fine_tune(task, configs.FineTuningConfig(
        output_dir="runs/rte", init_checkpoint="runs/tiny",
        do_train=True, do_eval=True))

One call makes the records, trains, saves the model with the best dev score to
`best/`, evaluates and predicts. The same call resumes after a stop.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from absl import logging

from bert_tf.checkpoint import contents, model_folders, run_models
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.config import BertConfig
from bert_tf.model import lora
from bert_tf.tasks import metrics
from bert_tf.tasks.task import (
    FineTuningTask,
    Scores,
    SplitOutputs,
    evaluated_model,
)
from bert_tf.training import (
    loop,
    reporting,
    run_folder,
    stopping,
    strategies,
)
from bert_tf.workflows import (
    dev_results,
    initial_model,
    run_history,
    training_phases,
)
from bert_tf.workflows.configs import FineTuningConfig
from tfrecords.io import atomic_files
from tfrecords.io.records import Records
from tfrecords.options import some, to_index
from tfrecords.reading import batches, static_lengths

# Compiling the step of another length takes as long as training on this number
# of tokens, times hidden_size^2; on two cores, for any size of model.
_COMPILATION = 5e9


@dataclasses.dataclass(frozen=True)
class RecordSplit:
    """Records of a split, for training and prediction.

    Attributes:
      records: the records, with a manifest.
      task: the task, with the schema of the records.
      vocab_size: vocabulary size; larger ids raise an error.
      bucket_lengths: static lengths of batches; empty to pad all examples to
        `max_seq_length`.
      input_mode: "python" or "stream", see `batches.training_batches`.
    """

    records: Records
    task: FineTuningTask
    vocab_size: int
    bucket_lengths: tuple[int, ...]
    input_mode: str

    def __len__(self):
        return len(self.records)

    def phase(self, config: FineTuningConfig, num_steps: int) -> loop.Phase:
        """Returns the phase that trains on this split."""
        return training_phases.make_phase(
            self.records,
            self.task.schema,
            self.records.manifest.sizes,
            num_steps=num_steps,
            vocab_size=self.vocab_size,
            input_mode=self.input_mode,
            batch_size=config.train_batch_size,
            seed=config.seed,
            bucket_lengths=self.train_lengths(config),
        )

    def train_lengths(self, config: FineTuningConfig) -> tuple[int, ...]:
        """Returns the static lengths of training batches."""
        # Batches of a call are stacked, so they must have the same length.
        return self.bucket_lengths if config.steps_per_loop == 1 else ()

    def identity(self, config: FineTuningConfig) -> dict:
        """Returns settings that identify a run trained on this split."""
        return {
            "sizes": self.records.manifest.sizes,
            "records": self.records.manifest.digest,
            "bucket_lengths": list(self.train_lengths(config)) or None,
        }

    def digest(self) -> str:
        """Returns a digest of the records and of the files that they are of.

        Only the files have answers and judgements of dev.
        """
        manifest = self.records.manifest
        files = [manifest.flags.get(x) for x in ("source_sha256", "sha256")]
        text = json.dumps([manifest.digest, files])
        return hashlib.sha256(text.encode()).hexdigest()

    def evaluation_batches(
        self, batch_size: int, **replicas: int
    ) -> tf.data.Dataset:
        """Returns the inputs of all examples, or of the given replicas only."""
        return batches.evaluation_batches(
            self.records,
            self.task.inputs,
            self.records.manifest.sizes,
            batch_size=batch_size,
            vocab_size=self.vocab_size,
            bucket_lengths=self.bucket_lengths,
            input_mode=self.input_mode,
            **replicas,
        )


@dataclasses.dataclass(frozen=True)
class Run:
    """Everything that training and prediction need.

    Attributes:
      task: the task, prepared and with open splits.
      model: model of the task.
      splits: name -> RecordSplit, or a class with the same methods.
      vocabulary: content of vocab.txt, to save with the model, if any.
      metadata: content of model.json.
      source: model to start from or to predict with, if any.
      teacher: `teachers.Teacher` of the student, if any.
      labelled_tests: test splits that are scored.
    """

    folder: run_folder.RunFolder
    task: FineTuningTask
    model: keras.Model
    splits: Mapping[str, RecordSplit]
    vocabulary: bytes | None
    metadata: dict
    source: Checkpoint | None
    teacher: Any = None
    labelled_tests: Collection[str] = ()

    def dev_digest(self) -> str:
        """Returns the digest of the dev split that selects the best model."""
        name = next(x for x in self.splits if x.startswith("dev"))
        return self.splits[name].digest()


class Steps(NamedTuple):
    """Optimizer steps of a run."""

    num_train_steps: int
    num_warmup_steps: int
    save_checkpoints_steps: int


def fine_tune(
    task: FineTuningTask,
    config: FineTuningConfig,
    command: str | None = None,
    *,
    distills: bool = True,
) -> bool:
    """Trains, evaluates and predicts, as `do_*` of the config specify.

    Args:
      task: a task with data files, such as that of `glue.from_data`.
      config: settings of the run.
      command: name of the script, for run.flags; None to write none.
      distills: whether --teacher, if given, is a model of the task, from whose
        outputs the student learns; otherwise the task uses it.

    Returns:
      Whether this process has written results of dev: the chief's, if
      `do_eval`.

    Raises:
      ValueError: if settings, files or models are invalid.
      stopping.Stopped: if a signal stopped training; the same call resumes.
    """
    config = config.with_defaults()
    check_request(config)
    strategy = loop.open_strategy(config, config.do_train)
    with run_folder.open_run(config.output_dir, strategy) as folder:
        if not config.do_train:
            folder.settings()  # Is it damaged? `advice` reads it at the end.
        source = initial_model.open_model(config, folder, config.do_train)
        run, config = prepare(task, config, folder, strategy, source, distills)
        train_and_predict(run, config, strategy, command)
    return config.do_eval and folder.is_chief


def check_request(config: FineTuningConfig) -> None:
    """Raises ValueError if there is nothing to do."""
    if not (config.do_train or config.do_eval or config.do_predict):
        raise ValueError(
            "Nothing to do: add one or more of --do_train, --do_eval and "
            "--do_predict."
        )


def prepare(
    task: FineTuningTask,
    config: FineTuningConfig,
    folder: run_folder.RunFolder,
    strategy: tf.distribute.Strategy,
    source: Checkpoint | None,
    distills: bool = True,
) -> tuple[Run, FineTuningConfig]:
    """Makes or opens the records, and builds a newly initialized model.

    Returns:
      The run, and the config with all defaults filled in.
    """
    task = task.prepare(config, source)
    trained, metadata = evaluated_model(config, source)
    if trained and source.task == "pretraining":
        if not source.sentence_embedding:
            # It is that of pre-training rows; the config has that of texts.
            metadata.pop("max_seq_length", None)
            _check_not_pretraining(folder)
    config = dataclasses.replace(
        config,
        max_seq_length=config.max_seq_length
        or metadata.get("max_seq_length", task.max_seq_length),
        precision=config.precision or metadata.get("precision", "float32"),
        input_mode=strategies.choose_input_mode(strategy, config.input_mode),
    )
    tokenizer, vocabulary = initial_model.make_tokenizer(config, source)
    bert_config = choose_config(task, config, tokenizer.vocab_size, source)
    lengths = read_bucket_lengths(config)
    # Before records are made, which takes longer.
    teacher = None
    if distills and config.do_train and config.teacher:
        teacher = _open_teacher(
            *(task, config, bert_config, strategy, vocabulary, tokenizer.rules)
        )
    records = strategies.chief_first(
        strategy, lambda: _open_records(task, config, tokenizer)
    )
    if config.do_train:
        _check_records(
            *(config, folder, records["train"], bert_config, vocabulary)
        )
    model = _build_model(task, bert_config, strategy, config)
    if lengths is None:
        lengths = choose_bucket_lengths(
            records, config, bert_config.hidden_size
        )
    labelled_tests = task.open_splits(records) or ()
    run = Run(
        folder=folder,
        task=task,
        model=model,
        splits={
            split: RecordSplit(
                *(opened, task, bert_config.vocab_size, lengths),
                config.input_mode,
            )
            for split, opened in records.items()
        },
        vocabulary=vocabulary.content,
        metadata={
            "task_name": task.name,
            **tokenizer.rules,
            "max_seq_length": config.max_seq_length,
            "precision": config.precision,  # Exports compute in it, too.
        }
        | contents.untrained_of(
            task.metadata()["task"],
            model.config,
            source,
            model_folders.weight_names(model),
        )
        | task.metadata(),
        source=source,
        teacher=teacher,
        labelled_tests=labelled_tests,
    )
    return run, config


def _check_not_pretraining(folder: run_folder.RunFolder) -> None:
    """Raises ValueError if the folder has the results of a pre-training run."""
    if folder.settings().get("task") == "pretraining":
        raise ValueError(
            f"--output_dir={folder.path} is the folder of a pre-training run, "
            "whose results an evaluation would replace. Give it as "
            "--init_checkpoint, and another --output_dir."
        )


def _open_teacher(
    task, config, bert_config, strategy, vocabulary, rules
) -> Any:
    """Returns the `teachers.Teacher` of a student."""
    from bert_tf.workflows import teachers

    return teachers.load(
        task,
        config,
        bert_config,
        strategy,
        max_seq_length=config.max_seq_length,
        vocabulary=vocabulary,
        rules=rules,
    )


def _build_model(task, bert_config, strategy, config) -> keras.Model:
    """Returns a newly initialized model, in training with adapters if any."""
    model = loop.build_model(task, bert_config, strategy, config)
    if not config.do_train or config.lora_rank is None:
        return model
    with strategy.scope():
        model.encoder.enable_lora(
            config.lora_rank,
            targets=config.lora_targets or lora.DEFAULT_TARGETS,
        )
    if not contents.reads_pooler(task.metadata()["task"], model.config):
        model.encoder.pooler.trainable = False
    trained, total = lora.counts(model)
    logging.info(
        "adapters of rank %d  trained %s of %s weights (%.2f %%)",
        config.lora_rank,
        f"{trained:,}",
        f"{total:,}",
        100.0 * trained / total,
    )
    return model


def _check_records(config, folder, records, bert_config, vocabulary) -> None:
    """Raises ValueError if a sample of the records has errors."""
    from bert_tf.workflows import record_checks

    record_checks.refuse_bad_records(
        config, folder, [records], bert_config, vocabulary
    )


def choose_config(
    task: FineTuningTask,
    config: FineTuningConfig,
    vocab_size: int,
    source: Checkpoint | None,
) -> BertConfig:
    """Returns the BertConfig of encoder and head.

    Raises:
      ValueError: as in `initial_model.choose_config`, or if `max_seq_length`
        exceeds `max_position_embeddings`.
    """
    given = initial_model.choose_config(config, vocab_size, source)
    # Each task chooses whether its head reads the pooler or pooled tokens.
    bert_config = dataclasses.replace(given, classifier_pooling="")
    if task.metadata()["task"] in contents.OF_TEXTS:
        # A config that was given may lack the setting of the model.
        pooling = source.config.classifier_pooling if source else ""
        if config.do_train:
            pooling = given.classifier_pooling or pooling
        bert_config = dataclasses.replace(
            bert_config, classifier_pooling=pooling
        )
    initial_model.check_length(config.max_seq_length, bert_config)
    return bert_config


def read_bucket_lengths(config: FineTuningConfig) -> tuple[int, ...] | None:
    """Returns the lengths in `bucket_lengths`; None if rows decide them.

    Raises:
      ValueError: if it is not a list of lengths up to `max_seq_length`.
    """
    words, max_length = config.bucket_lengths, config.max_seq_length
    if words in (("auto",), ("none",)):
        return None if words == ("auto",) else ()
    lengths = sorted({to_index(word) or 0 for word in words})
    if not lengths or lengths[0] < 1 or lengths[-1] > max_length:
        raise ValueError(
            f"--bucket_lengths={','.join(words)} should be auto, none or "
            "lengths such as 16,32,64, of at least 1 and at most "
            f"--max_seq_length={max_length}."
        )
    return tuple(lengths)


def choose_bucket_lengths(
    records: Mapping[str, Records], config: FineTuningConfig, hidden_size: int
) -> tuple[int, ...]:
    """Returns lengths that suit the training rows, or the first split's."""
    rows = records.get("train") or next(iter(records.values()))
    size = config.max_seq_length
    length = training_phases.num_windows(rows) * size
    found = static_lengths.read(rows, length)
    # Per layer, compiling takes a constant time, and a token H^2 operations.
    price = _COMPILATION / hidden_size**2 / max(1.0, config.num_train_epochs)
    chosen = static_lengths.choose(found, length, price)
    # A text of several windows has whole ones.
    return tuple(
        sorted({x if x <= size else -(-x // size) * size for x in chosen})
    )


def _open_records(task, config, tokenizer) -> dict[str, Records]:
    """Returns split -> records; makes those that are missing."""
    folder = config.records_dir or os.path.join(config.output_dir, "records")
    folders = task.make_records(tokenizer, folder, config.max_seq_length)
    check_splits(task, config, list(folders))
    return {split: Records.open(folders[split]) for split in folders}


def check_splits(task, config, splits: list[str]) -> None:
    """Raises ValueError if a required split is missing."""
    for flag, prefixes in (
        ("do_train", ("train",)),
        ("do_eval", ("dev",)),
        ("do_predict", task.prediction_splits),
    ):
        has_split = any(split.startswith(prefixes) for split in splits)
        if getattr(config, flag) and not has_split:
            existing = f"only {', '.join(splits)}" if splits else "none"
            advice = "Add the file, or omit the flag."
            share = getattr(task.data, "dev_share", None)
            can_hold_out = "train" in splits and share == 0
            if flag == "do_eval" and can_hold_out:
                advice += " --dev_share=0.1 holds out rows of train."
            raise ValueError(
                f"--{flag} needs a {' or '.join(prefixes)} file of "
                f"{task.name}; there is {existing}. {advice}"
            )


def compute_steps(config: FineTuningConfig, num_examples: int) -> Steps:
    """Returns numbers of steps, for `num_train_epochs` and other settings."""
    # run_classifier.py: main.
    steps_per_epoch = num_examples / config.train_batch_size
    num_train_steps = max(1, int(steps_per_epoch * config.num_train_epochs))
    # By default a checkpoint per epoch, rounded up to complete calls.
    save_steps = max(steps_per_epoch, config.min_save_steps)
    calls = math.ceil(save_steps / config.steps_per_loop)
    return Steps(
        num_train_steps,
        int(num_train_steps * config.warmup_proportion),
        config.save_checkpoints_steps or calls * config.steps_per_loop,
    )


def train_and_predict(
    run: Run,
    config: FineTuningConfig,
    strategy: tf.distribute.Strategy,
    command: str | None,
) -> Scores:
    """Trains, evaluates and predicts, as the config specifies.

    All worker processes take part, and only the chief writes.

    Returns:
      Scores of the best model on each dev split; empty without `do_eval`.
    """
    model = functools.partial(run.task.call, run.model)
    predict = _make_predict(run, model, config.eval_batch_size, strategy)
    baseline = {}
    if config.do_eval:
        # Before training, since it refuses a dev set that cannot be scored.
        baseline = run.task.majority_baseline()
    if config.do_train:
        source, folder = run.source, run.folder
        started_from = initial_model.identity(source, config, folder)
        # A run that resumes restores its weights with the optimizer's state.
        if source and not folder.newest_step():
            initial_model.load_initial_weights(source, run.model.encoder)
        if run.teacher:
            run.teacher.copy_layers(run.model)
        on_checkpoint = None
        if config.do_eval:
            on_checkpoint = dev_results.make_keep_best(
                run.model,
                functools.partial(_evaluate, run, predict),
                folder,
                best_metric=run.task.best_metric,
                dev=run.dev_digest(),
                metadata_of=lambda scores: (
                    run.metadata | run.task.metadata(scores)
                ),
                vocabulary=run.vocabulary,
            )
        with reporting.session(folder.path, folder.is_chief):
            try:
                _train(
                    *(run, config, strategy, on_checkpoint, command),
                    started_from,
                )
            except stopping.EarlyStopped as error:
                logging.info("training ended early, %s", error)
        trained = strategies.chief_first(strategy, folder.model)
        model_folders.load_weights(run.model, trained)
        tuned = model_folders.read_metadata(trained)
        # Otherwise the final evaluation of dev tunes what it tuned before.
        if not config.do_eval or "temperature" in tuned:
            run.task.use_tuned(tuned)
        step = run_models.step_of(trained)
    else:
        load_trained(run, run.source)
        step = run.source.step
    # The weights no longer change, so each split is predicted only once.
    predict = functools.cache(predict)
    scores = {}
    if config.do_eval:
        scores = _evaluate(run, predict, with_tests=True)
        if run.folder.is_chief:
            _write_results(run, scores, baseline, step, predict)
    elif run.labelled_tests:
        tests = run.labelled_tests
        found = {x: run.task.score(x, predict(x)) for x in tests}
        dev_results.log(found, step)
        logging.info("--do_eval writes scores to %s", run_folder.RESULTS)
    if config.do_predict:
        with _predictions_folder(run.folder) as folder:
            run.task.write_predictions(predict, folder)
    return scores


def _write_results(run, scores, baseline, step, predict) -> None:
    """Writes eval_results.json, and the rows of each scored split."""
    details = {}
    for split in scores:
        details[split] = run.task.details(split, predict(split))
        if resampled := run.task.resampled(split, predict(split)):
            interval = metrics.interval(*resampled)
            details[split][run_models.INTERVALS] = interval
    results = dev_results.write(
        scores,
        baseline,
        step,
        run.folder.path,
        task_name=run.task.name,
        best_metric=run.task.best_metric,
        details=details,
    )
    for text in dev_results.advice(results, run.folder.path):
        logging.warning("%s", text)
    for split in scores:
        rows = run.task.evaluated_rows(split, predict(split))
        dev_results.write_rows(rows, run.folder.path, split)


@contextlib.contextmanager
def _predictions_folder(run: run_folder.RunFolder) -> Iterator[str]:
    """Yields the folder to write prediction files to.

    The task decides which splits to predict. So other workers, which have to
    predict the same splits, write the same files, to a folder to be removed.
    """
    if run.is_chief:
        yield os.path.join(run.path, dev_results.PREDICTIONS)
        return
    with atomic_files.temporary_folder() as folder:
        yield folder


def _make_predict(
    run: Run, model: Callable, batch_size: int, strategy: tf.distribute.Strategy
) -> Callable[[str], SplitOutputs]:
    """Returns split -> outputs by name for all examples, in order.

    `model` is that of the run, or a function with the same arguments.
    """
    from bert_tf.training import evaluation

    prediction_step = evaluation.make_prediction_step(model, strategy)

    def predict(split: str) -> SplitOutputs:
        make_batches = functools.partial(
            run.splits[split].evaluation_batches, batch_size
        )
        return evaluation.predict(prediction_step, make_batches, strategy)

    return predict


def _make_before_save(
    run: Run, batch_size: int, strategy: tf.distribute.Strategy
) -> Callable[[], None]:
    """Returns a function that calls `before_save` of the task."""

    @functools.cache
    def predict_with(function):
        return _make_predict(run, function, batch_size, strategy)

    return lambda: run.task.before_save(
        run.model, lambda function, split: predict_with(function)(split)
    )


def _evaluate(
    run: Run, predict: Callable[[str], SplitOutputs], with_tests: bool = False
) -> Scores:
    """Returns the scores of dev, whose thresholds are those of test."""
    splits = [split for split in run.splits if split.startswith("dev")]
    splits += run.labelled_tests if with_tests else ()
    return {split: run.task.score(split, predict(split)) for split in splits}


def load_trained(run: Run, source: Checkpoint) -> None:
    """Loads encoder and head of a model of the same task and labels.

    Raises:
      ValueError: if the model has a different task or different labels, or its
        head is newly initialized.
    """
    task, labels = run.metadata["task"], list(run.metadata.get("labels", ()))
    for name, found, wanted in (
        ("task", source.task, task),
        ("labels", list(source.labels), labels),
    ):
        if found != wanted:
            raise ValueError(
                f"{source.path()} is a model with {name} {found}; "
                f"{run.task.name} has {wanted}. Add --do_train, or "
                f"give the output_dir of a run with the same {name}."
            )
    # Vectors have no head: those of pre-training stay unused, as in training.
    is_encoder = task == "pretraining"
    missing = source.assign_to(run.model.encoder if is_encoder else run.model)
    if not contents.reads_pooler(task, source.config):
        missing = [x for x in missing if not x.startswith(contents.POOLER)]
    if missing:
        raise ValueError(
            f"{source.path()} has no trained {some(missing)}: its scores and "
            "predictions would be random. Add --do_train."
        )


def _train(
    run: Run, config, strategy, on_checkpoint, command, started_from
) -> None:
    """Trains for `num_train_epochs`."""
    split, task, teacher = run.splits["train"], run.task, {}
    if run.teacher:
        task, teacher = run.teacher.with_losses(task), run.teacher.settings()
    steps = compute_steps(config, len(split))
    settings = (
        {
            "task": run.task.name,
            "config": run.model.config.to_dict(),
            "init_checkpoint": initial_model.name_of(config),
            "num_train_steps": steps.num_train_steps,
            "num_warmup_steps": steps.num_warmup_steps,
        }
        | split.identity(config)
        | config.decisive_settings()
        | run.task.decisive_settings()
        | teacher
        | started_from
    )
    logging.info(
        "%s  examples %d  epochs %g  steps %d  %s",
        run.task.name,
        len(split),
        config.num_train_epochs,
        steps.num_train_steps,
        f"encoder of {config.init_checkpoint}"
        if config.init_checkpoint
        else "from scratch: no --init_checkpoint",
    )
    run.folder.check(settings)
    interval = config.eval_steps or steps.save_checkpoints_steps

    def evaluate(step: int) -> None:
        on_checkpoint(step)
        if config.early_stopping_evaluations and step < steps.num_train_steps:
            dev_results.check_improves(
                *(run.folder, strategy, step),
                *(config.early_stopping_evaluations, interval),
            )

    if config.do_eval:
        dev_results.check_comparable(
            run.folder, run.task.best_metric, run.dev_digest()
        )
    else:
        dev_results.check_updated(
            run.folder, steps.num_train_steps, "--do_eval"
        )
    if run.folder.is_chief and command:
        run_history.write_flags(command, run.folder.path, run.task.data, config)
    loop.train(
        task,
        run.model,
        [split.phase(config, steps.num_train_steps)],
        config,
        strategy=strategy,
        settings=settings,
        metadata=run.metadata,
        vocabulary=run.vocabulary,
        num_warmup_steps=steps.num_warmup_steps,
        save_checkpoints_steps=steps.save_checkpoints_steps,
        eval_steps=config.eval_steps,
        before_save=_make_before_save(run, config.eval_batch_size, strategy),
        on_checkpoint=evaluate if on_checkpoint else None,
    )
