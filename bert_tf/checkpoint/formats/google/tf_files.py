"""TensorFlow checkpoint files <-> their prefix, for TF1 and TF2.

A folder has bert_config.json, vocab.txt, `<prefix>.index`, data files such as
`<prefix>.data-00000-of-00001`, and a file `checkpoint`, which points to the
latest checkpoint.
"""

import contextlib
import errno
import functools
import glob
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_tf.checkpoint import contents, model_folders, tensor_files
from bert_tf.checkpoint.formats import renaming, vocabularies
from tfrecords.io import atomic_files

NAME = "bert_model.ckpt"  # As released.
GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"  # Only in TF2.
_STATE = "checkpoint"
WRITES = (_STATE, f"{NAME}.*", model_folders.CONFIG, model_folders.VOCABULARY)
_TABLE_MAGIC = bytes.fromhex("57fb808b247547db")  # The last 8 bytes of a table.
_SUFFIX = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
# Excludes leftovers of a killed process, `.data-00000-of-00001.tempstate123`.
_DATA = re.compile(r"\.data-\d{5}-of-(\d{5})$")


def _version(index: str) -> str | None:
    """Returns "TF1" or "TF2"; None if the file is not a checkpoint's index.

    A TF1 index lists variables by name, a TF2 index lists them by attribute
    paths and has an object graph.
    """
    with open(index, "rb") as file:
        content = file.read()
    if GRAPH_KEY.encode() in content:
        return "TF2"
    # With data files, it is a damaged index; without, another kind of file.
    is_tf1 = content.endswith(_TABLE_MAGIC) or data_files(
        index.removesuffix(".index")
    )
    return "TF1" if is_tf1 else None


def prefixes(path: str, version: str) -> list[str]:
    """Returns the prefixes of the checkpoints at `path`, sorted.

    Args:
      path: a folder, a prefix, or one of the files.
      version: "TF1" or "TF2".
    """
    if os.path.isdir(path):
        indices = glob.glob(os.path.join(glob.escape(path), "*.index"))
    else:
        indices = [f"{_SUFFIX.sub('', path)}.index"]
    return [
        index.removesuffix(".index")
        for index in sorted(filter(os.path.isfile, indices))
        if _version(index) == version
    ]


def data_files(prefix: str) -> list[str]:
    """Returns the existing data files of a checkpoint."""
    paths = glob.glob(f"{glob.escape(prefix)}.data-*")
    return list(filter(_DATA.search, paths))


def find(path: str, version: str) -> str:
    """Returns the prefix of the checkpoint at `path`.

    If a folder has several, it is the one that the `checkpoint` file points to.
    Arguments are those of `prefixes`.

    Raises:
      ValueError: if there is none, or it is ambiguous.
    """
    choices = prefixes(path, version)
    if not choices:
        raise ValueError(
            f"{path} contains no {version} checkpoint; expected {NAME}.index "
            f"and {NAME}.data-00000-of-00001, or the same with another prefix."
        )
    if len(choices) == 1:
        return choices[0]
    state = os.path.join(path, _STATE)
    if os.path.isfile(state):
        with open(state, encoding="utf-8", errors="replace") as file:
            newest = re.search(r'^model_checkpoint_path: "(.*)"', file.read())
        # Often an absolute path on the machine that trained the model.
        if newest:
            prefix = os.path.join(path, os.path.basename(newest[1]))
            if prefix in choices:
                return prefix
    raise ValueError(
        f"{path} contains several checkpoints: "
        f"{', '.join(map(os.path.basename, choices))}. Give one of them, such "
        f"as {choices[0]}."
    )


def _check_shards(prefix: str) -> None:
    """Raises ValueError naming the data files that are missing, if any."""
    present = set(data_files(prefix))
    counts = {int(_DATA.search(path)[1]) for path in present} or {1}
    missing = []
    for count in sorted(counts):
        wanted = [f"{prefix}.data-{i:05d}-of-{count:05d}" for i in range(count)]
        # Other data files may be left over from a save with more shards.
        if present.issuperset(wanted):
            return
        missing += [path for path in wanted if path not in present]
    raise ValueError(
        f"{prefix}.index exists, but data files are missing: "
        f"{', '.join(missing)}. Copy every file of the checkpoint."
    )


def _check_claims(reader, prefix: str) -> None:
    """Raises ValueError if an index claims more bytes than its data files have.

    TensorFlow would allocate a tensor before it reads it.
    """
    types = reader.get_variable_to_dtype_map()
    stored = sum(map(os.path.getsize, data_files(prefix)))
    for name, shape in reader.get_variable_to_shape_map().items():
        num_bytes = math.prod(shape) * max(types[name].size, 1)
        if num_bytes > stored:
            raise ValueError(
                f"{prefix}.index claims {num_bytes:,} bytes for {name} "
                f"{tuple(shape)}, but the data files have {stored:,}. Copy or "
                "download the checkpoint again."
            )


def read_tensors(prefix: str) -> dict[str, tensor_files.StoredTensor]:
    """Returns every tensor of a checkpoint by its name or key.

    Raises:
      ValueError: if files are missing or damaged, also when a tensor is read.
    """
    _check_shards(prefix)
    with _faults_named(prefix):
        reader = tf.train.load_checkpoint(prefix)
        _check_claims(reader, prefix)
        types = reader.get_variable_to_dtype_map()
        return {
            name: tensor_files.StoredTensor(
                shape,
                types[name].as_numpy_dtype,
                functools.partial(_read, reader, name, types[name], prefix),
            )
            for name, shape in sorted(
                reader.get_variable_to_shape_map().items()
            )
        }


def _read(reader, name: str, dtype: tf.DType, prefix: str) -> np.ndarray:
    with _faults_named(prefix):
        # Strings are objects: NumPy's own would lose their last zeros.
        return np.asarray(reader.get_tensor(name), dtype.as_numpy_dtype)


@contextlib.contextmanager
def _faults_named(prefix: str) -> Iterator[None]:
    """Translates what TensorFlow raises for a damaged checkpoint."""
    try:
        yield
    # A truncated file raises IndexError.
    except (tf.errors.OpError, RuntimeError, IndexError) as error:
        raise ValueError(
            f"{prefix} is damaged ({str(error).splitlines()[0]}). Copy or "
            "download it again."
        ) from error


@contextlib.contextmanager
def writing(folder: str) -> Iterator[str]:
    """Yields the prefix to write to; then writes the `checkpoint` file.

    Raises:
      OSError: if the disk is full.
    """
    prefix = os.path.join(folder, NAME)
    try:
        yield prefix
    except tf.errors.ResourceExhaustedError as error:
        # TensorFlow's error for a full disk.
        raise OSError(
            errno.ENOSPC, os.strerror(errno.ENOSPC), prefix
        ) from error
    with atomic_files.atomic_file(os.path.join(folder, _STATE)) as file:
        for key in ("model_checkpoint_path", "all_model_checkpoint_paths"):
            file.write(f'{key}: "{NAME}"\n')


def to_theirs(
    checkpoint: contents.Contents,
    table: Sequence[renaming.Rename],
    slots: Mapping[str, str],
    target: str,
) -> tensor_files.Tensors:
    """Returns weights and Adam's slots as float32, by the target's names.

    Args:
      checkpoint: checkpoint to write.
      table: a row for each weight.
      slots: suffixes as for `renaming.with_slots`.
      target: the target format, for messages.

    Raises:
      ValueError: if the target format does not support the hidden_act.
    """
    if checkpoint.config.hidden_act == "gelu_erf":
        raise ValueError(
            f"{checkpoint.source} has hidden_act=gelu_erf, which {target} does "
            "not support: its gelu is the tanh approximation. To use that, "
            "with slightly different outputs, open it with hidden_act=gelu."
        )
    theirs = renaming.to_theirs(
        renaming.with_slots(table, slots),
        checkpoint.moments_too(),
        source=checkpoint.source,
    )
    return tensor_files.as_float32(theirs)


def write_text(checkpoint: contents.Contents, folder: str) -> None:
    """Writes bert_config.json and vocab.txt."""
    name = model_folders.CONFIG
    checkpoint.config.to_json_file(
        os.path.join(folder, name), checkpoint.source_settings(name)
    )
    vocabularies.write(
        checkpoint.vocabulary, os.path.join(folder, model_folders.VOCABULARY)
    )
