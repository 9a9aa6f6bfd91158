"""SavedModel of a network -> OpenVINO's IR."""

import contextlib
import io
import os
import sys
from collections.abc import Mapping, Sequence

import numpy as np


def convert(
    saved_model: str,
    path: str,
    *,
    quantize: str | None,
    half: bool,
    rows: Sequence[Mapping[str, np.ndarray]],
) -> None:
    """Writes the model for OpenVINO.

    Args:
      saved_model: folder of a SavedModel of `networks.make`.
      path: .xml file to write, with the weights beside it.
      quantize: None; "dynamic" for int8 weights, to which OpenVINO quantizes
        activations at run time where that is faster; or "static".
      half: whether weights are float16.
      rows: inputs for calibration, [1, s] int32 each.
    """
    # `import openvino` sends usage data, unless this is missing.
    sys.modules.setdefault("openvino_telemetry", None)
    import openvino

    model = openvino.convert_model(saved_model)
    if quantize:
        # NNCF prints tables and progress bars.
        with contextlib.redirect_stdout(io.StringIO()):
            model = _quantized(model, quantize, rows)
    openvino.save_model(model, os.path.abspath(path), compress_to_fp16=half)


def _quantized(model, quantize: str, rows):
    import nncf

    if quantize == "dynamic":
        return nncf.compress_weights(model)
    return nncf.quantize(
        model,
        nncf.Dataset(rows),
        model_type=nncf.ModelType.TRANSFORMER,
        # 7 bits for weights, so that sums of two products do not saturate in
        # 16 bits on processors without VNNI.
        advanced_parameters=nncf.AdvancedQuantizationParameters(
            overflow_fix=nncf.OverflowFix.ENABLE
        ),
        subset_size=len(rows),
    )
