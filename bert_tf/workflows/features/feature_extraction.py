"""Lines of text and an encoder -> file with the hidden states of their tokens.

Shapes: T tokens of all texts, N layers, H hidden, R texts, S max_seq_length.

  json      as in the original: a line per text, with the values of each token
  npz       `values` [T, N, H] float32, `token_ids` [T] int32, `row_splits`
            [R + 1] int64: tokens of text r are row_splits[r] to
            row_splits[r + 1]; and `layers` [N]
  tfrecord  a tf.train.Example per text: `linex_index`, `token_ids`, `layers`,
            and `values`, flattened, of shape [tokens, N, H]
"""

import dataclasses
import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, NamedTuple

import numpy as np
from absl import logging

from bert_tf.checkpoint.options import CheckpointOptions
from tfrecords.io import part_files, streams
from tfrecords.options import MAX_BATCH_SIZE, MAX_SEQ_LENGTH, REQUIRED, option
from tfrecords.text.vocab import VocabularyOptions

# Lines in a part; a killed run loses at most one part.
_LINES_PER_PART = 256
# extract_features.py: read_examples. Splits at the last separator.
_PAIR = re.compile(r"(.*) \|\|\| (.*)")
# extract_features.py: main.
_DIGITS = 6
_MAX_SEQ_LENGTH = 128
_MIN_SEQ_LENGTH = 5  # A pair has three special tokens.


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureConfig(VocabularyOptions, CheckpointOptions):
    """Which hidden states of which texts to extract, and where to write."""

    input_file: str = option(
        REQUIRED,
        "Text file in UTF-8, one text or pair of texts per line.",
        reads=True,
    )
    output_file: str = option(
        REQUIRED, "File to write the features to, atomically.", writes="file"
    )
    init_checkpoint: str = option(
        REQUIRED,
        "Folder of a run or model, or a checkpoint of any format that "
        "convert_checkpoint reads.",
        reads=True,
    )
    layers: tuple[str, ...] = option(
        ("-1", "-2", "-3", "-4"),
        "Layers to extract: 0 is the first one after the embeddings, -1 the "
        "last.",
    )
    max_seq_length: int | None = option(
        None,
        "Maximum tokens of a text, with [CLS] and [SEP]; longer texts are "
        "truncated. Default: that of a folder of sentence-transformers, "
        "otherwise 128.",
        at_least=_MIN_SEQ_LENGTH,
        at_most=MAX_SEQ_LENGTH,
    )
    output_format: str = option(
        "json",
        "json: lines as in the original. npz: arrays values, token_ids, "
        "row_splits and layers. tfrecord: one tf.train.Example per line of "
        "input.",
        choices=("json", "npz", "tfrecord"),
    )
    batch_size: int = option(
        32, "Texts in a batch.", at_least=1, at_most=MAX_BATCH_SIZE
    )


class Text(NamedTuple):
    """Features of one text.

    Attributes:
      line: index of its line, from 0.
      token_ids: [tokens] int32.
      values: [tokens, N, H] float32.
    """

    line: int
    token_ids: np.ndarray
    values: np.ndarray


def extract_features(config: FeatureConfig) -> None:
    """Writes the hidden states; a rerun resumes a run that was stopped.

    Raises:
      ValueError: if a setting does not apply to the model, or no text is given.
      OSError: if a file cannot be read or written.
    """
    inputs = ("input_file", "vocab_file", "init_checkpoint")
    streams.check_output(
        "output_file",
        config.output_file,
        [(name, getattr(config, name)) for name in inputs],
    )
    from bert_tf.checkpoint.checkpoint import Checkpoint, check_vocabulary
    from bert_tf.model import layer_outputs
    from bert_tf.workflows import initial_model
    from tfrecords.text import tokenizer as tokenizer_lib

    given = Checkpoint.open(
        config.init_checkpoint,
        accept_tokenizer_differences=config.accept_tokenizer_differences,
    )
    vocabulary, rules = initial_model.choose_vocabulary(config, given)
    if not vocabulary:
        raise ValueError(
            f"{given.path()} has no vocabulary. Give --vocab_file=vocab.txt."
        )
    tokenizer = tokenizer_lib.BertTokenizer(vocabulary, **rules)
    check_vocabulary(tokenizer, given, vocabulary.path)
    encoder = given.encoder()
    if config.max_seq_length is None:
        length = _MAX_SEQ_LENGTH
        if given.sentence_embedding:
            own = given.metadata.get("max_seq_length", length)
            length = max(_MIN_SEQ_LENGTH, own)
        config = dataclasses.replace(config, max_seq_length=length)
    most = encoder.config.max_position_embeddings
    if config.max_seq_length > most:
        raise ValueError(
            f"--max_seq_length={config.max_seq_length} is more than the "
            f"model's max_position_embeddings={most}. Lower it."
        )
    layers = layer_outputs.parse(
        config.layers, encoder.config.num_hidden_layers
    )
    lines = _read_lines(config.input_file)
    read_features = _make_reader(config, encoder, tokenizer, layers)
    to_bytes, join = FORMATS[config.output_format]
    starts = range(0, len(lines), _LINES_PER_PART)

    def make_part(number: int) -> bytes:
        start = starts[number]
        part = lines[start : start + _LINES_PER_PART]
        return to_bytes(read_features(part, start), layers, tokenizer.vocab)

    part_files.write(
        config.output_file,
        {
            # Of the lines that were read: the file may be a pipe, or change.
            "input": hashlib.sha256("\n".join(lines).encode()).hexdigest(),
            "weights": given.sha256(),
            # With another activation, the same weights give other values.
            "config": given.config.to_dict(),
            "vocabulary": tokenizer.sha256,
            **tokenizer.rules,
            "max_seq_length": config.max_seq_length,
            "layers": layers,
            "output_format": config.output_format,
            "lines_per_part": _LINES_PER_PART,
        },
        [min(_LINES_PER_PART, len(lines) - start) for start in starts],
        make_part,
        join,
        unit="texts",
    )
    logging.info(
        "wrote features of %d texts to %s", len(lines), config.output_file
    )


def _read_lines(path: str) -> list[str]:
    from tfrecords.text import text_files

    statistics = text_files.ReadStatistics()
    lines = [line.strip() for line in text_files.read_lines(path, statistics)]
    if not lines:
        raise ValueError(f"{path} has no lines. Add at least one text.")
    return lines


def _make_reader(
    config: FeatureConfig, encoder, tokenizer, layers: Sequence[int]
) -> Callable[[Sequence[str], int], list[Text]]:
    """Returns a function: lines, index of the first line -> features."""
    import tensorflow as tf

    from bert_tf.model import layer_outputs
    from tfrecords.text import segments

    num_layers = encoder.config.num_hidden_layers
    step = layer_outputs.make_step(
        encoder,
        [1 + i % num_layers for i in layers],  # 0 is the embeddings.
    )
    lengths = layer_outputs.static_lengths(config.max_seq_length)

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string)] * 2, autograph=False
    )
    def encode(texts_a, texts_b):  # [N], [N] -> [N, S]
        return segments.pack(
            *tokenizer.tokenize_each(texts_a, texts_b),
            config.max_seq_length,
            tokenizer.cls_id,
            tokenizer.sep_id,
        )

    def read(lines: Sequence[str], start: int) -> list[Text]:
        texts = zip(*map(split_pair, lines), strict=True)
        encoded = encode(*map(tf.constant, texts))
        inputs = {name: tensor.numpy() for name, tensor in encoded.items()}
        outputs = layer_outputs.run_in_order(
            step, inputs, config.batch_size, lengths
        )
        rows = zip(inputs["input_word_ids"], outputs, strict=True)
        return [
            Text(line, ids[: len(values)], values)
            for line, (ids, values) in enumerate(rows, start)
        ]

    return read


def split_pair(line: str) -> tuple[str, str]:
    """Returns the two texts of a line; the second is "" for a single text."""
    match = _PAIR.fullmatch(line)
    return (match[1], match[2]) if match else (line, "")


def to_json(
    texts: Sequence[Text], layers: Sequence[int], vocab: Sequence[str]
) -> bytes:
    """Returns a JSON line for each text, with the original's keys in order."""
    lines = []
    for text in texts:
        features = []
        for i, rows in zip(text.token_ids, text.values.tolist(), strict=True):
            values = [[round(x, _DIGITS) for x in row] for row in rows]
            of_layers = [
                {"index": index, "values": row}
                for index, row in zip(layers, values, strict=True)
            ]
            features.append({"token": vocab[i], "layers": of_layers})
        content = {"linex_index": text.line, "features": features}
        lines.append(json.dumps(content) + "\n")
    return "".join(lines).encode()


def to_npz(
    texts: Sequence[Text], layers: Sequence[int], vocab: Sequence[str]
) -> bytes:
    """Returns a part that `join_npz` joins."""
    return part_files.to_npz(
        values=np.concatenate([text.values for text in texts]),
        token_ids=np.concatenate([text.token_ids for text in texts]),
        lengths=np.array([len(text.token_ids) for text in texts]),
        layers=np.array(layers, np.int32),
    )


def to_tfrecord(
    texts: Sequence[Text], layers: Sequence[int], vocab: Sequence[str]
) -> bytes:
    """Returns TFRecords with a tf.train.Example for each text."""
    from tfrecords.io import shards

    return b"".join(shards.frame(_example(text, layers)) for text in texts)


def _example(text: Text, layers: Sequence[int]) -> bytes:
    import tensorflow as tf

    example = tf.train.Example()
    feature = example.features.feature
    feature["linex_index"].int64_list.value.append(text.line)
    feature["layers"].int64_list.value.extend(layers)
    feature["token_ids"].int64_list.value.extend(text.token_ids.tolist())
    feature["values"].float_list.value.extend(text.values.ravel())
    return example.SerializeToString(deterministic=True)


def join_npz(file: IO[bytes], parts: Callable[[], Iterator[bytes]]) -> None:
    """Writes the .npz of all texts, keeping one part at a time in memory."""
    found = [(x["lengths"], x["layers"]) for x in part_files.loaded(parts)]
    lengths, layers = zip(*found, strict=True)
    row_splits = np.cumsum(np.concatenate([[0], *lengths]), dtype=np.int64)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in ("values", "token_ids"):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                part_files.join_array(entry, parts, name, int(row_splits[-1]))
        for name, array in (("row_splits", row_splits), ("layers", layers[0])):
            with archive.open(f"{name}.npy", "w") as entry:
                np.lib.format.write_array(entry, array)


# Format -> functions from texts to a part, and from parts to the file.
FORMATS = {
    "json": (to_json, part_files.concatenate),
    "npz": (to_npz, join_npz),
    "tfrecord": (to_tfrecord, part_files.concatenate),
}
