import numpy as np
import tensorflow as tf

from bert_tf import gradients


def slices(seed=0, tokens=40, entries=9, size=6):
    """Slices in which most rows come several times, and row 0 never."""
    rng = np.random.default_rng(seed)
    return tf.IndexedSlices(
        tf.constant(rng.normal(size=(tokens, size)), tf.float32),
        tf.constant(rng.integers(1, entries, tokens), tf.int32),
        tf.constant([entries, size]),
    )


def test_the_norm_of_slices_is_that_of_the_table_they_make():
    found = slices()
    dense = tf.convert_to_tensor(found)
    other = tf.constant([[3.0, -4.0]])
    expected = np.sqrt(np.square(dense.numpy()).sum() + 25.0)
    for given in ([found, other], [dense, other]):
        np.testing.assert_allclose(
            gradients.global_norm(given), expected, rtol=1e-6
        )


def test_rows_are_summed_whole_and_the_same_each_time():
    found = slices(tokens=500, size=64)
    rows = gradients.summed_rows(found)
    dense = tf.convert_to_tensor(found).numpy()
    present = np.unique(found.indices)
    assert rows.shape == found.values.shape
    np.testing.assert_allclose(
        rows[: len(present)], dense[present], rtol=1e-5, atol=1e-5
    )
    assert not np.any(rows[len(present) :])
    for _ in range(5):
        again = gradients.summed_rows(found)
        np.testing.assert_array_equal(rows, again)


def test_xla_gives_the_same_norm():
    found = slices()
    compiled = tf.function(
        lambda values, indices: gradients.global_norm(
            [tf.IndexedSlices(values, indices), tf.ones(4)]
        ),
        jit_compile=True,
    )
    np.testing.assert_allclose(
        compiled(found.values, found.indices),
        gradients.global_norm([found, tf.ones(4)]),
        rtol=1e-6,
    )


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
