"""Phases of a run -> calls of the train step, each on the right batches."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from bert_tf.training import strategies, train_step


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """Steps of a run that read the same records.

    Attributes:
      num_steps: optimizer steps.
      batches: (start batch, replicas=, first_replica=, local_replicas=) ->
        dataset; see `tfrecords.batches.training_batches`.
      describe: number of a batch -> words that name its records.
      examples_per_row: of its batches on average; above 1 where several share
        a row.
    """

    num_steps: int
    batches: Callable[..., tf.data.Dataset]
    describe: Callable[[int], str] = "batch {} of the records".format
    examples_per_row: float = 1.0


def distribute(
    strategy: tf.distribute.Strategy,
    phase: Phase,
    start_batch: int,
    steps_per_loop: int = 1,
) -> Iterator:
    """Returns an iterator over the global batches of a phase.

    Args:
      strategy: whose replicas share each batch.
      phase: whose batches.
      start_batch: the first one.
      steps_per_loop: if above 1, so many batches at once, along a first
        dimension.
    """
    replicas = strategy.num_replicas_in_sync
    options = tf.data.Options()
    # See `reading.batches`: the end of an iterator may wait for a minute.
    options.autotune.enabled = False

    def batches(context):
        local = replicas // context.num_input_pipelines
        dataset = phase.batches(
            start_batch,
            replicas=replicas,
            first_replica=context.input_pipeline_id * local,
            local_replicas=local,
        ).with_options(options)
        if steps_per_loop == 1:
            return dataset

        def regrouped(batches):  # [steps x local, ...] -> [local, steps, ...]
            split = [steps_per_loop, local]
            by_step = tf.nest.map_structure(
                lambda x: tf.reshape(x, [*split, *x.shape[1:]]), batches
            )
            return tf.nest.map_structure(
                lambda x: tf.experimental.numpy.swapaxes(x, 0, 1), by_step
            )

        dataset = dataset.batch(steps_per_loop * local, drop_remainder=True)
        return dataset.map(regrouped).unbatch().prefetch(2)

    if isinstance(strategy, tf.distribute.OneDeviceStrategy):
        # What a strategy puts around data sets is tuned whatever they say.
        return iter(batches(tf.distribute.InputContext()))
    return iter(strategy.distribute_datasets_from_function(batches))


def calls(
    start_step: int, end_step: int, phases: Sequence[Phase], steps_per_loop: int
) -> Iterator[tuple[int, int, int]]:
    """Yields (phase, step it begins after, steps) of each call of the step.

    A call ends where `steps_per_loop` divides its last step, so that calls
    are the same wherever a run goes on, and at the end of a phase.
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


class Steps:
    """Calls the train step on the right batches, one call after another."""

    def __init__(self, update, strategy, phases, jit_compile):
        self.update = update
        self.strategy = strategy
        self.phases = phases
        self.jit_compile = jit_compile
        self.begins = [0]
        for phase in phases:
            self.begins.append(self.begins[-1] + phase.num_steps)
        self.key = None
        self.data = None
        # A graph for each number of steps, of which the last call may have
        # fewer, and for each length.
        self.functions: dict[tuple, Callable] = {}
        self.stops = self.stops_before = [0.0]

    def batch_of(self, step: int) -> str:
        """Returns words that name update number `step` and its batch."""
        phase = max(i for i, b in enumerate(self.begins[:-1]) if b < step)
        batch = self.phases[phase].describe(step - 1 - self.begins[phase])
        return f"step {step}, {batch}"

    def __call__(self, phase: int, begin: int, count: int, stop: bool):
        """Returns values of `count` updates, their examples and tokens."""
        if self.key != (phase, count):
            self.key = (phase, count)
            self.data = distribute(
                self.strategy,
                self.phases[phase],
                begin - self.begins[phase],
                count,
            )
        batch = next(self.data)
        local = self.strategy.experimental_local_results
        shape = local(batch["input_mask"])[0].shape
        rows = local(batch["is_real_example"])[0].shape
        if (count, shape) not in self.functions:
            self.functions[count, shape] = train_step.make_train_steps(
                self.update,
                self.strategy,
                steps_per_loop=count,
                jit_compile=self.jit_compile,
            )
        replicas = self.strategy.num_replicas_in_sync
        examples = math.prod(rows) * self.phases[phase].examples_per_row
        function = self.functions[count, shape]
        values = dict(function(batch, tf.constant(float(stop))))
        self.stops_before, self.stops = self.stops, values.pop("stop")
        return values, examples * replicas, math.prod(shape) * replicas

    def all_stop(self, is_asked: bool) -> bool:
        """Returns whether to stop here; the same in every process."""
        if strategies.num_workers(self.strategy) == 1:
            return is_asked
        # That of the call before is known without waiting for this one.
        return float(self.stops_before[-1]) > 0
