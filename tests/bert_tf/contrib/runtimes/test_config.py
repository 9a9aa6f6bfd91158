"""Flags of the formats: which are refused, and missing packages."""

import dataclasses

import pytest

from bert_tf.contrib.runtimes import config
from tfrecords import options


def make(**settings):
    return config.RuntimeConfig(model_dir="m", export_dir="e", **settings)


def test_a_saved_model_is_the_default():
    assert make().format == "savedmodel"
    assert make(precision="bfloat16").precision == "bfloat16"
    assert make(format="openvino", precision="bfloat16")


LITERT, ONNX = {"format": "litert"}, {"format": "onnx"}
HUGGING_FACE = {"format": "hugging_face_onnx"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"half": True}, "--half=True is for --format=litert, onnx, openvino"),
        ({"quantize": "dynamic"}, "--quantize=dynamic is for --format="),
        ({"report_file": "x"}, "--report_file=x is for --format="),
        *(
            (ONNX | {name: value}, f"--{name}={value} is for --format=savedmod")
            for name, value in (
                ("precision", "bfloat16"),
                ("weights_dtype", "bfloat16"),
                ("kind", "preprocessor"),
                ("kind", "token_vectors"),
            )
        ),
        (
            {"format": "openvino", "precision": "float16"},
            "openvino computes in float32 or bfloat16",
        ),
        (
            ONNX | {"half": True, "quantize": "dynamic"},
            "--half and --quantize=dynamic: weights are float16 or int8",
        ),
        (LITERT | {"quantize": "static"}, "static quantization needs the file"),
        (
            LITERT | {"quantize": "dynamic", "calibration_file": "x"},
            "nothing else reads it",
        ),
        (
            LITERT | {"report": False, "report_file": "x"},
            "--report_file=x needs the report",
        ),
        (
            HUGGING_FACE | {"top_k": 3},
            "--top_k=3: files of --format=hugging_face_onnx have no place",
        ),
        (HUGGING_FACE | {"layers": ("-1",)}, "--layers="),
        (HUGGING_FACE | {"report_file": "x"}, "--report_file=x"),
        (
            HUGGING_FACE | {"quantize": "static", "calibration_file": "x"},
            "--calibration_file=x",
        ),
        (HUGGING_FACE | {"quantize": "static"}, "=dynamic. Give this."),
        ({"format": "tflite"}, "tflite"),
        (ONNX | {"quantize": "int4"}, "int4"),
    ],
)
def test_flags_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings)


def test_other_settings_of_saved_models_are_refused():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class WithMore(config.RuntimeConfig):
        warm_up: bool = options.option(True, "A setting of SavedModels.")

    paths = {"model_dir": "m", "export_dir": "e"}
    assert not WithMore(**paths, warm_up=False).warm_up
    assert WithMore(**paths, format="onnx").warm_up
    with pytest.raises(
        ValueError, match="--warm_up=False is for --format=savedmodel, and the "
    ):
        WithMore(**paths, format="onnx", warm_up=False)


def test_a_folder_of_hugging_face_has_files_of_several_types():
    assert make(**HUGGING_FACE, half=True, quantize="dynamic").half


@pytest.mark.parametrize("settings", [ONNX, HUGGING_FACE])
def test_a_missing_package_is_named(monkeypatch, settings):
    monkeypatch.setitem(config.MODULES, "onnx", ("no_such_module", "numpy"))
    message = r"no_such_module, not installed here: pip install 'bert_tf\[exp"
    with pytest.raises(ValueError, match=message):
        make(**settings).check_installed()


def test_quantizing_needs_its_own_package(monkeypatch):
    monkeypatch.setitem(config.MODULES, "openvino", ("numpy",))
    monkeypatch.setitem(config.QUANTIZERS, "openvino", ("no_quantizer",))
    make(format="openvino").check_installed()
    with pytest.raises(ValueError, match="needs no_quantizer"):
        make(format="openvino", quantize="dynamic").check_installed()
