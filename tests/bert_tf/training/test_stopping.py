import os
import signal

import pytest

from bert_tf.training import stopping


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
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


def test_outside_of_training_sigterm_stops_immediately():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(stopping.Stopped, match="by SIGTERM") as info:
        with stopping.at_once_on_sigterm():
            os.kill(os.getpid(), signal.SIGTERM)
            raise AssertionError("not stopped")
    assert info.value.exit_code == 75
    assert signal.getsignal(signal.SIGTERM) is before
