"""Errors of run.py; the rest is tested by test_run_pretraining.py."""

import os

import numbered_records
import pytest

from bert_tf.workflows.pretraining import run
from bert_tf.workflows.pretraining.config import PretrainingConfig
from tfrecords.io import records


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "Nothing to do: give --input_fi"),
        ({"input_file": "x", "do_train": False}, "Nothing to do: give"),
        ({"eval_input_file": "x", "do_eval": False}, "Nothing to do: give"),
        (
            {
                "input_file": "missing",
                "train_batch_size": 9,
                "gradient_accumulation_steps": 2,
            },
            "batch of 9 examples is not a mult",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_before_records_are_read(
    tmp_path, fields, message
):
    output_dir = tmp_path / "run"
    config = PretrainingConfig(output_dir=str(output_dir), **fields)
    with pytest.raises(ValueError, match=message):
        run.pretrain(config)
    assert not output_dir.exists()


@pytest.mark.parametrize(
    ("fields", "is_warned"),
    [
        ({}, True),
        ({"do_eval": False}, False),
        ({"eval_input_file": "x"}, False),
    ],
)
def test_training_without_an_evaluation_is_warned_about(
    tmp_path, caplog, fields, is_warned
):
    config = PretrainingConfig(
        output_dir=str(tmp_path / "run"), input_file="missing", **fields
    )
    with pytest.raises(ValueError, match="No model sizes"):
        run.pretrain(config)
    line = "no --eval_input_file: nothing is evaluated"
    assert (line in caplog.text) == is_warned


@pytest.mark.parametrize("flag", ["input_file", "eval_input_file"])
def test_a_damaged_shard_is_refused(tmp_path, tiny_config, flag):
    folders = {"input_file": "a", "eval_input_file": "b"}
    folders = {name: str(tmp_path / x) for name, x in folders.items()}
    for folder in folders.values():
        numbered_records.write_folder(folder)
    name = records.shard_name("train", 1, 3)
    numbered_records.damage(os.path.join(folders[flag], name), 40)
    tiny_config.to_json_file(tmp_path / "bert_config.json")
    config = PretrainingConfig(
        output_dir=str(tmp_path / "run"),
        bert_config_file=str(tmp_path / "bert_config.json"),
        num_train_steps=1,
        **folders,
    )
    with pytest.raises(ValueError, match=f"{name}' is not the shard that the"):
        run.pretrain(config)
