import errno
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoint.formats.google import tf1_checkpoint, tf_files
from bert_tf.contrib.formats.model_garden import tf2_files

DATA = "bert_model.ckpt.data-00000-of-00001"


@pytest.fixture(params=["TF1", "TF2"])
def written(request, tmp_path):
    """Kind of a checkpoint in the folder, and the function that reads it."""
    zeros = np.zeros(3, np.float32)
    if request.param == "TF1":
        tf1_checkpoint.write_tensors({"x": zeros}, str(tmp_path))
        return "TF1", tf1_checkpoint.read_tensors
    tf2_files.write({"x": tf.Variable(zeros)}, str(tmp_path))
    return "TF2", tf2_files.read


def test_a_checkpoint_is_found_by_folder_prefix_and_each_file(
    tmp_path, written
):
    kind, _ = written
    prefix = str(tmp_path / "bert_model.ckpt")
    for path in (tmp_path, prefix, f"{prefix}.index", tmp_path / DATA):
        assert tf_files.find(str(path), kind) == prefix
    assert tf.train.latest_checkpoint(str(tmp_path)) == prefix
    other = {"TF1": "TF2", "TF2": "TF1"}[kind]
    assert not tf_files.prefixes(str(tmp_path), other)


def test_temporary_files_are_not_data_files(tmp_path, written):
    kind, read = written
    (tmp_path / f"{DATA}.tempstate123").write_bytes(b"half")
    prefix = tf_files.find(str(tmp_path), kind)
    assert tf_files.data_files(prefix) == [str(tmp_path / DATA)]
    assert read(prefix)
    os.remove(tmp_path / DATA)
    with pytest.raises(ValueError, match=f"missing: .*{DATA}. Copy every file"):
        read(prefix)


def test_data_files_of_an_earlier_save_are_ignored(tmp_path, written):
    kind, read = written
    (tmp_path / "bert_model.ckpt.data-00001-of-00003").write_bytes(b"old")
    assert read(tf_files.find(str(tmp_path), kind))


def test_every_missing_data_file_is_named(tmp_path, written):
    kind, read = written
    shutil.move(
        tmp_path / DATA, tmp_path / "bert_model.ckpt.data-00001-of-00003"
    )
    with pytest.raises(
        ValueError, match="missing: .*00000-of-00003, .*00002-of-00003"
    ):
        read(tf_files.find(str(tmp_path), kind))


def test_the_checkpoint_file_selects_one_of_several(tmp_path, written):
    kind, _ = written
    for path in list(tmp_path.glob("bert_model.ckpt.*")):
        for step in (3, 20):
            ending = path.name.removeprefix("bert_model")
            shutil.copy(path, tmp_path / f"m-{step}{ending}")
    state = tmp_path / "checkpoint"
    state.write_text('model_checkpoint_path: "/elsewhere/m-20.ckpt"\n')
    assert tf_files.find(str(tmp_path), kind) == str(tmp_path / "m-20.ckpt")
    for content in ('model_checkpoint_path: "gone"\n', ""):
        state.write_text(content)
        with pytest.raises(
            ValueError, match="several checkpoints: bert_model.ckpt, m-20.ckpt"
        ):
            tf_files.find(str(tmp_path), kind)


@pytest.mark.parametrize("kind", ["TF1", "TF2"])
def test_a_folder_without_a_checkpoint_is_refused(tmp_path, kind):
    with pytest.raises(ValueError, match=f"contains no {kind} checkpoint"):
        tf_files.find(str(tmp_path), kind)


def test_a_full_disk_names_the_prefix(tmp_path):
    with (
        pytest.raises(OSError) as raised,
        tf_files.writing(str(tmp_path)) as prefix,
    ):
        raise tf.errors.ResourceExhaustedError(None, None, "no space")
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, prefix)
    assert not list(tmp_path.iterdir())
