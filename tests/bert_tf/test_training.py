import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import checkpoints, model_folders, strategies, training
from bert_tf.tasks import pretraining


@pytest.fixture
def batches(tiny_config, make_batch):
    """(batch size, start batch) -> dataset of twelve random examples."""
    examples = make_batch(tiny_config, rows=12)

    def make(batch_size, start_batch):
        dataset = tf.data.Dataset.from_tensor_slices(examples).repeat()
        return dataset.batch(batch_size, drop_remainder=True).skip(start_batch)

    return make


def run(config, batches, folder, *, name="one_device", **changes):
    strategy = strategies.make_strategy(name)
    model = training.build_model(pretraining.TASK, config, strategy, seed=1)
    keywords = dict(
        strategy=strategy,
        output_dir=str(folder),
        settings={"task": "pretraining"},
        description={"task": "pretraining"},
        vocab_file=None,
        train_batch_size=4,
        tokens_per_example=12,
        num_train_steps=8,
        num_warmup_steps=2,
        learning_rate=1e-2,
        save_checkpoints_steps=3,
        log_every_steps=2,
    )
    digest = training.train(
        pretraining.TASK, model, batches, **(keywords | changes)
    )
    return digest, model


class Killed(BaseException):
    """Stands for a kill, which nothing may catch."""


def lines(folder):
    path = folder / "logs" / "train" / "steps.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_killed_at_any_step_ends_with_the_same_weights(
    tmp_path, tiny_config, batches, monkeypatch
):
    expected, _ = run(tiny_config, batches, tmp_path / "whole")
    write = checkpoints.RunCheckpoints.save
    for kill in (2, 6):
        folder = tmp_path / f"killed_{kill}"

        def save(self, step, kill=kill):
            if step >= kill:
                raise Killed
            write(self, step)

        with monkeypatch.context() as patch:
            patch.setattr(checkpoints.RunCheckpoints, "save", save)
            with pytest.raises(Killed):
                run(tiny_config, batches, folder)
        digest, _ = run(tiny_config, batches, folder)
        assert digest == expected, kill
        values = [
            {name: line[name] for name in ("step", "loss", "gradient_norm")}
            for line in lines(folder)
        ]
        # Every line stands once, whatever was done twice.
        assert [line["step"] for line in values] == [2, 4, 6, 8]
    assert [line["step"] for line in lines(tmp_path / "whole")] == [2, 4, 6, 8]


def test_a_finished_run_started_again_changes_nothing(
    tmp_path, tiny_config, batches
):
    first, _ = run(tiny_config, batches, tmp_path)
    again, _ = run(tiny_config, batches, tmp_path)
    assert first == again


def test_training_lowers_the_loss(tmp_path, tiny_config, batches):
    run(
        tiny_config,
        batches,
        tmp_path,
        num_train_steps=60,
        num_warmup_steps=5,
        train_batch_size=12,
        save_checkpoints_steps=60,
    )
    found = lines(tmp_path)
    assert found[-1]["loss"] < 0.7 * found[0]["loss"]
    for name in (
        "masked_lm_loss",
        "next_sentence_loss",
        "masked_lm_accuracy",
        "next_sentence_accuracy",
        "learning_rate",
        "gradient_norm",
        "examples/s",
        "tokens/s",
    ):
        assert np.isfinite(found[-1][name]), name
    assert any(
        name.startswith("events.out")
        for name in os.listdir(tmp_path / "logs" / "train")
    )


def test_the_last_line_has_step_and_digest(
    tmp_path, tiny_config, batches, caplog
):
    caplog.set_level("INFO", logger="absl")
    digest, model = run(tiny_config, batches, tmp_path)
    assert digest == model_folders.digest(model)
    assert caplog.messages[-1] == f"step 8  weights sha256 {digest}"
    shown = [text for text in caplog.messages if text.startswith("step 4/8")]
    assert "masked_lm_loss" in shown[0] and "ETA 0:" in shown[0]


def test_one_step_is_the_clipped_update_of_the_paper(
    tmp_path, tiny_config, batches
):
    """The norm of gradients is measured over everything, and cut to 1."""
    config = type(tiny_config).from_dict(
        tiny_config.to_dict()
        | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    )
    strategy = strategies.make_strategy("one_device")
    model = training.build_model(pretraining.TASK, config, strategy, seed=1)
    captured = {}

    class Recorder:
        step = tf.Variable(0, dtype=tf.int64)
        learning_rate = staticmethod(lambda step: tf.constant(0.0))

        def apply(self, gradients):
            captured["gradients"] = gradients

    batch = next(iter(batches(4, 0)))
    tf.config.run_functions_eagerly(True)
    try:
        values = training.make_train_step(
            pretraining.TASK, model, Recorder(), strategy, clip_norm=0.5, seed=1
        )(batch)
    finally:
        tf.config.run_functions_eagerly(False)
    with tf.GradientTape() as tape:
        outputs = model(batch, training=False)
        losses = pretraining.TASK.losses(outputs, batch)
        total = tf.add_n([mean.value() for mean in losses.values()])
    expected = tape.gradient(total, [w.value for w in model.trainable_weights])
    expected = [tf.convert_to_tensor(g).numpy() for g in expected]
    norm = np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in expected))
    np.testing.assert_allclose(values["loss"], total, rtol=1e-5)
    np.testing.assert_allclose(values["gradient_norm"], norm, rtol=1e-5)
    for found, want in zip(captured["gradients"], expected, strict=True):
        np.testing.assert_allclose(found, want * 0.5 / norm, atol=1e-6)


def test_a_run_from_before_a_setting_goes_on(tmp_path):
    old = {"task": "glue", "correct_bias": False}
    training.check_run(str(tmp_path), old, has_begun=False)
    now = old | {"optimizer": "adamw", "layerwise_lr_decay": 1.0}
    training.check_run(str(tmp_path), now, has_begun=True)
    with pytest.raises(ValueError, match="optimizer: 'adamw' there, 'lamb'"):
        training.check_run(
            str(tmp_path), now | {"optimizer": "lamb"}, has_begun=True
        )


def test_a_folder_of_another_run_is_refused(tmp_path, tiny_config, batches):
    run(tiny_config, batches, tmp_path)
    before = (tmp_path / "run.json").read_text()
    with pytest.raises(ValueError, match="holds another run") as raised:
        run(tiny_config, batches, tmp_path, settings={"task": "other"})
    assert "'pretraining' there, 'other' now" in str(raised.value)
    assert (tmp_path / "run.json").read_text() == before


def test_a_loss_that_is_not_finite_stops_the_run(
    tmp_path, tiny_config, batches
):
    with pytest.raises(FloatingPointError, match="loss.*not finite at step"):
        run(
            tiny_config,
            batches,
            tmp_path,
            learning_rate=1e30,
            save_checkpoints_steps=2,
            log_every_steps=8,
        )
    # No checkpoint of weights that are lost: another rate may begin anew.
    assert checkpoints.newest_step(str(tmp_path)) in (0, 2)


def test_an_uneven_batch_is_refused():
    class Three:
        num_replicas_in_sync = 3

    with pytest.raises(ValueError, match="=32 is not a multiple of the 3"):
        training.distribute(Three(), None, 32, 0)


_REPLICAS = """
    import json, sys
    import conftest
    from bert_tf import BertConfig, strategies, training
    from bert_tf.tasks import pretraining
    import numpy as np, tensorflow as tf

    folder, replicas = sys.argv[1], int(sys.argv[2])
    name = "mirrored" if replicas > 1 else "one_device"
    strategy = strategies.make_strategy(name, replicas if replicas > 1 else 0)
    assert strategy.num_replicas_in_sync == replicas
    config = BertConfig.from_dict(json.loads(sys.argv[3]))
    examples = conftest.random_batch(config, rows=12)

    def batches(batch_size, start_batch):
        dataset = tf.data.Dataset.from_tensor_slices(examples).repeat()
        return dataset.batch(batch_size, drop_remainder=True).skip(start_batch)

    model = training.build_model(pretraining.TASK, config, strategy, seed=1)
    training.train(
        pretraining.TASK, model, batches, strategy=strategy,
        output_dir=folder, settings={}, description={}, vocab_file=None,
        train_batch_size=4, tokens_per_example=12, num_train_steps=12,
        num_warmup_steps=2, learning_rate=1e-2, save_checkpoints_steps=12,
        log_every_steps=1,
    )
"""


def test_two_replicas_train_as_one_with_dropout(tmp_path, tiny_config):
    curves = []
    for replicas in (1, 2):
        folder = tmp_path / str(replicas)
        subprocess.run(
            [
                sys.executable,
                "-c",
                textwrap.dedent(_REPLICAS),
                str(folder),
                str(replicas),
                json.dumps(tiny_config.to_dict()),
            ],
            check=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
        )
        curves.append([line["loss"] for line in lines(folder)])
    assert len(curves[0]) == 12
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-5)
