import numpy as np
import tensorflow as tf

from bert_tf.training import gradients


def test_the_norm_is_that_of_all_values_in_a_row():
    rng = np.random.default_rng(0)
    given = [rng.normal(size=shape) for shape in ((9, 6), (4,), ())]
    values = np.concatenate([np.ravel(array) for array in given])
    given = [tf.constant(array, tf.float32) for array in given]
    found = gradients.global_norm(given)
    assert found.shape == ()
    np.testing.assert_allclose(found, np.linalg.norm(values), rtol=1e-6)
    compiled = tf.function(gradients.global_norm, jit_compile=True)
    np.testing.assert_allclose(compiled(given), found, rtol=1e-6)


def test_the_norm_of_float16_is_taken_in_float32():
    large = tf.fill([4], tf.constant(6e4, tf.float16))
    norm = gradients.global_norm([large])
    assert norm.dtype == tf.float32
    np.testing.assert_allclose(norm, 2 * float(large[0]), rtol=1e-6)


def test_what_is_not_finite_shows_in_the_norm():
    for bad in (np.inf, np.nan):
        given = [tf.ones(3), tf.constant([1.0, bad])]
        assert not np.isfinite(gradients.global_norm(given))
    assert np.isinf(gradients.global_norm([tf.constant([3e38])]))
