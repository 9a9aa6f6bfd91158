"""FLOPs of a forward pass, and its batch.

Those of training are compared in experiments/test_step_time.py.
"""

import numpy as np
import planted_tasks as tasks
import pytest

from benchmarks import settings, work
from bert_tf.tasks import pretraining
from tfrecords import schema


def setting(task="pretraining", is_training=True, size="base", length=128):
    (found,) = settings.combinations(
        size, [task], [length], [16], ["float32"], is_training=is_training
    )
    return found


def test_the_number_of_masked_tokens_is_that_of_the_paper():
    assert [setting(length=x).num_predictions for x in (128, 384)] == [20, 58]


def test_a_forward_pass_has_two_flops_per_parameter_and_token():
    wanted = setting("fine_tuning", is_training=False)
    # 85 million weights in the products of 12 layers.
    layers = 12 * (4 * 768**2 + 2 * 768 * 3072)
    attention = 12 * 16 * 2 * 128 * 128 * 768
    pooler = 16 * 768 * (768 + 2)
    expected = 2 * (layers * 16 * 128 + attention + pooler)
    assert work.matmul_flops(wanted) == expected
    # About 360 GFLOP for 16 x 128.
    assert 3.4e11 < expected < 3.7e11


@pytest.mark.parametrize(
    "task, features",
    [
        ("pretraining", pretraining.TASK.schema),
        ("fine_tuning", tasks.classification("any", 2).schema),
    ],
)
def test_a_batch_has_the_features_of_our_records(task, features):
    wanted = setting(task, length=32)
    batch = work.random_batch(wanted)
    sizes = {"max_seq_length": 32, "max_predictions_per_seq": 5}
    specs = schema.batch_signature(features, sizes, batch_size=16)
    assert set(batch) == {*specs, "is_real_example"}
    for name, spec in specs.items():
        assert batch[name].shape == spec.shape, name
        assert batch[name].dtype == spec.dtype.as_numpy_dtype, name
    assert batch["input_mask"].all()
    assert batch["input_word_ids"].max() < 30522
    again = work.random_batch(wanted)
    assert all(np.array_equal(batch[name], again[name]) for name in batch)
