"""Objects of a TF2 checkpoint <-> the Model Garden's encoder and heads.

The attributes are those of nlp/modeling of tf-models-official 2.20, in
networks/bert_encoder.py, models/bert_pretrainer.py, layers/masked_lm.py and
layers/cls_head.py.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_tf import config as bert_config
from bert_tf.contrib.formats.model_garden import tf2_files
from tfrecords.options import some

POOLER = "encoder/_pooler_layer"
# Adam's slots in tf_keras -> suffix of a weight's name in the rename table.
SLOTS = {"m": ".m", "v": ".v"}

# Numbered layers of a functional encoder start with these; then come the
# transformer layers, then the pooler.
_EMBEDDINGS = (
    "_embedding_layer",
    "_position_embedding_layer",
    "_type_embedding_layer",
    "_embedding_norm_layer",
)
_NUMBERED = "layer_with_weights-"


def _numbered(objects: tf2_files.Objects, number: int) -> list[int]:
    """Returns the layers with weights of a functional encoder, in order.

    Empty if one is missing, since only their order identifies them.
    """
    children = objects.children[number]
    count = sum(name.startswith(_NUMBERED) for name in children)
    layers = [children.get(f"{_NUMBERED}{i}") for i in range(count)]
    # Three embeddings, a LayerNorm, at least one layer, and the pooler.
    return [] if None in layers or len(layers) < 6 else layers


def _word_embeddings(objects: tf2_files.Objects, number: int) -> int | None:
    """Returns an encoder's word embedding layer, None for other objects."""
    children = objects.children[number]
    if "_transformer_layers" in children:
        return children.get("_embedding_layer")
    layers = _numbered(objects, number)
    if layers and "_attention_layer" in objects.children[layers[4]]:
        return layers[0]
    return None


def _name_layers(objects: tf2_files.Objects, encoder: int) -> None:
    """Adds missing attributes to the children of a functional encoder."""
    children, layers = objects.children[encoder], _numbered(objects, encoder)
    if not layers:
        return
    for name, number in zip(_EMBEDDINGS, layers, strict=False):
        children.setdefault(name, number)
    children.setdefault("_pooler_layer", layers[-1])
    if "_transformer_layers" not in children:
        children["_transformer_layers"] = len(objects.children)
        objects.children.append(
            {str(i): number for i, number in enumerate(layers[4:-1])}
        )


def find_encoder(objects: tf2_files.Objects, source: str) -> int:
    """Returns the number of the object that is a BERT encoder.

    Attributes that a functional encoder lacks (in early releases) are added to
    `objects`.

    Raises:
      ValueError: unless there is exactly one.
    """
    encoders = {}
    for number, path in objects.walk():
        words = _word_embeddings(objects, number)
        if words is not None:
            encoders.setdefault(words, (number, path))
    if len(encoders) > 1:
        names = ", ".join("/".join(path) for _, path in encoders.values())
        raise ValueError(
            f"{source} contains {len(encoders)} encoders: {names}. Expected "
            "exactly one."
        )
    if not encoders:
        raise ValueError(
            f"{source} contains no BERT encoder of the Model Garden; expected "
            "an object with _embedding_layer and _transformer_layers. (For a "
            "SavedModel of transformers see docs/guide/from_tfbert.md.) Its "
            "tensors are:\n  "
            + some([f"+ {name}" for name in objects.tensors], "\n  ")
        )
    ((encoder, _),) = encoders.values()
    _name_layers(objects, encoder)
    return encoder


def _next_sentence(objects: tf2_files.Objects, number: int) -> dict[str, int]:
    """Returns the parts of an object's next-sentence head, empty if none."""
    children = objects.children[number]
    # BertPretrainerV2: a list of heads, exactly one of them with two classes.
    listed = objects.children[children.get("classification_heads", number)]
    two = [
        objects.children[head]
        for head in listed.values()
        if (bias := objects.follow(head, "out_proj", "bias")) is not None
        and objects.tensor(bias).shape == (2,)
    ]
    if len(two) == 1:
        return two[0]
    # BertPretrainer: a functional network of one layer.
    classification = children.get("classification")
    out = objects.follow(classification, f"{_NUMBERED}0")
    if objects.follow(out, "kernel") is not None:
        return {"out_proj": out}
    # BertPretrainerV2.checkpoint_items has only the head's pooler.
    pooler = children.get("next_sentence.pooler_dense")
    return {} if pooler is None else {"dense": pooler}


def find_heads(objects: tf2_files.Objects) -> dict[str, dict[str, int]]:
    """Returns the objects of `masked_lm` and `next_sentence`, if any.

    Returns:
      Name of the head -> attribute -> number. In `next_sentence`, `dense` is
      the head's own pooler and `out_proj` the output layer.
    """
    heads = {"masked_lm": {}, "next_sentence": {}}
    for number, _ in objects.walk():
        masked_lm = objects.children[number].get("masked_lm")
        if objects.follow(masked_lm, "dense", "kernel") is not None:
            heads["masked_lm"] = objects.children[masked_lm]
        # Prefers a complete head to one with only the pooler.
        parts = _next_sentence(objects, number)
        if len(parts) > len(heads["next_sentence"]):
            heads["next_sentence"] = parts
    return heads


def read_step(objects: tf2_files.Objects) -> int:
    """Returns the number of updates applied, 0 if unknown."""
    # tf_keras's legacy optimizers and those since 2.11.
    counters = (("optimizer", "iter"), ("optimizer", "_iterations"))
    for path in (("global_step",), *counters):
        step = objects.tensor(objects.follow(tf2_files.ROOT, *path))
        if step is not None and not step.shape:
            return int(np.asarray(step))
    return 0


def config_of(
    objects: tf2_files.Objects, encoder: int, source: str
) -> bert_config.BertConfig:
    """Returns the sizes inferred from the shapes of an encoder's weights.

    Raises:
      ValueError: if a weight that this needs is missing.
    """

    def shape(*names):
        tensor = objects.tensor(objects.follow(encoder, *names))
        if tensor is None:
            raise ValueError(
                f"{source} has no bert_config.json in its folder, and its "
                f"sizes cannot be inferred: there is no {'/'.join(names)}. "
                "Copy the model's bert_config.json to that folder."
            )
        return tensor.shape

    layer = ("_transformer_layers", "0")
    # [H, A, D]
    query = shape(*layer, "_attention_layer", "_query_dense", "kernel")
    layers = objects.follow(encoder, "_transformer_layers")
    words, positions, types, _ = _EMBEDDINGS
    return bert_config.BertConfig(
        vocab_size=shape(words, "embeddings")[0],
        hidden_size=query[0],
        num_hidden_layers=len(objects.children[layers]),
        num_attention_heads=query[1],
        intermediate_size=shape(*layer, "_intermediate_dense", "kernel")[1],
        max_position_embeddings=shape(positions, "embeddings")[0],
        type_vocab_size=shape(types, "embeddings")[0],
    )


def _adam(slots: Mapping) -> tf.Module:
    """Returns an optimizer to save.

    `slots` are keyed by the weight's reference and "m" or "v".
    """
    adam = tf2_files.node()
    # The optimizer interface that tf.train.Checkpoint requires.
    adam.get_slot_names = lambda: list(SLOTS)
    adam.get_slot = lambda weight, name: slots.get((weight.ref(), name))
    return adam


def _add_head(
    roots: dict[str, tf.Module], head: tf.Module, encoder: tf.Module
) -> None:
    """Adds the next-sentence head, with a second pooler as in the original."""
    pooler = getattr(encoder, "_pooler_layer", None)
    if pooler is not None:
        head.dense = tf2_files.node(
            kernel=tf.Variable(pooler.kernel), bias=tf.Variable(pooler.bias)
        )
        roots["next_sentence.pooler_dense"] = head.dense
    model = roots["model"]
    model.classification_heads = tf2_files.node(**{"0": head})
    model.classification = tf2_files.node(**{f"{_NUMBERED}0": head.out_proj})


def to_save(tensors: Mapping[str, np.ndarray]) -> dict[str, tf.Module]:
    """Returns the encoder and heads under all names that the Model Garden uses.

    One checkpoint can then be restored with `Checkpoint(encoder=encoder)`,
    `(model=encoder)`, `(model=pretrainer)` of either pre-trainer and
    `(**pretrainer.checkpoint_items)`.

    Args:
      tensors: by their names in the rename table; Adam's moments have the
        suffixes of `SLOTS`.

    Returns:
      The attributes of the checkpoint's root.
    """
    weights, moments = {}, {}
    for name in tensors:
        is_slot = name.endswith(tuple(SLOTS.values()))
        variable = tf.Variable(tensors[name])
        (moments if is_slot else weights)[name] = variable
    tree = tf2_files.tree(weights)
    encoder = tree.encoder
    model = tf2_files.node(encoder_network=encoder, encoder=encoder)
    for name, part in vars(encoder).items():
        if isinstance(part, tf.Module):
            setattr(model, name, part)
    roots = {"encoder": encoder, "model": model}
    trained = {}
    if hasattr(tree, "masked_lm"):
        tree.masked_lm.embedding_table = encoder._embedding_layer.embeddings
        model.masked_lm = roots["masked_lm"] = tree.masked_lm
    if hasattr(tree, "next_sentence"):
        _add_head(roots, tree.next_sentence, encoder)
        trained = {POOLER: "next_sentence/dense"}
    slots = {}
    for name, moment in moments.items():
        weight, _, slot = name.rpartition(".")
        layer, _, part = weight.rpartition("/")
        owner = tree
        for attribute in trained.get(layer, layer).split("/"):
            owner = getattr(owner, attribute)
        slots[getattr(owner, part).ref(), slot] = moment
    if slots:
        roots["optimizer"] = _adam(slots)
    return roots
