import keras
import numpy as np
import pytest

from bert_tf.training import schedules


def test_the_rate_at_start_in_warmup_after_it_and_at_the_end():
    schedule = schedules.WarmupLinearDecay(1e-4, 100, 10)
    rates = [float(schedule(step)) for step in (0, 5, 10, 55, 100, 200)]
    expected = [0.0, 5e-5, 9e-5, 4.5e-5, 0.0, 0.0]
    np.testing.assert_allclose(rates, expected, rtol=1e-5, atol=1e-12)


def test_without_warmup_the_rate_starts_at_its_peak():
    assert float(schedules.WarmupLinearDecay(1e-4, 100)(0)) == (
        pytest.approx(1e-4)
    )


def test_the_schedule_serves_a_keras_optimizer():
    schedule = schedules.WarmupLinearDecay(1e-4, 100, 10)
    optimizer = keras.optimizers.SGD(schedule)
    again = keras.optimizers.SGD.from_config(optimizer.get_config())
    assert again._learning_rate.get_config() == schedule.get_config()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1e-4, 10, 20), "num_warmup_steps=20 exceeds num_train_steps=10"),
        ((1e-4, 0, 0), "num_train_steps=0 should be at least 1"),
        ((1e-4, 10, -1), "num_warmup_steps=-1 at least 0"),
        ((-1.0, 10, 0), "learning_rate=-1.0 should be 0 or more"),
    ],
)
def test_a_schedule_out_of_range_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        schedules.WarmupLinearDecay(*arguments)
