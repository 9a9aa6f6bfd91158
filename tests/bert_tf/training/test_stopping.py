import os
import signal

import pytest

from bert_tf.training import stopping


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
)
def test_a_signal_makes_the_request(number):
    with stopping.after_step() as request:
        assert not request.is_made
        os.kill(os.getpid(), number)
        assert request.is_made


def test_only_a_second_sigint_stops_immediately():
    with pytest.raises(KeyboardInterrupt):
        with stopping.after_step() as request:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            assert request.is_made
            os.kill(os.getpid(), signal.SIGINT)


def test_previous_signal_handlers_are_restored():
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with stopping.after_step():
        assert signal.getsignal(signal.SIGTERM) != before[0]
    now = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    assert now == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_outside_of_training_a_signal_stops_immediately(number):
    before = signal.getsignal(number)
    name = signal.Signals(number).name
    with pytest.raises(stopping.Stopped, match=f"by {name}") as info:
        with stopping.at_once_on_signal():
            os.kill(os.getpid(), number)
            raise AssertionError("not stopped")
    assert info.value.exit_code == 75
    assert signal.getsignal(number) is before


def test_a_sighup_that_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopping.at_once_on_signal(), stopping.after_step() as request:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not request.is_made
    finally:
        signal.signal(signal.SIGHUP, before)
