"""Settings of fine-tuning -> steps, static lengths, and users' mistakes."""

import numpy as np
import pytest

from bert_tf.workflows import fine_tuning
from bert_tf.workflows.configs import FineTuningConfig
from tfrecords import schema
from tfrecords.io import records

MOST = 16


@pytest.fixture
def sets(tmp_path):
    """Records of 3, 3 and 10 tokens to train on, and a longer one for dev."""
    found, sizes = {}, {"max_seq_length": MOST}
    for split, lengths in (("train", (3, 3, 10)), ("dev", (15,))):
        examples = []
        for length in lengths:
            row = (np.arange(MOST) < length).astype(int)
            example = dict.fromkeys(schema.ENCODER_INPUTS, row)
            examples.append(
                schema.serialize(example, schema.ENCODER_INPUTS, sizes)
            )
        records.write_shard(str(tmp_path / split), examples)
        found[split] = records.Records.open(str(tmp_path / split))
    return found


def find(sets, *lengths):
    lengths = {"bucket_lengths": lengths} if lengths else {}
    config = FineTuningConfig(output_dir="x", max_seq_length=MOST, **lengths)
    return fine_tuning.find_bucket_lengths(config, sets)


def test_steps_are_of_epochs_and_whole_calls():
    def find_steps(num_examples, **changes):
        config = FineTuningConfig(output_dir="x", train_batch_size=4, **changes)
        return fine_tuning.find_steps(config, num_examples)

    # 42 examples are 10.5 batches.
    assert find_steps(42) == (31, 3, 11)
    assert find_steps(42, steps_per_loop=4) == (31, 3, 12)
    assert find_steps(42, save_checkpoints_steps=5) == (31, 3, 5)
    few = find_steps(2, num_train_epochs=0, warmup_proportion=0)
    assert few == (1, 0, 1)


def test_auto_is_the_default_and_goes_by_the_training_rows(sets):
    assert find(sets) == (4, 12)
    assert find(sets, "auto") == (4, 12)
    # Without them, as in prediction, by the first there are.
    del sets["train"]
    assert find(sets) == (16,)


def test_none_is_no_length(sets):
    assert find(sets, "none") == ()


def test_a_list_is_sorted_and_each_length_counts_once(sets):
    assert find(sets, "16", "4", "8", "4") == (4, 8, 16)
    assert find(sets, "1") == (1,)


@pytest.mark.parametrize(
    "text", ["abc", "4,abc", "4.5", "", "auto,4", "none,4", "0", "-4", "4,17"]
)
def test_what_is_no_list_of_lengths_is_refused(sets, text):
    with pytest.raises(ValueError) as raised:
        find(sets, *text.split(","))
    assert str(raised.value) == (
        f"--bucket_lengths={text} should be auto, none or lengths such as "
        "16,32,64, of at least 1 and at most --max_seq_length=16."
    )
