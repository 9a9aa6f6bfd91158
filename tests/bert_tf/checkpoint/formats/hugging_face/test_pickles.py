import os
import pathlib
import pickle
import pkgutil
import sys
import time
import timeit

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
    "os.mkdir": ["RAN"],
    "os.makedirs": ["RAN/more"],
    "os.system": ["touch RAN"],
    "os.popen": ["touch RAN"],
    "os.open": ["RAN", os.O_CREAT],
    "os.symlink": ["x", "RAN"],
    "os.mkfifo": ["RAN"],
    "os.rename": ["HIDDEN", "RAN"],
    "os.spawnlp": [os.P_WAIT, "touch", "touch", "RAN"],
    "subprocess.call": [["touch", "RAN"]],
    "subprocess.getoutput": ["touch RAN"],
    "builtins.exec": ["CODE"],
    "builtins.eval": ["CODE"],
    "builtins.open": ["RAN", "w"],
    "builtins.map": [exec, ["CODE"]],
    "io.FileIO": ["RAN", "w"],
    "pathlib.Path.touch": [pathlib.Path("RAN")],
    "shutil.copy": ["HIDDEN", "RAN"],
    "runpy.run_path": ["HIDDEN"],
    "timeit.timeit": ["CODE", "pass", timeit.default_timer, 1],
    "cProfile.run": ["CODE", "FOLDER/profile"],
    "importlib.import_module": ["hidden"],
    "sqlite3.connect": ["RAN"],
    "zipfile.ZipFile": ["RAN", "w"],
    "logging.FileHandler": ["RAN"],
    "numpy.savetxt": ["RAN", [1]],
}


def gadget(name, folder):
    """Returns what calls a function of GADGETS when it is unpickled."""

    def fill(value):
        if isinstance(value, list):
            return [fill(x) for x in value]
        if isinstance(value, str | pathlib.Path):
            kind, text = type(value), str(value)
            text = text.replace("CODE", touch(folder / "ran"))
            text = text.replace("HIDDEN", f"{folder}/hidden.py")
            text = text.replace("FOLDER", str(folder))
            return kind(text.replace("RAN", f"{folder}/ran"))
        return value

    call = Call(pkgutil.resolve_name(name), *fill(GADGETS[name]))
    return Call(list, call) if name == "builtins.map" else call  # It is lazy.


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
        "more": gadget(name, gadget_folder),
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
