"""Hidden states of the tokens of texts -> JSON lines, NumPy or TFRecords.

Letters: T tokens of all texts, N layers, H hidden, R texts.

  json      the original's: a line a text, each token with its layers' values
  npz       `values` [T, N, H] float32, `token_ids` [T] int32, `row_splits`
            [R + 1] int64: tokens of text r are row_splits[r] to
            row_splits[r + 1]; and `layers` [N]
  tfrecord  a tf.train.Example a text: `linex_index`, `token_ids`, `layers`,
            and `values`, flat, of shape [tokens, N, H]
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, NamedTuple

import numpy as np
import tensorflow as tf

from tfrecords.io import part_files, shards

# extract_features.py: main.
_DIGITS = 6


class Text(NamedTuple):
    """Of one text: its line from 0, [tokens] ids, [tokens, N, H] values."""

    line: int
    token_ids: np.ndarray
    values: np.ndarray


def to_json(
    texts: Sequence[Text], layers: Sequence[int], vocab: Sequence[str]
) -> bytes:
    """Returns a line for each text, with the keys and order of the original."""
    lines = []
    for text in texts:
        features = [
            {
                "token": vocab[i],
                "layers": [
                    {
                        "index": index,
                        "values": [round(x, _DIGITS) for x in row],
                    }
                    for index, row in zip(layers, rows, strict=True)
                ],
            }
            for i, rows in zip(
                text.token_ids.tolist(), text.values.tolist(), strict=True
            )
        ]
        content = {"linex_index": text.line, "features": features}
        lines.append(json.dumps(content) + "\n")
    return "".join(lines).encode()


def to_npz(
    texts: Sequence[Text], layers: Sequence[int], vocab: Sequence[str]
) -> bytes:
    """Returns an .npz of some texts, which `join_npz` makes one of."""
    file = io.BytesIO()
    np.savez(
        file,
        values=np.concatenate([text.values for text in texts]),
        token_ids=np.concatenate([text.token_ids for text in texts]),
        lengths=np.array([len(text.token_ids) for text in texts]),
        layers=np.array(layers, np.int32),
    )
    return file.getvalue()


def to_tfrecord(
    texts: Sequence[Text], layers: Sequence[int], vocab: Sequence[str]
) -> bytes:
    """Returns a tf.train.Example for each text, framed as in a TFRecord."""
    return b"".join(shards.frame(_example(text, layers)) for text in texts)


def _example(text: Text, layers: Sequence[int]) -> bytes:
    example = tf.train.Example()
    feature = example.features.feature
    feature["linex_index"].int64_list.value.append(text.line)
    feature["layers"].int64_list.value.extend(layers)
    feature["token_ids"].int64_list.value.extend(text.token_ids.tolist())
    feature["values"].float_list.value.extend(text.values.ravel())
    return example.SerializeToString(deterministic=True)


def join_npz(file: IO[bytes], parts: Callable[[], Iterator[bytes]]) -> None:
    """Writes the .npz of all texts; never more than a part is in memory."""

    def arrays(name: str) -> Iterator[np.ndarray]:
        for part in parts():
            with np.load(io.BytesIO(part)) as found:
                yield found[name]

    lengths = np.concatenate(list(arrays("lengths")))
    row_splits = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in ("values", "token_ids"):
            first = next(arrays(name))
            shape = (int(row_splits[-1]), *first.shape[1:])
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                part_files.begin_array(entry, first.dtype, shape)
                for array in arrays(name):
                    entry.write(np.ascontiguousarray(array).tobytes())
        layers = next(arrays("layers"))
        for name, array in (("row_splits", row_splits), ("layers", layers)):
            with archive.open(f"{name}.npy", "w") as entry:
                np.lib.format.write_array(entry, array)


# What makes a part of some texts, and what makes one file of the parts.
FORMATS = {
    "json": (to_json, part_files.concatenate),
    "npz": (to_npz, join_npz),
    "tfrecord": (to_tfrecord, part_files.concatenate),
}
