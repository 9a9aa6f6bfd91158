import errno
import json
import os
import re

import pytest
import tensorflow as tf

from bert_tf.training import reporting


@pytest.fixture(autouse=True)
def information(caplog):
    """Lines of a run, which are not warnings, are in `caplog`, too."""
    caplog.set_level("INFO", logger="absl")


def lines(folder):
    text = (folder / "steps.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def make_report(folder, **changes):
    settings = dict(num_train_steps=5, log_every_steps=2) | changes
    return reporting.Report(reporting.Writer(str(folder)), **settings)


@pytest.mark.parametrize(
    "seconds, text",
    [(0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3723.4, "1:02:03")],
)
def test_durations_have_hours_minutes_and_seconds(seconds, text):
    assert reporting.format_seconds(seconds) == text


def test_values_have_four_digits():
    values = {"loss": 1.234567, "learning_rate": 1e-4}
    assert reporting.format_values(values) == "loss 1.235  learning_rate 0.0001"


def add(report, step, *losses, **others):
    """Adds the values of one call that ends at `step`."""
    values = {"loss": losses} | others
    values = {name: tf.constant(v, tf.float32) for name, v in values.items()}
    count = len(losses)
    report.add(step, values, examples=8 * count, tokens=128 * count)


def test_a_line_shows_means_since_the_last_one(tmp_path, caplog):
    report = make_report(tmp_path)
    for step in range(1, 6):
        add(report, step, float(step))
    # The first, every two steps, and at the end.
    texts = [text.partition("  examples")[0] for text in caplog.messages]
    assert texts == [
        "step 1/5  loss 1  after 0:00",
        "step 2/5  loss 1.5",
        "step 4/5  loss 3.5",
        "step 5/5  loss 5",
    ]
    assert caplog.messages[-1].endswith("ETA 0:00")


def test_a_line_shows_the_current_learning_rate(tmp_path, caplog):
    report = make_report(tmp_path, log_every_steps=3)
    add(report, 1, 1.0, learning_rate=[0.5])
    add(report, 3, 2.0, 3.0, learning_rate=[0.25, 0.125])
    assert "loss 2  learning_rate 0.125  examples" in caplog.messages[1]
    rates = [line["learning_rate"] for line in lines(tmp_path)]
    assert rates == [0.5, 0.25, 0.125]
    # TensorBoard has the values of that line.
    (path,) = tmp_path.glob("events.out*")
    scalars = {
        (event.step, value.tag): float(tf.make_ndarray(value.tensor))
        for data in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
        for event in [tf.compat.v1.Event.FromString(data)]
        for value in event.summary.value
    }
    assert scalars[3, "loss"] == 2.0
    assert scalars[3, "learning_rate"] == 0.125


def test_every_step_is_logged_with_its_own_values(tmp_path):
    report = make_report(tmp_path, log_every_steps=100)
    add(report, 1, 0.1)
    report.flush()  # Before a line is due.
    assert [line["step"] for line in lines(tmp_path)] == [1]
    add(report, 4, 0.2, 0.3, 0.4)
    add(report, 5, 0.7)
    assert lines(tmp_path) == [
        {"step": step, "loss": float(tf.constant(loss))}
        for step, loss in enumerate((0.1, 0.2, 0.3, 0.4, 0.7), 1)
    ]


def test_with_several_steps_per_call_lines_follow_the_next_call(
    tmp_path, caplog
):
    report = make_report(tmp_path, num_train_steps=100, log_every_steps=4)
    for step in (3, 6, 9):
        add(report, step, 1.0, 1.0, 1.0)
    texts = [text.partition("  ")[0] for text in caplog.messages]
    assert texts == ["step 3/100", "step 6/100", "step 9/100"]


@pytest.fixture
def now(monkeypatch):
    """A list of the time."""
    now = [0.0]
    monkeypatch.setattr(reporting.time, "monotonic", lambda: now[0])
    return now


def test_paused_time_is_excluded_from_the_rates(tmp_path, now, caplog):
    report = make_report(tmp_path)
    for step in (1, 2):
        now[0] += 1.0
        add(report, step, 0.0)
    with report.paused():
        now[0] += 100.0
    for step in (3, 4):
        now[0] += 1.0
        add(report, step, 0.0)
    assert len(caplog.messages) == 3
    for text in caplog.messages[1:]:
        assert "examples/s 8  tokens/s 128" in text


def test_the_first_step_and_one_every_ten_seconds_are_printed(
    tmp_path, now, caplog
):
    report = make_report(tmp_path, num_train_steps=100, log_every_steps=50)
    for step in range(1, 13):
        now[0] += 60.0 if step == 1 else 4.0
        if step == 5:
            with report.paused():
                now[0] += 100.0
        add(report, step, float(step))
    assert caplog.messages == [
        "step 1/100  loss 1  after 1:00",
        "step 4/100  loss 4  ETA 6:24",
        "step 7/100  loss 7  ETA 6:12",
        "step 10/100  loss 10  ETA 6:00",
    ]
    # They change nothing in the logs.
    assert not (tmp_path / "steps.jsonl").exists()
    assert [step for step, _ in report.unread] == [*range(1, 13)]


def test_other_processes_than_the_chief_print_nothing(caplog):
    report = reporting.Report(None, num_train_steps=5, log_every_steps=2)
    for step in range(1, 6):
        add(report, step, 1.0)
    assert not caplog.messages


@pytest.mark.parametrize(
    "line",
    [
        *('{"loss": 1}', '{"step": "1"}', "{}", "[{}}", "", "\xff"),
        *('{"step": 1, "loss": 2}', '{"step": 0}'),  # Not after step 1.
    ],
)
def test_a_damaged_line_of_a_log_is_left_out(tmp_path, caplog, line):
    text = f'{{"step": 0}}\n{{"step": 1}}\n{line}\n{{"step": 4}}\n{line}\n'
    (tmp_path / "steps.jsonl").write_text(text, "latin-1")
    assert reporting.Writer(str(tmp_path), 5).last_step == 4
    assert re.search(r"steps.jsonl:3(:| is not JSON) .* out: 2", caplog.text)
    found = reporting.read_lines(str(tmp_path / "steps.jsonl"), reporting.LINE)
    assert [values["step"] for _, values in found] == [0, 1, 4]


@pytest.mark.parametrize("steps", [{3: 1000000}, {4: 50}, {8: 2}, {1: 50}])
def test_lines_after_a_wrong_step_are_kept(tmp_path, caplog, steps):
    path = tmp_path / "steps.jsonl"
    written = [{"step": steps.get(n, n)} for n in range(1, 13)]
    path.write_text("".join(json.dumps(x) + "\n" for x in written))
    assert reporting.Writer(str(tmp_path), 10).last_step == 10
    assert lines(tmp_path) == written[:10]
    found = reporting.read_lines(str(path), reporting.LINE)
    kept = [n for n in range(1, 11) if n not in steps]
    assert [values["step"] for _, values in found] == kept
    number, step = next(iter(steps.items()))
    assert f"{path}:{number}: step {step} is not between" in caplog.text
    assert f"Lines left out: {len(steps)}." in caplog.text


def test_a_restart_drops_lines_of_steps_it_repeats(tmp_path):
    first = reporting.Writer(str(tmp_path))
    for step in (2, 4, 6):
        first.write(step, {"loss": float(step)})
    with open(tmp_path / "steps.jsonl", "a") as file:
        file.write('{"step": 8, "lo')  # Incomplete after a kill.
    again = reporting.Writer(str(tmp_path), start_step=4)
    again.write(6, {"loss": 7.0})
    found = [(line["step"], line["loss"]) for line in lines(tmp_path)]
    assert found == [(2, 2.0), (4, 4.0), (6, 7.0)]


def test_an_undefined_value_is_null_and_not_drawn(tmp_path, monkeypatch):
    drawn, writer = [], reporting.Writer(str(tmp_path))
    monkeypatch.setattr(writer, "draw", lambda *values: drawn.append(values))
    writer.write(2, {"loss": 1.0, "pearson": None})
    assert lines(tmp_path) == [{"step": 2, "loss": 1.0, "pearson": None}]
    assert drawn == [(2, {"loss": 1.0})]


def test_a_step_evaluated_again_has_one_line(tmp_path):
    def write(step, loss, **start):
        reporting.Writer(str(tmp_path), **start).write(step, {"loss": loss})

    write(0, 2.0)
    write(0, 1.0)  # Before training.
    first = reporting.Writer(str(tmp_path))
    for step, loss in ((3, 1.0), (6, 1.0), (6, 2.0)):
        first.write(step, {"loss": loss})
    # A run that only evaluates, at the step of the newest checkpoint.
    write(6, 3.0, start_step=6)
    write(9, 4.0, start_step=9)
    found = [(line["step"], line["loss"]) for line in lines(tmp_path)]
    assert found == [(0, 1.0), (3, 1.0), (6, 3.0), (9, 4.0)]


def test_a_full_disk_raises_and_leaves_no_incomplete_line(
    tmp_path, monkeypatch
):
    writer = reporting.Writer(str(tmp_path))
    writer.note([{"step": 1, "loss": 1.0}])

    def fill_disk(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fill_disk)
        with pytest.raises(OSError, match="No space left.*Make room") as raised:
            writer.note([{"step": 2, "loss": 2.0}])
    assert raised.value.filename == str(tmp_path / "steps.jsonl")
    assert lines(tmp_path) == [{"step": 1, "loss": 1.0}]

    def fill_tensorboard():
        raise tf.errors.ResourceExhaustedError(None, None, "no space")

    monkeypatch.setattr(writer.tensorboard, "flush", fill_tensorboard)
    with pytest.raises(OSError, match="No space left.*Make room") as raised:
        writer.write(2, {"loss": 2.0})
    assert raised.value.filename == str(tmp_path)


def test_a_value_that_is_not_finite_raises_after_it_is_logged(tmp_path):
    report = make_report(tmp_path, where="step {} of shard 3".format)
    nan = float("nan")
    add(report, 1, nan, gradient_norm=[1.0])
    with pytest.raises(
        FloatingPointError, match="^loss not finite at step 1 of shard 3$"
    ):
        add(report, 2, nan, gradient_norm=[1.0])
    assert lines(tmp_path)[0]["gradient_norm"] == 1.0


def test_an_overflow_of_float16_is_counted(tmp_path, caplog):
    report = make_report(tmp_path)
    inf = float("inf")
    add(report, 1, 1.0, gradient_norm=[inf], loss_scale=[8.0])
    add(report, 2, 1.0, gradient_norm=[3.0], loss_scale=[4.0])
    assert "gradient_norm 3  loss_scale 6  skipped 1  ex" in caplog.messages[1]
    # A scale of 1 cannot be lowered.
    add(report, 3, 1.0, gradient_norm=[inf], loss_scale=[1.0])
    with pytest.raises(FloatingPointError, match="gradient_norm not finite"):
        report.flush()


def test_each_process_adds_its_time_and_memory_also_if_it_is_stopped(
    tmp_path, monkeypatch
):
    times = iter([10.0, 11.26, 20.0, 80.0])
    monkeypatch.setattr(reporting.time, "monotonic", lambda: next(times))
    with reporting.session(str(tmp_path), True):
        pass
    with (
        pytest.raises(KeyboardInterrupt),
        reporting.session(str(tmp_path), True),
    ):
        raise KeyboardInterrupt
    lines = (tmp_path / "logs/sessions.jsonl").read_text().splitlines()
    found = list(map(json.loads, lines))
    assert [line["seconds"] for line in found] == [1.3, 60.0]
    assert all(line["peak_memory_gb"] > 0 for line in found)
    monkeypatch.undo()
    with reporting.session(str(tmp_path / "other"), False):
        pass
    assert not (tmp_path / "other").exists()
