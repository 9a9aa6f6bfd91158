"""CoNLL files, a frozen encoder -> a BiLSTM tagger for each choice of layers.

Table 7 of the paper. Hidden states of each word's first piece are computed once
and kept in a file `<split>-<layers>-<settings>.npy`, [T, N, H] float16, with a
.json that says what it was made of: the name has the first digits of its
sha256, so that files of something else stay. A file serves every choice of
layers that it has. Letters: T words, N layers, H hidden.
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

from bert_tf.conversion import formats
from bert_tf.model import encoder as encoder_lib
from bert_tf.model import feature_tagger, layer_outputs
from bert_tf.tasks.ner import NerFeatures
from bert_tf.tasks.task import Scores
from bert_tf.training import (
    loop,
    model_folders,
    run_folder,
    strategies,
)
from bert_tf.workflows import fine_tuning, model_source
from bert_tf.workflows.configs import NerConfig
from tfrecords.io import atomic_files, part_files
from tfrecords.reading import word_features
from tfrecords.tasks import ner_examples, ner_files
from tfrecords.text import word_windows
from tfrecords.text.tokenizer import BertTokenizer

# Documents in a part, which is what a run that is killed loses.
_DOCUMENTS_AT_ONCE = 32
# Digits of the settings' sha256 in a file's name.
_DIGITS = 8


class Source(NamedTuple):
    """What features come from.

    Attributes:
      encoder: with its weights.
      weights_sha256: of the file they were loaded from.
      tokenizer: words to pieces.
      max_seq_length: tokens in a window, [CLS] and [SEP] included.
      doc_stride: see `word_windows.make`.
      batch_size: windows in a batch.
    """

    encoder: encoder_lib.BertEncoder
    weights_sha256: str
    tokenizer: BertTokenizer
    max_seq_length: int
    doc_stride: int
    batch_size: int

    def identity(self, path: str) -> dict:
        """Returns what features of a column file are made of."""
        return {
            "source_sha256": atomic_files.digest(path),
            "weights_sha256": self.weights_sha256,
            "vocabulary_sha256": self.tokenizer.sha256,
            "do_lower_case": self.tokenizer.do_lower_case,
            "max_seq_length": self.max_seq_length,
            "doc_stride": self.doc_stride,
        }


@dataclasses.dataclass(frozen=True)
class FeatureSplit:
    """Sentences of a split with features, as training and prediction read them.

    Attributes:
      sentences: the features of one choice of layers, and tags.
      made_of: what a run that is trained on it is tied to.
    """

    sentences: word_features.Sentences
    made_of: dict

    def __len__(self):
        return len(self.sentences)

    def identity(self, config) -> dict:
        """Returns what a run that is trained on it is tied to."""
        del config
        return self.made_of

    def phase(self, config, num_steps: int) -> loop.Phase:
        """Returns what training reads of it."""
        return loop.Phase(
            num_steps=num_steps,
            batches=functools.partial(
                self.sentences.training_batches,
                batch_size=config.train_batch_size,
                seed=config.seed,
                num_batches=num_steps,
            ),
        )

    def evaluation_batches(self, batch_size: int) -> tf.data.Dataset:
        """Returns all sentences, in order."""
        return self.sentences.evaluation_batches(batch_size)


def fine_tune(
    data: ner_files.NerData,
    config: NerConfig,
    command: str | None = None,
) -> dict[str, Scores]:
    """Makes the features, then trains, evaluates and predicts for each choice.

    Args:
      data: which files; train and dev are needed.
      config: how to do it; each choice gets a folder in `output_dir`.
      command: name of the script, for run.flags; None to write none.

    Returns:
      Choice of layers -> its scores; entity F1 is logged beside the paper's.

    Raises:
      ValueError: for what is wrong with settings, files or the encoder.
      stopping.Stopped: if a signal stopped it; the same call resumes.
    """
    given, config = config, config.with_defaults()
    _check(config)
    strategy = loop.open_strategy(config, config.do_train)
    with run_folder.open_run(config.output_dir, strategy):
        return _train_choices(data, config, strategy, command, given)


# Options of fine-tuning; each is None or False unless it was set.
_OF_FINE_TUNING = (
    *("bert_config_file", "bert_config_name", "bilstm_units", "records_dir"),
    *("precision", "remat"),
)


def _check(config: NerConfig) -> None:
    """Raises ValueError for settings that a frozen encoder cannot have."""
    if not config.init_checkpoint:
        raise ValueError(
            "--feature_layers needs an encoder: give --init_checkpoint."
        )
    if not config.feature_layers:
        raise ValueError(
            "--feature_layers names no layers: give one or more of "
            f"{', '.join(feature_tagger.CHOICES)}, or all."
        )
    useless = [n for n in _OF_FINE_TUNING if getattr(config, n)]
    if config.precision == "float32":  # As it is anyhow.
        useless.remove("precision")
    if config.bucket_lengths != ("auto",):
        useless.append("bucket_lengths")
    if useless:
        raise ValueError(
            f"--{', --'.join(useless)}: for an encoder that is trained; with "
            "--feature_layers it is frozen. Omit these flags."
        )
    if config.steps_per_loop > 1:
        raise ValueError(
            f"--steps_per_loop={config.steps_per_loop}: with --feature_layers "
            "batches are as long as their longest sentence, and those of one "
            "call have to be alike. Omit the flag."
        )
    if not (config.do_train and config.do_eval):
        raise ValueError(
            "--feature_layers trains, and keeps the best on dev: add "
            "--do_train and --do_eval."
        )


def _train_choices(data, config, strategy, command, given) -> dict[str, Scores]:
    files = data.find_files()
    labels = data.find_labels(files)
    # Before the encoder reads everything.
    fine_tuning.check_splits(NerFeatures, config, list(files))
    types = ner_files.types_of(labels)
    folder = strategies.chief_first(
        strategy,
        lambda: formats.as_model_folder(
            config.init_checkpoint,
            os.path.join(config.output_dir, "init_checkpoint"),
        ),
    )
    source = _open_source(data, config, folder)
    bert_config = source.encoder.config
    choices = find_choices(config.feature_layers, bert_config.num_hidden_layers)
    corpora = {
        split: data.read(split, path, types) for split, path in files.items()
    }
    cached = strategies.chief_first(
        strategy,
        lambda: _make_features(source, corpora, choices, config, strategy),
    )
    table = {}
    for choice, layers in choices.items():
        task = NerFeatures(data, choice, config.lstm_units, labels)
        task.prepare(None, {})
        made_of = source.identity(corpora["train"].path) | {
            "feature_layers": choice,
            "lstm_units": config.lstm_units,
            "labels": list(labels),
            "init_checkpoint": None,  # The sha256 of its weights says more.
        }
        splits = _open_splits(corpora, cached, layers, labels, made_of)
        task.schema = word_features.BATCH
        task.open_splits({s: split.sentences for s, split in splits.items()})
        own = dataclasses.replace(
            config,
            output_dir=os.path.join(config.output_dir, choice),
            precision="float32",
        )
        model = loop.build_model(task, bert_config, strategy, own)
        run = fine_tuning.Run(
            task=task,
            model=model,
            splits=splits,
            vocab_file=None,  # The encoder has it.
            metadata=task.metadata(),
            source=None,  # What the encoder knows is in the features.
            command_config=given,
        )
        table[choice] = fine_tuning.train_and_predict(
            run, own, strategy, command
        )
    for choice, scores in table.items():
        for split, values in scores.items():
            logging.info(
                "%s, %s  entity_f1 %.4f  (the paper's, of BERT-base: %.3f)",
                choice,
                split,
                values["entity_f1"],
                feature_tagger.CHOICES[choice].paper_f1 / 100,
            )
    return table


def find_choices(
    names: Sequence[str], num_hidden_layers: int
) -> dict[str, list[int]]:
    """Returns choices of layers, and the layers of each; `all` are six.

    Raises:
      ValueError: as `feature_tagger.find_layers`.
    """
    if tuple(names) == ("all",):
        names = list(feature_tagger.CHOICES)
    return {
        name: feature_tagger.find_layers(name, num_hidden_layers)
        for name in names
    }


def _open_source(data, config, folder: str) -> Source:
    """Returns the encoder of a model folder, and how words come to it."""
    tokenizer, _ = model_source.find_tokenizer(config, folder)
    encoder = model_folders.build_encoder(folder)
    length = config.max_seq_length or NerFeatures.max_seq_length
    model_source.check_length(length, encoder.config)
    stride = data.doc_stride or word_windows.default_stride(length)
    word_windows.check_stride(length, stride)
    weights = os.path.join(folder, model_folders.WEIGHTS)
    return Source(
        encoder,
        atomic_files.digest(weights),
        tokenizer,
        length,
        stride,
        config.eval_batch_size,
    )


def _open_splits(
    corpora, cached, layers, labels, made_of
) -> dict[str, FeatureSplit]:
    """Returns the splits with the features of some layers."""
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
            made_of,
        )
        for split, (path, made_layers) in cached.items()
    }


def _make_features(
    source: Source, corpora: Mapping, choices: Mapping, config, strategy
) -> dict[str, tuple[str, list[int]]]:
    """Returns split to its file of features and the layers that it has."""
    needed = sorted({layer for layers in choices.values() for layer in layers})
    folder = config.features_dir or os.path.join(config.output_dir, "features")
    # Other runs may share the folder.
    with run_folder.lock(folder, strategies.is_chief(strategy)):
        return {
            split: find_or_make(source, corpus, split, needed, folder)
            for split, corpus in corpora.items()
        }


def find_or_make(
    source: Source,
    corpus: ner_files.Corpus,
    split: str,
    layers: Sequence[int],
    folder: str,
) -> tuple[str, list[int]]:
    """Returns the path of a file that has these layers, and all it has.

    Where several runs share the folder, the caller locks it.

    Args:
      source: of the features.
      corpus: whose words they are of.
      split: for the file's name.
      layers: that are needed; 0 is the embeddings.
      folder: where files lie.

    Raises:
      ValueError: if the encoder has no such layer.
    """
    settings = source.identity(corpus.path)
    text = json.dumps(settings, sort_keys=True)
    digits = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    pattern = os.path.join(glob.escape(folder), f"{split}-*-{digits}.npy.json")
    for settings_file in sorted(glob.glob(pattern)):
        made_with = atomic_files.read_json(settings_file)
        path = settings_file.removesuffix(".json")  # Of the .npy.
        made_layers = made_with.pop("layers", [])
        if made_with == settings and set(layers) <= set(made_layers):
            if os.path.isfile(path):
                logging.info("%s  already made", path)
                return path, made_layers
    layers = sorted(layers)
    name = f"{split}-{'-'.join(map(str, layers))}-{digits}.npy"
    path = os.path.join(folder, name)
    os.makedirs(folder, exist_ok=True)
    _make(source, corpus, layers, settings | {"layers": layers}, path)
    # Last, as the mark of a whole file of these settings.
    atomic_files.write_json(f"{path}.json", settings | {"layers": layers})
    return path, layers


def _make(source: Source, corpus, layers, settings: dict, path: str) -> None:
    """Writes a file, in parts that a rerun finds."""
    step = layer_outputs.make_step(source.encoder, layers)
    documents = iter(corpus.documents)
    groups = []
    while group := list(itertools.islice(documents, _DOCUMENTS_AT_ONCE)):
        groups.append(group)
    num_words = sum(len(s.columns) for s in corpus.sentences)
    width = source.encoder.config.hidden_size

    def join(file: IO[bytes], parts: Callable[[], Iterator[bytes]]) -> None:
        shape = (num_words, len(layers), width)
        part_files.begin_array(file, np.dtype("<f2"), shape)
        part_files.concatenate(file, parts)

    if os.path.exists(f"{path}.json"):
        os.remove(f"{path}.json")  # Of a file that is gone.
    part_files.write(
        path,
        settings,
        [sum(len(d.words) for d in group) for group in groups],
        lambda number: _hidden_states(source, step, groups[number]),
        join,
        unit="words",
    )


def _hidden_states(source: Source, step, documents) -> bytes:
    """Returns the bytes of all words' hidden states, [T, N, H] float16."""
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
