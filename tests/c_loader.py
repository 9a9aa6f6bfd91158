"""SavedModel folder and strings -> outputs with TensorFlow's C++ loader.

TensorFlow Serving uses the same loader. Here it is called by a C program and
comes from the installed TensorFlow package.
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
PROGRAM = SOURCE.stem


def compile_program(folder: pathlib.Path) -> pathlib.Path:
    """Returns the compiled program; skips the test without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    home = pathlib.Path(tf.sysconfig.get_lib())
    program = folder / PROGRAM
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
    # The default linker is five times slower with the large library.
    if subprocess.run(
        [*command, "-fuse-ld=gold"], capture_output=True
    ).returncode:
        subprocess.run(command, check=True)
    return program


def tensor_names(path, signature):
    """Returns the graph's tensor names of a signature's inputs and outputs."""
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
    """Returns the character that the program escaped with a backslash."""
    return {"n": "\n", "t": "\t"}.get(match[1], match[1])


def run(program, path, inputs, signature="serving_default"):
    """Returns the named outputs of a signature, numbers or text as printed.

    Args:
      program: from `compile_program`.
      path: path of the SavedModel.
      inputs: name -> strings or int32, lists or lists of lists; inputs with a
        default may be omitted.
      signature: name of the signature.
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
    """Asserts that `run` returns the same outputs as Python, `expected`."""
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
            # A graph may sum in another order in another process.
            np.testing.assert_allclose(
                answers[name].astype(np.float32), array, atol=1e-5, rtol=1e-5
            )
