"""Contents -> files of a format, read back and compared bit for bit."""

import collections
import math
import re

import numpy as np

from bert_tf.checkpoint import contents, detection, tensor_files
from bert_tf.checkpoint.contents import Contents
from bert_tf.checkpoint.options import ACCEPT, OURS
from bert_tf.config import DISTILBERT
from tfrecords.text import vocab

# Formats that can hold special tokens of one's own.
_KEEPING = (OURS, "hugging_face")


def _check_supported(given: Contents, to: str) -> None:
    """Raises ValueError if the target format cannot express the config."""
    keys = given.config.keys_of_ours()
    if to == "hugging_face" and given.config.is_distilbert:
        keys = {n: x for n, x in keys.items() if n not in DISTILBERT}
    if keys and to != OURS:
        settings = ", ".join(f"{name}={value}" for name, value in keys.items())
        raise ValueError(
            f"{given.source} has {settings} in its bert_config.json, which "
            f"{to} does not support: its weights would be read as those of an "
            "ordinary BERT. Keep such a model in the "
            f"format {OURS}; export_savedmodel can export it."
        )


def _check_rules(given: Contents, to: str) -> None:
    """Raises ValueError if the target format cannot hold the tokenizer's rules.

    The case is inferred again from the vocabulary. That special tokens in texts
    are not split is lost, which the report says: other texts are the same. But
    those of one's own are there to be in texts.
    """
    rules = given.rules()
    entries = (given.vocabulary or b"").decode("utf-8", "replace").split()
    own = {*vocab.special_tokens(entries)} - {*vocab.SPECIAL_TOKENS}
    if own and not rules.get(vocab.SPLIT, True) and to not in _KEEPING:
        raise ValueError(
            f"The tokenizer of {given.source} keeps {', '.join(sorted(own))} "
            f"in a text, and no reader of the format {to} does. Choose one of "
            f"{', '.join(_KEEPING)}. {ACCEPT} to write it anyway."
        )
    for name in ("do_lower_case", vocab.SPLIT):
        rules.pop(name, None)
    if rules and to in ("google", "model_garden"):
        settings = ", ".join(f"{name}={value}" for name, value in rules.items())
        raise ValueError(
            f"The tokenizer of {given.source} has {settings}, which no file of "
            f"the format {to} holds: its readers would make other tokens. "
            f"Choose another format. {ACCEPT} to write it anyway."
        )


def write(
    given: Contents,
    to: str,
    folder: str,
    accept_tokenizer_differences: bool = False,
) -> tuple[Contents, list[str]]:
    """Writes Contents, reads them back and compares the two, bit for bit.

    Args:
      given: what to write.
      to: target format, one of `options.FORMATS`.
      folder: a folder from `atomic_files.atomic_folder`.
      accept_tokenizer_differences: whether the format may lack the rules of the
        tokenizer.

    Returns:
      The Contents read back, and lines of the report: its notes, and how
      tensors changed.

    Raises:
      ValueError: if the format cannot hold it, or the written files differ.
    """
    _check_supported(given, to)
    if not accept_tokenizer_differences:
        _check_rules(given, to)
    target = detection.format_module(to)
    target.write(given, folder)
    written = target.read(folder)
    return written, [
        *(f"note on the target: {note}" for note in written.notes),
        *tensor_lines(given, written),
        *check_lossless(given, written),
    ]


def _is_same(before: np.ndarray, after: np.ndarray) -> bool:
    """Returns whether two tensors have the same values, whatever the dtype."""
    if before.dtype == after.dtype:
        return before.shape == after.shape and _has_same_bits(before, after)
    cast = before.astype(after.dtype)
    return _is_same(cast, after) and _is_same(cast.astype(before.dtype), before)


def _has_same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    # As integers, since NaN is not equal to itself, and -0 is equal to 0.
    bits = np.dtype(f"u{one.itemsize}")
    one, other = np.ascontiguousarray(one), np.ascontiguousarray(other)
    return np.array_equal(one.view(bits), other.view(bits))


def check_lossless(given: Contents, written: Contents) -> list[str]:
    """Returns report lines on everything that the target format cannot hold.

    Args:
      given: the checkpoint that was converted.
      written: the converted files, read back.

    Raises:
      ValueError: if a weight or slot is not the same bit for bit, or the task,
        sizes or hidden_act changed.
    """
    # Slots too: every format or its sidecar can hold them.
    before, after = given.all_tensors(), written.all_tensors()
    lost, embedding = [], given.sentence_embedding
    if embedding and not written.sentence_embedding:
        lost = [f"sentence embedding: {embedding}"]
        before = given.moments_too()
    lines = [f"  - lost:     {n}" for n in before if n not in after]
    lines += [f"  + invented: {n}" for n in after if n not in before]
    lines += [
        f"  ! changed:  {name} {before[name].dtype} {before[name].shape} "
        f"-> {after[name].dtype} {after[name].shape}"
        for name in before
        if name in after and not _is_same(before[name], after[name])
    ]
    was, is_now = given.config.to_dict(), written.config.to_dict()
    changed = [name for name in was if was[name] != is_now[name]]
    lines += [
        f"  ! {name}: {was[name]} -> {is_now[name]}"
        for name in changed
        if not name.endswith("_prob") and name != "initializer_range"
    ]
    if given.task != written.task:
        lines += [f"  ! task: {given.task} -> {written.task}"]
    kept = written.sentence_embedding
    if kept and (not embedding or kept.settings() != embedding.settings()):
        lines += [f"  ! sentence embedding: {embedding} -> {kept}"]
    if lines:
        raise ValueError(
            f"{given.source} differs after being written and read back:\n"
            + "\n".join(lines)
        )
    for name in ("step", "labels", "vocabulary", "do_lower_case"):
        value = getattr(given, name)
        # If the source does not specify it, a note reports the inferred one.
        is_inferred = name == "do_lower_case" and value is None
        if value != getattr(written, name) and not is_inferred:
            lost += [name if name == "vocabulary" else f"{name} {value}"]
    lost += [
        f"{name} {value}"
        for name, value in given.metadata.items()
        if written.metadata.get(name) != value
        and name != contents.SOURCE_SETTINGS
    ]
    settings = given.metadata.get(contents.SOURCE_SETTINGS, {})
    for file, keys in settings.items():
        own = written.source_settings(file)
        if others := [x for x in keys if x not in own or own[x] != keys[x]]:
            lost += [f"{', '.join(others)} of {file}"]
    lost += [f"{n} {was[n]}; it has {is_now[n]} instead" for n in changed]
    return [
        f"read back: {len(before)} tensors equal bit for bit",
        *(f"not kept by this format: {text}" for text in lost),
    ]


def _part(name: str) -> str:
    """`encoder/layer_3/output_norm/beta` -> `encoder/layer_*`."""
    if name.startswith(("m/", "v/")):
        return f"Adam's {name[0]}"
    parts = name.split("/")[: 2 if name.startswith("encoder/") else 1]
    return re.sub(r"\d+$", "*", "/".join(parts))


def tensor_lines(given: Contents, written: Contents) -> list[str]:
    """Returns a table of the tensors read, and lists of unmatched names."""
    groups = collections.defaultdict(list)
    for name, tensor in given.moments_too().stored.items():
        groups[_part(name)].append(tensor)
    lines = [f"{'read':20} {'tensors':>8} {'numbers':>12}  type"]
    for part, tensors in groups.items():
        types = sorted({str(tensor.dtype) for tensor in tensors})
        numbers = sum(math.prod(tensor.shape) for tensor in tensors)
        lines += [
            f"{part:20} {len(tensors):8} {numbers:12,}  {', '.join(types)}"
        ]
    for title, names in (
        ("unused in the source", given.unused),
        ("missing in the source", given.missing()),
    ):
        lines += [f"{title}: {len(names)}", *(f"  {name}" for name in names)]
    after = tensor_files.stored(written.tensors)
    changes = collections.Counter(
        f"{tensor.dtype} -> {after[name].dtype}"
        for name, tensor in tensor_files.stored(given.tensors).items()
        if tensor.dtype != after[name].dtype
    )
    lines += [f"types changed: {sum(changes.values())}"]
    return lines + [f"  {change}: {n}" for change, n in changes.items()]
