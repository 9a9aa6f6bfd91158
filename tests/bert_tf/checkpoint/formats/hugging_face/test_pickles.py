import cProfile
import importlib
import io
import logging
import os
import pathlib
import pickle
import runpy
import shutil
import sqlite3
import subprocess
import sys
import time
import timeit
import zipfile

import ml_dtypes
import numpy as np
import pytest

from bert_tf.checkpoint.formats.hugging_face import pickles


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "pytorch_model.bin")


class Call:
    """Calls a function when it is unpickled."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


def touch(path):
    return f"open({str(path)!r}, 'w').close()"


# Each makes the file or folder "ran" in a folder with the module `hidden`.
GADGETS = {
    "os.mkdir": lambda folder: (os.mkdir, f"{folder}/ran"),
    "os.makedirs": lambda folder: (os.makedirs, f"{folder}/ran/more"),
    "os.system": lambda folder: (os.system, f"touch {folder}/ran"),
    "os.popen": lambda folder: (os.popen, f"touch {folder}/ran"),
    "os.open": lambda folder: (os.open, f"{folder}/ran", os.O_CREAT),
    "os.symlink": lambda folder: (os.symlink, "x", f"{folder}/ran"),
    "os.mkfifo": lambda folder: (os.mkfifo, f"{folder}/ran"),
    "os.rename": lambda folder: (
        os.rename,
        f"{folder}/hidden.py",
        f"{folder}/ran",
    ),
    "os.spawnlp": lambda folder: (
        os.spawnlp,
        os.P_WAIT,
        "touch",
        "touch",
        f"{folder}/ran",
    ),
    "subprocess.call": lambda folder: (
        subprocess.call,
        ["touch", f"{folder}/ran"],
    ),
    "subprocess.getoutput": lambda folder: (
        subprocess.getoutput,
        f"touch {folder}/ran",
    ),
    "builtins.exec": lambda folder: (exec, touch(folder / "ran")),
    "builtins.eval": lambda folder: (eval, touch(folder / "ran")),
    "builtins.open": lambda folder: (open, f"{folder}/ran", "w"),
    "builtins.map": lambda folder: (
        list,
        Call(map, exec, [touch(folder / "ran")]),
    ),
    "io.FileIO": lambda folder: (io.FileIO, f"{folder}/ran", "w"),
    "pathlib.Path.touch": lambda folder: (
        pathlib.Path.touch,
        folder / "ran",
    ),
    "shutil.copy": lambda folder: (
        shutil.copy,
        f"{folder}/hidden.py",
        f"{folder}/ran",
    ),
    "runpy.run_path": lambda folder: (runpy.run_path, f"{folder}/hidden.py"),
    "timeit.timeit": lambda folder: (
        timeit.timeit,
        touch(folder / "ran"),
        "pass",
        timeit.default_timer,
        1,
    ),
    "cProfile.run": lambda folder: (
        cProfile.run,
        touch(folder / "ran"),
        f"{folder}/profile",
    ),
    "importlib.import_module": lambda folder: (
        importlib.import_module,
        "hidden",
    ),
    "sqlite3.connect": lambda folder: (sqlite3.connect, f"{folder}/ran"),
    "zipfile.ZipFile": lambda folder: (zipfile.ZipFile, f"{folder}/ran", "w"),
    "logging.FileHandler": lambda folder: (
        logging.FileHandler,
        f"{folder}/ran",
    ),
    "numpy.savetxt": lambda folder: (np.savetxt, f"{folder}/ran", [1]),
}


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


@pytest.fixture
def gadget_folder(tmp_path, monkeypatch):
    (tmp_path / "hidden.py").write_text(touch(tmp_path / "ran"))
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("hidden", None)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("name", GADGETS)
def test_code_in_a_pickle_is_refused_and_not_run(
    torch, gadget_folder, path, name, is_old
):
    ran = gadget_folder / "ran"
    content = {
        "weight": torch.ones(2),
        "more": Call(*GADGETS[name](ran.parent)),
    }
    torch.save(content, path, _use_new_zipfile_serialization=not is_old)
    with pytest.raises(ValueError, match="no code in it was run") as raised:
        pickles.read(path)
    assert path in str(raised.value)
    assert "weights_only" not in str(raised.value)
    assert not os.path.lexists(ran)
    # Without the restriction it is run.
    torch.load(path, weights_only=False)
    for _ in range(100):  # os.popen does not wait.
        if os.path.lexists(ran):
            break
        time.sleep(0.05)
    assert os.path.lexists(ran)


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
