"""few_shot.py: pairs of a batch, the solved head, in NumPy and scikit-learn."""

import dataclasses
import tempfile
import types

import numpy as np
import planted_data
import pytest
import run_processes
import scipy.special
import sklearn.linear_model
import tensorflow as tf

from bert_tf.contrib.search import few_shot
from bert_tf.contrib.search.options import FewShotConfig
from bert_tf.model.sentence_embedding import SentenceEmbedding
from bert_tf.tasks import glue, losses
from bert_tf.tasks.texts.options import LabelledData
from bert_tf.workflows import configs, fine_tuning
from tfrecords.tasks import glue_tables

GENERATOR = np.random.default_rng(0)


def make(num_labels=3, **options):
    table = glue_tables.own_task(
        "reviews",
        files={},
        text_columns=("text",),
        labels=("bad", "good", "rare")[:num_labels],
    )
    return few_shot.FewShot(table, LabelledData(**options))


def head_of(vectors):
    """Returns what `outputs` needs of a model: the vectors of a batch."""
    return types.SimpleNamespace(
        head_inputs=lambda batch, **kwargs: (None, tf.constant(vectors))
    )


def test_pairs_are_the_other_rows_and_their_cosines():
    vectors = GENERATOR.normal(size=(5, 4)).astype(np.float32)
    batch = {
        "label_ids": tf.constant([0, 1, 0, 2, 0]),
        "is_real_example": tf.constant([1.0, 1, 1, 1, 0]),
        "input_word_ids": tf.constant([[2, 5], [2, 6], [2, 7], [3, 6], [3, 5]]),
    }
    found = make().outputs(head_of(vectors), batch, None)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(found["similarities"], unit @ unit.T, atol=1e-6)
    assert found["pairs"].numpy().tolist() == [
        [-1, 0, 1, 0, -1],
        [0, -1, 0, 0, -1],
        [1, 0, -1, 0, -1],
        [0, 0, 0, -1, -1],
        [1, 0, 1, 0, -1],
    ]
    # A copy of the first row.
    ids = tf.constant([[2, 5], [2, 6], [2, 5], [3, 6], [3, 5]])
    copied = (
        make()
        .outputs(head_of(vectors), batch | {"input_word_ids": ids}, None)[
            "pairs"
        ]
        .numpy()
    )
    assert copied[0].tolist() == [-1, 0, -1, 0, -1]
    assert copied[2].tolist() == [-1, 0, -1, 0, -1]
    # That of the last row fills the batch.
    (target,) = make().targets(batch).values()
    assert target.weights.numpy().tolist() == [1, 1, 1, 1, 0]
    weighted = make()
    weighted.class_weights = np.array([1, 3, 0.5], np.float32)
    (target,) = weighted.targets(batch).values()
    assert target.weights.numpy().tolist() == [1, 3, 1, 0.5, 0]


def test_the_loss_has_as_much_of_both_kinds_of_pairs_in_each_row():
    similarities = GENERATOR.uniform(-1, 1, (4, 5)).astype(np.float32)
    pairs = np.array(
        [[-1, 0, 0, 0, 1], [1, -1, 1, 0, 0], [0, 0, -1, 0, 0], [-1] * 5]
    )
    weights = np.array([1.0, 2.0, 0.5, 1.0], np.float32)
    total = 0.0
    for row, kinds, weight in zip(similarities, pairs, weights, strict=True):
        for kind in (0, 1):
            errors = (row[kinds == kind].astype(float) - kind) ** 2
            if len(errors):
                total += weight * errors.mean() / 2
    found = losses.of_pairs(
        *map(tf.constant, (similarities, pairs, weights))
    ).value()
    assert float(found) == pytest.approx(total / 4.5, rel=1e-5)


@pytest.mark.parametrize("num_labels", [2, 3])
@pytest.mark.parametrize("given", [(), ("good:3",)])
def test_the_head_is_the_logistic_regression_of_the_vectors(
    tiny_config, num_labels, given
):
    task = make(num_labels, class_weights=given or None)
    ids = np.arange(30) % num_labels
    vectors = 3 * GENERATOR.normal(size=(30, tiny_config.hidden_size))
    vectors[:, 0] += ids
    vectors = vectors.astype(np.float32)
    rows = GENERATOR.uniform(0.5, 2.0, 30).astype(np.float32)
    task.read_train(ids, rows)
    model = task.build_model(tiny_config)
    assert not model.head.trainable_weights and model.head.weights
    task.solve_head(model, vectors)
    length = np.sqrt((vectors**2).sum(-1).mean())
    weights = rows * np.where(ids == 1, 3.0 if given else 1.0, 1.0)
    expected = sklearn.linear_model.LogisticRegression(max_iter=1000).fit(
        vectors / length, ids, weights
    )
    found = scipy.special.softmax(model.head(vectors).numpy(), axis=-1)
    np.testing.assert_allclose(
        found, expected.predict_proba(vectors / length), atol=1e-5
    )


def test_the_loss_of_dev_is_that_of_its_classes():
    logits = GENERATOR.normal(size=(4, 3)).astype(np.float32)
    ids = np.array([0, 1, 2, 0], np.int32)
    task = make()
    task.labels = {"dev": ids}
    log_p = logits - scipy.special.logsumexp(logits, axis=-1, keepdims=True)
    found = task.score("dev", {"logits": logits})
    expected = -log_p[np.arange(4), ids].mean()
    assert found["loss"] == pytest.approx(expected, rel=1e-5)


def test_a_class_without_a_row_is_refused():
    with pytest.raises(ValueError, match="no row of train has the label 'rar"):
        make().read_train(np.array([0, 1, 1]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"train_batch_size": 1}, "--train_batch_size=1: run_few_shot learns"),
        (
            {"train_batch_size": 8, "gradient_accumulation_steps": 2},
            "steps=2 with run_few_shot: each part",
        ),
        (
            {"teacher": "runs/a"},
            "--teacher=runs/a with run_few_shot: a teacher",
        ),
    ],
)
def test_settings_that_pairs_or_head_cannot_have_are_refused(words, message):
    with pytest.raises(ValueError, match=message):
        FewShotConfig(do_train=True, output_dir="runs/b", **words)


def test_label_smoothing_and_other_kinds_of_labels_are_refused():
    with pytest.raises(ValueError, match="0.1 is for a head that is trained"):
        make(label_smoothing=0.1)
    table = glue_tables.own_task(
        "stars", files={}, text_columns=("text",), labels=("score",)
    )
    with pytest.raises(
        ValueError, match="one of several classes.*; stars is a"
    ):
        few_shot.FewShot(table, LabelledData())


def test_too_few_steps_are_named(caplog):
    caplog.set_level("WARNING", logger="absl")
    few_shot.check_steps(50)
    assert not caplog.text
    few_shot.check_steps(49)
    assert "49 steps hardly change the vectors" in caplog.text


def config_of(tiny_config, source=None, task=None, **options):
    """Returns the config of a run; `source` is the config of its model."""
    given = options.pop("given", tiny_config)
    with tempfile.TemporaryDirectory() as folder:
        given.to_json_file(f"{folder}/bert_config.json")
        config = configs.FineTuningConfig(
            output_dir="runs/b",
            bert_config_file=f"{folder}/bert_config.json",
            max_seq_length=8,
            **options,
        )
        task = task or make()
        if isinstance(task, few_shot.FewShot):
            task.prepare(config, source)
        found = fine_tuning.choose_config(
            task, config, tiny_config.vocab_size, source
        )
        if isinstance(task, few_shot.FewShot):
            return task.build_model(found).config
        return found


def model_of(config, *pooling):
    steps = SentenceEmbedding(pooling) if pooling else None
    return types.SimpleNamespace(
        config=config,
        sentence_embedding=steps,
        path=lambda: "model",
        model_json=lambda: {},
    )


def test_the_head_pools_as_its_model_does_in_training_and_later(tiny_config):
    train = {"do_train": True}
    for source, expected in (
        (None, "mean"),
        (model_of(tiny_config), "mean"),
        (model_of(tiny_config, "max"), "max"),
        (model_of(tiny_config, "weightedmean"), "mean"),
        (model_of(tiny_config, "max", "mean"), "mean"),
    ):
        found = config_of(tiny_config, source, **train)
        assert found.classifier_pooling == expected
    # A run that resumes, and one that is evaluated, with another config file.
    own = model_of(dataclasses.replace(tiny_config, classifier_pooling="max"))
    for task in (make(), glue.task_of(make().table)):
        for goal in (train, {"do_eval": True}):
            found = config_of(tiny_config, own, task, **goal)
            assert found.classifier_pooling == "max"
    plain = model_of(tiny_config)
    found = config_of(tiny_config, plain, given=own.config, do_eval=True)
    assert not found.classifier_pooling


def test_other_heads_do_not_have_the_pooling_of_a_model(tiny_config):
    pooled = dataclasses.replace(tiny_config, classifier_pooling="max")
    tags = types.SimpleNamespace(metadata=lambda: {"task": "tagging"})
    found = config_of(tiny_config, model_of(pooled), tags, do_train=True)
    assert not found.classifier_pooling


def test_a_grid_of_few_epochs_is_refused():
    with pytest.raises(ValueError, match="--search=paper has up to 4 epochs"):
        FewShotConfig(
            output_dir="runs/b", search=("paper",), do_train=True, do_eval=True
        )


def test_checkpoints_are_fifty_steps_apart_unless_they_are_given():
    settings = {
        "output_dir": "runs/b",
        "train_batch_size": 8,
        "num_train_epochs": 100,
    }
    config = FewShotConfig(**settings)
    steps = fine_tuning.compute_steps(config, 8)
    assert steps[:1] + steps[2:] == (100, 50)
    usual = configs.FineTuningConfig(**settings)
    assert fine_tuning.compute_steps(usual, 8).save_checkpoints_steps == 1
    config = dataclasses.replace(config, steps_per_loop=20)
    assert fine_tuning.compute_steps(config, 8).save_checkpoints_steps == 60
    config = dataclasses.replace(config, save_checkpoints_steps=20)
    assert fine_tuning.compute_steps(config, 8).save_checkpoints_steps == 20


@pytest.mark.slow
def test_two_replicas_have_the_losses_of_one(tmp_path):
    planted_data.write_glue(tmp_path)
    run_processes.write_config(tmp_path)
    found = []
    for name, words in (
        ("one", []),
        ("two", ["--distribution_strategy=mirrored", "--virtual_devices=2"]),
    ):
        words += ["--task_name=SST-2", f"--data_dir={tmp_path / 'SST-2'}"]
        words += [f"--vocab_file={run_processes.VOCAB_FILE}"]
        words += [f"--bert_config_file={tmp_path / 'bert_config.json'}"]
        words += ["--max_seq_length=16", "--train_batch_size=8", "--do_train"]
        # At 1e-2 rounding grows to 1.2e-5 in six steps.
        words += ["--num_train_epochs=4", "--learning_rate=1e-3"]
        words += ["--log_every_steps=1", f"--output_dir={tmp_path / name}"]
        script = "run_scripts.run_few_shot"
        found.append(run_processes.train(words, tmp_path / name, script=script))
    assert len(found[0]) > 3
    for one, two in zip(*found, strict=True):
        for name in ("loss", "gradient_norm"):
            assert two[name] == pytest.approx(one[name], rel=1e-5)
