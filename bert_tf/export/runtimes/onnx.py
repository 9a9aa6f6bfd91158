"""SavedModel of a network -> ONNX file."""

from collections.abc import Mapping, Sequence

import numpy as np

FILE = "model.onnx"
# The first version with LayerNormalization; all runtimes of today have it.
_OPSET = 17
# Smaller tensors, such as biases, stay float32.
_LEAST_HALF = 1024


def convert(
    network,
    path: str,
    *,
    quantize: str | None,
    half: bool,
    rows: Sequence[Mapping[str, np.ndarray]],
) -> None:
    """Writes the model as ONNX.

    Args:
      network: function of `networks.make`.
      path: file to write.
      quantize: None, "dynamic" or "static".
      half: whether weights are float16.
      rows: inputs for calibration, [1, s] int32 each.
    """
    import onnx
    import tf2onnx

    model, _ = tf2onnx.convert.from_function(
        network, input_signature=network.input_signature, opset=_OPSET
    )
    for value in model.graph.input:
        name = "masks" if value.name == "masked_lm_positions" else "tokens"
        dims = value.type.tensor_type.shape.dim
        dims[0].dim_param, dims[1].dim_param = "batch", name
    if half:
        _halve(model)
    onnx.save(model, path)
    if quantize:
        _quantize(path, quantize, rows)


def _halve(model) -> None:
    """Stores large weights as float16, each followed by a cast to float32.

    Runtimes compute the casts when they load the model. Products in float16
    would be slower on most CPUs, and overflow in the epsilon of LayerNorm.
    """
    import onnx
    from onnx import numpy_helper

    casts = []
    for weight in model.graph.initializer:
        values = numpy_helper.to_array(weight)
        if values.dtype != np.float32 or values.size < _LEAST_HALF:
            continue
        name = weight.name
        halved = numpy_helper.from_array(
            values.astype(np.float16), f"{name}/float16"
        )
        weight.CopyFrom(halved)
        casts.append(
            onnx.helper.make_node(
                "Cast", [halved.name], [name], to=onnx.TensorProto.FLOAT
            )
        )
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _quantize(path: str, quantize: str, rows) -> None:
    import onnx
    from onnxruntime import quantization

    settings = {"per_channel": True, "weight_type": quantization.QuantType.QInt8}
    if quantize == "dynamic":
        quantization.quantize_dynamic(path, path, **settings)
        return

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self._rows = iter(rows)

        def get_next(self):
            return next(self._rows, None)

    graph = onnx.load(path).graph
    weights = {weight.name for weight in graph.initializer}
    # Products of two activations, in attention, lose most and cost least.
    nodes = [
        node.name
        for node in graph.node
        if node.op_type in ("MatMul", "Gather") and weights & set(node.input)
    ]
    quantization.quantize_static(
        path,
        path,
        Reader(),
        nodes_to_quantize=nodes,
        op_types_to_quantize=["MatMul", "Gather"],
        **settings,
    )
