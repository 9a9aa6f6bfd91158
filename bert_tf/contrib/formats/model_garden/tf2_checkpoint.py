"""TF2 checkpoints of the TensorFlow Model Garden <-> Contents.

Reads BertEncoder and BertEncoderV2 (formerly TransformerEncoder) of
tf-models-official, alone or in BertPretrainer and BertPretrainerV2, saved by
`tf.train.Checkpoint` under any name. `bert_config.json` and `vocab.txt` are in
the same folder; without the former, sizes are inferred from the weights.

The next-sentence head of BertPretrainerV2 has its own pooler, which is the one
that was trained; the encoder's pooler is then unused.
"""

import os
import re

import numpy as np
import tensorflow as tf

from bert_tf import config as bert_config
from bert_tf.checkpoint import contents, model_folders
from bert_tf.checkpoint.formats import renaming, vocabularies
from bert_tf.checkpoint.formats.google import tf_files
from bert_tf.contrib.formats.model_garden import object_graph, tf2_files

WRITES = tf_files.WRITES

_BOOKKEEPING = re.compile("(save_counter|global_step|do_lower_case)/")
# Heads of BertClassifier, BertTokenClassifier and BertSpanLabeler.
_FINE_TUNED_HEAD = re.compile(
    r".*layer_with_weights-\d+/((dense|out_proj|layer_with_weights-\d+)/)?"
    r"(kernel|bias)/\.ATTRIBUTES/"
)

# nlp/modeling: networks/bert_encoder.py, layers/transformer_encoder_block.py,
# models/bert_pretrainer.py, layers/masked_lm.py and layers/cls_head.py.
_EMBEDDINGS = {
    "word_embeddings": "encoder/_embedding_layer/embeddings",
    "position_embeddings": "encoder/_position_embedding_layer/embeddings",
    "type_embeddings": "encoder/_type_embedding_layer/embeddings",
    "norm": "encoder/_embedding_norm_layer",
}
_LAYER = {
    "attention/query": "_attention_layer/_query_dense",
    "attention/key": "_attention_layer/_key_dense",
    "attention/value": "_attention_layer/_value_dense",
    "attention/output_dense": "_attention_layer/_output_dense",
    "attention_norm": "_attention_layer_norm",
    "intermediate": "_intermediate_dense",
    "output_dense": "_output_dense",
    "output_norm": "_output_layer_norm",
}
_HEADS = {
    "masked_lm/transform": "masked_lm/dense",
    "masked_lm/norm": "masked_lm/layer_norm",
    "next_sentence/dense": "next_sentence/out_proj",
}


def table(config: bert_config.BertConfig, task: str) -> list[renaming.Rename]:
    """Returns the rename table, with a row for each weight.

    Names in the checkpoint are attribute paths from the encoder or a head.

    Raises:
      ValueError: if the task is not pre-training.
    """
    if task != "pretraining":
        raise ValueError(
            "Only the Model Garden's encoder and pre-trainer are supported, "
            f"without a head for {task}. Choose another format."
        )
    layers = [
        f"encoder/_transformer_layers/{i}/"
        for i in range(config.num_hidden_layers)
    ]
    rows = renaming.encoder_rows(
        _EMBEDDINGS, layers, _LAYER, object_graph.POOLER
    )
    rows = renaming.split_heads(rows, config)
    rows += [renaming.Rename("masked_lm/bias", "masked_lm/bias")]
    return rows + renaming.rows(_HEADS)


def _config(
    objects: tf2_files.Objects, encoder: int, prefix: str
) -> tuple[bert_config.BertConfig, list[str]]:
    """Returns the folder's config or one inferred from shapes; and notes."""
    path = os.path.join(os.path.dirname(prefix), model_folders.CONFIG)
    if os.path.isfile(path):
        config = bert_config.BertConfig.from_json_file(path)
        renaming.refuse_norm_first(config, path)
        return config, []
    config = object_graph.config_of(objects, encoder, prefix)
    return config, [
        "no bert_config.json: the sizes are inferred from the weights; "
        f"hidden_act={config.hidden_act} and dropout "
        f"{config.hidden_dropout_prob} are defaults"
    ]


def _numbers(
    objects: tf2_files.Objects,
    encoder: int,
    heads: dict[str, dict[str, int]],
    rows: list[renaming.Rename],
) -> dict[str, int]:
    """Returns rename table's name -> object number, for existing objects."""
    starts = {"encoder": objects.children[encoder]} | heads
    numbers = {}
    for row in rows:
        root, first, *rest = row.theirs.split("/")
        number = objects.follow(starts[root].get(first), *rest)
        if number in objects.keys:
            numbers[row.theirs] = number
    for part in ("kernel", "bias"):
        # The head's pooler, which was trained, replaces the encoder's.
        number = objects.follow(heads["next_sentence"].get("dense"), part)
        if number is not None:
            numbers[f"{object_graph.POOLER}/{part}"] = number
    names = {number: name for name, number in numbers.items()}
    for weight, slot, moment in objects.slots:
        if weight in names and slot in object_graph.SLOTS:
            numbers[names[weight] + object_graph.SLOTS[slot]] = moment
    return numbers


def _other_pooler(
    objects: tf2_files.Objects, encoder: int, numbers: dict[str, int]
) -> tuple[set[int], bool]:
    """Returns the weights of an unused encoder pooler.

    Returns:
      Object numbers of the pooler's weights that are not in `numbers`, and
      whether they are copies of the pooler that is used.
    """
    others, is_copy = set(), True
    for part in ("kernel", "bias"):
        own = objects.follow(encoder, "_pooler_layer", part)
        if own is None or own in numbers.values():
            continue
        others.add(own)
        taken = objects.tensor(numbers[f"{object_graph.POOLER}/{part}"])
        is_copy &= np.array_equal(taken, objects.tensor(own))
    return others, is_copy


def read(path: str) -> contents.Contents:
    """Reads a TF2 checkpoint, with Adam's slots and the step if it has them.

    Args:
      path: a folder, or a prefix such as `folder/ckpt-1000`.

    Raises:
      ValueError: if files are missing or damaged, if there is no BERT encoder,
        or if weights and config do not match; the message lists every mismatch.
    """
    prefix = tf_files.find(path, "TF2")
    source = f"model_garden {prefix}"
    objects = tf2_files.read(prefix)
    encoder = object_graph.find_encoder(objects, source)
    config, notes = _config(objects, encoder, prefix)
    rows = table(config, "pretraining")
    heads = object_graph.find_heads(objects)
    numbers = _numbers(objects, encoder, heads, rows)
    known = set(numbers.values())
    others, is_copy = _other_pooler(objects, encoder, numbers)
    if not is_copy:
        notes += [
            "the pooler is that of the next-sentence head; the encoder's own "
            "pooler was not trained and is left out"
        ]
    folder = os.path.dirname(prefix)
    renaming.refuse_more(
        {
            objects.keys[number]: objects.tensor(number)
            for number, _ in objects.walk(encoder)
            if number in objects.keys and number not in known | others
        },
        source=source,
        config=os.path.join(folder, model_folders.CONFIG),
    )
    used = {objects.keys[n] for n in (known | others if is_copy else known)}
    weights, slots, unused = renaming.to_ours(
        renaming.with_slots(rows, object_graph.SLOTS),
        {name: objects.tensor(number) for name, number in numbers.items()}
        | {
            key: tensor
            for key, tensor in objects.tensors.items()
            if key not in used and not _BOOKKEEPING.match(key)
        },
        contents.shapes(config, "pretraining"),
        source=source,
    )
    poolers = {objects.keys[number] for number in others}
    head = [x for x in unused if x not in poolers and _FINE_TUNED_HEAD.match(x)]
    if head:
        notes += [
            f"{len(head)} unused tensors, such as {head[-1]}, look like the "
            "head of a classifier or span labeler, which is not read; only "
            "the encoder is read, with the task pretraining"
        ]
    text, case_note = _read_text(objects, folder)
    return contents.Contents(
        source=source,
        config=config,
        task="pretraining",
        tensors=weights,
        slots=slots,
        step=object_graph.read_step(objects),
        metadata=contents.read_settings(
            os.path.join(folder, model_folders.CONFIG)
        ),
        unused=tuple(unused),
        notes=(*notes, contents.Detail(case_note)),
        **text,
    )


def _read_text(
    objects: tf2_files.Objects, folder: str
) -> tuple[dict[str, object], str]:
    """Returns the fields of Contents on text, and a note on the case."""
    text = vocabularies.read_inferred(folder)
    # A SavedModel of TF Hub states it (official/nlp/tools/export_tfhub_lib.py).
    number = objects.follow(tf2_files.ROOT, "do_lower_case")
    if number not in objects.keys or objects.tensor(number).shape:
        return text, vocabularies.case_note(text["do_lower_case"])
    case = bool(np.asarray(objects.tensor(number)))
    text |= {"do_lower_case": case, "is_case_inferred": False}
    return text, f"do_lower_case={case} is a variable of the SavedModel"


def write(checkpoint: contents.Contents, folder: str) -> None:
    """Writes a TF2 checkpoint, its config and vocabulary to a folder.

    Adam's slots and the step are written if the checkpoint has them. Weights
    are float32, like the Model Garden's variables.

    Raises:
      ValueError: if the head or the hidden_act is not supported.
    """
    rows, slots = table(checkpoint.config, checkpoint.task), object_graph.SLOTS
    roots = object_graph.to_save(
        tf_files.to_theirs(
            checkpoint, rows, slots, "a config of the Model Garden"
        )
    )
    if checkpoint.step:
        roots["global_step"] = tf.Variable(checkpoint.step, dtype=tf.int64)
    tf2_files.write(roots, folder)
    tf_files.write_text(checkpoint, folder)
