import json

import pytest
import tensorflow as tf

from bert_tf import reporting


def lines(folder):
    text = (folder / "steps.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def make_report(folder, **changes):
    settings = dict(
        num_train_steps=5,
        examples_per_step=8,
        tokens_per_example=16,
        log_every_steps=2,
    )
    writer = reporting.Writer(str(folder))
    return reporting.Report(writer, **(settings | changes))


@pytest.mark.parametrize(
    "seconds, text",
    [(0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3723.4, "1:02:03")],
)
def test_durations_are_shown_as_on_a_clock(seconds, text):
    assert reporting.format_seconds(seconds) == text


def test_values_are_shown_with_four_digits():
    values = {"loss": 1.234567, "learning_rate": 1e-4}
    assert reporting.format_values(values) == "loss 1.235  learning_rate 0.0001"


def test_a_line_shows_means_since_the_last_one(tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    report = make_report(tmp_path)
    for step in range(1, 6):
        report.step(step, {"loss": tf.constant(float(step))})
    # Every two steps, and at the end.
    found = lines(tmp_path)
    assert [line["step"] for line in found] == [2, 4, 5]
    assert [line["loss"] for line in found] == [1.5, 3.5, 5.0]
    for line in found:
        assert line["tokens/s"] == pytest.approx(16 * line["examples/s"])
    assert caplog.messages[0].startswith("step 2/5  loss 1.5  examples/s ")
    assert caplog.messages[-1].endswith("ETA 0:00")


def test_time_spent_elsewhere_is_left_out_of_the_rates(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(reporting.time, "monotonic", lambda: now[0])
    report = make_report(tmp_path)
    for step in (1, 2):
        now[0] += 1.0
        report.step(step, {"loss": tf.constant(0.0)})
    now[0] += 100.0
    report.pause(100.0)
    for step in (3, 4):
        now[0] += 1.0
        report.step(step, {"loss": tf.constant(0.0)})
    assert [line["examples/s"] for line in lines(tmp_path)] == [8.0, 8.0]


def test_a_restart_drops_the_lines_it_does_again(tmp_path):
    first = reporting.Writer(str(tmp_path))
    for step in (2, 4, 6):
        first.write(step, {"loss": float(step)})
    with open(tmp_path / "steps.jsonl", "a") as file:
        file.write('{"step": 8, "lo')  # As a kill leaves it.
    again = reporting.Writer(str(tmp_path), start_step=4)
    again.write(6, {"loss": 7.0})
    assert lines(tmp_path) == [
        {"step": 2, "loss": 2.0},
        {"step": 4, "loss": 4.0},
        {"step": 6, "loss": 7.0},
    ]


def test_tensorboard_has_the_same_values(tmp_path):
    reporting.Writer(str(tmp_path)).write(3, {"loss": 0.5})
    (path,) = tmp_path.glob("events.out*")
    found = [
        (event.step, value.tag, tf.make_ndarray(value.tensor))
        for data in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
        for event in [tf.compat.v1.Event.FromString(data)]
        for value in event.summary.value
    ]
    assert found == [(3, "loss", 0.5)]


def test_a_value_that_is_not_finite_is_named_and_written(tmp_path):
    report = make_report(tmp_path)
    values = {"loss": tf.constant(float("nan")), "norm": tf.constant(1.0)}
    report.step(1, values)
    with pytest.raises(FloatingPointError, match="^loss not finite at step 2"):
        report.step(2, values)
    assert lines(tmp_path)[0]["norm"] == 1.0
