"""Sentences, a frozen encoder -> hidden states of their words, made once.

A file `<split>-<layers>-<settings>.npy`, [T, N, H] float16, and a .json beside
that says what it was made of: the name has the first digits of its sha256, so
that what was made of something else stays. It serves every choice of layers
that it has.
"""

import glob
import hashlib
import io
import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import IO, NamedTuple

import numpy as np
from absl import logging

from bert_tf.model import encoder as encoder_lib
from bert_tf.model import layer_outputs
from tfrecords.io import atomic_files, part_files
from tfrecords.tasks import ner_examples, ner_files
from tfrecords.text import tokenizer as tokenizer_lib
from tfrecords.text import word_windows

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
    tokenizer: tokenizer_lib.BertTokenizer
    max_seq_length: int
    doc_stride: int
    batch_size: int


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
    settings = {
        "source_sha256": atomic_files.digest(corpus.path),
        "weights_sha256": source.weights_sha256,
        "vocabulary_sha256": source.tokenizer.sha256,
        "do_lower_case": source.tokenizer.do_lower_case,
        "max_seq_length": source.max_seq_length,
        "doc_stride": source.doc_stride,
    }
    text = json.dumps(settings, sort_keys=True)
    digits = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    pattern = os.path.join(glob.escape(folder), f"{split}-*-{digits}.npy.json")
    for settings_file in sorted(glob.glob(pattern)):
        found = atomic_files.read_json(settings_file)
        path = settings_file.removesuffix(".json")  # Of the .npy.
        made_layers = found.pop("layers", [])
        if found == settings and set(layers) <= set(made_layers):
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
    make_part, groups = _make_parts(source, corpus, layers)

    def join(file: IO[bytes], parts: Callable[[], Iterator[bytes]]) -> None:
        num_words = sum(len(s.columns) for s in corpus.sentences)
        width = source.encoder.config.hidden_size
        shape = (num_words, len(layers), width)
        part_files.begin_array(file, np.dtype("<f2"), shape)
        part_files.concatenate(file, parts)

    if os.path.exists(f"{path}.json"):
        os.remove(f"{path}.json")  # Of a file that is gone.
    part_files.write(
        path,
        settings,
        [sum(len(d.words) for d in group) for group in groups],
        make_part,
        join,
        unit="words",
    )


def _make_parts(source: Source, corpus, layers):
    """Returns number -> bytes of a part, and the documents of each part."""
    step = layer_outputs.make_step(source.encoder, layers)
    lengths = layer_outputs.static_lengths(source.max_seq_length)
    documents = iter(corpus.documents)
    groups = []
    while group := list(itertools.islice(documents, _DOCUMENTS_AT_ONCE)):
        groups.append(group)

    def make_part(number: int) -> bytes:
        windows = word_windows.make(
            ner_examples.as_ragged(groups[number]),
            source.tokenizer,
            source.max_seq_length,
            source.doc_stride,
        )
        hidden = layer_outputs.run_in_order(
            step,
            {name: t.numpy() for name, t in windows.inputs.items()},
            source.batch_size,
            lengths,
        )
        file = io.BytesIO()
        for window, position in windows.places.numpy():
            file.write(hidden[window][position].astype("<f2").tobytes())
        return file.getvalue()

    return make_part, groups
