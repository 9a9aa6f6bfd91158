"""doctor: what is given reaches its check; valid runs have no errors.

The checks are in tests/tfrecords/inspection, tests/bert_tf/workflows and
tests/bert_tf/contrib/apps/doctor.
"""

import os
import re

import numpy as np
import planted_records as planted
import pytest

from bert_tf import config
from bert_tf.checkpoint import contents, model_folders, tensor_files
from bert_tf.workflows import record_checks
from run_scripts import doctor
from tfrecords.io import json_files, records
from tfrecords.text import vocab


def model(**changes):
    return config.BertConfig(
        **{
            "vocab_size": len(planted.UNCASED),
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 32,
            "max_position_embeddings": 64,
        }
        | changes,
    )


@pytest.fixture
def examine(capsys):
    """Flags -> exit status and printed lines."""

    def run(*words):
        status = 0
        try:
            doctor.main(["doctor", *map(str, words)])
        except SystemExit as stop:
            status = stop.code
        return status, capsys.readouterr().out.splitlines()

    return run


def flags_of(folder, vocab_file, sizes=None):
    """Writes a bert_config.json; returns the flags of a run with it."""
    path = os.path.join(os.path.dirname(vocab_file), "bert_config.json")
    (sizes or model()).to_json_file(path)
    return [
        f"--records={folder}",
        f"--vocab_file={vocab_file}",
        f"--bert_config_file={path}",
        "--num_train_steps=1000",
    ]


def plant(tmp_path, batch=None, sizes=None, **changes):
    """Writes records, vocabulary and config; returns the flags."""
    batch = planted.make_batch() if batch is None else batch
    found = planted.write(tmp_path / "train", batch, **changes)
    return flags_of(*found, sizes)


def the_error(answer, check):
    """Returns the only error of a run that is refused."""
    status, lines = answer
    assert status == 1
    errors = [line for line in lines if line.startswith("error: ")]
    assert len(errors) == 1, lines
    assert errors[0].startswith(f"error: {check}: "), errors
    assert lines[-1].startswith("1 error, ")
    return errors[0]


def test_records_without_an_example(tmp_path, examine, save):
    words = plant(tmp_path)[1:]
    path = tmp_path / "empty.tfrecord"
    path.write_bytes(b"")
    for more in ([], [*words, save(model())]):
        text = the_error(examine(f"--records={path}", *more), "records")
        assert "hold no examples" in text


def test_a_valid_run_passes_with_an_estimate(tmp_path, examine):
    words = plant(tmp_path)
    status, lines = examine(*words)
    assert status == 0
    text = "\n".join(lines)
    assert "error" not in text.replace("0 errors, 0 warnings", "")
    assert "800 records, shards: 2; 800 examples checked" in lines
    assert lines[-1] == "0 errors, 0 warnings"
    one, two = (n for n in lines if n.startswith("estimate: "))
    assert "million weights; memory 0." in one
    assert re.search(r"; (free )?memory of .* [0-9.]+ GB$", one), one
    assert two == (
        "estimate: 25 steps per epoch; --num_train_steps=1000 is 40.00 epochs"
    )
    assert "not checked without --init_checkpoint: weights" in lines
    answer = examine(*words, "--num_replicas=8", "--train_batch_size=30")
    assert "is not a multiple of 8" in the_error(answer, "replicas")


def test_checks_without_input_are_skipped_and_listed(tmp_path, examine):
    records_flag, *_ = plant(tmp_path)
    status, lines = examine(records_flag)
    assert status == 0
    assert sum(line.startswith("not checked without --") for line in lines) == 3
    # A named size has the size of the vocabulary of the records.
    status, lines = examine(records_flag, "--bert_config_name=tiny")
    assert status == 0
    # 2 layers of 128: 0.5 million weights, and 155 x 128.
    assert any(line.startswith("estimate: 0.5 million") for line in lines)


def test_the_vocabulary_of_another_model(tmp_path, examine):
    batch = planted.make_batch(entries=planted.CASED, capital_share=0.1)
    folder, _ = planted.write(
        tmp_path / "train", batch, planted.CASED, do_lower_case=False
    )
    other = tmp_path / "other" / "vocab.txt"
    vocab.write(planted.UNCASED, str(other))
    words = flags_of(folder, str(other), model(vocab_size=230))
    status, lines = examine(*words)
    assert status == 1
    assert [line.split(": ")[1] for line in lines[1:4]] == [
        "vocabulary",
        "ids",
        "case",
    ]
    # The meaning of the ids is unknown, so [UNK] is not checked.
    assert not any("[UNK]: " in line for line in lines)


def test_a_missing_vocabulary_is_reported_once(tmp_path, examine):
    folder, _ = planted.write(tmp_path / "train", planted.make_batch())
    path = str(tmp_path / "none")
    text = the_error(examine(*flags_of(folder, path, model())), "vocabulary")
    assert f"No vocabulary at {path}; give the vocab.txt" in text


def test_a_flag_that_is_not_the_case_of_the_records(tmp_path, examine):
    answer = examine(*plant(tmp_path), "--do_lower_case=false")
    text = the_error(answer, "case")
    assert "--do_lower_case=False, but the records were made with do_" in text


@pytest.fixture
def save(tmp_path):
    """Config -> the flag of a checkpoint with all-zero weights."""

    def write(sizes, vocabulary=None):
        folder = tmp_path / "model"
        folder.mkdir()
        shapes = contents.shapes(sizes, "pretraining")
        tensor_files.write_tensors(
            {n: np.zeros(shape, np.float32) for n, shape in shapes.items()},
            str(folder / model_folders.WEIGHTS),
        )
        sizes.to_json_file(folder / model_folders.CONFIG)
        description = {"task": "pretraining", "do_lower_case": True}
        path = str(folder / model_folders.METADATA)
        json_files.write(path, description)
        if vocabulary:
            (folder / model_folders.VOCABULARY).write_bytes(vocabulary)
        return f"--init_checkpoint={folder}"

    return write


def test_a_matching_checkpoint(tmp_path, examine, save):
    words = plant(tmp_path)
    vocabulary = (tmp_path / "vocab.txt").read_bytes()
    number = len(contents.shapes(model(), "pretraining"))
    flag = save(model(), vocabulary)
    status, lines = examine(*words, flag)
    assert status == 0
    text = f"note: checkpoint: has {number} of the model's {number} weights"
    assert any(line.startswith(text) for line in lines)
    # The config and vocabulary of the checkpoint are the defaults.
    status, lines = examine(words[0], flag)
    assert status == 0
    assert not any(line.startswith("not checked") for line in lines)


def test_a_checkpoint_that_contradicts_its_config(tmp_path, examine, save):
    flag = save(model(num_hidden_layers=2))
    model(num_hidden_layers=5).to_json_file(tmp_path / "model/bert_config.json")
    status, lines = examine(*plant(tmp_path), flag)
    assert status == 1
    begin = lines.index(
        next(n for n in lines if n.startswith("error: checkpoint: "))
    )
    # 48 weights are missing; ten are listed, of which the doctor shows eight.
    assert "48 weights do not match" in lines[begin]
    assert lines[begin + 9] == "  ... and 3 more"
    assert lines[begin + 10].startswith("Use the bert_config.json that belo")


def test_all_errors_are_printed_not_only_the_first(tmp_path, examine):
    batch = planted.make_batch(
        unk_share=0.05, random_next_share=0.0, masked_lm_prob=0.05
    )
    batch["input_word_ids"][0, 1] = 999
    words = plant(tmp_path, batch, sizes=model(max_position_embeddings=16))
    status, lines = examine(*words, f"--init_checkpoint={tmp_path}/none")
    assert status == 1
    checks = {line.split(": ")[1] for line in lines if line[:5] == "error"}
    assert checks >= {"ids", "[UNK]", "pairs", "masks", "lengths", "checkpoint"}
    first = [line.split(":")[0] for line in lines[1:4]]
    assert first == ["error"] * 3


def test_large_sets_are_sampled_unless_all_is_given(
    tmp_path, examine, monkeypatch
):
    monkeypatch.setattr(record_checks, "EXAMPLES", 128)
    monkeypatch.setattr(records, "DIGEST_BYTES", 1)
    words = plant(tmp_path)
    _, lines = examine(*words)
    assert "800 records, shards: 2; 128 examples checked" in lines
    assert any("sha256 of 1 of 2 shards" in line for line in lines)
    _, lines = examine(*words, "--all")
    assert "800 records, shards: 2; 800 examples checked" in lines
    assert not any("sha256" in line for line in lines)
