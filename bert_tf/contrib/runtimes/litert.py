"""SavedModel of a network -> LiteRT flatbuffer."""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

# Stay float32 under static quantization: in int8 they cost 5 points of accuracy
# on SST-2 (LayerNorm and the sums most) and save no time worth it. Products
# with weights and the embeddings remain.
_FLOAT_OPS = (
    *("ADD", "BATCH_MATMUL", "MEAN", "MUL", "RSQRT", "SOFTMAX", "SUB", "TANH"),
)


def convert(
    saved_model: str,
    path: str,
    *,
    quantize: str | None,
    half: bool,
    rows: Sequence[Mapping[str, np.ndarray]],
    max_seq_length: int,
) -> None:
    """Writes the model for LiteRT, formerly TensorFlow Lite.

    Args:
      saved_model: folder of a SavedModel with the signature of `networks.make`.
      path: file to write.
      quantize: None, "dynamic" or "static".
      half: whether weights are float16.
      rows: inputs for calibration, [1, s] int32 each.
      max_seq_length: to which they are padded: LiteRT calibrates with one
        shape.

    Raises:
      ValueError: if LiteRT has no operation for a part of the model.
    """
    converter = tf.lite.TFLiteConverter.from_saved_model(saved_model)
    if quantize or half:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if half:
        converter.target_spec.supported_types = [tf.float16]
    try:
        if quantize == "static":
            padded = [_padded(row, max_seq_length) for row in rows]
            model = _convert_static(converter, padded)
        else:
            model = converter.convert()
    except Exception as error:
        # ConverterError, a subclass of Exception that is not public.
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"--format=litert: LiteRT cannot convert this model ({reason})."
        ) from error
    with open(path, "wb") as file:
        file.write(model)


def _convert_static(converter, rows) -> bytes:
    converter.representative_dataset = lambda: iter(rows)
    options = tf.lite.experimental.QuantizationDebugOptions(
        denylisted_ops=list(_FLOAT_OPS)
    )
    with warnings.catch_warnings():
        # It makes an interpreter of TensorFlow's own, which we do not use.
        warnings.filterwarnings("ignore", r"\s*Warning: tf.lite.Interpreter")
        # The only public way to choose which operations are quantized.
        debugger = tf.lite.experimental.QuantizationDebugger(
            converter=converter,
            debug_dataset=converter.representative_dataset,
            debug_options=options,
        )
        return debugger.get_nondebug_quantized_model()


def _padded(row: Mapping[str, np.ndarray], length: int):
    return {
        name: np.pad(values, [[0, 0], [0, length - values.shape[1]]])
        for name, values in row.items()
    }
