"""A model is exported, and its row is correct; no time is checked."""

import importlib.util

import exports
import pytest

from benchmarks import export_formats


def test_a_row_of_the_table():
    report = {
        "bytes": {"onnx": 1_250_000, "savedmodel": 5_000_000},
        "largest_difference": {
            "random": {"logits": 1.0},
            "texts": {"logits": 0.002, "probabilities": 0.001},
        },
        "accuracy": {"onnx": 0.8125, "savedmodel": 0.75},
        "milliseconds": {
            "batch 1": {"onnx": 1.25, "savedmodel": 2.0},
            "batch 16": {"onnx": 10.0, "savedmodel": 30.0},
        },
    }
    assert export_formats.row("onnx", "float16", report) == (
        "| onnx | float16 | 1.2 | 2.0e-03 | 81.25 | 1.25 (2) | 10 (30) |"
    )


@pytest.mark.parametrize(
    "flag, message",
    [
        ("--formats=x", "--formats: 'x' should be one of"),
        ("--weights=int4", "--weights: 'int4' should be one of float32"),
    ],
)
def test_an_unknown_value_is_named(flag, message):
    required = ["--model_dir=m", "--report_file=r", "--calibration_file=c"]
    with pytest.raises(ValueError, match=message):
        export_formats.main(["export_formats", *required, flag])


@pytest.mark.slow
def test_one_format_is_exported(tmp_path, capsys):
    for module in ("tf2onnx", "onnxruntime"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed; run make parity")
    model = exports.make_model("classification")
    exports.save_model(model, "classification", tmp_path / "model")
    (tmp_path / "dev.tsv").write_text("text_a\tlabel\na ship\tgood\n")
    export_formats.main(
        [
            "export_formats",
            f"--model_dir={tmp_path / 'model'}",
            f"--report_file={tmp_path / 'dev.tsv'}",
            f"--calibration_file={tmp_path / 'dev.tsv'}",
            "--formats=onnx",
            "--weights=int8_static",
        ]
    )
    assert "| onnx | int8_static | " in capsys.readouterr().out
