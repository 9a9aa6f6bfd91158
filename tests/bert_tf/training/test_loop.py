import inspect
import json
import os
import re
import shutil
import signal
import threading

import numpy as np
import pytest

from bert_tf.model import fused
from bert_tf.tasks import pretraining
from bert_tf.training import (
    checkpoints,
    loop,
    model_folders,
    reporting,
    stopping,
    strategies,
    train_step,
)
from bert_tf.training.config import TrainingConfig


@pytest.fixture(scope="module")
def tiny_config(tiny_config):
    """One layer is as good as two here, and traced in half the time."""
    return type(tiny_config).from_dict(
        tiny_config.to_dict() | {"num_hidden_layers": 1}
    )


@pytest.fixture
def batches(tiny_config, make_batch, make_batches):
    """(start batch, ...) -> batches of four of twelve random examples."""
    return make_batches(make_batch(tiny_config, rows=12), 4)


def run(config, batches, folder, **changes):
    """Trains; changes are of TrainingConfig or arguments of `train`."""
    strategy = strategies.make_strategy("one_device")
    keywords = dict(
        phases=[
            loop.Phase(
                num_steps=changes.pop("num_train_steps", 8), batches=batches
            )
        ],
        settings={"task": "pretraining"},
        metadata={"task": "pretraining"},
        vocab_file=None,
        num_warmup_steps=2,
    )
    for name in [*keywords, "on_checkpoint"]:
        if name in changes:
            keywords[name] = changes.pop(name)
    settings = dict(
        learning_rate=1e-2, save_checkpoints_steps=3, log_every_steps=2
    )
    settings = TrainingConfig(
        output_dir=str(folder), **(settings | {"seed": 1} | changes)
    )
    model = loop.build_model(pretraining.TASK, config, strategy, settings)
    digest = loop.train(
        pretraining.TASK,
        model,
        keywords.pop("phases"),
        settings,
        strategy=strategy,
        **keywords,
    )
    return digest, model


class Killed(BaseException):
    """Stands for a kill, which nothing may catch."""


def lines(folder):
    path = folder / "logs" / "train" / "steps.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_killed_at_any_step_ends_with_the_same_weights(
    tmp_path, tiny_config, batches, monkeypatch
):
    expected, _ = run(tiny_config, batches, tmp_path / "whole")
    whole = lines(tmp_path / "whole")
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
                run(tiny_config, batches, folder)
        digest, _ = run(tiny_config, batches, folder)
        assert digest == expected, kill
        values = [
            {name: line[name] for name in ("step", "loss", "gradient_norm")}
            for line in lines(folder)
        ]
        # Every line stands once, whatever was done twice.
        assert [line["step"] for line in values] == list(range(1, 9))
        assert values == [{n: line[n] for n in values[0]} for line in whole]


def test_a_finished_run_started_again_changes_nothing(
    tmp_path, tiny_config, batches
):
    first, _ = run(tiny_config, batches, tmp_path)
    again, _ = run(tiny_config, batches, tmp_path)
    assert first == again


def test_training_lowers_the_loss(tmp_path, tiny_config, batches):
    run(
        tiny_config,
        batches,
        tmp_path,
        num_train_steps=60,
        num_warmup_steps=5,
        save_checkpoints_steps=60,
    )
    found = lines(tmp_path)
    assert len(found) == 60
    assert found[-1]["loss"] < 0.7 * found[0]["loss"]
    for name in (
        "masked_lm_loss",
        "next_sentence_loss",
        "masked_lm_accuracy",
        "next_sentence_accuracy",
        "learning_rate",
        "gradient_norm",
    ):
        assert np.isfinite(found[-1][name]), name
    assert any(
        name.startswith("events.out")
        for name in os.listdir(tmp_path / "logs" / "train")
    )


def test_the_last_line_has_step_and_digest(
    tmp_path, tiny_config, batches, caplog
):
    caplog.set_level("INFO", logger="absl")
    digest, model = run(tiny_config, batches, tmp_path)
    assert digest == model_folders.digest(model)
    assert caplog.messages[-1] == f"step 8  weights sha256 {digest}"
    shown = [text for text in caplog.messages if text.startswith("step 4/8")]
    assert "masked_lm_loss" in shown[0] and "ETA 0:" in shown[0]
    found = re.search(r"examples/s ([0-9.e+]+)  tokens/s ([0-9.e+]+)", shown[0])
    examples, tokens = map(float, found.groups())
    assert tokens == pytest.approx(12 * examples, rel=2e-3)


def test_a_folder_of_another_run_is_refused(tmp_path, tiny_config, batches):
    run(tiny_config, batches, tmp_path)
    before = (tmp_path / "run.json").read_text()
    with pytest.raises(ValueError, match="holds another run") as raised:
        run(tiny_config, batches, tmp_path, settings={"task": "other"})
    assert "'pretraining' there, 'other' now" in str(raised.value)
    assert (tmp_path / "run.json").read_text() == before


def test_a_loss_that_is_not_finite_stops_the_run(
    tmp_path, tiny_config, make_batch, make_batches
):
    examples = make_batch(tiny_config, rows=12)
    examples["masked_lm_weights"][8:] = np.inf  # Of the third batch.
    # The message comes with the end of the run, the checkpoint before it.
    with pytest.raises(FloatingPointError) as raised:
        run(
            tiny_config,
            make_batches(examples, 4),
            tmp_path,
            save_checkpoints_steps=2,
            log_every_steps=8,
        )
    assert str(raised.value) == (
        "loss, masked_lm_loss, masked_lm_accuracy, gradient_norm not finite "
        "at step 3, batch 2 of the records. The last good one is "
        f"{tmp_path}/checkpoints/step-00000002. Start in another --output_dir, "
        "with it as --init_checkpoint if you like, and a lower "
        "--learning_rate; or look at these records."
    )
    # No checkpoint of weights that are lost.
    assert os.listdir(tmp_path / "checkpoints") == ["step-00000002"]


def test_an_uneven_batch_is_refused():
    class Three:
        num_replicas_in_sync = 3

    with pytest.raises(ValueError, match="=32 is not a multiple of 3 replicas"):
        loop.check_batch(Three(), 32, 1)
    strategy = strategies.make_strategy("one_device")
    loop.check_batch(strategy, 32, 8)
    with pytest.raises(ValueError, match="accumulation_steps=5"):
        loop.check_batch(strategy, 32, 5)


def test_steps_per_loop_must_divide_the_steps_between_checkpoints(
    tmp_path, tiny_config, batches
):
    with pytest.raises(ValueError, match="steps=3 is not a multiple of .*=2"):
        run(tiny_config, batches, tmp_path, steps_per_loop=2)
    assert not os.listdir(tmp_path)


def loss_curve(folder):
    return [line["loss"] for line in lines(folder)]


def test_many_steps_in_one_call_are_the_same_steps(
    tmp_path, tiny_config, batches
):
    run(tiny_config, batches, tmp_path / "one")
    # Calls of 3, 3 and 2 steps.
    run(tiny_config, batches, tmp_path / "three", steps_per_loop=3)
    assert len(lines(tmp_path / "three")) == 8
    np.testing.assert_allclose(
        loss_curve(tmp_path / "one"), loss_curve(tmp_path / "three"), rtol=1e-5
    )


def test_phases_share_optimizer_and_steps_and_go_on_across_the_switch(
    tmp_path, tiny_config, make_batch, make_batches
):
    parts = [
        loop.Phase(
            num_steps=steps,
            batches=make_batches(
                make_batch(tiny_config, rows=12, tokens=tokens), 4
            ),
        )
        for steps, tokens in ((5, 12), (3, 24))
    ]
    expected, _ = run(tiny_config, None, tmp_path / "whole", phases=parts)
    rates = [line["learning_rate"] for line in lines(tmp_path / "whole")]
    np.testing.assert_allclose(np.diff(rates[2:]), -1e-2 / 8, rtol=1e-4)
    for stop in (5, 7):  # At and after the switch.
        folder = tmp_path / str(stop)
        with pytest.raises(stopping.Stopped, match=f"after step {stop}, as"):
            run(tiny_config, None, folder, phases=parts, stop_at_step=stop)
        digest, _ = run(tiny_config, None, folder, phases=parts)
        assert digest == expected, stop
        assert loss_curve(folder) == loss_curve(tmp_path / "whole")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_after_the_step_with_a_checkpoint(
    tmp_path, tiny_config, batches, number
):
    expected, _ = run(tiny_config, batches, tmp_path / "whole")
    sent = []

    def describe_then_signal(start_batch, **keywords):
        dataset = batches(start_batch, **keywords)
        for batch in dataset:
            if len(sent) == 4:
                os.kill(os.getpid(), number)
            sent.append(batch)
            yield batch

    class Source:
        """A data set that sends this process a signal with its fifth batch."""

        def __init__(self, start_batch, **keywords):
            self.iterator = describe_then_signal(start_batch, **keywords)

        def __next__(self):
            return next(self.iterator)

    folder = tmp_path / "stopped"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            strategies,
            "distribute_batches",
            lambda strategy, make, start, count: Source(start),
        )
        before = signal.getsignal(number)
        with pytest.raises(stopping.Stopped, match="after step 5, which is"):
            run(tiny_config, batches, folder)
        assert signal.getsignal(number) is before
    assert checkpoints.newest_step(str(folder)) == 5
    digest, _ = run(tiny_config, batches, folder)
    assert digest == expected
    assert loss_curve(folder) == loss_curve(tmp_path / "whole")


def test_in_another_thread_a_run_works_without_signals(
    tmp_path, tiny_config, batches
):
    found = []
    thread = threading.Thread(
        target=lambda: found.append(run(tiny_config, batches, tmp_path)[0])
    )
    thread.start()
    thread.join()
    assert found == [run(tiny_config, batches, tmp_path)[0]]


@pytest.fixture
def one_layer(tiny_config):
    """Half as much to compile."""
    changes = {"num_hidden_layers": 1}
    return type(tiny_config).from_dict(tiny_config.to_dict() | changes)


@pytest.mark.slow
def test_a_run_of_bfloat16_compiled_loops_and_remat_goes_on_exactly(
    tmp_path, one_layer, batches, monkeypatch
):
    def traced():
        inside = inspect.getclosurevars(fused._gelu_gradient).nonlocals
        return inside["compiled"].experimental_get_tracing_count()

    # Tiny models are below it: no other training of these tests gets there.
    monkeypatch.setattr(fused, "_WORTH_COMPILING", 1)
    keywords = dict(
        precision="bfloat16",
        remat=True,
        gradient_accumulation_steps=2,
        num_train_steps=4,
    )
    before = traced()
    expected, model = run(one_layer, batches, tmp_path / "whole", **keywords)
    assert traced() > before
    assert model.encoder.remat
    with pytest.raises(stopping.Stopped):
        run(one_layer, batches, tmp_path / "two", stop_at_step=2, **keywords)
    digest, _ = run(one_layer, batches, tmp_path / "two", **keywords)
    assert digest == expected
    assert loss_curve(tmp_path / "two") == loss_curve(tmp_path / "whole")
    assert not any("loss_scale" in line for line in lines(tmp_path / "two"))


@pytest.mark.slow
def test_a_run_of_float16_goes_on_with_its_loss_scale(
    tmp_path, one_layer, batches, monkeypatch
):
    # It doubles every two steps: before the stop and after it.
    monkeypatch.setattr(
        train_step.LossScale.__init__, "__defaults__", (2.0**10, 2)
    )
    keywords = dict(precision="float16", num_train_steps=6)

    def scales(folder):
        return [line["loss_scale"] for line in lines(tmp_path / folder)]

    expected, _ = run(one_layer, batches, tmp_path / "whole", **keywords)
    doubled = [2.0**n for n in (10, 10, 11, 11, 12, 12)]
    assert scales("whole") == doubled
    # One good step since it doubled is in the checkpoint, too.
    with pytest.raises(stopping.Stopped):
        run(one_layer, batches, tmp_path / "two", stop_at_step=3, **keywords)
    shutil.copytree(tmp_path / "two", tmp_path / "forgets")
    digest, _ = run(one_layer, batches, tmp_path / "two", **keywords)
    assert digest == expected
    assert scales("two") == doubled
    # This is no matter of course: without what is saved it differs.
    restored = checkpoints.RunCheckpoints

    def forget(*args, extra, **keywords):
        return restored(*args, **keywords)

    monkeypatch.setattr(checkpoints, "RunCheckpoints", forget)
    run(one_layer, batches, tmp_path / "forgets", **keywords)
    assert scales("forgets")[3:] == [2.0**n for n in (10, 10, 11)]


@pytest.fixture
def seen(monkeypatch):
    """What a run does to its log and checkpoints, in order."""
    seen = []
    flush, write = reporting.Report.flush, checkpoints.RunCheckpoints.save

    def flush_and_note(self):
        flush(self)
        seen.append("flush")

    def save(self, step, is_regular):
        write(self, step, is_regular)
        seen.append(f"save {step}")

    monkeypatch.setattr(reporting.Report, "flush", flush_and_note)
    monkeypatch.setattr(checkpoints.RunCheckpoints, "save", save)
    return seen


def test_log_then_checkpoint_then_evaluation_of_regular_steps_once(
    tmp_path, tiny_config, batches, seen
):
    def evaluate(step):
        seen.append(f"evaluate {step}")

    keywords = dict(log_every_steps=100, on_checkpoint=evaluate)
    with pytest.raises(stopping.Stopped):
        run(tiny_config, batches, tmp_path, stop_at_step=4, **keywords)
    # Step 4 is where the run was told to stop, and no regular one.
    assert seen == ["flush", "save 3", "evaluate 3", "flush", "save 4"]
    seen.clear()
    run(tiny_config, batches, tmp_path, **keywords)
    done = ["flush", "save 6", "evaluate 6", "flush", "flush", "save 8"]
    assert seen == [*done, "evaluate 8"]
    seen.clear()
    run(tiny_config, batches, tmp_path, **keywords)
    assert not seen  # Once is enough.


def test_what_stops_is_evaluated_by_the_next_start(
    tmp_path, tiny_config, batches, seen
):
    def evaluate(step):
        seen.append(f"evaluate {step}")

    def batches_with_signal(start_batch, **replicas):
        os.kill(os.getpid(), signal.SIGTERM)
        return batches(start_batch, **replicas)

    keywords = dict(
        log_every_steps=100, on_checkpoint=evaluate, save_checkpoints_steps=1
    )
    with pytest.raises(stopping.Stopped, match="after step 1, which is saved"):
        run(tiny_config, batches_with_signal, tmp_path, **keywords)
    assert seen == ["flush", "save 1"]
    seen.clear()
    keywords["stop_at_step"] = 1
    for _ in range(2):
        with pytest.raises(stopping.Stopped):
            run(tiny_config, batches, tmp_path, **keywords)
        assert seen == ["evaluate 1"]


def parts(*steps):
    return [
        loop.Phase(
            num_steps=n, batches=None, describe=f"batch {{}} of {n}".format
        )
        for n in steps
    ]


def test_calls_end_where_steps_per_loop_divides_and_at_phases_ends():
    found = list(loop.calls(0, 17, parts(10, 7), 4))
    assert found == [
        (0, 0, 4),
        (0, 4, 4),
        (0, 8, 2),
        (1, 10, 2),
        (1, 12, 4),
        (1, 16, 1),
    ]


@pytest.mark.parametrize("start", range(17))
def test_calls_cover_every_step_once_from_anywhere(start):
    found = list(loop.calls(start, 17, parts(10, 7), 4))
    steps = [b + i for _, b, n in found for i in range(n)]
    assert steps == list(range(start, 17))
    # The same calls as of a run that began at 0, once they have met.
    assert (
        found[1:]
        == list(loop.calls(0, 17, parts(10, 7), 4))[-len(found[1:]) or 17 :]
    )


@pytest.mark.parametrize(
    "step, words",
    [
        (1, "step 1, batch 0 of 10"),
        (10, "step 10, batch 9 of 10"),
        (11, "step 11, batch 0 of 7"),
    ],
)
def test_a_step_names_its_batch_by_the_phase(step, words):
    class Saved:
        def recovery_hint(self):
            return "Take another."

    described = loop._describe(parts(10, 7), Saved(), step)
    assert described == f"{words}. Take another."
