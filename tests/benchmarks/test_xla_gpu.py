"""Programs for XLA on another machine: results of the model, errors."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import xla_gpu
from benchmarks.peers import ours
from bert_tf.model import dropout


def program(kind="step", precision="float32", size="tiny"):
    return xla_gpu.Program(size, 16, 4, kind, precision, True)


def test_a_program_has_the_loss_and_the_gradients_of_the_model(tiny_config):
    setting = program("step_dropout").setting(tiny_config.to_dict())
    code, entries, results = xla_gpu.lower(program("step_dropout"), setting)
    task = ours.make_task(setting)
    model = task.build_model(tiny_config)
    model.set_weights(
        xla_gpu.draw_weights(entries) + model.get_weights()[len(entries) :]
    )
    *inputs, key = map(
        tf.constant, xla_gpu.draw_inputs(program("step_dropout"), setting)
    )
    names = sorted(xla_gpu.work.random_batch(setting))
    batch = dict(zip(names, inputs, strict=True))
    with tf.GradientTape() as tape:
        outputs = task.outputs(model, batch, dropout.make_key(*key))
        losses = task.losses(outputs, batch).values()
        loss = tf.add_n([mean.value() for mean in losses])
    gradients = tape.gradient(loss, [w.value for w in model.trainable_weights])
    assert len(results) == 1 + len(gradients)
    for expected, result in zip([loss, *gradients], results, strict=True):
        expected = np.ravel(tf.convert_to_tensor(expected))
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6)
    # MLIR's bytecode, without weights.
    assert code.startswith(b"ML\xefR") and len(code) < 2**17


def test_errors_are_relative_to_the_norm_of_the_largest_values():
    kept = np.float32([[1, 0], [4, -3]])  # Index and value, norm 5.
    small = np.float32([[0], [0.001]])
    pairs = enumerate((kept, kept, small))
    expected = {f"{program()}/{i}": pair for i, pair in pairs}
    right, wrong = np.float32([-3, 4, 9]), np.float32([-3, 4.5, 9])
    near = np.float32([0.0011])

    def error(*results):
        return xla_gpu.largest_error(program(), results, expected)

    assert error(right, right, small[1]) == 0
    assert error(right, wrong, small[1]) == pytest.approx(0.1)
    # A thousandth of the norm of another gradient is the least norm.
    assert error(right, right, near) == pytest.approx(0.02)
    assert np.isnan(error(right, wrong * np.nan, small[1]))


def test_xla_of_jaxlib_has_the_results_of_tensorflow(tmp_path, capsys):
    pytest.importorskip("jax")
    programs = [program("step_dropout"), program("forward", "bfloat16")]
    timed = [programs[1]._replace(seq_length=8, is_checked=False)]
    xla_gpu.make(tmp_path / "made", programs + timed)
    xla_gpu.run_jax(tmp_path / "made", seconds=0.0)
    lines = capsys.readouterr().out.splitlines()
    assert sum("error" in line for line in lines) == len(programs)
    assert "% of products" in lines[-1]
