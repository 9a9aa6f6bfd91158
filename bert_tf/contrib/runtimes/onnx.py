"""SavedModel of a network -> ONNX file."""

import copy
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import convert_to_constants

_OPSET = 17  # Of 2022; the default of tf2onnx is 15.
# Smaller weights, such as biases, stay float32.
_LEAST_HALF = 1024
_FLOAT = tf.float32.as_datatype_enum


def write(
    model,
    path: str,
    *,
    quantize: str | None,
    half: bool,
    rows: Sequence[Mapping[str, np.ndarray]],
) -> None:
    """Writes a model of ONNX.

    Args:
      model: from `convert`; it stays as it is.
      path: file to write.
      quantize: None, "dynamic" or "static".
      half: whether weights are float16.
      rows: inputs for calibration, [1, s] int32 each.
    """
    import onnx

    if half:
        model = _halve(copy.deepcopy(model))
    onnx.save(model, path)
    if quantize:
        _quantize(path, quantize, rows)


def convert(network):
    """Returns a function of `networks.make` as an ONNX model with its weights.

    Batch and sequence have one name in all inputs and outputs.

    tf2onnx copies constants in every step, which takes more than 23 GB for
    BERT-base. So the weights are inputs while it converts. This also keeps the
    operations of LayerNorm in their order, see `_fuse`.
    """
    import tf2onnx
    from onnx import numpy_helper

    concrete = network.get_concrete_function()
    frozen = convert_to_constants.convert_variables_to_constants_v2(concrete)
    graph = frozen.graph.as_graph_def()
    weights = _take_weights(graph)
    # Outputs are in the order of their names.
    outputs = [tensor.name for tensor in frozen.outputs]
    names = sorted(concrete.structured_outputs)
    inputs = {tensor.name: tensor.name[:-2] for tensor in frozen.inputs}
    model, _ = tf2onnx.convert.from_graph_def(
        graph,
        input_names=[*inputs, *weights],
        output_names=outputs,
        opset=_OPSET,
        custom_rewriter=[_fuse],
        tensors_to_rename=inputs | dict(zip(outputs, names, strict=True)),
    )
    kept = [x for x in model.graph.input if x.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    # The graph may still have weights that no output needs: the pooler's.
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(values, name)
        for name, values in weights.items()
        if name in read
    )
    _name_axes(model.graph)
    return model


def _fuse(graph, nodes):
    """Writes LayerNorm and GELU in forms that onnxruntime fuses.

    LayerNorm becomes ONNX's own operation. GELU has a division by sqrt(2), or
    in its tanh form a power, where TensorFlow has products. What is not found
    in the `nodes` of tf2onnx's `graph` stays as it is.
    """

    def consumer(node):
        return graph.find_output_consumers(node.output[0])[0]

    def replace(node, kind, inputs, **attributes):
        types = {"shapes": node.output_shapes, "dtypes": node.output_dtypes}
        new = graph.make_node(kind, inputs, attributes, **types)
        graph.replace_all_inputs(node.output[0], new.output[0])

    def constant(name, value):
        return graph.make_const(name, np.float32(value)).output[0]

    for node in nodes:
        before = node.inputs[0] if node.inputs else node
        if node.type == "Rsqrt" and before.inputs[0].type == "Mean":
            # (x - mean) * rsqrt(variance + epsilon) * gamma + beta
            variance, epsilon = before.inputs
            centred = variance.inputs[0].inputs[0]
            scaled = consumer(consumer(node))
            shifted = consumer(scaled)
            if scaled.inputs[1].is_graph_input():
                replace(
                    shifted,
                    "LayerNormalization",
                    [centred.input[0], scaled.input[1], shifted.input[1]],
                    axis=-1,
                    epsilon=float(epsilon.get_tensor_value()),
                )
        elif node.type == "Erf" and before.inputs[1].is_const():
            root = constant(f"{node.name}/root", np.sqrt(2.0))
            replace(before, "Div", [before.input[0], root])
        elif node.type == "Tanh" and before.type == "Mul":
            x, cubic = before.inputs[1].input  # Of tanh(c * (x + cubic)).
            three = constant(f"{node.name}/three", 3.0)
            power = graph.make_node("Pow", [x, three]).output[0]
            factor = constant(f"{node.name}/factor", 0.044715)
            replace(graph.get_node_by_output(cubic), "Mul", [power, factor])
    return nodes


def _name_axes(graph) -> None:
    """Names the axes of any size; those of numbers for masks are `masks`."""
    names = [value.name for value in graph.input]
    ranks = [len(x.type.tensor_type.shape.dim) for x in graph.input]
    choices = ["choices"] * (max(ranks) - 2)  # [B, N, S] of Hugging Face.
    has_masks = "masked_lm_positions" in names
    for value in (*graph.input, *graph.output):
        is_id = value.name.startswith("input_")
        last = "masks" if has_masks and not is_id else "sequence"
        dims = value.type.tensor_type.shape.dim
        for dim, name in zip(dims, ("batch", *choices, last), strict=False):
            if not dim.dim_value:
                dim.dim_param = name
    # Who takes outputs by their place expects start_logits first.
    if "input_ids" in names:
        graph.output.sort(key=lambda x: x.name, reverse=True)


def _take_weights(graph) -> dict[str, np.ndarray]:
    """Makes the weights of a GraphDef inputs; returns them by name."""
    weights = {}
    for node in graph.node:
        if node.op != "Const" or node.attr["dtype"].type != _FLOAT:
            continue
        values = tf.make_ndarray(node.attr["value"].tensor)
        if not values.ndim:
            continue
        weights[f"{node.name}:0"] = values
        node.op = "Placeholder"
        shape = tf.TensorShape(values.shape).as_proto()
        del node.attr["value"]
        node.attr["shape"].shape.CopyFrom(shape)
    return weights


def _halve(model):
    """Returns it with large weights as float16, each before a cast to float32.

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
    return model


def _quantize(path: str, quantize: str, rows) -> None:
    import onnx
    from onnxruntime import quantization

    # 7 bits: onnxruntime adds two products of 8 in 16 bits on processors
    # without VNNI, and they saturate. With unsigned weights it adds in 32 bits
    # everywhere, which takes twice as long with VNNI.
    int8 = {"weight_type": quantization.QuantType.QInt8}
    products = int8 | {"per_channel": True, "reduce_range": True}
    # Static quantization would convert the embedding tables to float32 in each
    # call; dynamic quantization converts only the rows that were looked up.
    quantization.quantize_dynamic(
        path, path, op_types_to_quantize=["Gather"], **int8
    )
    if quantize == "dynamic":
        quantization.quantize_dynamic(
            path, path, op_types_to_quantize=["MatMul"], **products
        )
        return
    graph = onnx.load(path).graph
    weights = {weight.name for weight in graph.initializer}
    # Products of two activations, in attention, stay float32.
    names = [
        node.name
        for node in graph.node
        if node.op_type == "MatMul" and weights & set(node.input)
    ]
    quantization.quantize_static(
        path,
        path,
        _Reader(rows),
        nodes_to_quantize=names,
        op_types_to_quantize=["MatMul"],
        activation_type=quantization.QuantType.QUInt8,
        **products,
    )


class _Reader:
    """Rows -> one at a time, as onnxruntime's CalibrationDataReader."""

    def __init__(self, rows):
        self._rows = iter(rows)

    def get_next(self):
        """Returns the next row, None after the last."""
        return next(self._rows, None)
