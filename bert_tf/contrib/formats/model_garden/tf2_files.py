"""TF2 checkpoint files <-> tensors by attribute paths.

A TF2 checkpoint is `<prefix>.index` and `<prefix>.data-00000-of-00001`, as in
TF1, but its tensors belong to an object graph. A key is only one of several
attribute paths to a tensor, and depends on which other objects were saved, so
tensors are looked up in the graph
(tensorflow/core/protobuf/trackable_object_graph.proto).
"""

import collections
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf import message
from tensorflow.core.protobuf import trackable_object_graph_pb2

from bert_tf.checkpoint import tensor_files
from bert_tf.checkpoint.formats.google import tf_files

ROOT = 0

_VALUE = "VARIABLE_VALUE"


class Objects(NamedTuple):
    """The objects of a checkpoint, by number; number 0 is the root.

    Attributes:
      children: for each object: attribute -> number of the child.
      keys: number of a variable -> key of its tensor.
      slots: slots of all optimizers: (number of the weight, slot name such as
        "m", number of the slot variable).
      tensors: key -> tensor, which is read when its value is asked for.
    """

    children: list[dict[str, int]]
    keys: dict[int, str]
    slots: list[tuple[int, str, int]]
    tensors: dict[str, tensor_files.StoredTensor]

    def walk(self, start: int = ROOT) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yields each object once with its path, in breadth-first order."""
        paths = {start: ()}
        queue = collections.deque([start])
        while queue:
            number = queue.popleft()
            yield number, paths[number]
            for name, child in self.children[number].items():
                if child not in paths:
                    paths[child] = (*paths[number], name)
                    queue.append(child)

    def follow(self, number: int | None, *names: str) -> int | None:
        """Returns the object at the end of a path, or None."""
        for name in names:
            if number is None:
                return None
            number = self.children[number].get(name)
        return number

    def tensor(self, number: int | None) -> tensor_files.StoredTensor | None:
        """Returns the tensor of an object, or None if not a variable."""
        return self.tensors.get(self.keys.get(number))


def _graph(content: bytes, prefix: str):
    """Returns a TrackableObjectGraph, if it is intact."""
    try:
        graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
            content
        )
    except (message.DecodeError, TypeError) as error:
        raise ValueError(
            f"{prefix}: {tf_files.GRAPH_KEY} is damaged ({error}). Copy or "
            "download the checkpoint again."
        ) from error
    numbers = {child.node_id for node in graph.nodes for child in node.children}
    for node in graph.nodes:
        for slot in node.slot_variables:
            numbers |= {
                slot.original_variable_node_id,
                slot.slot_variable_node_id,
            }
    # Number 0 is the root.
    if not numbers | {ROOT} <= set(range(len(graph.nodes))):
        raise ValueError(
            f"{prefix}: {tf_files.GRAPH_KEY} has {len(graph.nodes)} objects, "
            "but refers to others. Copy or download the checkpoint again."
        )
    return graph


def read(prefix: str) -> Objects:
    """Reads a checkpoint's object graph and tensors.

    Raises:
      ValueError: if files are missing or damaged.
    """
    tensors = tf_files.read_tensors(prefix)
    graph = _graph(tensors.pop(tf_files.GRAPH_KEY).numpy().item(), prefix)
    return Objects(
        children=[
            {child.local_name: child.node_id for child in node.children}
            for node in graph.nodes
        ],
        keys={
            number: attribute.checkpoint_key
            for number, node in enumerate(graph.nodes)
            for attribute in node.attributes
            if attribute.name == _VALUE
        },
        slots=[
            (
                slot.original_variable_node_id,
                slot.slot_name,
                slot.slot_variable_node_id,
            )
            for node in graph.nodes
            for slot in node.slot_variables
        ],
        tensors=tensors,
    )


def node(**children: tf.Module | tf.Variable) -> tf.Module:
    """Returns an object to save, with these attributes."""
    module = tf.Module()
    for name, child in children.items():
        setattr(module, name, child)
    return module


def tree(parts: Mapping[str, object]) -> tf.Module:
    """Returns nested objects to save.

    `parts` are keyed by attribute path, such as
    `_transformer_layers/0/_output_dense/bias`.
    """
    root = node()
    for name, part in parts.items():
        *parents, last = name.split("/")
        parent = root
        for attribute in parents:
            if not hasattr(parent, attribute):
                setattr(parent, attribute, node())
            parent = getattr(parent, attribute)
        is_tensor = isinstance(part, np.ndarray)
        setattr(parent, last, tf.Variable(part) if is_tensor else part)
    return root


def write(roots: Mapping[str, object], folder: str) -> None:
    """Writes `bert_model.ckpt.*` and the `checkpoint` file that points to it.

    `roots` are attributes of the root: a `node`, `tree` or variable.

    Raises:
      OSError: if the disk is full.
    """
    checkpoint = tf.train.Checkpoint(**roots)
    # As `save` would, but that adds the number to the prefix.
    checkpoint.save_counter.assign(1)
    with tf_files.writing(folder) as prefix:
        checkpoint.write(prefix)
