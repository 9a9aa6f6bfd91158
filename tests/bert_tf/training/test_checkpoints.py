import contextlib
import os
import random
import shutil
import signal
import time
import types
import warnings

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.checkpoint import (
    checksums,
    model_folders,
    run_models,
    tensor_files,
)
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.model import lora
from bert_tf.training import checkpoints, optimizers
from tfrecords.io import atomic_files, json_files


@pytest.fixture
def model(tiny_config):
    return bert_tf.BertClassifier(tiny_config, num_classes=2)


def make_run(folder, model, keep=2, is_chief=True):
    optimizer = optimizers.AdamW(
        model.trainable_weights, lambda step: tf.constant(0.1)
    )
    saved = checkpoints.RunCheckpoints(
        str(folder),
        model,
        optimizer,
        keep=keep,
        metadata={"task": "classification"},
        is_chief=is_chief,
    )
    return saved, optimizer


def names(folder):
    return sorted(os.listdir(folder))


def update(optimizer):
    optimizer.apply([tf.ones(v.shape) for v in optimizer.variables_to_train])


def test_only_the_newest_complete_checkpoints_are_kept(tmp_path, model):
    saved, _ = make_run(tmp_path, model)
    for step in (10, 20, 30):
        saved.save(step)
    assert names(tmp_path) == ["step-00000020", "step-00000030"]
    assert names(tmp_path / "step-00000030") == [
        "bert_config.json",
        "model.json",
        "model.safetensors",
        "optimizer.safetensors",
        "state.json",
    ]


def test_checkpoints_of_stops_are_removed_before_regular_ones(tmp_path, model):
    saved, _ = make_run(tmp_path, model, keep=3)

    def save(*steps):
        for step in steps:
            saved.save(step, lambda step: step % 10 == 0)
        return run_models.steps(str(tmp_path))

    assert save(10, 13) == [10, 13]
    assert save(20) == [10, 13, 20]
    assert save(30) == [10, 20, 30]
    # A run that is stopped repeatedly keeps only the newest of them.
    assert save(31, 32) == [20, 30, 32]
    assert save(40) == [20, 30, 40]
    assert save(50) == [30, 40, 50]


def test_only_temporary_folders_of_a_killed_run_are_removed(tmp_path, model):
    run = tmp_path / "checkpoints"
    others = [
        run / "step-00000010.tmp",
        run / ".step-mine.tmp",
        run / ".notes.0123456789abcdef.tmp",
        tmp_path / "best.tmp",
        tmp_path / ".eval.0123456789abcdef.tmp",
    ]
    leftovers = [
        run / ".step-00000010.0123456789abcdef.tmp",
        tmp_path / ".best.0123456789abcdef.tmp",
    ]
    for folder in others + leftovers:
        (folder / "inside").mkdir(parents=True)
    saved, _ = make_run(run, model)
    assert all(path.exists() for path in others)
    assert not any(path.exists() for path in leftovers)
    saved.save(10)
    assert all(path.exists() for path in others)


def flip(content, index):
    changed = bytearray(content)
    changed[index] ^= 0x40
    return bytes(changed)


# Kind of damage -> function of the content of a file.
DAMAGES = {
    "truncated": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "starts with garbage": lambda content: b"\xff" * 16 + content[16:],
    "bit flip near the start": lambda content: flip(content, 11),
    "bit flip in the middle": lambda content: flip(content, len(content) // 2),
    "bit flip near the end": lambda content: flip(content, -5),
    "zeros": lambda content: bytes(len(content)),
    "missing": None,
}


def damage(path, kind):
    if DAMAGES[kind] is None:
        path.unlink()
    else:
        path.write_bytes(DAMAGES[kind](path.read_bytes()))


def state_of(saved):
    """Returns the sha256 of the weights and that of the slots."""
    return (
        model_folders.digest(saved.model),
        tensor_files.digest_of(saved._slots()),
    )


@pytest.fixture
def two(tmp_path, model):
    """Checkpoints of a run at steps 10 and 20, optimizer, state at each."""
    saved, optimizer = make_run(tmp_path / "run" / "checkpoints", model)
    states = {}
    for step in (10, 20):
        update(optimizer)
        optimizer.step.assign(step)
        saved.save(step)
        states[step] = state_of(saved)
    return saved, optimizer, states


@pytest.mark.parametrize(
    "file",
    [
        model_folders.WEIGHTS,
        model_folders.OPTIMIZER,
        checksums.STATE,
        model_folders.METADATA,
        model_folders.CONFIG,
    ],
)
def test_a_damaged_checkpoint_is_skipped_with_a_warning(
    tmp_path, two, file, caplog
):
    saved, optimizer, states = two
    run = tmp_path / "run"
    shutil.copytree(run, tmp_path / "good")
    left = ["damaged-step-00000020", "step-00000010", "step-00000015"]
    for kind in DAMAGES:
        shutil.rmtree(run)
        shutil.copytree(tmp_path / "good", run)
        folder = run / "checkpoints" / "step-00000020"
        damage(folder / file, kind)
        optimizer.step.assign(77)
        caplog.clear()
        with caplog.at_level("WARNING", logger="absl"):
            # Without state.json it is still a model, but not a checkpoint.
            is_model = (file, kind) == (checksums.STATE, "missing")
            found = run_models.find(str(run))
            assert found == saved.path(20 if is_model else 10), kind
            assert run_models.newest_step(str(run)) == 20
            assert saved.restore_latest() == 10, kind
        for text in caplog.messages[: 1 if is_model else 2]:
            assert f"{folder} is damaged: {file} " in text, kind
        assert state_of(saved) == states[10], kind
        assert int(optimizer.step.numpy()) == 10
        # It has been renamed, so it is no longer a checkpoint.
        assert run_models.newest_step(str(run)) == 10
        assert names(saved.folder) == left[:2]
        assert saved.restore_latest() == 10
    saved.save(15)
    assert names(saved.folder) == left
    # It is removed when the run reaches its step.
    saved.save(20)
    assert names(saved.folder) == ["step-00000015", "step-00000020"]
    assert saved.restore_latest() == 20


def test_only_the_chief_changes_the_folder(tmp_path, model, two):
    folder = tmp_path / "run/checkpoints"
    damage(folder / "step-00000020" / model_folders.OPTIMIZER, "truncated")
    # The chief may currently be writing it.
    (folder / ".step-00000030.0123456789abcdef.tmp").mkdir()
    before = names(folder)
    other, _ = make_run(folder, model, is_chief=False)
    assert other.restore_latest() == 10
    assert names(folder) == before
    chief, _ = make_run(folder, model)
    assert chief.restore_latest() == 10
    assert names(folder) == ["damaged-step-00000020", "step-00000010"]


@pytest.mark.parametrize("file", ["model", "optimizer"])
def test_damage_of_large_files_is_found_when_they_are_read(
    tmp_path, two, file, monkeypatch
):
    saved, _, _ = two
    shutil.copytree(tmp_path / "run", tmp_path / "good")
    # So large that only its size is compared before it is read.
    monkeypatch.setattr(checksums, "_QUICK_BYTES", 0)
    for kind in DAMAGES:
        shutil.rmtree(tmp_path / "run")
        shutil.copytree(tmp_path / "good", tmp_path / "run")
        folder = tmp_path / "run/checkpoints/step-00000020"
        damage(folder / f"{file}.safetensors", kind)
        assert saved.restore_latest() == 10, kind


def test_if_all_checkpoints_are_damaged_no_new_run_starts(tmp_path, two):
    saved, _, _ = two
    damage(tmp_path / "run/checkpoints/step-00000010/state.json", "missing")
    path = tmp_path / "run/checkpoints/step-00000020/optimizer.safetensors"
    damage(path, "truncated")
    before = names(saved.folder)
    for _ in range(2):
        with pytest.raises(ValueError) as raised:
            saved.restore_latest()
        first, second, advice = str(raised.value).split("\n")
        assert first.startswith(
            f"{saved.path(20)} is damaged: optimizer.safetensors has "
        )
        assert second == f"{saved.path(10)} is damaged: state.json is missing."
        assert advice.startswith(
            f"All checkpoints in {saved.folder} are damaged."
        )
        assert "remove them all to start again" in advice
        # They remain, so that the user can repair them.
        assert names(saved.folder) == before
        assert run_models.newest_step(str(tmp_path / "run")) == 20
    # Only a renamed one is left.
    shutil.rmtree(saved.path(10))
    os.rename(saved.path(20), saved._damaged_path(20))
    with pytest.raises(ValueError, match="damaged-step-00000020 was already"):
        saved.restore_latest()
    shutil.rmtree(saved._damaged_path(20))
    assert saved.restore_latest() == 0


def test_a_checkpoint_whose_step_differs_from_its_name_is_damaged(two):
    saved, _, _ = two
    shutil.rmtree(saved.path(20))
    os.rename(saved.path(10), saved.path(20))
    with pytest.raises(
        ValueError, match="20 is damaged.*state.json has step 10"
    ):
        saved.restore_latest()


def test_an_intact_checkpoint_of_another_model_size_raises(model, two):
    """With all differences, and without a try of an older one."""
    saved, _, _ = two
    deeper = bert_tf.BertConfig.from_dict(
        model.config.to_dict() | {"num_hidden_layers": 3, "vocab_size": 50}
    )
    other = bert_tf.BertClassifier(deeper, num_classes=2)
    before = names(saved.folder)
    with pytest.raises(ValueError, match="17 weights do not match") as raised:
        make_run(saved.folder, other)[0].restore_latest()
    text = str(raised.value)
    # Of sixteen, by name.
    assert "in the model only:      encoder/layer_2/attention/key/bias" in text
    assert "and 6 more" in text
    assert (
        "different shapes:       encoder/embeddings/word_embeddings (203, 16) "
        "in the checkpoint, (50, 16) in the model"
    ) in text
    assert not isinstance(raised.value, checksums.DamagedError)
    assert names(saved.folder) == before


def test_the_recovery_hint_names_the_last_checkpoint(two):
    saved, _, _ = two
    assert f"last checkpoint is {saved.path(20)}." in saved.recovery_hint()
    # Later ones do not belong to this run's history.
    os.makedirs(saved.path(40))
    saved.save(25)
    assert f"last checkpoint is {saved.path(25)}." in saved.recovery_hint()
    saved.last_step = 0
    assert saved.recovery_hint().startswith("There is no checkpoint yet.")


def test_checkpoints_of_later_steps_do_not_displace_the_last_one(two):
    saved, _, _ = two
    saved.keep = 1
    # Damaged ones that could not be renamed.
    for step in (30, 40):
        os.makedirs(saved.path(step))
    saved.save(25)
    assert run_models.steps(saved.folder) == [25, 30, 40]
    assert saved.restore_latest() == 25


def test_old_checkpoints_are_removed_after_the_new_one_is_written(
    two, monkeypatch
):
    saved, _, _ = two

    def remove(path):
        assert os.path.isfile(os.path.join(saved.path(30), checksums.STATE))
        removed.append(os.path.basename(path))

    removed = []
    monkeypatch.setattr(atomic_files, "remove_folder", remove)
    saved.save(30)
    assert removed == ["step-00000010"]


def test_extra_variables_are_restored_and_new_ones_keep_their_value(
    tmp_path, model
):
    def variables():
        return {
            "loss_scale": tf.Variable(2.0**15, dtype=tf.float32),
            "good_steps": tf.Variable(0, dtype=tf.int64),
        }

    saved, optimizer = make_run(tmp_path, model)
    saved.save(1)  # Without extra variables.
    saved.extra = variables()
    assert saved.restore_latest() == 1
    assert saved.extra["loss_scale"].numpy() == 2.0**15
    values = {"loss_scale": np.float32(0.1), "good_steps": 2**40 + 1}
    for name, value in values.items():
        saved.extra[name].assign(value)
    saved.save(2)
    other = checkpoints.RunCheckpoints(
        str(tmp_path),
        model,
        optimizer,
        extra=variables() | {"later": tf.Variable(7)},
    )
    assert other.restore_latest() == 2
    for name, value in values.items():
        assert other.extra[name].numpy() == value, name
    assert other.extra["later"].numpy() == 7
    # A run without extra variables ignores them.
    assert make_run(tmp_path, model)[0].restore_latest() == 2


def test_find_accepts_models_and_runs_and_prefers_the_best(tmp_path, model):
    saved, _ = make_run(tmp_path / "checkpoints", model)
    with pytest.raises(ValueError, match="contains no model"):
        run_models.find(str(tmp_path))
    saved.save(1)
    saved.save(2)
    newest = str(tmp_path / "checkpoints" / "step-00000002")
    assert run_models.find(str(tmp_path)) == newest
    assert run_models.find(newest) == newest
    with atomic_files.atomic_folder(str(tmp_path / "best")) as folder:
        model_folders.save_model(folder, model, metadata={})
    assert run_models.find(str(tmp_path)) == str(tmp_path / "best")


def test_a_damaged_model_given_by_path_is_not_replaced_by_another(
    tmp_path, model, two
):
    saved, _, _ = two
    path = tmp_path / "run/checkpoints/step-00000020" / model_folders.CONFIG
    damage(path, "truncated")
    with pytest.raises(checksums.DamagedError, match="20 is damaged.*config"):
        run_models.find(saved.path(20))
    with atomic_files.atomic_folder(str(tmp_path / "run/best")) as folder:
        model_folders.save_model(folder, model, metadata={})
        checksums.write_checksums(folder, {"step": 10})
    assert run_models.step_of(run_models.find(str(tmp_path / "run"))) == 10
    (tmp_path / "run/best" / model_folders.WEIGHTS).unlink()
    with pytest.raises(checksums.DamagedError) as raised:
        run_models.find(str(tmp_path / "run"))
    assert str(raised.value) == (
        f"{tmp_path}/run/best is damaged: model.safetensors is missing. To "
        f"use another model, give a folder in {saved.folder}/."
    )


def test_an_error_lists_all_checkpoints_if_all_are_damaged(tmp_path, two):
    saved, _, _ = two
    for step in (10, 20):
        os.remove(os.path.join(saved.path(step), model_folders.WEIGHTS))
    with pytest.raises(checksums.DamagedError) as raised:
        run_models.find(str(tmp_path / "run"))
    assert str(raised.value).split("\n") == [
        f"{saved.path(20)} is damaged: model.safetensors is missing.",
        f"{saved.path(10)} is damaged: model.safetensors is missing.",
        f"{tmp_path}/run has no other checkpoint.",
    ]


class FakeVariable:
    """A variable without TensorFlow, which must not be used after a fork."""

    dtype = np.dtype(np.float32)

    def __init__(self, path):
        self.path = path
        self.name = path.rpartition("/")[2]
        self.value = np.zeros([100, 100], np.float32)
        self.shape = self.value.shape

    def numpy(self):
        return self.value

    def assign(self, value):
        self.value = np.asarray(value)


def make_fake_run(folder):
    """Returns checkpoints of a run and all its variables."""
    weights = [FakeVariable(f"a/{i}") for i in range(3)]
    config = types.SimpleNamespace(
        to_json_file=lambda path: json_files.write(path, {})
    )
    model = types.SimpleNamespace(
        name="own",
        path="own",
        config=config,
        weights=weights,
        _flatten_layers=list,
    )
    slots = {f"m/a/{i}": FakeVariable("") for i in range(3)}
    step = FakeVariable("")
    optimizer = types.SimpleNamespace(
        slots=lambda: slots, step=step, averaged=contextlib.nullcontext
    )
    saved = checkpoints.RunCheckpoints(folder, model, optimizer, keep=2)
    return saved, [*weights, *slots.values(), step]


def save_until_killed(folder, pipe):
    """Saves checkpoints, with all values equal to the step."""
    saved, variables = make_fake_run(folder)
    step = saved.restore_latest()
    while True:
        step += 1
        for variable in variables:
            variable.assign(np.full(variable.shape, step, np.float32))
        saved.save(step)
        os.write(pipe, b"%d\n" % step)


def killed_after(folder, seconds):
    """Returns the last step that a process reported before it was killed."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # The child does not use TensorFlow, so its threads do not matter.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            save_until_killed(folder, writer)
        finally:
            os._exit(1)
    os.close(writer)
    first = os.read(reader, 100)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    with os.fdopen(reader, "rb") as file:
        return int((first + file.read()).split()[-1])


def test_a_kill_at_any_moment_leaves_only_intact_checkpoints(tmp_path):
    folder = str(tmp_path / "checkpoints")
    rng = random.Random(0)
    last, num_unfinished = 0, 0
    num_kills = 0
    # Most of the time a checkpoint is being written.
    while num_kills < 12 or (not num_unfinished and num_kills < 100):
        num_kills += 1
        reported = killed_after(folder, rng.uniform(0.0, 0.03))
        assert reported > last
        num_unfinished += any(
            name.startswith(".") for name in os.listdir(folder)
        )
        # All of them are intact, not only the newest.
        for step in run_models.steps(folder):
            checksums.check(os.path.join(folder, run_models.name(step)))
        saved, variables = make_fake_run(folder)
        assert all(name.startswith("step-") for name in os.listdir(folder))
        last = saved.restore_latest()
        # The kill may come between the renaming and the report.
        assert last in (reported, reported + 1)
        for variable in variables:
            assert (variable.numpy() == last).all()
        assert run_models.step_of(saved.path(last)) == last
    assert num_unfinished, "no kill came while a checkpoint was written"


def test_adapters_are_restored_exactly_and_merged_in_the_model_folder(
    tmp_path, model, tiny_config
):
    model.encoder.enable_lora(2)
    saved, optimizer = make_run(tmp_path, model)
    # No slots for frozen weights.
    assert len(saved._slots()) == 2 * len(model.trainable_weights)
    assert len(model.trainable_weights) < len(model.weights) / 2
    update(optimizer)  # B is no longer 0.
    saved.save(1)
    values = {name: w.numpy() for name, w in lora.unmerged(model).items()}

    # As in a restarted run, whose initial weights are any.
    other = bert_tf.BertClassifier(tiny_config, num_classes=2)
    other.encoder.enable_lora(2)
    restored, other_optimizer = make_run(tmp_path, other)
    assert restored.restore_latest() == 1
    for name, weight in lora.unmerged(other).items():
        np.testing.assert_array_equal(weight, values[name])
    update(optimizer)
    update(other_optimizer)
    assert model_folders.digest(other) == model_folders.digest(model)

    # A model without adapters reads the folder, with the same outputs.
    restored.restore_latest()
    folder = restored.path(1)
    plain = bert_tf.BertClassifier(tiny_config, num_classes=2)
    Checkpoint.open(folder).assign_to(plain)
    assert model_folders.digest(plain) == model_folders.digest(other)
    kernel = "encoder/layer_0/attention/query/kernel"
    merged = model_folders.weight_names(plain)[kernel].numpy()
    assert (merged != values[kernel]).any()

    # With adapters, too: B is 0 then, since the kernels are merged.
    Checkpoint.open(folder).assign_to(other)
    assert model_folders.digest(other) == model_folders.digest(plain)


def test_a_damaged_file_of_adapters_is_a_damaged_checkpoint(tmp_path, model):
    model.encoder.enable_lora(2)
    saved, _ = make_run(tmp_path, model)
    saved.save(1)
    saved.save(2)
    path = tmp_path / "step-00000002" / model_folders.LORA
    damage(path, "bit flip near the end")
    assert saved.restore_latest() == 1
