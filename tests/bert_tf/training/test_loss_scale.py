import tensorflow as tf

from bert_tf.training import loss_scale


def test_it_doubles_after_good_steps_and_halves_at_an_overflow():
    scale = loss_scale.LossScale(first=8.0, growth_steps=3)
    values = []
    for is_finite in (1, 1, 1, 1, 0, 1, 1, 1, 0, 0):
        scale.update(tf.constant(bool(is_finite)))
        values.append(float(scale.value))
    assert values == [8, 8, 16, 16, 8, 8, 8, 16, 8, 4]
    assert int(scale.skipped) == 3
    assert int(scale.good_steps) == 0


def test_it_never_falls_below_one():
    scale = loss_scale.LossScale(first=2.0)
    for _ in range(3):
        scale.update(tf.constant(False))
    assert float(scale.value) == 1.0


def test_its_state_is_all_it_has():
    assert set(loss_scale.LossScale().state()) == {
        "loss_scale/value",
        "loss_scale/good_steps",
        "loss_scale/skipped",
    }
