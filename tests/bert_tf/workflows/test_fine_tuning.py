"""Fine-tuning settings -> steps, static lengths, errors."""

import types

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.model import models
from bert_tf.workflows import fine_tuning
from bert_tf.workflows.configs import FineTuningConfig
from tfrecords import schema
from tfrecords.io import records

MAX_LENGTH = 16


@pytest.fixture
def sets(tmp_path):
    """Train records of 3, 3 and 10 tokens, and a longer dev record."""
    opened, sizes = {}, {"max_seq_length": MAX_LENGTH}
    for split, lengths in (("train", (3, 3, 10)), ("dev", (15,))):
        examples = []
        for length in lengths:
            row = (np.arange(MAX_LENGTH) < length).astype(int)
            example = dict.fromkeys(schema.ENCODER_INPUTS, row)
            examples.append(
                schema.serialize(example, schema.ENCODER_INPUTS, sizes)
            )
        records.write_shard(str(tmp_path / split), examples)
        opened[split] = records.Records.open(str(tmp_path / split))
    return opened


def find(sets, *lengths, hidden_size=100_000, **changes):
    if lengths:
        changes["bucket_lengths"] = lengths
    config = FineTuningConfig(
        output_dir="x", max_seq_length=MAX_LENGTH, **changes
    )
    found = fine_tuning.read_bucket_lengths(config)
    if found is None:
        return fine_tuning.choose_bucket_lengths(sets, config, hidden_size)
    return found


def test_a_dev_split_is_known_by_its_records_and_files():
    """Answers and judgements are in the files alone."""

    def digest(records_digest, **flags):
        manifest = types.SimpleNamespace(digest=records_digest, flags=flags)
        split = types.SimpleNamespace(manifest=manifest)
        return fine_tuning.RecordSplit(split, None, 9, (), "python").digest()

    found = [
        digest("a", source_sha256="b", source="dev.tsv"),
        digest("c", source_sha256="b"),
        digest("a", source_sha256="c"),
        digest("a", sha256={"judgements_file": "b"}),
        digest("a", sha256={"judgements_file": "c"}),
    ]
    assert len(set(found)) == len(found)
    # Files may be renamed.
    assert digest("a", source_sha256="b", source="old.tsv") == found[0]


def test_steps_follow_from_epochs_and_complete_calls():
    def steps_of(num_examples, **changes):
        config = FineTuningConfig(output_dir="x", train_batch_size=4, **changes)
        return fine_tuning.compute_steps(config, num_examples)

    # 10.5 batches per epoch.
    assert steps_of(42) == (31, 3, 11)
    assert steps_of(42, steps_per_loop=4) == (31, 3, 12)
    assert steps_of(42, save_checkpoints_steps=5) == (31, 3, 5)
    steps = steps_of(2, num_train_epochs=0, warmup_proportion=0)
    assert steps == (1, 0, 1)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], (4, 12)),  # Of the training rows.
        (["auto"], (4, 12)),
        (["none"], ()),
        (["16", "4", "8", "4"], (4, 8, 16)),
        (["1"], (1,)),
    ],
)
def test_lengths_are_chosen_or_a_sorted_list(sets, given, expected):
    assert find(sets, *given) == expected


def test_without_training_rows_lengths_are_those_of_the_first_split(sets):
    del sets["train"]  # As in prediction.
    assert find(sets) == (16,)


def test_a_further_length_has_to_save_more_time_than_its_compilation(sets):
    # Padding 3 and 3 tokens to 12 instead of 4 costs 16 tokens an epoch; and
    # compiling 5e9 / 10,000^2 = 50 tokens.
    assert find(sets, hidden_size=10_000, num_train_epochs=3.0) == (12,)
    assert find(sets, hidden_size=10_000, num_train_epochs=4.0) == (4, 12)


@pytest.mark.parametrize(
    "text", ["abc", "4,abc", "4.5", "", "auto,4", "none,4", "0", "-4", "4,17"]
)
def test_an_invalid_list_of_lengths_is_rejected(sets, text):
    with pytest.raises(ValueError) as raised:
        find(sets, *text.split(","))
    assert str(raised.value) == (
        f"--bucket_lengths={text} should be auto, none or lengths such as "
        "16,32,64, of at least 1 and at most --max_seq_length=16."
    )


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("tagging", {"tagging/dense"}),
        ("classification", {"classification/dense", "encoder/pooler"}),
    ],
)
def test_with_adapters_a_pooler_that_no_head_reads_is_frozen(
    tiny_config, kind, names
):
    def build(config, dtype):
        return models.for_task(kind, config, num_labels=3, dtype=dtype)

    task = types.SimpleNamespace(
        build_model=build, metadata=lambda: {"task": kind}
    )
    config = FineTuningConfig(
        output_dir="x",
        init_checkpoint="y",
        do_train=True,
        precision="float32",
        lora_rank=2,
    )
    strategy = tf.distribute.get_strategy()
    model = fine_tuning._build_model(task, tiny_config, strategy, config)
    own = f"{model.name}/"
    paths = [w.path.removeprefix(own) for w in model.trainable_weights]
    others = {path.rpartition("/")[0] for path in paths if "lora" not in path}
    assert others == names
    assert len(paths) == 2 * 2 * 2 + 2 * len(names)


def test_a_test_file_does_not_choose_the_best_model():
    task = types.SimpleNamespace(score=lambda split, x: {"accuracy": x})
    splits = dict.fromkeys(["train", "dev", "test", "test_unlabelled"])
    run = types.SimpleNamespace(
        task=task, splits=splits, labelled_tests=["test"]
    )
    # The former chooses the best model.
    assert fine_tuning._evaluate(run, len) == {"dev": {"accuracy": 3}}
    found = fine_tuning._evaluate(run, len, with_tests=True)
    assert found == {"dev": {"accuracy": 3}, "test": {"accuracy": 4}}
