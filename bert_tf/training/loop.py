"""Batches -> trained weights: the training loop."""

import dataclasses
import functools
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import tensorflow as tf
from absl import logging

from bert_tf.checkpoint import model_folders
from bert_tf.config import POLICIES, BertConfig
from bert_tf.training import (
    checkpoints,
    optimizers,
    reporting,
    run_checks,
    run_folder,
    stopping,
    strategies,
    train_step,
)
from bert_tf.training.config import TrainingConfig
from tfrecords.io import json_files, stored_folders


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """Consecutive steps of a run that read the same records.

    `workflows.training_phases.make_phase` returns one for given records.

    Attributes:
      num_steps: number of optimizer steps.
      batches: (start batch, replicas=, first_replica=, local_replicas=) ->
        dataset; see `tfrecords.reading.batches.training_batches`.
      describe: batch number -> description of the records in the batch.
      examples_per_row: mean number of examples per row; above 1 for packed
        rows.
    """

    num_steps: int
    batches: Callable[..., tf.data.Dataset]
    describe: Callable[[int], str] = lambda number: (
        f"batch {number} of the records"
    )
    examples_per_row: float = 1.0


def build_model(
    task,
    config: BertConfig,
    strategy: tf.distribute.Strategy,
    training_config: TrainingConfig,
) -> keras.Model:
    """Returns a new model under a strategy; the seed determines its weights.

    Args:
      task: the task of the model.
      config: sizes of the model.
      strategy: strategy whose devices hold the weights.
      training_config: reads `seed`, `precision`, `remat` and
        `use_one_hot_embeddings`. Weights are float32 for every precision.
    """
    keras.utils.set_random_seed(training_config.seed)
    with strategy.scope():
        model = task.build_model(
            config, dtype=POLICIES[training_config.precision]
        )
    if training_config.remat:
        model.encoder.enable_remat()
    if training_config.use_one_hot_embeddings:
        model.encoder.embeddings.use_one_hot = True
    return model


def train(
    task,
    model: keras.Model,
    phases: Sequence[Phase],
    config: TrainingConfig,
    *,
    strategy: tf.distribute.Strategy,
    settings: dict,
    metadata: Mapping,
    vocabulary: bytes | None,
    num_warmup_steps: int,
    save_checkpoints_steps: int | None = None,
    eval_steps: int | None = None,
    before_save: Callable[[], None] = lambda: None,
    on_checkpoint: Callable[[int], None] | None = None,
) -> str:
    """Trains to the end of all phases; resumes from the last checkpoint.

    Call it within `run_folder.open_run` of `output_dir`.

    Args:
      task: the task to train.
      model: from `build_model` with the same strategy.
      phases: records to read, and the number of updates on each.
      config: training settings; `output_dir` will contain `checkpoints/` and
        `logs/train/`.
      strategy: strategy whose replicas share each batch.
      settings: settings that identify the run, see `RunFolder.check`; they are
        the same in all workers.
      metadata: for `model.json`, see `model_folders.save_model`.
      vocabulary: content of vocab.txt, to save with each checkpoint, if any.
      num_warmup_steps: updates until the peak of the learning rate.
      save_checkpoints_steps: updates between regular checkpoints; None for
        the value in `config`. The last step also has a regular checkpoint.
      eval_steps: updates between evaluations; None for one at each regular
        checkpoint. The last step is always evaluated.
      before_save: called before each checkpoint and evaluation, by all workers.
      on_checkpoint: called by all workers with a step to evaluate, after its
        checkpoint if it has one. If the run stops there, the resumed run does.

    Returns:
      The sha256 of the final weights: of their averages, with `ema_decay`.

    Raises:
      ValueError: if a setting is out of range, or TensorFlow is set to assume
        that weights stay the same.
      FloatingPointError: if a loss or gradient is not finite.
      stopping.Stopped: after saving a checkpoint, on a signal, at
        `stop_at_step`, or as `on_checkpoint` raises EarlyStopped; or if another
        worker process is lost.
    """
    num_train_steps = sum(phase.num_steps for phase in phases)
    end_step = min(num_train_steps, config.stop_at_step or num_train_steps)
    save_steps = save_checkpoints_steps or config.save_checkpoints_steps
    schedule = optimizers.make_schedule(
        config, num_train_steps, num_warmup_steps
    )
    eval_steps = eval_steps or save_steps
    run_checks.check_calls(strategy, config, save_steps, eval_steps)

    def is_regular(step: int, interval: int = save_steps) -> bool:
        return step % interval == 0 or step == num_train_steps

    with stopping.after_step(config.preemption_server) as request:
        training_step, saved, start_step = _resume(
            task, model, config, strategy, schedule, metadata, vocabulary
        )
        flags = [settings, config.steps_per_loop, save_steps, eval_steps]
        flags += [on_checkpoint is not None, config.eval_batch_size]
        run_checks.check_start(strategy, start_step, end_step, flags)
        report = _make_report(config, phases, saved, start_step)
        if start_step and is_regular(start_step, eval_steps):
            # A run that stopped at this step may have skipped the evaluation.
            if not _is_evaluated(strategy, config, start_step):
                _evaluate(training_step, saved, on_checkpoint, start_step)
        requests = _Requests(config, strategy, training_step, request)
        step = start_step
        for phase, end, batches in read_batches(
            strategy, phases, start_step, end_step, config.steps_per_loop
        ):
            values = training_step(batches, end - step)
            count = values["loss"].shape[0]  # Fewer than asked for, to stop.
            step += count
            requests.update(values)
            report.add(step, values, *_sizes(strategy, phase, batches, count))
            stops = requests.to_stop
            saves = stops or requests.to_save or step == end_step
            saves = saves or is_regular(step)
            evaluates = is_regular(step, eval_steps) and not stops
            if saves or evaluates:
                with report.paused():
                    report.flush()  # Raises before saving if a loss is NaN.
                    before_save()
                    # A best model is known to be this run's by a checkpoint.
                    if saves or not saved.last_step:
                        saved.save(step, is_regular)
                    if evaluates:
                        _evaluate(training_step, saved, on_checkpoint, step)
                    _publish(strategy)
            if saves:
                requests.note_save()
                # A signal may have arrived in the meantime.
                stops = requests.to_stop
            if stops:
                raise stopping.Stopped(
                    f"after step {step}, with a checkpoint; the same command "
                    "resumes from here"
                )

    return _finish(training_step, end_step, num_train_steps)


def _finish(
    training_step: train_step.TrainStep, step: int, num_train_steps: int
) -> str:
    """Gives the model its averages; logs and returns the sha256 of them."""
    if step < num_train_steps:
        message = f"after step {step}, because of --stop_at_step"
        raise stopping.Stopped(f"{message}; omit the flag to resume", 0)
    training_step.optimizer.swap_averages()
    weights_sha256 = model_folders.digest(training_step.model)
    logging.info("step %d  weights sha256 %s", step, weights_sha256)
    return weights_sha256


def make_step(
    task,
    model: keras.Model,
    config: TrainingConfig,
    strategy: tf.distribute.Strategy,
    schedule: Callable[[tf.Tensor], tf.Tensor],
) -> train_step.TrainStep:
    """Returns the step of a run, with a new optimizer."""
    with strategy.scope():
        optimizer = optimizers.make_optimizer(
            config, model.trainable_weights, schedule
        )
        in_float16 = model.dtype_policy.compute_dtype == "float16"
        loss_scale = train_step.LossScale() if in_float16 else None
    return train_step.TrainStep(
        task, model, optimizer, config, strategy, loss_scale
    )


def _resume(
    task, model, config, strategy, schedule, metadata, vocabulary
) -> tuple[train_step.TrainStep, checkpoints.RunCheckpoints, int]:
    """Returns the TrainStep, the checkpoints, and the restored step."""
    training_step = make_step(task, model, config, strategy, schedule)
    loss_scale = training_step.loss_scale
    saved = checkpoints.RunCheckpoints(
        os.path.join(config.output_dir, "checkpoints"),
        model,
        training_step.optimizer,
        keep=config.keep_checkpoint_max,
        extra=loss_scale.state() if loss_scale else None,
        is_chief=strategies.is_chief(strategy),
        metadata=metadata,
        vocabulary=vocabulary,
    )
    # The chief restores first, because it renames damaged checkpoints.
    start_step = strategies.chief_first(strategy, saved.restore_latest)
    return training_step, saved, start_step


def _make_report(config, phases, saved, start_step) -> reporting.Report:
    """Returns the report of a run, which the chief writes to `logs/train/`."""
    logs = os.path.join(config.output_dir, "logs", "train")
    return reporting.Report(
        reporting.Writer(logs, start_step) if saved.is_chief else None,
        num_train_steps=sum(phase.num_steps for phase in phases),
        log_every_steps=config.log_every_steps,
        where=functools.partial(_describe, phases, saved),
    )


class _Requests:
    """Requests to stop, and to save a checkpoint after some minutes.

    Each step sums those of all processes, so that all stop or save after the
    same step. Reading a sum waits for its step, so it is read:

    - never, if this process trains alone, with one step a call;
    - after the next call, if several processes make one step a call;
    - after the call, if a call makes several steps, and may have ended early.

    Args:
      config: reads `save_checkpoints_minutes` and `steps_per_loop`.
      strategy: strategy of the run.
      training_step: gets the requests of this process.
      request: request to stop this process.
    """

    def __init__(self, config, strategy, training_step, request):
        self.seconds = math.inf
        if config.save_checkpoints_minutes and strategies.is_chief(strategy):
            self.seconds = 60.0 * config.save_checkpoints_minutes
        self.is_alone = strategies.num_workers(strategy) == 1
        self.makes_several_steps = config.steps_per_loop > 1
        self.training_step = training_step
        self.request = request
        # Sums for stop and save: those in use, and those of the next call.
        self.known = self.pending = [0.0], [0.0]
        self.saved_at = time.monotonic()
        # Possibly in another thread, during a call of several steps.
        request.notify(lambda: training_step.stop.assign(1.0))

    def update(self, values: dict[str, tf.Tensor]) -> None:
        """Removes the sums of a call from its values, and uses them."""
        sums = values.pop("stop"), values.pop("save")
        if self.makes_several_steps:
            self.known = sums
        elif not self.is_alone:
            self.known, self.pending = self.pending, sums
        if self.is_due:
            self.training_step.save.assign(1.0)

    def note_save(self) -> None:
        """Counts the minutes from now, when a checkpoint was saved."""
        self.saved_at = time.monotonic()
        self.training_step.save.assign(0.0)
        self.known, self.pending = (
            (stops, [0.0]) for stops, _ in (self.known, self.pending)
        )

    @property
    def is_due(self) -> bool:
        """Whether this process asks for a checkpoint."""
        return time.monotonic() - self.saved_at >= self.seconds

    @property
    def to_stop(self) -> bool:
        """Whether to stop now; the same in every process."""
        if self.is_alone and self.request.is_made:
            return True
        return float(self.known[0][-1]) > 0

    @property
    def to_save(self) -> bool:
        """Whether to save a checkpoint now; the same in every process."""
        if self.is_alone and self.is_due:
            return True
        return float(self.known[1][-1]) > 0


def read_batches(
    strategy: tf.distribute.Strategy,
    phases: Sequence[Phase],
    start_step: int,
    end_step: int,
    steps_per_loop: int,
) -> Iterator[tuple[Phase, int, Mapping | Iterator]]:
    """Yields (phase, last step, batches) of each TrainStep call.

    Args:
      strategy: strategy whose replicas share each batch.
      phases: phases of the run.
      start_step: updates already applied.
      end_step: the last step.
      steps_per_loop: maximum number of updates per call. If it is 1, `batches`
        is one batch, otherwise an iterator that the call advances.
    """
    current, batches = None, None
    for index, begin, count in calls(
        start_step, end_step, phases, steps_per_loop
    ):
        if current != index:
            current = index
            before = sum(phase.num_steps for phase in phases[:index])
            batches = strategies.distribute_batches(
                strategy, phases[index].batches, begin - before
            )
        one = next(batches) if steps_per_loop == 1 else batches
        yield phases[index], begin + count, one


def calls(
    start_step: int, end_step: int, phases: Sequence[Phase], steps_per_loop: int
) -> Iterator[tuple[int, int, int]]:
    """Yields (phase index, updates before, steps) of each TrainStep call.

    Calls end at multiples of `steps_per_loop`, so that they do not depend on
    the step at which a run resumes, and at the end of each phase.
    """
    step, phase, phase_end = start_step, -1, 0
    while step < end_step:
        while phase_end <= step:
            phase += 1
            phase_end += phases[phase].num_steps
        count = steps_per_loop - step % steps_per_loop
        count = min(count, phase_end - step, end_step - step)
        yield phase, step, count
        step += count


def _sizes(strategy, phase: Phase, batches, count: int) -> tuple[float, int]:
    """Returns the examples and tokens of `count` updates, on all replicas."""
    if not isinstance(batches, Mapping):
        batches = batches.element_spec
    # Of the first replica, if there are several.
    rows, tokens = (
        math.prod(tf.nest.flatten(batches[name], True)[0].shape)
        for name in ("is_real_example", "input_mask")
    )
    updates = count * strategy.num_replicas_in_sync
    return rows * phase.examples_per_row * updates, tokens * updates


def _is_evaluated(strategy, config: TrainingConfig, step: int) -> bool:
    """Returns whether an earlier process of the run evaluated its last step."""
    folder, mark = config.output_dir, {"step": step}
    path = os.path.join(folder, run_folder.EVALUATED[0])

    def is_done() -> bool:
        try:
            return os.path.exists(path) and json_files.read(path) == mark
        except ValueError as error:
            logging.warning("%s Step %d is evaluated again.", error, step)
            return False

    return strategies.of_chief(strategy, is_done)


def _evaluate(
    training_step: train_step.TrainStep,
    saved: checkpoints.RunCheckpoints,
    on_checkpoint: Callable[[int], None] | None,
    step: int,
) -> None:
    """Calls `on_checkpoint`; the model then has the averages of its weights.

    A run that ends here has a checkpoint, so that the next start ends here,
    too. Returns when it has been called in every process.
    """
    if not on_checkpoint:
        return
    strategy, folder = training_step.strategy, training_step.config.output_dir
    try:
        with training_step.optimizer.averaged():
            on_checkpoint(step)
    except stopping.EarlyStopped:
        if saved.last_step != step:
            saved.save(step)
        raise
    if strategies.is_chief(strategy):
        path = os.path.join(folder, run_folder.EVALUATED[0])
        json_files.write(path, {"step": step})
    # The chief may have written the best model, which all read later.
    strategies.barrier(strategy)


def _publish(strategy) -> None:
    """Copies changes to the store, if the run is in one; waits for workers."""
    stored_folders.commit()
    strategies.barrier(strategy)


def _describe(
    phases: Sequence[Phase], saved: checkpoints.RunCheckpoints, step: int
) -> str:
    """Returns a step, its batch and a recovery hint, for an error message."""
    batch = step - 1
    for phase in phases:
        if batch < phase.num_steps:
            break
        batch -= phase.num_steps
    return f"step {step}, {phase.describe(batch)}. {saved.recovery_hint()}"


def open_strategy(
    config: TrainingConfig, do_train: bool
) -> tf.distribute.Strategy:
    """Returns the strategy of a run.

    Must be called before TensorFlow creates a tensor.

    Raises:
      ValueError: if the device does not exist, or several workers would write
        to a store; or, with `do_train`, if the preemption server does not
        answer, `train_batch_size` cannot be split over replicas and
        micro-batches, or settings of the loop are incompatible.
      stopping.Stopped: with `do_train`, if this machine will be preempted.
    """
    given = stored_folders.address(config.output_dir)
    if config.distribution_strategy == "multi_worker" and (
        given != config.output_dir
    ):
        raise ValueError(
            f"--output_dir={given} is in a store, where only one process may "
            "write: it cannot be used with --distribution_strategy="
            "multi_worker. Give a folder that all workers have mounted."
        )
    if do_train:
        run_checks.check_preemption(config)
    strategy = strategies.make_strategy(
        config.distribution_strategy, config.virtual_devices, config.tpu
    )
    if do_train:
        run_checks.check_batch(
            strategy,
            config.train_batch_size,
            config.gradient_accumulation_steps,
        )
        # If None, the workflow chooses a compatible value later.
        save_steps = config.save_checkpoints_steps or config.steps_per_loop
        run_checks.check_calls(strategy, config, save_steps)
    return strategy
