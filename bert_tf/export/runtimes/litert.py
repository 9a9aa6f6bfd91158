"""SavedModel of a network -> LiteRT flatbuffer."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

FILE = "model.tflite"


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
      saved_model: folder of a SavedModel with the signature of `networks`.
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
    if quantize == "static":
        converter.representative_dataset = lambda: (
            _padded(row, max_seq_length) for row in rows
        )
    try:
        model = converter.convert()
    except Exception as error:
        # ConverterError, a subclass of Exception that is not public.
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"--format=litert: LiteRT cannot convert this model ({reason})."
        ) from error
    with open(path, "wb") as file:
        file.write(model)


def _padded(row: Mapping[str, np.ndarray], length: int):
    return {
        name: np.pad(values, [[0, 0], [0, length - values.shape[1]]])
        for name, values in row.items()
    }
