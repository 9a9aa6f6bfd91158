import dataclasses
import inspect
import os
import re
import shutil
import signal
import threading
import time
import types

import numpy as np
import pytest
import tensorflow as tf
from run_processes import log_lines as lines

from bert_tf.checkpoint import model_folders, run_models
from bert_tf.model import fused
from bert_tf.tasks import pretraining
from bert_tf.training import (
    checkpoints,
    loop,
    reporting,
    run_checks,
    run_folder,
    stopping,
    strategies,
    train_step,
)
from bert_tf.training.config import OptimizerOptions


@pytest.fixture(scope="module")
def tiny_config(tiny_config):
    """One layer, to trace in half the time."""
    return dataclasses.replace(tiny_config, num_hidden_layers=1)


@pytest.fixture(scope="module")
def batches(tiny_config, make_batch, make_batches):
    """Makes batches of four from twelve random examples."""
    return make_batches(make_batch(tiny_config, rows=12), 4)


@pytest.fixture(scope="module")
def run(tiny_config, batches):
    """Trains in a folder, with other settings; returns digest and model."""

    def train(
        folder,
        batches=batches,
        *,
        num_train_steps=8,
        num_warmup_steps=2,
        phases=None,
        on_checkpoint=None,
        eval_steps=None,
        **changes,
    ):
        strategy = strategies.make_strategy("one_device")
        settings = {
            "output_dir": str(folder),
            "learning_rate": 1e-2,
            "save_checkpoints_steps": 3,
            "log_every_steps": 2,
            "seed": 1,
        }
        settings = OptimizerOptions(**settings | changes)
        model = loop.build_model(
            pretraining.TASK, tiny_config, strategy, settings
        )
        own = {"task": "pretraining"}
        phase = loop.Phase(num_steps=num_train_steps, batches=batches)
        with run_folder.open_run(str(folder), strategy) as run:
            run.check(own)
            digest = loop.train(
                pretraining.TASK,
                model,
                phases or [phase],
                settings,
                strategy=strategy,
                settings=own,
                metadata=own,
                vocabulary=None,
                num_warmup_steps=num_warmup_steps,
                on_checkpoint=on_checkpoint,
                eval_steps=eval_steps,
            )
        return digest, model

    return train


class Killed(BaseException):
    """Simulates a kill; nothing may catch it."""


def loss_curve(folder):
    return [line["loss"] for line in lines(folder)]


@pytest.fixture(scope="module")
def complete(tmp_path_factory, run):
    """Folder and weights' digest of an eager run that was never stopped."""
    folder = tmp_path_factory.mktemp("complete")
    tf.config.run_functions_eagerly(True)
    digest, _ = run(folder)
    tf.config.run_functions_eagerly(False)
    return folder, digest


@pytest.mark.usefixtures("eagerly")
def test_a_run_killed_at_any_step_ends_with_the_same_weights(
    complete, tmp_path, run, monkeypatch
):
    undisturbed, expected = complete
    write = checkpoints.RunCheckpoints.save
    for kill in (2, 6):
        folder = tmp_path / f"killed_{kill}"

        def save(self, step, is_regular, kill=kill):
            if step >= kill:
                raise Killed
            write(self, step, is_regular)

        with monkeypatch.context() as patch:
            patch.setattr(checkpoints.RunCheckpoints, "save", save)
            with pytest.raises(Killed):
                run(folder)
        digest, _ = run(folder)
        assert digest == expected, kill
        values = [
            {name: line[name] for name in ("step", "loss", "gradient_norm")}
            for line in lines(folder)
        ]
        # Every step has one line, even if it was run twice.
        assert [line["step"] for line in values] == list(range(1, 9))
        assert values == [
            {name: line[name] for name in values[0]}
            for line in lines(undisturbed)
        ]


@pytest.mark.usefixtures("eagerly")
def test_the_last_log_line_has_step_and_digest(tmp_path, run, caplog):
    caplog.set_level("INFO", logger="absl")
    digest, model = run(tmp_path)
    assert digest == model_folders.digest(model)
    assert caplog.messages[-1] == f"step 8  weights sha256 {digest}"
    line = next(x for x in caplog.messages if x.startswith("step 4/8"))
    assert "masked_lm_loss" in line and "ETA 0:" in line
    match = re.search(r"examples/s ([0-9.e+]+)  tokens/s ([0-9.e+]+)", line)
    examples, tokens = map(float, match.groups())
    assert tokens == pytest.approx(12 * examples, rel=2e-3)


@pytest.mark.usefixtures("eagerly")
def test_a_loss_that_is_not_finite_stops_the_run(
    tmp_path, tiny_config, run, make_batch, make_batches
):
    examples = make_batch(tiny_config, rows=12)
    examples["masked_lm_weights"][8:] = np.inf  # In the third batch.
    # No progress line is due before the end; the checkpoint comes first.
    with pytest.raises(FloatingPointError) as raised:
        run(
            tmp_path,
            make_batches(examples, 4),
            save_checkpoints_steps=2,
            log_every_steps=8,
        )
    assert str(raised.value) == (
        "loss, masked_lm_loss, masked_lm_accuracy, gradient_norm not finite "
        "at step 3, batch 2 of the records. The last checkpoint is "
        f"{tmp_path}/checkpoints/step-00000002. Start a run in another "
        "--output_dir with a lower --learning_rate, optionally with a "
        "checkpoint as --init_checkpoint; or inspect the records of this step."
    )
    # Weights after the NaN are not saved.
    assert os.listdir(tmp_path / "checkpoints") == ["step-00000002"]


def test_a_batch_that_cannot_be_split_evenly_is_rejected():
    three = types.SimpleNamespace(num_replicas_in_sync=3)
    with pytest.raises(ValueError, match="32 examples is not a multiple of 3"):
        run_checks.check_batch(three, 32, 1)
    strategy = strategies.make_strategy("one_device")
    run_checks.check_batch(strategy, 32, 8)
    with pytest.raises(ValueError, match="accumulation_steps=5"):
        run_checks.check_batch(strategy, 32, 5)


@pytest.mark.parametrize(
    ("frozen", "steps", "message"),
    [
        ("1", 1, "FROZEN_WEIGHTS=1 is set: .* unset"),
        ("0", 2, "steps=3 is not a multiple of .*=2"),
    ],
)
def test_calls_that_cannot_be_made_are_refused_before_the_run(
    tmp_path, run, monkeypatch, frozen, steps, message
):
    monkeypatch.setenv("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", frozen)
    with pytest.raises(ValueError, match=message):
        run(tmp_path, steps_per_loop=steps)
    assert sorted(os.listdir(tmp_path)) == ["run.json", "run.lock"]


@pytest.mark.usefixtures("eagerly")
@pytest.mark.slow
def test_phases_share_one_schedule_and_can_resume_at_any_step(
    tmp_path, run, tiny_config, make_batch, make_batches
):
    phases = []
    for steps, tokens in ((5, 12), (3, 24)):
        examples = make_batch(tiny_config, rows=12, tokens=tokens)
        batches = make_batches(examples, 4)
        phases.append(loop.Phase(num_steps=steps, batches=batches))
    expected, _ = run(tmp_path / "complete", phases=phases)
    rates = [line["learning_rate"] for line in lines(tmp_path / "complete")]
    np.testing.assert_allclose(np.diff(rates[2:]), -1e-2 / 8, rtol=1e-4)
    for stop in (5, 7):  # At the end of the first phase, and after it.
        folder = tmp_path / str(stop)
        match = f"after step {stop}, because of --stop_at_step"
        with pytest.raises(stopping.Stopped, match=match):
            run(folder, phases=phases, stop_at_step=stop)
        digest, _ = run(folder, phases=phases)
        assert digest == expected, stop
        assert loss_curve(folder) == loss_curve(tmp_path / "complete")


@pytest.mark.usefixtures("eagerly")
def test_a_signal_stops_after_the_step_with_a_checkpoint(
    complete, tmp_path, run, batches, monkeypatch
):
    undisturbed, expected = complete

    def batches_then_signal(strategy, make, start):
        """Yields batches; requests to stop with the fifth."""
        for count, batch in enumerate(batches(start)):
            if count == 4:
                os.kill(os.getpid(), signal.SIGTERM)
            yield batch

    with monkeypatch.context() as patch:
        patch.setattr(strategies, "distribute_batches", batches_then_signal)
        with pytest.raises(stopping.Stopped, match="after step 5, with a"):
            run(tmp_path)
    assert run_models.newest_step(str(tmp_path)) == 5
    digest, _ = run(tmp_path)
    assert digest == expected
    assert loss_curve(tmp_path) == loss_curve(undisturbed)


@pytest.mark.slow
def test_a_signal_ends_a_call_of_many_steps_after_the_current_one(
    tmp_path, run, monkeypatch
):
    keywords = dict(
        num_train_steps=10**7,
        save_checkpoints_steps=10**6,
        steps_per_loop=10**6,
    )
    signals = []

    def kill_later():
        signals.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGTERM)

    real = train_step.TrainStep.__call__

    def call(self, *arguments):
        timer = threading.Timer(8.0, kill_later)
        timer.start()
        try:
            return real(self, *arguments)
        finally:
            timer.cancel()  # After the run, the signal would end pytest.

    with monkeypatch.context() as patch:
        patch.setattr(train_step.TrainStep, "__call__", call)
        with pytest.raises(stopping.Stopped, match="after step"):
            run(tmp_path / "stopped", **keywords)
    assert time.monotonic() - signals[0] < 30
    step = run_models.newest_step(str(tmp_path / "stopped"))
    assert 0 < step < 10**6
    end = step + 3
    for folder in ("stopped", "whole"):
        with pytest.raises(stopping.Stopped, match="because of --stop_at"):
            run(tmp_path / folder, stop_at_step=end, **keywords)
    stopped, whole = (lines(tmp_path / f) for f in ("stopped", "whole"))
    assert stopped == whole and len(whole) == end


@pytest.mark.usefixtures("eagerly")
def test_checkpoints_are_also_saved_after_some_minutes(tmp_path, run, complete):
    for minutes, steps in ((1e-9, [*range(1, 9)]), (1e9, [3, 6, 8])):
        folder = tmp_path / str(minutes)
        digest, _ = run(
            folder, save_checkpoints_minutes=minutes, keep_checkpoint_max=100
        )
        assert run_models.steps(str(folder / "checkpoints")) == steps
        assert digest == complete[1]


@pytest.mark.usefixtures("eagerly")
def test_a_run_works_outside_the_main_thread(complete, tmp_path, run):
    digests = []
    thread = threading.Thread(target=lambda: digests.append(run(tmp_path)[0]))
    thread.start()
    thread.join()
    assert digests == [complete[1]]


@pytest.mark.slow
def test_a_run_with_bfloat16_compiled_loops_and_remat_resumes_exactly(
    tmp_path, run, monkeypatch
):
    def num_traces():
        variables = inspect.getclosurevars(fused._gelu_gradient).nonlocals
        return variables["compiled"].experimental_get_tracing_count()

    # Otherwise tensors of tiny models are too small to be compiled.
    monkeypatch.setattr(fused, "_WORTH_COMPILING", 1)
    keywords = dict(
        precision="bfloat16",
        remat=True,
        gradient_accumulation_steps=2,
        num_train_steps=4,
    )
    before = num_traces()
    expected, model = run(tmp_path / "complete", **keywords)
    assert num_traces() > before
    assert model.encoder.remat
    with pytest.raises(stopping.Stopped):
        run(tmp_path / "two", stop_at_step=2, **keywords)
    digest, _ = run(tmp_path / "two", **keywords)
    assert digest == expected
    assert loss_curve(tmp_path / "two") == loss_curve(tmp_path / "complete")
    assert not any("loss_scale" in line for line in lines(tmp_path / "two"))


@pytest.mark.slow
def test_a_float16_run_resumes_with_its_loss_scale(tmp_path, run, monkeypatch):
    # The scale doubles every two steps, both before and after the stop.
    monkeypatch.setattr(train_step, "_FIRST_LOSS_SCALE", 2.0**10)
    monkeypatch.setattr(train_step, "_GROWTH_STEPS", 2)
    keywords = dict(precision="float16", num_train_steps=6)

    def scales(folder):
        return [line["loss_scale"] for line in lines(tmp_path / folder)]

    expected, _ = run(tmp_path / "complete", **keywords)
    doubled = [2.0**n for n in (10, 10, 11, 11, 12, 12)]
    assert scales("complete") == doubled
    # At step 3 there is one good step since it doubled.
    with pytest.raises(stopping.Stopped):
        run(tmp_path / "two", stop_at_step=3, **keywords)
    shutil.copytree(tmp_path / "two", tmp_path / "without")
    digest, _ = run(tmp_path / "two", **keywords)
    assert digest == expected
    assert scales("two") == doubled
    # Without the saved state the scales differ.
    run_checkpoints = checkpoints.RunCheckpoints

    def without_extra(*args, extra, **keywords):
        return run_checkpoints(*args, **keywords)

    monkeypatch.setattr(checkpoints, "RunCheckpoints", without_extra)
    run(tmp_path / "without", **keywords)
    assert scales("without")[3:] == [2.0**n for n in (10, 10, 11)]


class Events(list):
    """Names of a run's log flushes, checkpoints and evaluations, in order."""

    def evaluate(self, step):
        self.append(f"evaluate {step}")


@pytest.fixture
def events(monkeypatch):
    events = Events()
    flush, write = reporting.Report.flush, checkpoints.RunCheckpoints.save

    def flush_and_note(self):
        flush(self)
        events.append("flush")

    def save(self, step, *is_regular):
        write(self, step, *is_regular)
        events.append(f"save {step}")

    monkeypatch.setattr(reporting.Report, "flush", flush_and_note)
    monkeypatch.setattr(checkpoints.RunCheckpoints, "save", save)
    return events


@pytest.mark.usefixtures("eagerly")
def test_regular_checkpoints_are_evaluated_once_after_log_and_save(
    tmp_path, run, events
):
    keywords = dict(log_every_steps=100, on_checkpoint=events.evaluate)
    with pytest.raises(stopping.Stopped):
        run(tmp_path, stop_at_step=4, **keywords)
    # The checkpoint of step 4, the stop, is not a regular one.
    assert events == ["flush", "save 3", "evaluate 3", "flush", "save 4"]
    events.clear()
    run(tmp_path, **keywords)
    expected = ["flush", "save 6", "evaluate 6", "flush", "flush", "save 8"]
    assert events == [*expected, "evaluate 8"]
    events.clear()
    run(tmp_path, **keywords)
    assert not events  # Not evaluated again.
    (tmp_path / "logs/evaluated.json").write_text('{"step": ')
    run(tmp_path, **keywords)
    assert events == ["evaluate 8"]


@pytest.mark.usefixtures("eagerly")
def test_evaluations_between_checkpoints_do_not_change_the_weights(
    tmp_path, run, events, complete
):
    keywords = dict(log_every_steps=100, on_checkpoint=events.evaluate)
    keywords["eval_steps"] = 2
    with pytest.raises(stopping.Stopped):
        run(tmp_path, stop_at_step=5, **keywords)
    # The first evaluated step has a checkpoint, with which its best model is
    # known to be of this run.
    expected = ["save 2", "evaluate 2", "save 3", "evaluate 4", "save 5"]
    assert [x for x in events if x != "flush"] == expected
    events.clear()
    digest, _ = run(tmp_path, **keywords)
    expected = ["save 6", "evaluate 6", "save 8", "evaluate 8"]
    assert [x for x in events if x != "flush"] == expected
    assert digest == complete[1]
    with pytest.raises(ValueError, match="eval_steps=3 is not a multiple of"):
        keywords |= dict(steps_per_loop=2, save_checkpoints_steps=4)
        run(tmp_path / "other", **keywords | {"eval_steps": 3})


@pytest.mark.usefixtures("eagerly")
def test_a_run_that_ended_early_ends_there_again(tmp_path, run, events):
    def evaluate(step):
        events.evaluate(step)
        if step >= 4:
            raise stopping.EarlyStopped("at 4", 0)

    keywords = dict(on_checkpoint=evaluate, eval_steps=2, log_every_steps=100)
    for expected in (
        ["save 2", "evaluate 2", "save 3", "evaluate 4", "save 4"],
        ["evaluate 4"],
    ):
        with pytest.raises(stopping.EarlyStopped):
            run(tmp_path, **keywords)
        assert [x for x in events if x != "flush"] == expected
        events.clear()


@pytest.mark.usefixtures("eagerly")
def test_a_stopped_step_is_evaluated_by_the_next_start(
    tmp_path, run, batches, events
):
    def batches_with_signal(start_batch, **replicas):
        os.kill(os.getpid(), signal.SIGTERM)
        return batches(start_batch, **replicas)

    keywords = dict(log_every_steps=100, on_checkpoint=events.evaluate)
    keywords["save_checkpoints_steps"] = 1
    with pytest.raises(stopping.Stopped, match="after step 1, with a check"):
        run(tmp_path, batches_with_signal, **keywords)
    assert events == ["flush", "save 1"]
    events.clear()
    keywords["stop_at_step"] = 1
    for _ in range(2):
        with pytest.raises(stopping.Stopped):
            run(tmp_path, **keywords)
        assert events == ["evaluate 1"]


def make_phases(*steps):
    return [
        loop.Phase(
            num_steps=n, batches=None, describe=f"batch {{}} of {n}".format
        )
        for n in steps
    ]


def test_calls_end_at_multiples_of_steps_per_loop_and_ends_of_phases():
    calls = list(loop.calls(0, 17, make_phases(10, 7), 4))
    assert calls == [
        (0, 0, 4),
        (0, 4, 4),
        (0, 8, 2),
        (1, 10, 2),
        (1, 12, 4),
        (1, 16, 1),
    ]


@pytest.mark.parametrize("start", range(17))
def test_calls_cover_every_step_once_from_anywhere(start):
    calls = list(loop.calls(start, 17, make_phases(10, 7), 4))
    steps = [b + i for _, b, n in calls for i in range(n)]
    assert steps == list(range(start, 17))
    # After the first call they are the same as in a run that starts at 0.
    from_0 = list(loop.calls(0, 17, make_phases(10, 7), 4))
    assert calls[1:] == from_0[-len(calls[1:]) or 17 :]


@pytest.mark.parametrize(
    "step, words",
    [
        (1, "step 1, batch 0 of 10"),
        (10, "step 10, batch 9 of 10"),
        (11, "step 11, batch 0 of 7"),
    ],
)
def test_the_description_of_a_step_has_its_batch_within_the_phase(step, words):
    saved = types.SimpleNamespace(recovery_hint=lambda: "Hint.")
    described = loop._describe(make_phases(10, 7), saved, step)
    assert described == f"{words}. Hint."


@pytest.mark.usefixtures("eagerly")
def test_the_final_sha256_is_that_of_the_averages(tmp_path, run):
    changes = {"num_train_steps": 2, "ema_decay": 0.5}
    digest, model = run(tmp_path / "ema", **changes)
    assert digest == model_folders.digest(model)
    raw, _ = run(tmp_path / "raw", num_train_steps=2)
    assert digest != raw
