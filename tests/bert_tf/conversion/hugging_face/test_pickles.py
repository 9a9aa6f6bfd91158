import os
import pickle
import sys

import ml_dtypes
import numpy as np
import pytest

from bert_tf.conversion.hugging_face import pickles


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "pytorch_model.bin")


class Command:
    """Runs a command when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("is_old", [False, True])
def test_tensors_keep_their_dtypes(torch, path, is_old):
    tensors = {
        "float": torch.arange(6.0).reshape(2, 3).T,
        "half": torch.tensor([0.1, 3e38], dtype=torch.bfloat16),
        "weight": torch.nn.Parameter(torch.ones(2)),
        "position_ids": torch.arange(3),
    }
    torch.save(tensors, path, _use_new_zipfile_serialization=not is_old)
    found = pickles.read(path)
    assert {name: tensor.dtype for name, tensor in found.items()} == {
        "float": np.float32,
        "half": ml_dtypes.bfloat16,
        "weight": np.float32,
        "position_ids": np.int64,
    }
    for name, tensor in tensors.items():
        expected = tensor.detach().double().numpy()
        np.testing.assert_array_equal(found[name].astype(float), expected)


@pytest.mark.parametrize("is_old", [False, True])
def test_a_command_is_refused_and_not_run(torch, tmp_path, path, is_old):
    ran = tmp_path / "ran"
    content = {"weight": torch.ones(2), "more": Command(str(ran))}
    torch.save(content, path, _use_new_zipfile_serialization=not is_old)
    with pytest.raises(ValueError, match="no code in it was run") as raised:
        pickles.read(path)
    assert path in str(raised.value)
    assert "posix.mkdir" in str(raised.value)
    assert "weights_only" not in str(raised.value)
    assert not ran.exists()
    # Without the restriction it is run.
    torch.load(path, weights_only=False)
    assert ran.exists()


def test_anything_but_tensors_is_refused(torch, path):
    torch.save({"state_dict": {"a": torch.ones(2)}, "epoch": 3}, path)
    with pytest.raises(ValueError, match=r"state_dict \(dict\), epoch \(int\)"):
        pickles.read(path)
    torch.save({"a": torch.eye(2).to_sparse()}, path)
    with pytest.raises(ValueError, match=r"only plain tensors.* a \(Tensor\)"):
        pickles.read(path)
    torch.save([1, 2], path)
    with pytest.raises(ValueError, match="contains a list; expected"):
        pickles.read(path)


def test_a_damaged_file_is_refused(torch, path):
    torch.save({"a": torch.ones(2)}, path)
    with open(path, "rb") as file:
        content = file.read()
    for kept in (0, 1, 100, len(content) // 2):
        with open(path, "wb") as file:
            file.write(content[:kept])
        with pytest.raises(ValueError, match=f"{path} is damaged, or contains"):
            pickles.read(path)


def test_an_unsafe_version_of_torch_is_refused(torch, path, monkeypatch):
    torch.save({"a": torch.ones(2)}, path)
    old = torch.torch_version.TorchVersion("2.9.1+cpu")
    monkeypatch.setattr(torch, "__version__", old)
    with pytest.raises(ValueError, match=r"torch 2\.9\.1\+cpu may run code"):
        pickles.read(path)


def test_without_torch_pickles_are_not_opened(path, monkeypatch):
    with open(path, "wb") as file:
        pickle.dump({"a": 1}, file)
    monkeypatch.setattr(pickles.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match="Install torch, or save") as raised:
        pickles.read(path)
    assert path in str(raised.value)
