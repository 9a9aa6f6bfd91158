"""Fine-tuning with a BiLSTM: resumed, evaluated again, refused elsewhere."""

import dataclasses
import json
import pathlib

import pytest

from bert_tf.checkpoint import model_folders
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.model import models
from bert_tf.training import stopping
from experiments.bilstm import run_glue
from tfrecords.io import atomic_files


@pytest.fixture(scope="module")
def flags(tmp_path_factory, tiny_config, tiny_vocab_file):
    """Flags of a table, and of a left-to-right encoder with random weights."""
    folder = tmp_path_factory.mktemp("bilstm")
    rows = [f"the cat\t{i % 2}\n" for i in range(24)]
    (folder / "rows.tsv").write_text("text\tlabel\n" + "".join(rows))
    config = dataclasses.replace(
        tiny_config, num_hidden_layers=1, is_causal=True
    )
    with atomic_files.atomic_folder(str(folder / "model")) as aside:
        model_folders.save_model(
            aside,
            models.BertRegressor(config),
            metadata={"task": "regression", "do_lower_case": True},
            vocabulary=pathlib.Path(tiny_vocab_file).read_bytes(),
        )
    return [
        *("--task_name=own", "--text_column=text", "--labels=0,1"),
        *(f"--train_file={folder}/rows.tsv", f"--dev_file={folder}/rows.tsv"),
        *(f"--init_checkpoint={folder}/model", "--max_seq_length=16"),
        *("--do_eval", "--train_batch_size=8", "--num_train_epochs=2"),
        *("--bucket_lengths=none", "--bilstm_units=4"),
    ]


def run(*words):
    run_glue.main(["run_glue", *map(str, words)])


def test_it_is_for_training(flags, tmp_path):
    with pytest.raises(ValueError, match="is for training: add --do_train"):
        run(*flags, f"--output_dir={tmp_path}/run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_stopped_run_equals_another_and_is_evaluated_again(flags, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    flags = [*flags, "--do_train"]
    run(*flags, f"--output_dir={whole}")
    with pytest.raises(stopping.Stopped):
        run(*flags, f"--output_dir={parts}", "--stop_at_step=4")
    run(*flags, f"--output_dir={parts}")
    for name in (
        "checkpoints/step-00000006/state.json",
        "logs/train/steps.jsonl",
        "eval_results.json",
    ):
        assert (whole / name).read_bytes() == (parts / name).read_bytes()
    config = json.loads((whole / "best/bert_config.json").read_text())
    assert (config["is_causal"], config["bilstm_units"]) == (True, 4)
    first, *_ = (whole / "run.flags").read_text().splitlines()
    assert first == "# experiments.bilstm.run_glue"

    before = (whole / "eval_results.json").read_bytes()
    run(*flags, f"--output_dir={whole}")
    assert (whole / "eval_results.json").read_bytes() == before

    with pytest.raises(ValueError, match="bilstm_units=4 in a BERT config"):
        Checkpoint.open(str(whole))
    with pytest.raises(ValueError, match="bilstm_units"):
        run(*flags, f"--output_dir={whole}", "--bilstm_units=5")
