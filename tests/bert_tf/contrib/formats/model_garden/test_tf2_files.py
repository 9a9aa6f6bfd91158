import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from bert_tf.checkpoint.formats.google import tf_files
from bert_tf.contrib.formats.model_garden import tf2_files


def graph(child=0, slot=0):
    """Returns a serialized object graph of one object."""
    made = trackable_object_graph_pb2.TrackableObjectGraph()
    node = made.nodes.add()
    node.children.add(node_id=child, local_name="child")
    node.slot_variables.add(
        original_variable_node_id=slot, slot_variable_node_id=0
    )
    return made.SerializeToString()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (graph(child=1), "has 1 objects, but refers to others"),
        (graph(child=-1), "has 1 objects, but refers to others"),
        (graph(slot=7), "has 1 objects, but refers to others"),
        (b"", "has 0 objects, but refers to others"),
        (b"\xff\xff", "is damaged"),
        (np.float32(1), "is damaged"),
    ],
)
def test_a_damaged_object_graph_is_named(tmp_path, content, message):
    prefix = str(tmp_path / "ckpt")
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=[tf_files.GRAPH_KEY],
        shape_and_slices=[""],
        tensors=[tf.constant(content)],
    )
    with pytest.raises(ValueError, match=f"{prefix}: .* {message}"):
        tf2_files.read(prefix)
