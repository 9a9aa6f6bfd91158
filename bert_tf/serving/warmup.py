"""SavedModel -> the requests with which TensorFlow Serving warms it up.

In the first requests TensorFlow optimizes the graph of each signature. A server
replays the file `PATH` before it answers clients, so that these do not wait.
Source: "SavedModel Warmup" in the documentation of TensorFlow Serving.
"""

import os
from collections.abc import Mapping, Sequence

import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

PATH = os.path.join("assets.extra", "tf_serving_warmup_requests")
_EXAMPLE_METHODS = (
    tf.saved_model.CLASSIFY_METHOD_NAME,
    tf.saved_model.REGRESS_METHOD_NAME,
)
_SHORT = "a [MASK]"  # A kind of export reads it; to others it is text.
_MAX_COLUMNS = 4  # Of endings, each of which is a row of the model.


def signatures_of(folder: str) -> dict[str, meta_graph_pb2.SignatureDef]:
    """Returns name -> signature of a SavedModel, as its file has them."""
    saved = saved_model_pb2.SavedModel()
    with open(os.path.join(folder, "saved_model.pb"), "rb") as file:
        saved.ParseFromString(file.read())
    signatures = saved.meta_graphs[0].signature_def
    # The others, such as __saved_model_init_op, are TensorFlow's own.
    return {n: signatures[n] for n in sorted(signatures) if n[:2] != "__"}


def write(folder: str, max_seq_length: int) -> None:
    """Writes the file: for each signature a short and a long request.

    Args:
      folder: a complete SavedModel, whose signatures have inputs of strings,
        or of ids [N, S].
      max_seq_length: S; long texts fill it.
    """
    long = _SHORT + max_seq_length * " a"
    with tf.io.TFRecordWriter(os.path.join(folder, PATH)) as file:
        for name, signature in signatures_of(folder).items():
            for length, text in ((2, _SHORT), (max_seq_length, long)):
                inputs = inputs_of(signature, text, length)
                file.write(encode(name, inputs))


def inputs_of(
    signature: meta_graph_pb2.SignatureDef, text: str, length: int
) -> dict[str, tensor_pb2.TensorProto]:
    """Returns the inputs of a request for one example.

    Args:
      signature: signature to call.
      text: value of every text.
      length: number of token ids, where these are the inputs.
    """
    columns = text.split()[:_MAX_COLUMNS]
    values: Mapping[int, Sequence] = {1: [text], 2: [columns]}
    if signature.method_name in _EXAMPLE_METHODS:
        example = tf.train.Example()
        example.features.feature["text_a"].bytes_list.value.append(
            text.encode()
        )
        values = {1: [example.SerializeToString()]}
    inputs = {}
    for name, info in sorted(signature.inputs.items()):
        if info.dtype == tf.string:
            value = values[len(info.tensor_shape.dim)]
        else:
            # Every model has segment 0, but not every one has 1.
            value = [[int(name != "input_type_ids")] * length]
        inputs[name] = tf.make_tensor_proto(value, info.dtype)
    return inputs


def encode(
    signature: str, inputs: Mapping[str, tensor_pb2.TensorProto]
) -> bytes:
    """Returns a serialized PredictionLog of TensorFlow Serving.

    Its messages are not in the package of TensorFlow, and four of their fields
    are needed: prediction_log.proto, predict.proto and model.proto.
    """
    model_spec = _field(3, signature.encode())  # signature_name
    request = _field(1, model_spec)
    for name, tensor in inputs.items():  # map<string, TensorProto> inputs
        entry = _field(1, name.encode()) + _field(2, tensor.SerializeToString())
        request += _field(2, entry)
    return _field(6, _field(1, request))  # predict_log, its request


def _field(number: int, content: bytes) -> bytes:
    """Returns a field of strings, bytes or a message, with its length.

    Protocol buffers, "Encoding": 2 is the wire type of length-delimited fields.
    """
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Returns a number in groups of 7 bits, lowest first."""
    groups = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])
