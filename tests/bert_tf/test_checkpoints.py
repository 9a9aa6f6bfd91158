import errno
import os

import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoints, model_folders, optimization
from tfrecords import whole_files


@pytest.fixture
def model(tiny_config):
    return bert_tf.BertClassifier(tiny_config, num_classes=2)


def make_run(folder, model, keep=2):
    optimizer = optimization.AdamW(
        model.trainable_weights, lambda step: tf.constant(0.1)
    )
    saved = checkpoints.RunCheckpoints(
        str(folder), model, optimizer, keep=keep, description={"task": "x"}
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


def test_a_checkpoint_cut_short_has_no_name_and_is_not_found(tmp_path, model):
    saved, _ = make_run(tmp_path, model)
    saved.save(10)
    with pytest.raises(KeyboardInterrupt):
        with whole_files.whole_folder(str(tmp_path / "step-00000020")) as f:
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


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_damaged_weights_are_named(tmp_path, model, damage):
    saved, _ = make_run(tmp_path, model)
    saved.save(1)
    path = tmp_path / "step-00000001" / model_folders.WEIGHTS
    data = bytearray(path.read_bytes())
    if damage == "truncated":
        path.write_bytes(data[:-100])
    elif damage == "flipped":
        data[-5] ^= 0x40
        path.write_bytes(data)
    else:
        path.unlink()
    with pytest.raises(ValueError, match="damaged") as raised:
        saved.restore_latest()
    assert "step-00000001" in str(raised.value)


def test_find_takes_a_model_a_run_and_prefers_its_best(tmp_path, model):
    saved, _ = make_run(tmp_path / "checkpoints", model)
    with pytest.raises(ValueError, match="holds no model"):
        checkpoints.find(str(tmp_path))
    saved.save(1)
    saved.save(2)
    newest = str(tmp_path / "checkpoints" / "step-00000002")
    assert checkpoints.find(str(tmp_path)) == newest
    assert checkpoints.find(newest) == newest
    with whole_files.whole_folder(str(tmp_path / "best")) as folder:
        model_folders.save_model(folder, model, description={})
    assert checkpoints.find(str(tmp_path)) == str(tmp_path / "best")
