"""Exports with float16 and int8 weights, in their runtimes."""

import collections
import json
import math

import pytest

from bert_tf.contrib.runtimes import config

FORMATS = tuple(config.MODULES)
STATIC = ("--quantize=static", "--calibration_file=TEXTS")
# Largest differences on texts; the weights are random and large, so that the
# differences exceed those of trained models.
PROBABILITIES = {"dynamic": 0.04, "static": 0.05}

pytestmark = pytest.mark.slow


def difference(found, name="probabilities"):
    """Largest difference of an output on texts."""
    return found.report["largest_difference"]["texts"][name]


def weights_size(found, name):
    """Bytes of the file with the weights."""
    settings = json.loads((found.folder / "model.json").read_text())
    file = "model.bin" if name == "openvino" else settings["file"]
    return (found.folder / file).stat().st_size


@pytest.mark.parametrize("name", FORMATS)
def test_half_has_small_files_and_differences(shipped, name):
    found = shipped("classification", name, "--half")
    whole = shipped("classification", name)
    assert 0 < difference(found) < 2e-3
    assert weights_size(found, name) < 0.85 * weights_size(whole, name)
    assert found.predict([{"text_a": "a ship"}])[0]["label"]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("words", [("--quantize=dynamic",), STATIC])
def test_int8_differs_little(shipped, name, words):
    found = shipped("classification", name, *words)
    method = words[0].partition("=")[2]
    assert 1e-5 < difference(found) < PROBABILITIES[method]


@pytest.mark.parametrize(
    ("kind", "output", "bound"),
    [
        # The logits are up to 5 here; OpenVINO quantizes most operations.
        ("question_answering", "start_logits", 2.0),
        ("fill_mask", "probabilities", 0.1),
    ],
)
@pytest.mark.parametrize("name", FORMATS)
def test_static_quantization_of_other_inputs(
    shipped, kind, output, bound, name
):
    found = shipped(kind, name, *STATIC)
    assert 1e-5 < difference(found, output) < bound


def test_onnx_has_weights_of_the_type(shipped):
    onnx = pytest.importorskip("onnx", reason="make parity installs it")

    def sizes(*words):
        found = shipped("classification", "onnx", *words)
        graph = onnx.load(str(found.folder / "model.onnx")).graph
        sizes = collections.Counter()
        for weight in graph.initializer:
            name = onnx.TensorProto.DataType.Name(weight.data_type)
            sizes[name] += math.prod(weight.dims)
        return sizes

    whole = sizes()
    for words, name in (
        (("--half",), "FLOAT16"),
        (("--quantize=dynamic",), "INT8"),
        (STATIC, "INT8"),
    ):
        found = sizes(*words)
        # The small model has many small weights, which stay float32.
        assert found[name] > 0.3 * whole["FLOAT"], (words, found)
