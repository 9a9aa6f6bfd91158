"""Tensors of another format <-> tensors by our names, with a rename table.

Here and in the converters, "our" names and shapes are those of bert_tf, and
"their" names and shapes are those of the other format.
"""

import functools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf import config as bert_config
from bert_tf.checkpoint import tensor_files
from tfrecords.options import some

Shape = tuple[int, ...]
_DENSE, _NORM = ("kernel", "bias"), ("gamma", "beta")
KERAS_SUFFIXES = {part: f"/{part}" for part in _DENSE + _NORM}
# Prefixes of our names, one per part. A source may lack all weights of a part.
PARTS = ("encoder/pooler/", "masked_lm/", "next_sentence/")
POOLER, MASKED_LM, NEXT_SENTENCE = PARTS


class Rename(NamedTuple):
    """One weight in both formats.

    Attributes:
      ours: our name, as in `model_folders.weight_names`.
      theirs: name in the other format.
      is_transposed: whether their tensor is the transpose of ours, as in
        PyTorch.
      shape: their shape, if it splits or joins axes of ours, as in
        `split_heads`; None if it is ours, transposed if `is_transposed`.
    """

    ours: str
    theirs: str
    is_transposed: bool = False
    shape: Shape | None = None

    def their_shape(self, our_shape: Shape) -> Shape:
        """Returns their shape for a shape of ours."""
        kept = our_shape[::-1] if self.is_transposed else our_shape
        return self.shape or kept

    def to_ours(self, tensor: np.ndarray, our_shape: Shape) -> np.ndarray:
        """Returns their tensor in our shape, with the same bits."""
        tensor = np.asarray(tensor)
        if self.is_transposed:
            tensor = tensor.T
        return np.ascontiguousarray(tensor.reshape(our_shape))

    def to_theirs(self, tensor: np.ndarray) -> np.ndarray:
        """Returns our tensor in their shape, with the same bits."""
        tensor = np.asarray(tensor)
        if self.is_transposed:
            tensor = tensor.T
        return np.ascontiguousarray(tensor.reshape(self.shape or tensor.shape))


def rows(
    layers: Mapping[str, str],
    suffixes: Mapping[str, str] = KERAS_SUFFIXES,
    *,
    is_transposed: bool = False,
) -> list[Rename]:
    """Returns the rows of dense layers and LayerNorms.

    Args:
      layers: our layer name -> their layer name. Ours ends in `norm` for a
        LayerNorm.
      suffixes: our weight's name in the layer -> suffix of their name.
      is_transposed: whether their kernels are [columns, rows].
    """
    return [
        Rename(
            f"{ours}/{part}",
            theirs + suffixes[part],
            is_transposed=is_transposed and part == "kernel",
        )
        for ours, theirs in layers.items()
        for part in (_NORM if ours.endswith("norm") else _DENSE)
    ]


def encoder_rows(
    embeddings: Mapping[str, str],
    layers: Sequence[str],
    parts: Mapping[str, str],
    pooler: str,
    suffixes: Mapping[str, str] = KERAS_SUFFIXES,
    *,
    is_transposed: bool = False,
) -> list[Rename]:
    """Returns the rows of an encoder.

    Args:
      embeddings: `norm` -> their LayerNorm; `word_embeddings` and so on ->
        their weight.
      layers: prefix of their names, for each encoder layer.
      parts: sublayers of a layer: our name -> their name after the prefix.
      pooler: their name for the pooler.
      suffixes: as for `rows`.
      is_transposed: as for `rows`.
    """
    names = {"encoder/embeddings/norm": embeddings["norm"]}
    for i, start in enumerate(layers):
        names |= {
            f"encoder/layer_{i}/{ours}": start + theirs
            for ours, theirs in parts.items()
        }
    names["encoder/pooler"] = pooler
    tables = [
        Rename(f"encoder/embeddings/{ours}", theirs)
        for ours, theirs in embeddings.items()
        if ours != "norm"
    ]
    return tables + rows(names, suffixes, is_transposed=is_transposed)


def split_heads(
    table: Iterable[Rename], config: bert_config.BertConfig
) -> list[Rename]:
    """Returns rows for Keras's MultiHeadAttention, where heads are an axis.

    Shapes: H hidden, A heads, D = H / A.
    """
    width, heads = config.hidden_size, config.num_attention_heads
    size = width // heads
    # [A, D, H]
    shapes = {"attention/output_dense/kernel": (heads, size, width)}
    for part in ("query", "key", "value"):
        shapes[f"attention/{part}/kernel"] = (width, heads, size)  # [H, A, D]
        shapes[f"attention/{part}/bias"] = (heads, size)  # [A, D]
    return [
        row._replace(shape=shapes.get(row.ours.split("/", 2)[-1]))
        for row in table
    ]


def _unexpected(tensors: Mapping[str, np.ndarray]) -> list[str]:
    return [f"+ unexpected:   {n} {x.shape}" for n, x in tensors.items()]


def _difference(source: str, advice: str, *lines: list[str]) -> ValueError:
    start = f"{sum(map(len, lines))} tensors do not match ({source})."
    shown = ["  " + some(group, "\n  ") for group in lines if group]
    return ValueError("\n".join([start, *shown, advice]))


def with_slots(
    table: Iterable[Rename], suffixes: Mapping[str, str]
) -> list[Rename]:
    """Returns a table extended by rows for each weight's slots.

    `suffixes` maps a slot, "m" or "v", to the suffix that the other format
    appends to a weight's name.
    """
    table = list(table)
    return table + [
        row._replace(ours=f"{slot}/{row.ours}", theirs=row.theirs + suffix)
        for slot, suffix in suffixes.items()
        for row in table
    ]


def to_ours(
    table: Iterable[Rename],
    tensors: Mapping[str, np.ndarray],
    our_shapes: Mapping[str, Shape],
    *,
    source: str,
    optional: Iterable[str] = PARTS,
) -> tuple[tensor_files.Tensors, tensor_files.Tensors, list[str]]:
    """Renames tensors to our names, without reading them.

    Args:
      table: a row for each of `our_shapes`, and optionally for their slots;
        rows of weights that are not there are skipped.
      tensors: their name -> array or StoredTensor.
      our_shapes: shapes of all weights of the task's model.
      source: format and path, for messages.
      optional: prefixes of our names: parts that may be missing as a whole.
        Any slot may be missing.

    Returns:
      Weights by our names, slots by our names, and the names of unused tensors.

    Raises:
      ValueError: if tensors are missing or have a different shape. The message
        lists them and the unused ones, at most ten of each.
    """
    table = [x for x in table if re.sub("^[mv]/", "", x.ours) in our_shapes]
    may_miss = set(missing_parts(table, tensors, optional))
    missing, misfits, renamed = [], [], {}
    for row in table:
        slot = re.match("[mv]/", row.ours)
        shape = our_shapes[row.ours[2:] if slot else row.ours]
        expected = row.their_shape(shape)
        tensor = tensors.get(row.theirs)
        if tensor is not None and tensor.shape == expected:
            renamed[row.ours] = tensor_files.StoredTensor(
                shape,
                tensor.dtype,
                functools.partial(row.to_ours, tensor, shape),
            )
        elif tensor is not None:
            misfits.append(
                f"! other shape:  {row.theirs} {tensor.shape}, expected "
                f"{expected} from the config"
            )
        elif not slot and row.ours not in may_miss:
            missing.append(
                f"- missing:      {row.theirs} {expected}, for {row.ours}"
            )
    unused = sorted(set(tensors) - {row.theirs for row in table})
    if missing or misfits:
        raise _difference(
            source,
            "Use the config that belongs to these weights; a model whose "
            "layers differ from BERT's cannot be read.",
            missing,
            misfits,
            _unexpected({name: tensors[name] for name in unused}),
        )
    weights = [name for name in our_shapes if name in renamed]
    slots = [name for name in renamed if name not in our_shapes]
    return (
        tensor_files.only(renamed, weights),
        tensor_files.only(renamed, slots),
        unused,
    )


def missing_parts(
    table: Iterable[Rename], names: Collection[str], parts: Iterable[str]
) -> list[str]:
    """Returns our names of the weights of each part that has no tensor.

    Args:
      table: rename table.
      names: names, in the other format, of the tensors that exist.
      parts: prefixes of our names.
    """
    table, missing = list(table), []
    for part in parts:
        group = [row for row in table if row.ours.startswith(part)]
        if not any(row.theirs in names for row in group):
            missing += [row.ours for row in group]
    return missing


def refuse_more(
    more: Mapping[str, np.ndarray], *, source: str, config: str
) -> None:
    """Raises ValueError if there are tensors in `more`.

    Args:
      more: tensors of the encoder that are in no row of the table, by name.
      source: format and path, for messages.
      config: path of the file with the sizes, for messages.
    """
    if more:
        raise ValueError(
            f"{len(more)} tensors of the encoder are not in a BERT with the "
            "configured sizes; without them, outputs would differ "
            f"({source}).\n  "
            + some(_unexpected(more), "\n  ")
            + f"\nCheck that {config} belongs to these weights. If it does, "
            "the encoder is not BERT's and cannot be read."
        )


def refuse_norm_first(config: bert_config.BertConfig, path: str) -> None:
    """Raises ValueError if the config of another format has `norm_first`.

    Such models of others have no LayerNorm after the last layer, or another.
    """
    if config.norm_first:
        raise ValueError(
            f"{path} has norm_first=true, LayerNorm before each sublayer. Only "
            "models of bert_tf can be read with it. If the weights are those "
            "of an ordinary BERT, remove the entry."
        )


def to_theirs(
    table: Iterable[Rename], tensors: Mapping[str, np.ndarray], *, source: str
) -> tensor_files.Tensors:
    """Renames tensors to their names, without reading them.

    Rows without a tensor are skipped.

    Raises:
      ValueError: if tensors are not in the table; the message lists them.
    """
    rows = {row.ours: row for row in table}
    stored = tensor_files.stored(tensors)
    lines = [
        f"+ no equivalent: {name} {tensor.shape}"
        for name, tensor in stored.items()
        if name not in rows
    ]
    if lines:
        raise _difference(
            source,
            "The target format cannot hold these tensors; choose another "
            "format.",
            lines,
        )
    return tensor_files.Tensors(
        {
            rows[name].theirs: tensor_files.StoredTensor(
                rows[name].their_shape(tensor.shape),
                tensor.dtype,
                functools.partial(rows[name].to_theirs, tensor),
            )
            for name, tensor in stored.items()
        }
    )
