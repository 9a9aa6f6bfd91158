import os

import pytest

from bert_tf.training import saving, strategies


class Recorder:
    """Stands for checkpoints, for the report and for the evaluation."""

    def __init__(self, folder):
        self.folder = str(folder / "checkpoints")
        self.seen = []
        os.makedirs(folder / "logs", exist_ok=True)

    def save(self, step, is_regular):
        assert is_regular(10) and not is_regular(11)
        self.seen.append(f"save {step}")

    def evaluate(self, step):
        self.seen.append(f"evaluate {step}")

    def flush(self):
        self.seen.append("flush")

    def pause(self, seconds):
        assert seconds >= 0

    def path(self, step):
        return f"{self.folder}/step-{step}"


@pytest.fixture
def recorder(tmp_path):
    return Recorder(tmp_path)


def make_saver(recorder):
    strategy = strategies.make_strategy("one_device")
    saver = saving.Saver(strategy, recorder, recorder, recorder.evaluate)
    saver.is_regular = lambda step: step % 10 == 0
    return saver


def test_the_log_comes_before_the_checkpoint_and_that_before_evaluation(
    recorder,
):
    make_saver(recorder).save(10, stops=False)
    assert recorder.seen == ["flush", "save 10", "evaluate 10"]


def test_what_stops_is_evaluated_by_the_next_start(recorder):
    make_saver(recorder).save(10, stops=True)
    assert recorder.seen == ["flush", "save 10"]
    recorder.seen.clear()
    make_saver(recorder).begin(10)
    make_saver(recorder).begin(10)  # Once is enough.
    assert recorder.seen == ["evaluate 10"]


def test_only_regular_checkpoints_are_evaluated(recorder):
    saver = make_saver(recorder)
    saver.save(7, stops=False)
    saver.begin(7)
    saver.begin(0)
    assert recorder.seen == ["flush", "save 7"]


def test_the_way_back_names_the_last_checkpoint(recorder):
    saver = make_saver(recorder)
    assert saver.recovery_hint().startswith("There is no checkpoint yet.")
    saver.save(7, stops=False)
    assert f"good one is {recorder.folder}/step-7." in saver.recovery_hint()
