import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig
from tools import hlo_report


@pytest.fixture(scope="module")
def lowered():
    return hlo_report.Lowered(BertConfig.from_name("base", vocab_size=30522))


@pytest.mark.slow
@pytest.mark.parametrize("case", hlo_report.CASES)
def test_a_step_of_bert_base_can_run_on_a_tpu(lowered, case):
    report = lowered.report(8, *hlo_report.CASES[case])
    # The step counter, and key and counter of the dropout generator.
    assert report.most_64_bit <= 3
    assert report.foreign == set()
    assert report.is_static
    # The doctor's estimate is for several implementations, see there. With
    # remat it includes a layer's activations, which are not kept.
    assert 0.2 < report.kept / report.estimated < 1.3


@pytest.mark.parametrize("dtype, most", [(tf.uint32, 3), (tf.uint64, 800)])
def test_arrays_of_64_bits_are_counted(dtype, most):
    def draw(counter):
        return tf.raw_ops.StatelessRandomUniformFullIntV2(
            shape=tf.constant([8, 100]),
            key=tf.constant([1], tf.uint64),
            counter=counter,
            alg=1,
            dtype=dtype,
        )

    hlo = hlo_report.lower(draw, tf.constant([2, 3], tf.uint64))
    assert hlo_report.most_64_bit(hlo) == most


def test_a_shape_that_depends_on_values_is_found():
    x = tf.constant([1.0, -1.0, 2.0])
    hlo = hlo_report.lower(lambda x: tf.boolean_mask(x, x > 0), x)
    assert not hlo_report.is_static(hlo)
    assert hlo_report.foreign_calls(hlo)  # It sets the size of a dimension.
    hlo = hlo_report.lower(lambda x: tf.where(x > 0, x, 0), x)
    assert hlo_report.is_static(hlo) and not hlo_report.foreign_calls(hlo)


@pytest.mark.parametrize(
    "line, operation",
    [
        ("%a = f32[2]{0} custom-call(f32[2]{0} %b)", "custom-call"),
        ("%a = (f32[2]{0}, token[]) infeed(token[] %b)", "infeed"),
        ("%a = (f32[2]{0}, u32[], token[]) send(%b, %c)", "send"),
        ("%a = token[] send-done(%b)", "send"),
    ],
)
def test_calls_of_the_host_are_found(line, operation):
    assert hlo_report.foreign_calls(line) == {operation}


def test_kept_bytes_are_those_that_the_gradient_uses():
    """Exp keeps its result, a product its factors; sums keep nothing."""

    def gradients(x, w):
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            loss = tf.reduce_sum(tf.exp(tf.exp(x + 1) @ w))
        return [loss, *tape.gradient(loss, [x, w])]

    x, w = np.zeros((16, 8), np.float32), np.zeros((8, 4), np.float32)
    hlo = hlo_report.lower(gradients, tf.constant(x), tf.constant(w))
    # The inner exp [16, 8] and the outer one [16, 4]; w is a parameter.
    assert hlo_report.bytes_kept(hlo) == 4 * (16 * 8 + 16 * 4)


def test_of_a_cast_value_the_smaller_form_is_kept():
    def gradients(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            half = tf.cast(tf.exp(x), tf.bfloat16)
            loss = tf.reduce_sum(tf.cast(half * half, tf.float32))
        return [loss, tape.gradient(loss, x)]

    hlo = hlo_report.lower(gradients, tf.zeros(100))
    # Of exp both forms are used, but counted once.
    assert hlo_report.bytes_kept(hlo) == 200
