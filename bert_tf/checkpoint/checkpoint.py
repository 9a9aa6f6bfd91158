"""Model folder <-> Checkpoint, the common form of all formats.

Weights missing in a source are missing in its Checkpoint too. A bare encoder is
read as a pre-training model without heads; Hugging Face's BertForMaskedLM, as
one without the pooler and the next-sentence head.
"""

import contextlib
import dataclasses
import hashlib
import os
import random
import re
from collections.abc import Iterator
from typing import NamedTuple

import keras
import numpy as np
from absl import logging

from bert_tf import config as bert_config
from bert_tf.checkpoint import (
    checksums,
    model_folders,
    run_models,
    vocabularies,
)
from bert_tf.model import models
from bert_tf.model import sentence_embedding as sentence_embedding_lib
from tfrecords.options import some
from tfrecords.text import vocab

WRITES = (
    model_folders.WEIGHTS,
    model_folders.METADATA,
    model_folders.CONFIG,
    model_folders.VOCABULARY,
    run_models.OPTIMIZER,
    run_models.STATE,
)
SOURCE_FILES = "source_files"  # In model.json.
SOURCE_PATH = "source_path_sha256"  # Likewise; the path itself is private.
_OF_OPTIMIZERS = re.compile(
    r"adam|lamb|momentum|optimizer|moving_?average|global_step|save_counter|"
    r"beta\d_power|loss_scale|good_steps|learning_rate|^loss",
    re.IGNORECASE,
)
WITH_LABELS = ("classification", "tagging")  # Tasks with class names.
# Keys of model.json that have a field of their own in a Checkpoint.
_KNOWN = (
    "task",
    "labels",
    "do_lower_case",
    vocabularies.INFERRED_CASE,
    "source",
    SOURCE_FILES,
    SOURCE_PATH,
    "not_in_source",
    model_folders.SENTENCE_EMBEDDING,
)


class Detail(str):
    """A note on what is usual in a format, which `load` logs at INFO."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A BERT in memory.

    Attributes:
      source: format and path that it was read from, for messages.
      config: model sizes.
      task: a key of `models.TASK_MODELS`.
      tensors: weights in our shapes, keyed by `model_folders.weight_names`.
      labels: class names; empty if the task has no classes, or model.json does
        not name them.
      slots: `m/` or `v/` and a weight's name -> Adam's moment; may be empty.
      step: number of updates applied to the weights, 0 if unknown.
      vocabulary: content of vocab.txt; None if the source has none.
      do_lower_case: None if the source does not specify it.
      is_case_inferred: whether do_lower_case was inferred from the vocabulary.
      source_files: digest of the source's files, to detect changes.
      metadata: the other keys of our model.json, such as `max_seq_length`, and
        `strip_accents` if it is not as `do_lower_case`.
      unused: names of the source's tensors that are in no rename table.
      notes: for the user: decisions made while reading the source.
      sentence_embedding: how the source computes the vector of a text; None if
        it does not specify it.
      tokenizer_differences: what the source's own tokenizer does, and ours does
        not.
    """

    source: str
    config: bert_config.BertConfig
    task: str
    tensors: dict[str, np.ndarray]
    labels: tuple[str, ...] = ()
    slots: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    step: int = 0
    vocabulary: bytes | None = None
    do_lower_case: bool | None = None
    is_case_inferred: bool = False
    source_files: str = ""
    metadata: dict[str, object] = dataclasses.field(default_factory=dict)
    unused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sentence_embedding: sentence_embedding_lib.SentenceEmbedding | None = None
    tokenizer_differences: tuple[str, ...] = ()

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shape of every weight of the task's model."""
        return shapes(self.config, self.task, len(self.labels))

    def all_tensors(self) -> dict[str, np.ndarray]:
        """Returns weights, Adam's moments and those of the embedding."""
        embedding = self.sentence_embedding
        more = embedding.tensors() if embedding else {}
        return self.tensors | self.slots | more

    def rules(self) -> dict[str, bool]:
        """Returns the rules of the tokenizer, see `vocab.rules_of`."""
        return vocab.rules_of(
            self.metadata | {"do_lower_case": self.do_lower_case}
        )

    def unread(self) -> list[str]:
        """Returns `unused` without what only training or a loss reads."""
        return [name for name in self.unused if not _OF_OPTIMIZERS.search(name)]

    def without_head(self) -> "Checkpoint":
        """Returns the same with the weights of the encoder alone."""
        encoder = {
            name: tensor
            for name, tensor in self.tensors.items()
            if name.startswith("encoder/")
        }
        return dataclasses.replace(self, tensors=encoder, slots={}, step=0)

    def missing(self) -> list[str]:
        """Returns the names of the weights missing in the source."""
        return [name for name in self.shapes() if name not in self.tensors]


def _dense(name: str, rows: int, columns: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}/kernel": (rows, columns), f"{name}/bias": (columns,)}


def _norm(name: str, size: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}/gamma": (size,), f"{name}/beta": (size,)}


def _encoder_shapes(config: bert_config.BertConfig):
    width, inner = config.hidden_size, config.intermediate_size
    start = "encoder/embeddings"
    weights = {
        f"{start}/word_embeddings": (config.vocab_size, width),
        f"{start}/position_embeddings": (config.max_position_embeddings, width),
        f"{start}/type_embeddings": (config.type_vocab_size, width),
    } | _norm(f"{start}/norm", width)
    for i in range(config.num_hidden_layers):
        layer = f"encoder/layer_{i}"
        for part in ("query", "key", "value", "output_dense"):
            weights |= _dense(f"{layer}/attention/{part}", width, width)
        weights |= _norm(f"{layer}/attention_norm", width)
        weights |= _dense(f"{layer}/intermediate", width, inner)
        weights |= _dense(f"{layer}/output_dense", inner, width)
        weights |= _norm(f"{layer}/output_norm", width)
    if config.norm_first:
        weights |= _norm("encoder/final_norm", width)
    return weights | _dense("encoder/pooler", width, width)


def shapes(
    config: bert_config.BertConfig, task: str, num_labels: int = 0
) -> dict[str, tuple[int, ...]]:
    """Returns the shape of every weight by our name, without building a model.

    Args:
      config: model sizes.
      task: a key of `models.TASK_MODELS`.
      num_labels: number of classes, for "classification" and "tagging".
    """
    width = config.hidden_size
    weights = _encoder_shapes(config)
    if units := config.bilstm_units:
        for side in ("forward", "backward"):
            cell = f"bilstm/{side}/lstm_cell"
            weights |= {
                f"{cell}/kernel": (width, 4 * units),
                f"{cell}/recurrent_kernel": (units, 4 * units),
                f"{cell}/bias": (4 * units,),
            }
        width = 2 * units
    if task == "pretraining":
        weights |= {"masked_lm/bias": (config.vocab_size,)}
        weights |= _dense("masked_lm/transform", width, width)
        weights |= _norm("masked_lm/norm", width)
        return weights | _dense("next_sentence/dense", width, 2)
    classes = {"classification": num_labels, "tagging": num_labels, "spans": 2}
    return weights | _dense(f"{task}/dense", width, classes.get(task, 1))


def read(path: str, *, with_slots: bool = True) -> Checkpoint:
    """Reads a bert_tf model folder, or the model that a run folder resolves to.

    Args:
      path: the folder.
      with_slots: whether to read Adam's moments too, twice the weights' size.

    Raises:
      ValueError: if it is damaged, or its weights contradict its metadata.
    """
    folder = run_models.find(path)
    path = os.path.join(folder, model_folders.WEIGHTS)
    metadata = model_folders.read_metadata(folder)
    if metadata["task"] not in models.TASK_MODELS:
        raise ValueError(
            f"{os.path.join(folder, model_folders.METADATA)}: task is "
            f"{metadata['task']!r}; expected one of "
            f"{', '.join(models.TASK_MODELS)}. Correct it."
        )
    not_in_source = set(metadata.get("not_in_source", ()))
    tensors = model_folders.read_tensors(path)
    embedding = None
    if settings := metadata.get(model_folders.SENTENCE_EMBEDDING):
        embedding = sentence_embedding_lib.of_folder(settings, tensors, folder)
        tensors = {
            name: tensor
            for name, tensor in tensors.items()
            if name not in embedding.tensors()
        }
    slots_path = os.path.join(folder, run_models.OPTIMIZER)
    slots = {}
    # Moments of adapters do not belong to the merged kernels.
    has_adapters = os.path.isfile(os.path.join(folder, run_models.LORA))
    if with_slots and os.path.isfile(slots_path) and not has_adapters:
        # Of moving averages, which are the weights here, only the moments.
        slots = {
            name: slot
            for name, slot in model_folders.read_tensors(slots_path).items()
            if name.startswith(("m/", "v/"))
        }
    checkpoint = Checkpoint(
        source=f"bert_tf {folder}",
        config=bert_config.BertConfig.from_json_file(
            os.path.join(folder, model_folders.CONFIG)
        ),
        task=metadata["task"],
        # Newly initialized weights, missing in the source, are left out.
        tensors={n: t for n, t in tensors.items() if n not in not_in_source},
        labels=tuple(metadata.get("labels") or ()),
        slots=slots,
        step=run_models.step_of(folder),
        vocabulary=vocabularies.read(
            os.path.join(folder, model_folders.VOCABULARY)
        ),
        do_lower_case=metadata.get("do_lower_case"),
        is_case_inferred=bool(metadata.get(vocabularies.INFERRED_CASE)),
        metadata={n: x for n, x in metadata.items() if n not in _KNOWN},
        sentence_embedding=embedding,
    )
    head = tensors.get(f"{checkpoint.task}/dense/bias", np.zeros(0))
    num_labels = len(checkpoint.labels) or head.size
    expected = shapes(checkpoint.config, checkpoint.task, num_labels)
    model_folders.check_partners(expected, tensors, path)
    return checkpoint


def check_labels(given: Checkpoint) -> None:
    """Raises ValueError if classes have no names, or two have the same."""
    if given.task in WITH_LABELS and not given.labels:
        raise ValueError(
            f'{given.source} has no labels; add "labels" to its model.json, '
            "a list of the class names in the order of their ids."
        )
    if len(set(given.labels)) < len(given.labels):
        raise ValueError(
            f"{given.source} has a class name twice: {', '.join(given.labels)}."
            " Give each class a name of its own."
        )


class Coverage(NamedTuple):
    """Names of weights, grouped by whether a checkpoint provides them.

    Attributes:
      loaded: weights in the checkpoint with the same shape.
      missing: weights not in the checkpoint, which are newly initialized.
      other_shapes: weights of a different shape: "name: its shape, expected".
      unused: weights of the checkpoint that the model does not have.
    """

    loaded: list[str]
    missing: list[str]
    other_shapes: list[str]
    unused: list[str]


def coverage(
    checkpoint: Checkpoint, config: bert_config.BertConfig, task: str
) -> Coverage:
    """Returns which of a model's weights are in a checkpoint.

    Follows the rule of the training scripts: only the encoder is loaded, unless
    both the checkpoint and the model are for pre-training.

    Args:
      checkpoint: checkpoint to load from.
      config: config of the model.
      task: task of the model.
    """
    wanted = shapes(config, task, len(checkpoint.labels) or 2)
    has_heads = task == checkpoint.task == "pretraining"
    present = {
        name: tensor.shape
        for name, tensor in checkpoint.tensors.items()
        if has_heads or name.startswith("encoder/")
    }
    return Coverage(
        loaded=[n for n in wanted if present.get(n) == wanted[n]],
        missing=[n for n in wanted if n not in present],
        other_shapes=[
            f"{name}: {present[name]} in the checkpoint, {wanted[name]} in the "
            "model"
            for name in wanted
            if name in present and present[name] != wanted[name]
        ],
        unused=[
            *(name for name in checkpoint.tensors if name not in wanted),
            *checkpoint.unused,
        ],
    )


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seeds Keras's initializers, and leaves the caller's random state alone.

    Each takes a seed from Python's generator, and draws with that one only.
    """
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


def build_model(checkpoint: Checkpoint, seed: int = 12345) -> keras.Model:
    """Returns a model with a checkpoint's weights.

    Weights missing in the checkpoint are initialized from `seed`; the random
    state of the process stays as it is.
    """
    with _seeded(seed):
        model = models.for_task(
            checkpoint.task, checkpoint.config, len(checkpoint.labels)
        )
    weights = model_folders.weight_names(model)
    for name, tensor in checkpoint.tensors.items():
        weights[name].assign(tensor)
    return model


def metadata_of(checkpoint: Checkpoint) -> dict[str, object]:
    """Returns the content of a checkpoint's model.json."""
    embedding = checkpoint.sentence_embedding
    metadata = checkpoint.metadata | {
        "task": checkpoint.task,
        "labels": list(checkpoint.labels),
        "do_lower_case": checkpoint.do_lower_case,
        vocabularies.INFERRED_CASE: checkpoint.is_case_inferred or None,
        "source": without_folders(checkpoint.source),
        SOURCE_FILES: checkpoint.source_files or None,
        SOURCE_PATH: checkpoint.source_files
        and digest_of_path(checkpoint.source.partition(" ")[2]),
        "not_in_source": checkpoint.missing(),
        model_folders.SENTENCE_EMBEDDING: embedding and embedding.settings(),
    }
    return {n: x for n, x in metadata.items() if x not in (None, [], "")}


def without_folders(source: str) -> str:
    """Returns "format name" of "format path"; the folders above are private."""
    files, space, path = source.partition(" ")
    return files + space + os.path.basename(os.path.normpath(path))


def digest_of_path(path: str) -> str:
    """Returns the sha256 by which the path of a source is known again."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()


def write(checkpoint: Checkpoint, folder: str) -> None:
    """Writes a model folder to `folder`, which `atomic_folder` made."""
    weights = {
        name: tensor.astype(np.float32, copy=False)
        for name, tensor in checkpoint.tensors.items()
    }
    missing = checkpoint.missing()
    if missing:
        logging.warning(
            "%s has no %s; these weights are newly initialized",
            checkpoint.source,
            some(missing),
        )
        weights = model_folders.weight_names(build_model(checkpoint))
    if checkpoint.sentence_embedding:
        weights = weights | checkpoint.sentence_embedding.tensors()
    model_folders.save_weights(
        folder, weights, checkpoint.config, metadata_of(checkpoint)
    )
    vocabularies.write(
        checkpoint.vocabulary, os.path.join(folder, model_folders.VOCABULARY)
    )
    if checkpoint.slots:
        model_folders.write_tensors(
            checkpoint.slots, os.path.join(folder, run_models.OPTIMIZER)
        )
    if checkpoint.step:
        state = {
            "step": checkpoint.step,
            "weights_sha256": model_folders.digest_of(weights),
        }
        checksums.write_checksums(folder, state)
