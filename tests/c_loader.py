"""Folder of a SavedModel, strings -> what TensorFlow's C++ loader answers.

The loader is that of TensorFlow Serving. It comes with the TensorFlow of this
Python, and a C program calls it.
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf

SOURCE = pathlib.Path(__file__).parent / "load_saved_model.c"


def compile_program(folder: pathlib.Path) -> pathlib.Path:
    """Returns the program; the test skips without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    home = pathlib.Path(tf.sysconfig.get_lib())
    program = folder / "load_saved_model"
    command = [
        compiler,
        "-std=c99",
        f"-I{tf.sysconfig.get_include()}",
        str(SOURCE),
        f"-o{program}",
        str(home / "libtensorflow_cc.so.2"),
        str(home / "libtensorflow_framework.so.2"),
        f"-Wl,-rpath,{home}",
    ]
    # The default linker takes five times as long for the large library.
    if subprocess.run(
        [*command, "-fuse-ld=gold"], capture_output=True
    ).returncode:
        subprocess.run(command, check=True)
    return program


def tensor_names(path, signature):
    """Names in the graph of a signature's inputs and outputs."""
    from tensorflow.core.protobuf import saved_model_pb2

    proto = saved_model_pb2.SavedModel()
    with open(os.path.join(path, "saved_model.pb"), "rb") as file:
        proto.ParseFromString(file.read())
    definition = proto.meta_graphs[0].signature_def[signature]
    return (
        {name: info.name for name, info in definition.inputs.items()},
        {name: info.name for name, info in definition.outputs.items()},
    )


def _unescape(match: re.Match) -> str:
    """Returns what the program wrote a backslash and a letter for."""
    return {"n": "\n", "t": "\t"}.get(match[1], match[1])


def run(program, path, inputs, signature="serving_default"):
    """Returns the named outputs of a signature, numbers or text as printed.

    Args:
      program: from `compile_program`.
      path: of the SavedModel.
      inputs: name -> strings or int32, lists or lists of lists; what is left
        out has a default.
      signature: its name.
    """
    input_names, output_names = tensor_names(path, signature)
    package = importlib.util.find_spec("tensorflow_text")
    libraries = pathlib.Path(package.origin).parent.glob("python/ops/_*.so")
    command = [
        program,
        path,
        ",".join(map(str, libraries)),
        ",".join(output_names.values()),
    ]
    for name, values in inputs.items():
        values = np.array(values, object)
        shape = ",".join(map(str, values.shape))
        flat = [
            value if isinstance(value, (str, bytes)) else str(value)
            for value in values.ravel()
        ]
        command += [input_names[name], shape, *flat]
    output = subprocess.run(command, check=True, capture_output=True).stdout
    answers = {}
    for name, line in zip(
        output_names, output.decode().split("\n")[:-1], strict=True
    ):
        _, shape, *values = line.split("\t")
        shape = [int(size) for size in shape.split(",")]
        values = [re.sub(r"\\(.)", _unescape, value) for value in values]
        answers[name] = np.array(values, object).reshape(shape)
    return answers


def check(program, path, inputs, expected, signature="serving_default"):
    """Asserts that `run` gives the named tensors that Python gave."""
    answers = run(program, path, inputs, signature)
    assert set(answers) == set(expected)
    for name, tensor in expected.items():
        array = tensor.numpy()
        assert answers[name].shape == array.shape, name
        if array.dtype == object:
            texts = [value.decode() for value in array.ravel()]
            assert answers[name].ravel().tolist() == texts, name
        elif array.dtype == np.int32:
            np.testing.assert_array_equal(answers[name].astype(int), array)
        else:
            # A graph may add in another order in another process.
            np.testing.assert_allclose(
                answers[name].astype(np.float32), array, atol=1e-5, rtol=1e-5
            )
