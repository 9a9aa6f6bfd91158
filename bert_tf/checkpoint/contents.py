"""Checkpoint files of any format -> Contents: config, tensors, vocabulary.

Weights missing in a source are missing in its Contents too. A bare encoder is
read as a pre-training model without heads; Hugging Face's BertForMaskedLM, as
one without the pooler and the next-sentence head.
"""

import dataclasses
import os
import re
from collections.abc import Collection, Mapping

import numpy as np

from bert_tf import config as bert_config
from bert_tf.checkpoint import tensor_files
from bert_tf.model import sentence_embedding as sentence_embedding_lib
from tfrecords.io import json_files, stored_folders
from tfrecords.options import quoted, some
from tfrecords.text import vocab

# Keys in model.json. The last two are in bert_tf.json too: whether
# do_lower_case was inferred, so that a flag may override it, and the weights
# that no loss has reached. Those listed by name were initialized for the files,
# and are left out when they are read. POOLER in the list is a pooler that
# fine-tuning did not reach, either; it keeps its values.
SENTENCE_EMBEDDING = "sentence_embedding"
INFERRED_CASE = "do_lower_case_inferred"
UNTRAINED = "untrained"
POOLER = "encoder/pooler/"  # Prefix of the names of its weights.
# The same, of models for sentence embeddings: name -> text put before a text.
PROMPTS = "prompts"
DEFAULT_PROMPT = "default_prompt_name"
SIMILARITY = "similarity_fn_name"  # How their vectors are compared.
# In model.json: the activation that makes a score from the logit of a
# regression, one of `sentence_embedding.ACTIVATIONS`; by default none.
SCORE_ACTIVATION = "score_activation"
# In model.json: JSON file of the source -> its keys that nothing here reads,
# which a conversion to the same format writes again.
SOURCE_SETTINGS = "source_settings"
_OPTIMIZER_NAMES = re.compile(
    r"adam|lamb|momentum|optimizer|moving_?average|global_step|save_counter|"
    r"beta\d_power|loss_scale|good_steps|learning_rate|^loss",
    re.IGNORECASE,
)
# Tasks with class names.
WITH_LABELS = ("classification", "multi_label", "tagging")
# Tasks whose head reads one vector of a text.
OF_TEXTS = ("classification", "multi_label", "regression", "multiple_choice")
# Keys of model.json that have a field of their own in Contents.
OWN_FIELDS = ("task", "labels", "do_lower_case", "source")
OWN_FIELDS += (INFERRED_CASE, SENTENCE_EMBEDDING)


class Detail(str):
    """A note on what is usual in a format, which `load` logs at INFO."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contents:
    """A BERT as files hold it: what the module of each format reads and writes.

    `checkpoint.Checkpoint` adds methods that open, build and save it.

    Attributes:
      source: format, and path that it was opened with.
      config: model sizes.
      folder: local folder that its files are in, if they are in one: of a run,
        that of the model found in it.
      origin: where its weights were converted from, as the model.json of a
        folder of ours says, if it does; otherwise `source`.
      task: a key of `models.TASK_MODELS`.
      tensors: weights in our shapes, keyed by `model_folders.weight_names`;
        they are read when they are asked for.
      labels: class names; empty if the task has no classes, or model.json does
        not name them.
      slots: `m/` or `v/` and a weight's name -> Adam's moment; may be empty.
      step: number of updates applied to the weights, 0 if unknown.
      vocabulary: content of vocab.txt; None if the source has none.
      do_lower_case: None if the source does not specify it.
      is_case_inferred: whether do_lower_case was inferred from the vocabulary.
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
    tensors: Mapping[str, np.ndarray]
    labels: tuple[str, ...] = ()
    slots: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    step: int = 0
    folder: str | None = None
    origin: str | None = None
    vocabulary: bytes | None = None
    do_lower_case: bool | None = None
    is_case_inferred: bool = False
    metadata: dict[str, object] = dataclasses.field(default_factory=dict)
    unused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sentence_embedding: sentence_embedding_lib.SentenceEmbedding | None = None
    tokenizer_differences: tuple[str, ...] = ()

    def path(self) -> str:
        """Returns the path of its files, for messages."""
        path = self.folder or self.source.partition(" ")[2]
        return stored_folders.address(path)

    def path_of(self, name: str) -> str:
        """Returns the path of a file beside the weights, for messages."""
        folder = self.folder or os.path.dirname(self.path())
        return stored_folders.address(os.path.join(folder, name))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shape of every weight of the task's model."""
        return shapes(self.config, self.task, len(self.labels))

    def moments_too(self) -> Mapping[str, np.ndarray]:
        """Returns weights and Adam's moments."""
        return tensor_files.merged(self.slots, self.tensors)

    def all_tensors(self) -> Mapping[str, np.ndarray]:
        """Returns weights, Adam's moments and those of the embedding."""
        embedding = self.sentence_embedding
        more = embedding.tensors() if embedding else {}
        return tensor_files.merged(more, self.slots, self.tensors)

    def check_finite(self, *, allow_nan: bool = False) -> None:
        """Reads all tensors; raises ValueError if some are NaN or infinite.

        Args:
          allow_nan: as for `tensor_files.check_finite`.
        """
        path = getattr(self.tensors, "path", None) or self.path()
        tensor_files.check_finite(self.all_tensors(), path, allow_nan=allow_nan)
        if isinstance(self.tensors, tensor_files.Tensors):
            self.tensors.is_finite = not allow_nan

    def rules(self) -> dict[str, bool]:
        """Returns the rules of the tokenizer, see `vocab.rules_of`."""
        return vocab.rules_of(
            self.metadata | {"do_lower_case": self.do_lower_case}
        )

    def unread(self) -> list[str]:
        """Returns `unused` without what only training or a loss reads."""
        return [
            name for name in self.unused if not _OPTIMIZER_NAMES.search(name)
        ]

    def without_head(self) -> "Contents":
        """Returns the same with the weights of the encoder alone."""
        names = [name for name in self.tensors if name.startswith("encoder/")]
        return dataclasses.replace(
            self,
            tensors=tensor_files.only(self.tensors, names),
            slots={},
            step=0,
        )

    def missing(self) -> list[str]:
        """Returns the names of the weights missing in the source."""
        return [name for name in self.shapes() if name not in self.tensors]

    def source_settings(self, file: str) -> dict[str, object]:
        """Returns the keys of a file of the source that nothing here reads."""
        return self.metadata.get(SOURCE_SETTINGS, {}).get(file, {})

    def model_json(self) -> dict[str, object]:
        """Returns the content of model.json."""
        embedding = self.sentence_embedding
        entries = self.metadata | {
            "task": self.task,
            "labels": list(self.labels),
            "do_lower_case": self.do_lower_case,
            INFERRED_CASE: self.is_case_inferred or None,
            "source": without_folders(self.source),
            UNTRAINED: [*self.missing(), *self.metadata.get(UNTRAINED, ())],
            SENTENCE_EMBEDDING: embedding and embedding.settings(),
        }
        return {n: x for n, x in entries.items() if x not in (None, [], "")}


def read_untrained(
    metadata: Mapping, config: bert_config.BertConfig
) -> tuple[str, ...]:
    """Returns names, or prefixes of names, of weights that no loss has reached.

    Newly initialized weights must not be served: an export omits outputs that
    are computed with them.

    Args:
      metadata: content of model.json.
      config: config of the model.
    """
    untrained = tuple(metadata.get(UNTRAINED, ()))
    has_pairs = metadata.get("pairs") != "none" and not config.is_causal
    if metadata["task"] == "pretraining" and not has_pairs:
        # Only next-sentence or sentence-order prediction trains the pooler.
        untrained += (POOLER,)
    return untrained


def pop_untrained(metadata: dict) -> list[str]:
    """Removes the weights listed by name in UNTRAINED, and returns them."""
    untrained = metadata.pop(UNTRAINED, [])
    if POOLER in untrained:
        metadata[UNTRAINED] = [POOLER]
    return [name for name in untrained if name != POOLER]


def is_pooler_trained(
    metadata: Mapping, config: bert_config.BertConfig
) -> bool:
    """Returns whether a loss has reached the pooler; see `read_untrained`."""
    untrained = read_untrained(metadata, config)
    return not any(name.startswith(POOLER) for name in untrained)


def reads_pooler(task: str, config: bert_config.BertConfig) -> bool:
    """Returns whether the head of a fine-tuned model uses the pooler."""
    return task in OF_TEXTS and not config.classifier_pooling


def untrained_pooler(
    task: str, config: bert_config.BertConfig, source: Contents | None
) -> dict[str, list[str]]:
    """Returns the entry of model.json on a pooler that stays untrained.

    Args:
      task: task that the model learns, a key of `models.TASK_MODELS`.
      config: config of the model.
      source: where its encoder is from; None if it is newly initialized.
    """
    is_trained = source and is_pooler_trained(
        source.model_json(), source.config
    )
    if is_trained or reads_pooler(task, config):
        return {}
    return {UNTRAINED: [POOLER]}


def untrained_of(
    task: str,
    config: bert_config.BertConfig,
    source: Contents | None,
    weights: Collection[str],
) -> dict[str, list[str]]:
    """Returns the entry of model.json on weights that no loss reaches.

    Args:
      task: as in `untrained_pooler`.
      config: as in `untrained_pooler`.
      source: as in `untrained_pooler`.
      weights: names of those of the model in training. One of vectors has no
        heads for pre-training, as a folder of sentence-transformers has none.
    """
    found = untrained_pooler(task, config, source)
    if task == "pretraining":
        missing = [x for x in shapes(config, task) if x not in weights]
        found = {UNTRAINED: [*missing, *found.get(UNTRAINED, ())]}
    return found


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
    if not config.type_vocab_size:
        del weights[f"{start}/type_embeddings"]
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
      num_labels: number of classes, for the tasks in `WITH_LABELS`.
    """
    width = config.hidden_size
    weights = _encoder_shapes(config)
    if task == "pretraining":
        weights |= {"masked_lm/bias": (config.vocab_size,)}
        weights |= _dense("masked_lm/transform", width, width)
        weights |= _norm("masked_lm/norm", width)
        return weights | _dense("next_sentence/dense", width, 2)
    outputs = num_labels if task in WITH_LABELS else 1 + (task == "spans")
    return weights | _dense(f"{task}/dense", width, outputs)


def check_labels(given: Contents) -> None:
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


def check_prompts(values: Mapping, path: str) -> None:
    """Raises ValueError unless prompts are texts, and the default one of them.

    Args:
      values: a JSON object that may have PROMPTS and DEFAULT_PROMPT.
      path: its file, for messages.
    """
    json_files.check(
        values, {f"{PROMPTS}?": dict, f"{DEFAULT_PROMPT}?": str}, path
    )
    prompts = values.get(PROMPTS) or {}
    for name, prompt in prompts.items():
        json_files.check(name, str, path, f"a name in {PROMPTS}")
        json_files.check(prompt, str, path, f"{PROMPTS}.{name}")
    default = values.get(DEFAULT_PROMPT)
    if default is not None and default not in prompts:
        raise ValueError(
            f"{path}: {DEFAULT_PROMPT} is {quoted(default)}, and {PROMPTS} "
            f"has {some(list(prompts)) if prompts else 'none'}. Name one of "
            "them, or remove the entry."
        )


def check_source(values: Mapping, path: str) -> None:
    """Raises ValueError unless model.json has a known precision and source."""
    activations = sentence_embedding_lib.ACTIVATIONS
    known = {SCORE_ACTIVATION: activations, "precision": bert_config.POLICIES}
    for entry, names in known.items():
        if values.get(entry) not in (None, *names):
            raise ValueError(
                f"{path}: {entry} is {quoted(values[entry])}; it should be "
                f"{', '.join(names)}. Correct it."
            )
    for file, keys in (values.get(SOURCE_SETTINGS) or {}).items():
        if not isinstance(keys, dict):
            raise ValueError(
                f"{path}: {SOURCE_SETTINGS} has {quoted(keys)} for {file}; it "
                "should be an object of keys. Correct it."
            )


def read_settings(path: str, others: Mapping = {}) -> dict[str, object]:
    """Returns SOURCE_SETTINGS with those of a bert_config.json, if it has any.

    Args:
      path: the file, which may be missing.
      others: file -> keys, those of other files.
    """
    is_file = os.path.isfile(path)
    keys = bert_config.BertConfig.ignored_keys(path) if is_file else {}
    found = {os.path.basename(path): keys} if keys else {}
    return {SOURCE_SETTINGS: {**others, **found}} if others or found else {}


def without_folders(source: str) -> str:
    """Returns "format name" of "format path"; the folders above are private."""
    files, space, path = source.partition(" ")
    return files + space + os.path.basename(os.path.normpath(path))
