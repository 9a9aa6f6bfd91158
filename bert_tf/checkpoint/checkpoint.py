"""Path of a model in any format -> Checkpoint -> Keras model, tokenizer, files.

    given = Checkpoint.open("uncased_L-12_H-768_A-12")
    given.config, given.task, given.labels, given.notes
    model = given.build(task="classification", labels=["no", "yes"])
    tokenizer = given.tokenizer()

`bert_tf.load` is the same in one call (keras_models.py).
"""

import dataclasses
import os
import types
from collections.abc import Collection, Mapping, Sequence, Set

import keras
import numpy as np
from absl import logging

from bert_tf.checkpoint import (
    contents,
    detection,
    model_folders,
    run_models,
    tensor_files,
)
from bert_tf.checkpoint.contents import Contents
from bert_tf.checkpoint.options import ACCEPT, ACTIVATIONS, FORMATS, OURS
from bert_tf.config import POLICIES
from bert_tf.model import encoder as encoder_lib
from bert_tf.model import lora, models, sentence_embedding
from tfrecords.io import atomic_files, stored_folders
from tfrecords.options import is_address, some
from tfrecords.text import vocab
from tfrecords.text.tokenizer import BertTokenizer

_MAX_NAMES = 5  # Of tensors in a message.
# Entries of model.json that also hold for the encoder under another head.
_ENCODER_ENTRIES = ("precision", *vocab.RULES[1:])
# The same for an encoder that is saved without a head.
_SAVED_ENCODER_ENTRIES = (
    "do_lower_case",
    contents.INFERRED_CASE,
    *_ENCODER_ENTRIES,
    "source",
)
# And only with a sentence embedding.
_TEXT_ENTRIES = (contents.PROMPTS, contents.DEFAULT_PROMPT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint(Contents):
    """A BERT on disk, whatever its format: the one door to it.

    Contents with methods that open, build and save them.
    """

    @classmethod
    def open(
        cls,
        path: str | os.PathLike,
        *,
        hidden_act: str | None = None,
        allow_nan_weights: bool = False,
        accept_tokenizer_differences: bool = False,
        with_slots: bool = False,
        check_weights: bool = True,
        log_notes: bool = True,
    ) -> "Checkpoint":
        """Returns the model at a path; its weights are read when asked for.

        Args:
          path: a run or model folder of bert_tf, or a checkpoint of Google's
            BERT, Hugging Face, the Model Garden or KerasHub: a folder, the
            prefix of a TensorFlow checkpoint, or the address of either in a
            store, such as gs://.
          hidden_act: activation to use instead of the source's.
          allow_nan_weights: whether weights may be NaN or infinite.
          accept_tokenizer_differences: whether its own tokenizer may do what
            ours does not, with a warning.
          with_slots: whether to have Adam's moments too.
          check_weights: whether to read all weights once, so that damage and
            NaN are found now. They are read again when they are used. Without
            it, the weights of a folder of ours are not even opened.
          log_notes: whether to log the notes on it, unusual ones as warnings.

        Raises:
          ValueError: if there is no model, several, or a damaged one; its
            weights do not match its config, or are NaN or infinite; its
            tokenizer differs from BERT's.
          OSError: if a file cannot be read.
        """
        path = stored_folders.fetch(as_str(path))
        name = detection.detect(path)
        given = _read(path, name, with_slots, check_weights)
        if check_weights:
            given.check_finite(allow_nan=allow_nan_weights)
        if name != OURS:
            given = _without_foreign_head(given, name, path)
            _check_tokenizer(given, path, accept_tokenizer_differences)
        given = cls.of(_with_activation(given, hidden_act))
        for note in given.notes if log_notes else ():
            is_detail = isinstance(note, contents.Detail)
            level = logging.INFO if is_detail else logging.WARNING
            logging.log(level, "%s: %s", stored_folders.address(path), note)
        return given

    @classmethod
    def of(cls, given: Contents) -> "Checkpoint":
        """Returns a Checkpoint with the same contents."""
        names = [field.name for field in dataclasses.fields(Contents)]
        return cls(**{name: getattr(given, name) for name in names})

    def with_head(
        self, task: str | None = None, labels: Sequence[str] | None = None
    ) -> "Checkpoint":
        """Returns the same for a task and labels; see `keras_models.load`.

        If they need another head, it has only the weights of the encoder.

        Raises:
          ValueError: if they do not fit the model.
        """
        if labels is not None:
            labels = as_labels(labels)
        if task is not None and task not in models.TASK_MODELS:
            raise ValueError(
                f"task {task!r} is not one of {', '.join(models.TASK_MODELS)}."
            )
        found = task or self.task
        if labels is not None and found not in contents.WITH_LABELS:
            raise ValueError(
                f"labels are for {' and '.join(contents.WITH_LABELS)}, but "
                f"the task is {found!r}. Omit labels, or give task=."
            )
        if labels is not None and task is None:
            return self._renamed(labels)
        if found == self.task and labels in (None, self.labels):
            contents.check_labels(self)
            return self
        if task in contents.WITH_LABELS and not labels:
            raise ValueError(
                f"{self.source} has task {self.task!r}; a new head for {task} "
                "needs labels=, a list of the class names."
            )
        metadata = {
            n: x for n, x in self.metadata.items() if n in _ENCODER_ENTRIES
        }
        metadata |= contents.untrained_pooler(task, self.config, self)
        if embedding := self.sentence_embedding:
            logging.warning(
                "%s: its sentence embedding (%s) is not kept under a new head, "
                "which training adapts the encoder to",
                self.path(),
                embedding,
            )
        return dataclasses.replace(
            self.without_head(),
            task=task,
            labels=labels or (),
            metadata=metadata,
            sentence_embedding=None,
        )

    def _renamed(self, labels: tuple[str, ...]) -> "Checkpoint":
        """Returns the same with other names for its classes."""
        head = f"{self.task}/dense/bias"
        shapes = tensor_files.shapes_of(self.tensors)
        (num_classes,) = shapes.get(head, (len(self.labels),))
        if len(labels) != num_classes:
            names = f": {', '.join(self.labels)}" if self.labels else ""
            raise ValueError(
                f"labels has {len(labels)} names, but the head of "
                f"{self.source} has {num_classes} classes{names}. Give as "
                f"many, or task={self.task!r} for a new head."
            )
        return dataclasses.replace(self, labels=labels)

    def build(
        self,
        task: str | None = None,
        labels: Sequence[str] | None = None,
        dtype: str | keras.DTypePolicy | None = None,
    ) -> keras.Model:
        """Returns the Keras model with its weights; see `keras_models.load`.

        Raises:
          ValueError: as in `with_head`; or if weights are damaged, NaN or
            infinite.
        """
        given = self.with_head(task, labels)
        metadata = given.model_json()
        model = models.for_task(
            given.task,
            given.config,
            len(given.labels),
            dtype=dtype or POLICIES.get(metadata.get("precision")),
        )
        given.assign_to(model)
        weights = model_folders.weight_names(model)
        # Read-only, so that Keras does not take it for a part of the model.
        model.metadata = types.MappingProxyType(metadata)
        model.vocabulary = given.vocabulary
        model.sentence_embedding = given.sentence_embedding
        model.untrained = _digests(weights, given.missing())
        given._describe_encoder(model)
        return model

    def _describe_encoder(self, model: keras.Model) -> None:
        """Gives an encoder what `keras_models.save` writes of it alone."""
        encoder, names = model.encoder, list(_SAVED_ENCODER_ENTRIES)
        if self.sentence_embedding:  # It is for texts of this length.
            names += ["max_seq_length", *_TEXT_ENTRIES]
        metadata = {n: model.metadata.get(n) for n in names}
        # Weights not in the source are among the encoder's `untrained`.
        full = dataclasses.replace(self, tensors=dict.fromkeys(self.shapes()))
        metadata |= contents.untrained_pooler("pretraining", self.config, full)
        encoder.vocabulary = self.vocabulary
        encoder.sentence_embedding = self.sentence_embedding
        encoder.metadata = types.MappingProxyType(
            {n: x for n, x in metadata.items() if x is not None}
        )
        weights = model_folders.weight_names(encoder)
        names = [name.removeprefix("encoder/") for name in model.untrained]
        encoder.untrained = _digests(
            weights, [name for name in names if name in weights]
        )

    def assign_to(self, model: keras.Model) -> list[str]:
        """Assigns all weights to a model of the same task, or to an encoder.

        Args:
          model: a model of the same task, or a BertEncoder.

        Returns:
          Names of the weights that are missing, and keep their initial values.

        Raises:
          ValueError: if names or shapes differ, or weights are damaged, NaN or
            infinite.
        """
        prefix, tensors = "", self.tensors
        variables = model_folders.weight_names(model)
        if isinstance(model, encoder_lib.BertEncoder):
            prefix, tensors = "encoder/", self.without_head().tensors
        variables = {
            prefix + name: x
            for name, x in variables.items()
            # The steps of a BertSentenceEncoder, which it is made with.
            if not name.startswith(sentence_embedding.PREFIX)
        }
        missing = [name for name in self.missing() if name in variables]
        for name in missing:
            del variables[name]
        path = getattr(tensors, "path", None) or self.path()
        if not getattr(tensors, "is_finite", False):
            tensor_files.check_finite(tensors, path)
        model_folders.assign(variables, tensors, path)
        lora.reset(model)  # Kernels in files are merged.
        return missing

    def encoder(self, dtype: str = "float32") -> encoder_lib.BertEncoder:
        """Returns the encoder with its weights; `dtype` is a Keras policy."""
        model = encoder_lib.BertEncoder(
            self.config, name="encoder", dtype=dtype
        )
        self.assign_to(model)
        return model

    def tokenizer(
        self, kept_tokens: Sequence[str] = ()
    ) -> BertTokenizer | None:
        """Returns the tokenizer, or None if there is no vocabulary.

        Args:
          kept_tokens: as for BertTokenizer.

        Raises:
          ValueError: if the vocabulary is malformed, or too large for the
            model.
        """
        if self.vocabulary is None:
            return None
        path = self.path()
        tokenizer = BertTokenizer(
            self.vocabulary_file(), kept_tokens=kept_tokens, **self.rules()
        )
        check_vocabulary(tokenizer, self, path)
        return tokenizer

    def vocabulary_file(self) -> vocab.Vocabulary | None:
        """Returns the vocabulary as a file, or None if there is none."""
        if self.vocabulary is None:
            return None
        path = self.path_of(model_folders.VOCABULARY)
        if not os.path.isfile(path):  # Some formats keep it elsewhere.
            path = f"the vocabulary of {self.path()}"
        return vocab.Vocabulary(self.vocabulary, path)

    def sha256(self) -> str:
        """Returns the sha256 by which a run knows the weights it began with.

        It is that of the weight file of a model folder, otherwise that of
        names, types, shapes and bytes of the weights.
        """
        if path := getattr(self.tensors, "path", None):
            return atomic_files.digest(path)
        return tensor_files.digest_of(self.tensors)

    def save(
        self,
        path: str,
        format: str = OURS,
        *,
        untrained: Mapping[str, np.ndarray] | None = None,
        license: str | None = None,
        accept_tokenizer_differences: bool = False,
    ) -> None:
        """Writes a new folder in a format; see `keras_models.save`.

        Args:
          path: folder to write; it may exist if it is empty.
          format: one of `FORMATS`.
          untrained: name -> value of the weights that are missing, which a
            folder of ours has nevertheless. Default: they are drawn.
          license: as for `keras_models.save`.
          accept_tokenizer_differences: as for `keras_models.save`.

        Raises:
          ValueError: if `path` is in use, or the format is unknown or cannot
            hold the model.
          OSError: if a file cannot be written.
        """
        from bert_tf.checkpoint import convert, model_card

        path = check_new(path, format)
        model_card.check_license(license)
        if format != OURS:
            self._check_trained(format)
        with atomic_files.atomic_folder(path) as folder:
            if format == OURS:
                model_folders.write(self, folder, untrained)
            else:
                _, lines = convert.write(
                    self, format, folder, accept_tokenizer_differences
                )
                for line in lines:
                    logging.info("%s", line)
            card = model_card.of_checkpoint(self, format, license)
            model_card.write(folder, card)
        logging.info("saved %s as %s  format %s", self.task, path, format)

    def _check_trained(self, format: str) -> None:
        """Raises ValueError if a format would have no weights for the head."""
        is_new = any(x.startswith(f"{self.task}/") for x in self.missing())
        if self.task != "pretraining" and is_new:
            raise ValueError(
                f"The head for {self.task} is newly initialized, and only "
                f"{OURS} has a place for that, not {format}. Train it first."
            )


def _read(
    path: str, name: str, with_slots: bool, check_weights: bool
) -> Contents:
    """Returns the model at a local path, read by the module of its format."""
    if name != OURS:
        given = detection.format_module(name).read(path)
        contents.check_labels(given)
        folder = path if os.path.isdir(path) else None
    else:
        folder = run_models.find(path)
        if check_weights:
            given = model_folders.read(folder, with_slots=with_slots)
        else:
            given = model_folders.read_without_weights(folder)
    source = f"{name} {stored_folders.address(os.path.abspath(path))}"
    return dataclasses.replace(
        given,
        source=source,
        folder=folder and os.path.abspath(folder),
        origin=given.origin if name == OURS else source,
        slots=given.slots if with_slots else {},
    )


def _without_foreign_head(given: Contents, name: str, path: str) -> Contents:
    """Returns Contents without a head that has more weights than ours.

    Such a head has another layer, for example: its answers are not those that
    our head computes from a part of its weights. The weights count as newly
    initialized, which no kind of answer serves. Names what nothing reads.
    """
    unread = given.unread()
    if not unread:
        return given
    logging.warning(
        "%s: nothing here reads its tensors %s",
        path,
        some(unread, most=_MAX_NAMES),
    )
    # Those of the pre-training heads, which another task does not read.
    table = detection.format_module(name).table(given.config, "pretraining")
    known = {row.theirs for row in table}
    if given.task == "pretraining" or known.issuperset(unread):
        return given
    logging.warning(
        "%s: its head for %s has more tensors than BERT's, so that BERT's head "
        "would give other answers. Only the encoder is read, and the head is "
        "newly initialized: train it before you use its answers",
        path,
        given.task,
    )
    return given.without_head()


def _check_tokenizer(given: Contents, path: str, is_accepted: bool) -> None:
    """Raises ValueError if the source's tokenizer differs and must not."""
    if not given.tokenizer_differences:
        return
    differences = "; ".join(given.tokenizer_differences)
    if not is_accepted:
        raise ValueError(
            f"{path}: {differences}. The tokenizer here is BERT's, so this "
            "model would get other tokens than in its training. "
            f"{ACCEPT} to use it anyway."
        )
    logging.warning(
        "%s: %s. BERT's tokenizer makes other tokens", path, differences
    )


def _with_activation(given: Contents, hidden_act: str | None) -> Contents:
    """Returns a model with another hidden_act, if one is given."""
    own = given.config.hidden_act
    if hidden_act not in (None, *ACTIVATIONS):
        raise ValueError(
            f"hidden_act {hidden_act!r} is not one of {', '.join(ACTIVATIONS)}."
        )
    if hidden_act in (None, own):
        return given
    logging.warning(
        "hidden_act %s instead of the source's %s: %s. Outputs differ from "
        "those of the source",
        hidden_act,
        own,
        ACTIVATIONS[hidden_act],
    )
    config = dataclasses.replace(given.config, hidden_act=hidden_act)
    return dataclasses.replace(given, config=config)


def _digests(weights: Mapping, names: Collection[str]) -> Mapping[str, str]:
    """Returns name -> sha256 of some weights, read-only, as for a model."""
    return types.MappingProxyType(
        {n: tensor_files.digest_of({n: weights[n]}) for n in names}
    )


def check_new(path: str | os.PathLike, format: str) -> str:
    """Returns the folder to write; raises ValueError if it cannot be."""
    if format not in FORMATS:
        raise ValueError(
            f"format {format!r} is not one of {', '.join(FORMATS)}."
        )
    path = as_str(path)
    if is_address(path):
        raise ValueError(
            f"{path} is in a store; models are written atomically only to a "
            "disk. Give a local folder, and copy it there."
        )
    path = os.path.normpath(path)
    if os.path.exists(path) and not (
        os.path.isdir(path) and not os.listdir(path)
    ):
        raise ValueError(f"{path} already exists. Choose a new folder.")
    return path


def as_str(path) -> str:
    """Returns a path as a str; raises ValueError if it is none, or empty."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ValueError(
            f"path is {path!r} ({type(path).__name__}); give the folder of a "
            "model."
        )
    return os.fspath(path)


def as_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Returns class names as a tuple; raises ValueError if they are not."""
    # A set has no order.
    wrong = isinstance(labels, str | Set) or not isinstance(labels, Collection)
    names = () if wrong else tuple(labels)
    if wrong or not all(isinstance(name, str) and name for name in names):
        raise ValueError(
            f"labels is {labels!r}; give a list of the class names in the "
            "order of their ids, such as ['negative', 'positive']."
        )
    if len(set(names)) < len(names):
        raise ValueError(
            f"labels has a name twice: {', '.join(names)}. Each class needs a "
            "name of its own."
        )
    return names


def check_vocabulary(
    tokenizer: BertTokenizer, model: keras.Model | Contents, source: str
) -> None:
    """Raises ValueError if a vocabulary has ids that the model does not."""
    if tokenizer.vocab_size > model.config.vocab_size:
        raise ValueError(
            f"The vocabulary of {source} has {tokenizer.vocab_size} entries, "
            f"but the model has vocab_size={model.config.vocab_size}. Use the "
            "model's own vocabulary."
        )
