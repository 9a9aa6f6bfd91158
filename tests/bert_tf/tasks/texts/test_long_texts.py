"""Texts of several windows: training finds a word in any of them."""

import dataclasses
import random
import types

import numpy as np
import planted_tasks
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.config import BertConfig
from bert_tf.contrib.search import few_shot
from bert_tf.model import dropout
from bert_tf.tasks import glue
from bert_tf.tasks.texts.options import LabelledData
from bert_tf.workflows import configs, fine_tuning
from tfrecords.io import json_files
from tfrecords.io.records import Records
from tfrecords.options import MAX_WINDOWS
from tfrecords.text import vocab

FILLERS = "about after all an and are at away be by did for from had he".split()


def text_of(label, rng, place=600, length=700):
    """A text whose one word at a place is that of its label."""
    words = rng.choices(FILLERS, k=length)
    words[place] = {"land": "garden", "sea": "ship"}[label]
    return " ".join(words)


def write_table(path, count, seed, **text):
    rng = random.Random(seed)
    rows = [("land", "sea")[i % 2] for i in range(count)]
    lines = [f"{text_of(x, rng, **text)},{x}\n" for x in rows]
    path.write_text("text,label\n" + "".join(lines))
    return str(path)


def data_of(tmp_path, text, **settings):
    """Returns tables whose texts are those of `text_of`."""
    return LabelledData(
        train_file=write_table(tmp_path / "train.csv", 64, 0, **text),
        dev_file=write_table(tmp_path / "dev.csv", 21, 1, **text),
        text_column=("text",),
        **settings,
    )


def fine_tune(tmp_path, vocab_file, text, epochs=30, **settings):
    """Trains a tiny model on such tables; returns the folder of its run."""
    config = tmp_path / "config.json"
    BertConfig(
        vocab_size=len(vocab.read(vocab_file)),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.1,
        classifier_pooling="max",  # Finds a word in fewer steps.
    ).to_json_file(config)
    fine_tuning.fine_tune(
        glue.from_data(data_of(tmp_path, text, **settings)),
        configs.FineTuningConfig(
            output_dir=str(tmp_path / "run"),
            bert_config_file=str(config),
            vocab_file=vocab_file,
            max_seq_length=128,
            do_train=True,
            do_eval=True,
            train_batch_size=8,
            num_train_epochs=epochs,
            learning_rate=3e-3,
            save_checkpoints_steps=240,
        ),
    )
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("long_text", "least"),
    [
        # One window of six has the word: the largest logit learns it sooner.
        pytest.param("windows", 0.75, marks=pytest.mark.slow),
        ("windows_max", 1.0),
    ],
)
def test_a_word_at_token_600_is_found(
    long_text, least, tmp_path, tiny_vocab_file
):
    run = fine_tune(tmp_path, tiny_vocab_file, {}, long_text=long_text)
    scores = json_files.read(str(run / "eval_results.json"))["dev"]
    assert scores["accuracy"] >= least
    manifest = Records.open(str(run / "records/dev")).manifest
    assert manifest.sizes["max_seq_length"] == MAX_WINDOWS * 128
    # An evaluation without the flag reads texts as the model does.
    data = dataclasses.replace(data_of(tmp_path, {}), train_file=None)
    fine_tuning.fine_tune(
        glue.from_data(data),
        configs.FineTuningConfig(output_dir=str(run), do_eval=True),
    )
    assert json_files.read(str(run / "eval_results.json"))["dev"] == scores
    predictor, rng = bert_tf.Predictor(run), random.Random(2)
    for label in ("land", "sea"):
        # Also beyond the windows of training.
        for place, length in ((600, 700), (600 + 8 * 126, 1700)):
            text = text_of(label, rng, place, length)
            if least == 1.0:
                assert predictor(text).label == label


def test_texts_of_one_window_give_the_same_weights(tmp_path, tiny_vocab_file):
    found = []
    for name in ("cut", "windows"):
        (tmp_path / name).mkdir()
        run = fine_tune(
            *(tmp_path / name, tiny_vocab_file, {"place": 20, "length": 40}),
            long_text=name,
            epochs=1,
        )
        found.append((run / "best/model.safetensors").read_bytes())
    assert found[0] == found[1]


class Model:
    """Its logits are the first two ids of a row."""

    def __call__(self, batch, **_):
        return {"logits": tf.cast(batch["input_word_ids"][:, :2], tf.float32)}


@pytest.mark.parametrize(
    ("long_text", "expected"),
    [
        ("windows", [[3, -2], [-1, -5], [0, 0]]),
        ("windows_max", [[5, 1], [-1, -5], [0, 0]]),
    ],
)
def test_logits_of_real_windows_are_pooled(long_text, expected):
    table = planted_tasks.classification("t", 2).table
    task = glue.task_of(table, LabelledData(long_text=long_text))
    task.window_length = 3
    # The last row fills the batch.
    rows = [[5, -5, 9, 1, 1, 9], [-1, -5, 9, 0, 0, 0], [0] * 6]
    batch = {
        "input_word_ids": tf.constant(rows),
        "input_mask": tf.cast(tf.constant(rows) != 0, tf.int32),
        "input_type_ids": tf.zeros_like(rows),
    }
    found = task.call(Model(), batch)["logits"]
    np.testing.assert_array_equal(found, expected)
    of_one = {name: values[:, :3] for name, values in batch.items()}
    found = task.call(Model(), of_one)["logits"]
    np.testing.assert_array_equal(found, tf.constant(rows)[:, :2])


def test_windows_have_dropout_masks_of_their_own():
    table = planted_tasks.classification("t", 2).table
    task = glue.task_of(table, LabelledData(long_text="windows"))
    task.window_length = 4
    sizes = dict(vocab_size=9, hidden_size=8, intermediate_size=8)
    config = BertConfig(**sizes, num_hidden_layers=1, num_attention_heads=1)
    model = bert_tf.BertClassifier(config, num_classes=2)
    ids = tf.constant(np.arange(48).reshape(4, 12) % 8 + 1, tf.int32)
    batch = {"input_word_ids": ids, "input_mask": tf.ones_like(ids)}
    batch["input_type_ids"] = tf.zeros_like(ids)

    def logits(begin, end):
        rows = {name: x[begin:end] for name, x in batch.items()}
        key = dropout.make_key(1, 2, begin)
        return task.call(model, rows, training=True, dropout_key=key)["logits"]

    # As a replica, or a micro-batch, has the last rows.
    np.testing.assert_allclose(logits(0, 4)[2:], logits(2, 4), rtol=1e-5)


def test_static_lengths_of_long_texts_are_whole_windows(monkeypatch):
    lengths = np.array([5] * 99 + [20] * 99 + [34] * 99 + [70] * 99)
    monkeypatch.setattr(fine_tuning.static_lengths, "read", lambda *_: lengths)
    manifest = types.SimpleNamespace(flags={"max_windows": 8})
    records = {"train": types.SimpleNamespace(manifest=manifest)}
    config = configs.FineTuningConfig(output_dir="run", max_seq_length=16)
    found = fine_tuning.choose_bucket_lengths(records, config, 10**6)
    assert found == (8, 32, 48, 80)


def test_windows_are_refused_where_they_are_not_read(tmp_path):
    table = planted_tasks.classification("t", 2).table
    data = LabelledData(long_text="windows")
    for name, value in (
        ("teacher", "teacher"),
        ("bucket_lengths", ("none",)),
        ("steps_per_loop", 2),
    ):
        config = configs.FineTuningConfig(
            output_dir="run", do_train=True, **{name: value}
        )
        with pytest.raises(ValueError, match=f"windows cannot .* --{name}. "):
            glue.task_of(table, data).prepare(config, None)
    with pytest.raises(ValueError, match="windows: run_few_shot"):
        few_shot.FewShot(table, data)
