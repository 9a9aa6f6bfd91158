import errno
import os
import pathlib
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
from bert_tf.training import (
    checkpoints,
    checksums,
    model_folders,
    optimizers,
)
from tfrecords.io import atomic_files


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
        metadata={"task": "x"},
        is_chief=is_chief,
    )
    return saved, optimizer


def update(optimizer):
    optimizer.apply([tf.ones(v.shape) for v in optimizer.variables_to_train])


def test_a_restart_finds_weights_slots_and_step(tmp_path, model, tiny_config):
    saved, optimizer = make_run(tmp_path, model)
    update(optimizer)
    saved.save(1)
    other = bert_tf.BertClassifier(tiny_config, num_classes=2)
    assert model_folders.digest(other) != model_folders.digest(model)
    restored, other_optimizer = make_run(tmp_path, other)
    assert restored.restore_latest() == 1
    assert model_folders.digest(other) == model_folders.digest(model)
    assert int(other_optimizer.step.numpy()) == 1
    # The next update is the same, so the slots are.
    update(optimizer)
    update(other_optimizer)
    assert model_folders.digest(other) == model_folders.digest(model)


def test_only_the_newest_are_kept_and_nothing_half_written(tmp_path, model):
    saved, _ = make_run(tmp_path, model)
    for step in (10, 20, 30):
        saved.save(step)
    assert sorted(os.listdir(tmp_path)) == ["step-00000020", "step-00000030"]
    assert sorted(os.listdir(tmp_path / "step-00000030")) == [
        "bert_config.json",
        "model.json",
        "model.safetensors",
        "optimizer.safetensors",
        "state.json",
    ]


def test_what_a_stop_left_goes_before_a_regular_checkpoint(tmp_path, model):
    saved, _ = make_run(tmp_path, model, keep=3)

    def save(*steps):
        for step in steps:
            saved.save(step, lambda step: step % 10 == 0)
        return checkpoints.steps(str(tmp_path))

    assert save(10, 13) == [10, 13]
    assert save(20) == [10, 13, 20]
    assert save(30) == [10, 20, 30]
    # A run that is stopped again and again keeps the newest, and no more.
    assert save(31, 32) == [20, 30, 32]
    assert save(40) == [20, 30, 40]
    assert save(50) == [30, 40, 50]


def test_a_checkpoint_cut_short_has_no_name_and_is_not_found(tmp_path, model):
    saved, _ = make_run(tmp_path, model)
    saved.save(10)
    with pytest.raises(KeyboardInterrupt):
        with atomic_files.atomic_folder(str(tmp_path / "step-00000020")) as f:
            assert os.path.isdir(f)
            raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["step-00000010"]
    # As kill -9 leaves it.
    os.makedirs(tmp_path / ".step-00000030.0123456789abcdef.tmp")
    assert saved.restore_latest() == 10


def test_what_a_killed_run_left_is_removed_and_nothing_else(tmp_path, model):
    run = tmp_path / "checkpoints"
    bystanders = [
        run / "step-00000010.tmp",
        run / ".step-mine.tmp",
        run / ".notes.0123456789abcdef.tmp",
        tmp_path / "best.tmp",
        tmp_path / ".eval.0123456789abcdef.tmp",
    ]
    left = [
        run / ".step-00000010.0123456789abcdef.tmp",
        tmp_path / ".best.0123456789abcdef.tmp",
    ]
    for folder in bystanders + left:
        (folder / "inside").mkdir(parents=True)
    saved, _ = make_run(run, model)
    assert all(path.exists() for path in bystanders)
    assert not any(path.exists() for path in left)
    saved.save(10)
    assert all(path.exists() for path in bystanders)


def test_a_full_disk_is_named_and_older_checkpoints_stay(
    tmp_path, model, monkeypatch
):
    saved, _ = make_run(tmp_path, model)
    saved.save(10)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(model_folders, "write_tensors", full)
    with pytest.raises(OSError, match="No space left.*Make room") as raised:
        saved.save(20)
    assert raised.value.filename == str(tmp_path / "step-00000020")
    assert os.listdir(tmp_path) == ["step-00000010"]


def test_a_checkpoint_of_another_size_lists_both_sides(tmp_path, model):
    saved, _ = make_run(tmp_path, model)
    saved.save(1)
    deeper = bert_tf.BertConfig.from_dict(
        model.config.to_dict() | {"num_hidden_layers": 3, "vocab_size": 50}
    )
    other = bert_tf.BertClassifier(deeper, num_classes=2)
    with pytest.raises(ValueError, match="17 weights have no partner") as info:
        make_run(tmp_path, other)[0].restore_latest()
    text = str(info.value)
    assert "in the model only:      encoder/layer_2/output_dense/kernel" in text
    assert (
        "encoder/embeddings/word_embeddings (203, 16) in the checkpoint, "
        "(50, 16) in the model"
    ) in text


def flip(content, place):
    changed = bytearray(content)
    changed[place] ^= 0x40
    return bytes(changed)


# What happens to files on a disk.
DAMAGES = {
    "truncated": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "begins with garbage": lambda content: b"\xff" * 16 + content[16:],
    "flipped near its begin": lambda content: flip(content, 11),
    "flipped in the middle": lambda content: flip(content, len(content) // 2),
    "flipped near its end": lambda content: flip(content, -5),
    "filled with zeros": lambda content: bytes(len(content)),
    "missing": None,
}


def damage(path, how):
    if DAMAGES[how] is None:
        path.unlink()
    else:
        path.write_bytes(DAMAGES[how](path.read_bytes()))


@pytest.fixture
def two(tmp_path, model):
    """A run with checkpoints 10 and 20, and the digests of their weights."""
    saved, optimizer = make_run(tmp_path / "run" / "checkpoints", model)
    digests = {}
    for step in (10, 20):
        update(optimizer)
        optimizer.step.assign(step)
        saved.save(step)
        digests[step] = model_folders.digest(model)
    return saved, optimizer, digests


def names(folder):
    return sorted(os.listdir(folder))


@pytest.mark.parametrize(
    "file",
    [
        model_folders.WEIGHTS,
        checkpoints.OPTIMIZER,
        checkpoints.STATE,
        model_folders.METADATA,
        model_folders.CONFIG,
    ],
)
def test_a_damaged_file_is_named_and_the_checkpoint_before_is_used(
    tmp_path, model, two, file, caplog
):
    saved, optimizer, digests = two
    run = tmp_path / "run"
    shutil.copytree(run, tmp_path / "good")
    for how in DAMAGES:
        shutil.rmtree(run)
        shutil.copytree(tmp_path / "good", run)
        folder = run / "checkpoints" / "step-00000020"
        damage(folder / file, how)
        optimizer.step.assign(77)
        caplog.clear()
        with caplog.at_level("WARNING", logger="absl"):
            # Without sums it is a model all the same, only no training state.
            is_model = (file, how) == (checkpoints.STATE, "missing")
            found = checkpoints.find(str(run))
            assert found == saved.path(20 if is_model else 10), how
            assert checkpoints.newest_step(str(run)) == 20
            assert saved.restore_latest() == 10, how
        for text in caplog.messages[: 1 if is_model else 2]:
            assert f"{folder} is damaged: {file} " in text, how
        assert model_folders.digest(model) == digests[10], how
        assert int(optimizer.step.numpy()) == 10
        # From now on nothing takes it for a checkpoint.
        assert checkpoints.newest_step(str(run)) == 10
        assert names(saved.folder) == [
            "damaged-step-00000020",
            "step-00000010",
        ]
        assert saved.restore_latest() == 10
    saved.save(15)
    assert names(saved.folder) == [
        "damaged-step-00000020",
        "step-00000010",
        "step-00000015",
    ]
    # Past its step it goes.
    saved.save(20)
    assert names(saved.folder) == ["step-00000015", "step-00000020"]
    assert saved.restore_latest() == 20


def test_slots_of_the_checkpoint_before_come_with_its_weights(
    tmp_path, model, two
):
    saved, optimizer, _ = two
    kept = {n: s.numpy() for n, s in saved._slots().items()}
    update(optimizer)
    saved.save(30)
    damage(tmp_path / "run/checkpoints/step-00000030" / checkpoints.OPTIMIZER,
           "flipped near its end")  # fmt: skip
    assert saved.restore_latest() == 20
    for name, slot in saved._slots().items():
        np.testing.assert_array_equal(slot.numpy(), kept[name], err_msg=name)


def test_only_the_chief_changes_the_folder(tmp_path, model, two):
    folder = tmp_path / "run/checkpoints"
    damage(folder / "step-00000020" / checkpoints.OPTIMIZER, "truncated")
    # The chief may be writing it just now.
    (folder / ".step-00000030.0123456789abcdef.tmp").mkdir()
    before = names(folder)
    other, _ = make_run(folder, model, is_chief=False)
    assert other.restore_latest() == 10
    assert names(folder) == before
    chief, _ = make_run(folder, model)
    assert chief.restore_latest() == 10
    assert names(folder) == ["damaged-step-00000020", "step-00000010"]


def test_without_a_whole_checkpoint_nothing_begins_anew(tmp_path, two):
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
        assert advice.startswith(f"No checkpoint of {saved.folder} is whole.")
        assert "remove them all to begin anew" in advice
        # They stay, so the run has begun and may be mended.
        assert names(saved.folder) == before
        assert checkpoints.newest_step(str(tmp_path / "run")) == 20
    # Only one that was set aside is left.
    shutil.rmtree(saved.path(10))
    os.rename(saved.path(20), saved._damaged_path(20))
    with pytest.raises(ValueError, match="damaged-step-00000020 was damaged"):
        saved.restore_latest()
    shutil.rmtree(saved._damaged_path(20))
    assert saved.restore_latest() == 0


def test_a_checkpoint_under_the_name_of_another_is_damaged(two):
    saved, _, _ = two
    shutil.rmtree(saved.path(20))
    os.rename(saved.path(10), saved.path(20))
    with pytest.raises(
        ValueError, match="20 is damaged.*state.json is of step"
    ):
        saved.restore_latest()


def test_a_whole_checkpoint_of_another_size_is_not_skipped(
    tmp_path, model, two
):
    saved, _, _ = two
    wider = bert_tf.BertConfig.from_dict(
        model.config.to_dict() | {"intermediate_size": 8}
    )
    other, _ = make_run(
        saved.folder, bert_tf.BertClassifier(wider, num_classes=2)
    )
    before = names(saved.folder)
    with pytest.raises(ValueError, match="of another size: ") as raised:
        other.restore_latest()
    assert not isinstance(raised.value, checksums.DamagedError)
    assert names(saved.folder) == before


@pytest.mark.parametrize("file", [model_folders.WEIGHTS, checkpoints.OPTIMIZER])
def test_a_checkpoint_without_sums_is_damaged(model, two, file):
    saved, _, digests = two
    path = os.path.join(saved.path(20), checkpoints.STATE)
    atomic_files.write_json(path, {"step": 20, "weights_sha256": digests[20]})
    damage(pathlib.Path(saved.path(20)) / file, "begins with garbage")
    assert saved.restore_latest() == 10
    assert model_folders.digest(model) == digests[10]


def test_the_way_back_names_the_last_checkpoint(two):
    saved, _, _ = two
    assert f"good one is {saved.path(20)}." in saved.recovery_hint()
    # Later ones are not of this run's past.
    os.makedirs(saved.path(40))
    saved.save(25)
    assert f"good one is {saved.path(25)}." in saved.recovery_hint()
    saved.last_step = 0
    assert saved.recovery_hint().startswith("There is no checkpoint yet.")


def test_the_last_good_one_stays_whatever_newer_ones_there_are(
    tmp_path, model, two
):
    saved, _, _ = two
    saved.keep = 1
    # As they are where nothing could set them aside.
    for step in (30, 40):
        os.makedirs(saved.path(step))
    saved.save(25)
    assert names(saved.folder) == [
        "step-00000025",
        "step-00000030",
        "step-00000040",
    ]
    assert saved.restore_latest() == 25


def test_nothing_goes_before_the_new_one_is_there(two, monkeypatch):
    saved, _, _ = two

    def remove(path):
        assert os.path.isfile(os.path.join(saved.path(30), checkpoints.STATE))
        gone.append(os.path.basename(path))

    gone = []
    monkeypatch.setattr(atomic_files, "remove_folder", remove)
    saved.save(30)
    assert gone == ["step-00000010"]


def test_extra_state_comes_back_and_what_is_new_keeps_its_value(
    tmp_path, model
):
    def variables():
        return {
            "loss_scale": tf.Variable(2.0**15, dtype=tf.float32),
            "good_steps": tf.Variable(0, dtype=tf.int64),
        }

    saved, optimizer = make_run(tmp_path, model)
    saved.save(1)  # Of a run without.
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
    # A run without has no use for it.
    assert make_run(tmp_path, model)[0].restore_latest() == 2


def test_find_takes_a_model_a_run_and_prefers_its_best(tmp_path, model):
    saved, _ = make_run(tmp_path / "checkpoints", model)
    with pytest.raises(ValueError, match="holds no model"):
        checkpoints.find(str(tmp_path))
    saved.save(1)
    saved.save(2)
    newest = str(tmp_path / "checkpoints" / "step-00000002")
    assert checkpoints.find(str(tmp_path)) == newest
    assert checkpoints.find(newest) == newest
    with atomic_files.atomic_folder(str(tmp_path / "best")) as folder:
        model_folders.save_model(folder, model, metadata={})
    assert checkpoints.find(str(tmp_path)) == str(tmp_path / "best")


def test_a_model_asked_for_by_its_name_is_not_swapped_for_another(
    tmp_path, model, two
):
    saved, _, _ = two
    path = tmp_path / "run/checkpoints/step-00000020" / model_folders.CONFIG
    damage(path, "truncated")
    with pytest.raises(checksums.DamagedError, match="20 is damaged.*config"):
        checkpoints.find(saved.path(20))
    with atomic_files.atomic_folder(str(tmp_path / "run/best")) as folder:
        model_folders.save_model(folder, model, metadata={})
        checksums.write_checksums(folder, {"step": 10})
    assert checkpoints.step_of(checkpoints.find(str(tmp_path / "run"))) == 10
    (tmp_path / "run/best" / model_folders.WEIGHTS).unlink()
    with pytest.raises(checksums.DamagedError) as raised:
        checkpoints.find(str(tmp_path / "run"))
    assert str(raised.value) == (
        f"{tmp_path}/run/best is damaged: model.safetensors is missing. To "
        f"take another, give a folder of {saved.folder}/ itself."
    )


def test_a_run_whose_checkpoints_are_all_damaged_says_so(tmp_path, two):
    saved, _, _ = two
    for step in (10, 20):
        os.remove(os.path.join(saved.path(step), model_folders.WEIGHTS))
    with pytest.raises(checksums.DamagedError) as raised:
        checkpoints.find(str(tmp_path / "run"))
    assert str(raised.value).split("\n") == [
        f"{saved.path(20)} is damaged: model.safetensors is missing.",
        f"{saved.path(10)} is damaged: model.safetensors is missing.",
        f"{tmp_path}/run has no other checkpoint.",
    ]


class Numbers:
    """A variable without TensorFlow, which must not be used after a fork."""

    dtype = np.dtype(np.float32)

    def __init__(self, path):
        self.path = path
        self.value = np.zeros([100, 100], np.float32)
        self.shape = self.value.shape

    def numpy(self):
        return self.value

    def assign(self, value):
        self.value = np.asarray(value)


def numbers_run(folder):
    """A run of which every number is its step."""
    weights = [Numbers(f"a/{i}") for i in range(3)]
    config = types.SimpleNamespace(
        to_json_file=lambda path: atomic_files.write_json(path, {})
    )
    model = types.SimpleNamespace(name="a", config=config, weights=weights)
    slots = {f"m/a/{i}": Numbers("") for i in range(3)}
    step = Numbers("")
    optimizer = types.SimpleNamespace(slots=lambda: slots, step=step)
    saved = checkpoints.RunCheckpoints(folder, model, optimizer, keep=2)
    return saved, [*weights, *slots.values(), step]


def save_until_killed(folder, announce):
    saved, variables = numbers_run(folder)
    step = saved.restore_latest()
    while True:
        step += 1
        for variable in variables:
            variable.assign(np.full(variable.shape, step, np.float32))
        saved.save(step)
        os.write(announce, b"%d\n" % step)


def killed_after(folder, seconds):
    """Returns the last step that a process announced before its kill."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # The child does without the threads of TensorFlow.
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


def test_a_kill_at_any_moment_leaves_whole_checkpoints_alone(tmp_path):
    folder = str(tmp_path / "checkpoints")
    rng = random.Random(0)
    last, half = 0, 0
    for _ in range(12):
        announced = killed_after(folder, rng.uniform(0.0, 0.03))
        assert announced > last
        half += any(name.startswith(".") for name in os.listdir(folder))
        # All of them are whole, not the newest alone.
        for step in checkpoints.steps(folder):
            checksums.check(os.path.join(folder, checkpoints.name(step)))
        saved, variables = numbers_run(folder)
        assert all(name.startswith("step-") for name in os.listdir(folder))
        last = saved.restore_latest()
        # It may have got its name just before it could be announced.
        assert last in (announced, announced + 1)
        for variable in variables:
            assert (variable.numpy() == last).all()
        assert checkpoints.step_of(saved.path(last)) == last
    assert half, "no kill came while a checkpoint was written"
