"""CoNLL files, frozen encoder -> BiLSTM taggers, one for each choice of layers.

Table 7 of the paper. Hidden states of the first piece of each word are computed
once and saved to `<split>-<layers>-<settings>.npy`, [T, N, H] float16. A .json
file in the same folder has the settings; `<settings>` in the name are the first
digits of their sha256, so that features with other settings are not
overwritten. A file is reused for all choices whose layers it contains.
Shapes: T words, N layers, H hidden.
"""

import dataclasses
import functools
import glob
import hashlib
import io
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.model import encoder as encoder_lib
from bert_tf.model import layer_outputs
from bert_tf.tasks.task import Scores
from bert_tf.training import loop, run_folder, strategies
from bert_tf.workflows import fine_tuning, initial_model, run_history
from experiments.feature_based import feature_tagger, word_features
from experiments.feature_based.config import FeaturesConfig
from experiments.feature_based.task import NerFeatures
from tfrecords.io import atomic_files, json_files, part_files
from tfrecords.tasks import ner_examples, ner_files
from tfrecords.text import word_windows
from tfrecords.text.tokenizer import BertTokenizer

# Documents per part; a killed run loses at most the current part.
_DOCUMENTS_PER_PART = 32
# Digits of the sha256 of the settings in a file's name.
_DIGITS = 8


class Source(NamedTuple):
    """Encoder, tokenizer and windows that produce the features.

    Attributes:
      encoder: encoder with its weights.
      weights_sha256: see `Checkpoint.sha256`.
      tokenizer: splits words into pieces.
      max_seq_length: tokens per window, including [CLS] and [SEP].
      doc_stride: see `word_windows.make`.
      batch_size: windows per batch.
      columns: see `ner_files.NerData.columns`.
    """

    encoder: encoder_lib.BertEncoder
    weights_sha256: str
    tokenizer: BertTokenizer
    max_seq_length: int
    doc_stride: int
    batch_size: int
    columns: Mapping[str, int | str | None] | None = None

    def identity(self, path: str) -> dict:
        """Returns the settings that identify the features of a column file."""
        # Defaults are left out, as in files that were made without them.
        columns = {n: v for n, v in (self.columns or {}).items() if v}
        return columns | {
            "source_sha256": atomic_files.digest(path),
            "weights_sha256": self.weights_sha256,
            "vocabulary_sha256": self.tokenizer.sha256,
            **self.tokenizer.rules,
            "max_seq_length": self.max_seq_length,
            "doc_stride": self.doc_stride,
        }


@dataclasses.dataclass(frozen=True)
class FeatureSplit:
    """Sentences of a split with features, for training and prediction.

    Attributes:
      sentences: features of one choice of layers, and tags.
      made_of: settings that identify a run trained on this split.
    """

    sentences: word_features.Sentences
    made_of: dict

    def __len__(self):
        return len(self.sentences)

    def identity(self, config) -> dict:
        """Returns settings that identify a run trained on this split."""
        del config
        return self.made_of

    def digest(self) -> str:
        """Returns a digest of these settings, of which the file is one."""
        text = json.dumps(self.made_of, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def phase(self, config, num_steps: int) -> loop.Phase:
        """Returns the phase that trains on this split."""
        return loop.Phase(
            num_steps=num_steps,
            batches=functools.partial(
                self.sentences.training_batches,
                batch_size=config.train_batch_size,
                seed=config.seed,
                num_batches=num_steps,
            ),
        )

    def evaluation_batches(
        self, batch_size: int, **replicas: int
    ) -> Iterator[dict[str, tf.Tensor]]:
        """Yields batches of all sentences, or of the given replicas."""
        return self.sentences.evaluation_batches(batch_size, **replicas)


def fine_tune(
    data: ner_files.NerData,
    config: FeaturesConfig,
    command: str | None = None,
) -> dict[str, Scores]:
    """Makes the features, then trains, evaluates and predicts for each choice.

    Args:
      data: CoNLL files; train and dev are required.
      config: settings; each choice has its own folder in `output_dir`.
      command: module of the command, for run.flags; None to write none.

    Returns:
      Choice of layers -> its scores. Entity F1 is logged together with that of
      the paper.

    Raises:
      ValueError: if settings, files or the encoder are invalid.
      stopping.Stopped: if a signal stopped it; the same call resumes.
    """
    _check(config)
    strategy = loop.open_strategy(config, config.do_train)
    if strategies.choose_input_mode(strategy, config.input_mode) != "python":
        raise ValueError(
            "--input_mode=stream: with --feature_layers the features of words "
            "are read by Python, so that a TPU on other hosts cannot be used. "
            "Use --input_mode=python, and another device if it needs one."
        )
    with run_folder.open_run(config.output_dir, strategy):
        return _train_choices(data, config, strategy, command)


# Options for an encoder that is trained.
_FINE_TUNING_OPTIONS = (
    *("bert_config_file", "bert_config_name", "records_dir", "precision"),
    *("remat", "use_one_hot_embeddings", "bucket_lengths"),
    *("lora_rank", "teacher"),
)


def _check(config: FeaturesConfig) -> None:
    """Raises ValueError if settings are invalid for a frozen encoder."""
    if not config.init_checkpoint:
        raise ValueError(
            "--feature_layers needs an encoder: give --init_checkpoint."
        )
    if not config.feature_layers:
        raise ValueError(
            "--feature_layers is empty: give one or more of "
            f"{', '.join(feature_tagger.CHOICES)}, or all."
        )
    unsupported = [
        field.name
        for field in dataclasses.fields(config)
        if field.name in _FINE_TUNING_OPTIONS
        and getattr(config, field.name) not in (None, field.default)
    ]
    if config.precision == "float32":  # The precision used.
        unsupported.remove("precision")
    if unsupported:
        raise ValueError(
            f"--{', --'.join(unsupported)}: only for fine-tuning; with "
            "--feature_layers the encoder is frozen. Omit these flags."
        )
    if config.steps_per_loop > 1:
        raise ValueError(
            f"--steps_per_loop={config.steps_per_loop}: with --feature_layers "
            "batches differ in length, but batches of one loop must have the "
            "same length. Omit the flag."
        )
    if not (config.do_train and config.do_eval):
        raise ValueError(
            "--feature_layers trains, and selects the best model on dev: add "
            "--do_train and --do_eval."
        )


def _train_choices(data, config, strategy, command) -> dict[str, Scores]:
    files = data.find_files()
    labels, scheme = data.collect_labels(files)
    # Checked before features are extracted, which is slow.
    fine_tuning.check_splits(NerFeatures, config, list(files))
    types = ner_files.types_of(labels, scheme)
    source = _open_source(data, config)
    bert_config = source.encoder.config
    choices = resolve_choices(
        config.feature_layers, bert_config.num_hidden_layers
    )
    corpora = {
        split: data.read(split, path, types, scheme)
        for split, path in files.items()
    }
    cached = strategies.chief_first(
        strategy,
        lambda: _make_features(source, corpora, choices, config, strategy),
    )
    table = {}
    for choice, layers in choices.items():
        task = NerFeatures(data, choice, config.lstm_units, labels, scheme)
        task.prepare(config, None)
        made_of = {
            "feature_layers": choice,
            "lstm_units": config.lstm_units,
            "labels": list(labels),
            "init_checkpoint": None,  # Identified by the sha256 of weights.
        }
        splits = _open_splits(source, corpora, cached, layers, labels, made_of)
        task.open_splits({s: split.sentences for s, split in splits.items()})
        own = dataclasses.replace(
            config,
            output_dir=os.path.join(config.output_dir, choice),
            precision="float32",
        )
        model = loop.build_model(task, bert_config, strategy, own)
        run = fine_tuning.Run(
            folder=run_folder.RunFolder(
                own.output_dir, strategies.is_chief(strategy)
            ),
            task=task,
            model=model,
            splits=splits,
            vocabulary=None,  # The encoder's folder has it.
            metadata=task.metadata(),
            source=None,  # The tagger is newly initialized.
        )
        table[choice] = fine_tuning.train_and_predict(run, own, strategy, None)
        if command and strategies.is_chief(strategy):
            # One command trains all choices.
            run_history.write_flags(command, own.output_dir, data, config)
    for choice, scores in table.items():
        for split, values in scores.items():
            paper = feature_tagger.CHOICES[choice].paper_f1 / 100
            if scheme == ner_files.PLAIN:
                text = f"accuracy {values['accuracy']:.4f}"
            else:
                text = f"entity_f1 {values['entity_f1']:.4f}"
                text += f"  (paper, BERT-base: {paper:.3f})"
            logging.info("%s, %s  %s", choice, split, text)
    return table


def resolve_choices(
    names: Sequence[str], num_hidden_layers: int
) -> dict[str, list[int]]:
    """Returns the layers of each choice; `all` means all six choices.

    Raises:
      ValueError: as in `feature_tagger.resolve_layers`.
    """
    if tuple(names) == ("all",):
        names = list(feature_tagger.CHOICES)
    return {
        name: feature_tagger.resolve_layers(name, num_hidden_layers)
        for name in names
    }


def _open_source(data, config) -> Source:
    """Returns the Source with the encoder of `init_checkpoint`."""
    given = initial_model.open_initial(config)
    tokenizer, _ = initial_model.make_tokenizer(config, given)
    encoder = given.encoder()
    length = config.max_seq_length or NerFeatures.max_seq_length
    initial_model.check_length(length, encoder.config)
    stride = data.doc_stride or word_windows.default_stride(length)
    word_windows.check_stride(length, stride)
    return Source(
        encoder,
        given.sha256(),
        tokenizer,
        length,
        stride,
        config.eval_batch_size,
        data.columns(),
    )


def _open_splits(
    source, corpora, cached, layers, labels, made_of
) -> dict[str, FeatureSplit]:
    """Returns the splits with the features of given layers."""
    return {
        split: FeatureSplit(
            word_features.Sentences(
                np.load(path, mmap_mode="r"),
                [made_layers.index(layer) for layer in layers],
                [len(s.columns) for s in corpora[split].sentences],
                np.array(
                    ner_files.tag_ids(corpora[split].sentences, labels),
                    np.int32,
                ),
            ),
            source.identity(corpora[split].path) | made_of,
        )
        for split, (path, made_layers) in cached.items()
    }


def _make_features(
    source: Source, corpora: Mapping, choices: Mapping, config, strategy
) -> dict[str, tuple[str, list[int]]]:
    """Returns split -> path of the feature file, and its layers."""
    needed = sorted({layer for layers in choices.values() for layer in layers})
    folder = config.features_dir or os.path.join(config.output_dir, "features")
    # Other runs may share the folder.
    with run_folder.lock(folder, strategies.is_chief(strategy)):
        return {
            split: open_or_make(source, corpus, split, needed, folder)
            for split, corpus in corpora.items()
        }


def open_or_make(
    source: Source,
    corpus: ner_files.Corpus,
    split: str,
    layers: Sequence[int],
    folder: str,
) -> tuple[str, list[int]]:
    """Returns the path of a feature file with given layers, and its layers.

    An existing file is used if it has the layers; otherwise one is made. If
    several runs share the folder, the caller must lock it.

    Args:
      source: encoder and settings of the features.
      corpus: words to make features of.
      split: name of the split, for the name of the file.
      layers: required layers; 0 is the embeddings.
      folder: folder of feature files.

    Raises:
      ValueError: if the encoder does not have a layer.
    """
    settings = source.identity(corpus.path)
    text = json.dumps(settings, sort_keys=True)
    digits = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    pattern = os.path.join(glob.escape(folder), f"{split}-*-{digits}.npy.json")
    for settings_file in sorted(glob.glob(pattern)):
        made_with = json_files.read(settings_file)
        path = settings_file.removesuffix(".json")  # The .npy file.
        made_layers = made_with.pop("layers", [])
        if made_with == settings and set(layers) <= set(made_layers):
            if os.path.isfile(path):
                logging.info("%s already exists", path)
                return path, made_layers
    layers = sorted(layers)
    name = f"{split}-{'-'.join(map(str, layers))}-{digits}.npy"
    path = os.path.join(folder, name)
    os.makedirs(folder, exist_ok=True)
    _make(source, corpus, layers, settings | {"layers": layers}, path)
    # Written last: it marks the .npy file as complete.
    json_files.write(f"{path}.json", settings | {"layers": layers})
    return path, layers


def _make(source: Source, corpus, layers, settings: dict, path: str) -> None:
    """Writes a feature file, in parts; a rerun makes only missing parts."""
    step = layer_outputs.make_step(source.encoder, layers)
    documents = iter(corpus.documents)
    groups = []
    while group := list(itertools.islice(documents, _DOCUMENTS_PER_PART)):
        groups.append(group)
    num_words = sum(len(s.columns) for s in corpus.sentences)
    width = source.encoder.config.hidden_size

    def join(file: IO[bytes], parts: Callable[[], Iterator[bytes]]) -> None:
        shape = (num_words, len(layers), width)
        part_files.begin_array(file, np.dtype("<f2"), shape)
        part_files.concatenate(file, parts)

    if os.path.exists(f"{path}.json"):
        os.remove(f"{path}.json")  # The .npy file is missing or outdated.
    part_files.write(
        path,
        settings,
        [sum(len(d.words) for d in group) for group in groups],
        lambda number: _hidden_states(source, step, groups[number]),
        join,
        unit="words",
    )


def _hidden_states(source: Source, step, documents) -> bytes:
    """Returns the hidden states of all words, as bytes of [T, N, H] float16."""
    windows = word_windows.make(
        ner_examples.as_ragged(documents),
        source.tokenizer,
        source.max_seq_length,
        source.doc_stride,
    )
    hidden = layer_outputs.run_in_order(
        step,
        {name: t.numpy() for name, t in windows.inputs.items()},
        source.batch_size,
        layer_outputs.static_lengths(source.max_seq_length),
    )
    file = io.BytesIO()
    for window, position in windows.positions.numpy():
        file.write(hidden[window][position].astype("<f2").tobytes())
    return file.getvalue()
