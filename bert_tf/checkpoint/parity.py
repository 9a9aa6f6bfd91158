"""Checkpoints before and after a conversion -> report of their differences.

Shapes: B batch, S sequence, H hidden, P predictions, L layers.
"""

import collections
import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import config as bert_config
from bert_tf.checkpoint import contents, model_folders, tensor_files

Outputs = Mapping[str, np.ndarray]

# Output -> weights that it depends on; without them it is meaningless.
_NEEDS = {
    "pooled_output": ("encoder/pooler/",),
    "next_sentence_logits": ("encoder/pooler/", "next_sentence/"),
    "masked_lm_logits": ("masked_lm/",),
}


def batch(config: bert_config.BertConfig, task: str) -> dict[str, np.ndarray]:
    """Returns a fixed batch with padding and two segments.

    Returns:
      `input_word_ids`, `input_mask` and `input_type_ids`, int32 [4, S], or
      [2, 2, S] for multiple choice; S is 16 or `max_position_embeddings`,
      whichever is less. For pre-training also `masked_lm_positions`, int32
      [4, P].
    """
    tokens = min(16, config.max_position_embeddings)
    lengths = np.array([tokens, tokens - tokens // 4, (tokens + 1) // 2, 1])
    mask = np.arange(tokens) < lengths[:, None]  # [4, S]
    # A multiple of the prime 7919 spreads neighbours over the vocabulary.
    words = (1 + 7919 * np.arange(4 * tokens)) % config.vocab_size
    types = np.arange(tokens) >= lengths[:, None] // 2
    inputs = {
        "input_word_ids": words.reshape(4, tokens) * mask,
        "input_mask": mask,
        "input_type_ids": types * mask * (config.type_vocab_size > 1),
    }
    if task == "multiple_choice":
        inputs = {n: x.reshape(2, 2, tokens) for n, x in inputs.items()}
    if task == "pretraining":
        inputs["masked_lm_positions"] = np.stack([0 * lengths, lengths - 1], 1)
    return {name: x.astype(np.int32) for name, x in inputs.items()}


def outputs(checkpoint: contents.Contents, inputs) -> Outputs:
    """Returns the outputs of our model for a `batch`.

    Outputs that depend on a weight missing in the checkpoint are left out.

    Returns:
      `encoder_outputs_0` and so on, `sequence_output` [B, S, H],
      `pooled_output` [B, H], and the outputs of the task's model. For multiple
      choice each choice is a row of B.
    """
    model = model_folders.build_model(checkpoint)
    inputs = {name: tf.constant(x) for name, x in inputs.items()}
    rows = {
        name: tf.reshape(x, [-1, x.shape[-1]]) for name, x in inputs.items()
    }
    encoded = model.encoder(rows)
    values = {
        f"encoder_outputs_{i}": layer
        for i, layer in enumerate(encoded.encoder_outputs)
    }
    values["sequence_output"] = encoded.sequence_output
    values["pooled_output"] = encoded.pooled_output
    values |= model(inputs)
    missing = checkpoint.missing()
    return {
        name: np.asarray(value)
        for name, value in values.items()
        if not any(x.startswith(_NEEDS.get(name, ())) for x in missing)
    }


def differences(ours: Outputs, theirs: Outputs) -> dict[str, float]:
    """Returns the largest absolute difference of each output present in both.

    Raises:
      ValueError: if the shapes of an output differ.
    """
    for name in set(ours) & set(theirs):
        if ours[name].shape != theirs[name].shape:
            raise ValueError(
                f"{name} has shape {ours[name].shape} here and "
                f"{theirs[name].shape} in the other implementation; the "
                "converted model is a different one."
            )
    return {
        name: float(np.max(np.abs(ours[name] - theirs[name])))
        for name in ours
        if name in theirs
    }


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


def check_lossless(
    given: contents.Contents, written: contents.Contents
) -> list[str]:
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
        if name not in written.metadata or written.metadata[name] != value
    ]
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


def tensor_lines(
    given: contents.Contents, written: contents.Contents
) -> list[str]:
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


def peer_lines(
    written: contents.Contents, peers: Sequence[tuple[str, str, object]]
) -> list[str]:
    """Returns report lines on how far our outputs are from those of peers.

    Args:
      written: the converted checkpoint.
      peers: for each, "source" or "target", the path of its checkpoint and the
        module of the format. Errors of a peer are reported, not raised.

    Raises:
      ValueError: if the shapes of an output differ.
    """
    inputs = batch(written.config, written.task)
    lines, ours = [], None
    for side, path, module in peers:
        try:
            theirs = module.reference_outputs(path, inputs)
            reason = module.PEER
        except Exception as error:
            # Other libraries raise anything, e.g. torch built for another CUDA.
            theirs = None
            reason = str(error).strip().partition("\n")[0]
            reason = f"{type(error).__name__}: {reason}"
            logging.debug("%s", module.PEER, exc_info=True)
        if theirs is None:
            lines += [f"outputs not compared with the {side}: {reason}"]
            continue
        ours = ours or outputs(written, inputs)
        lines += [f"largest difference from the {side} in {module.PEER}:"]
        lines += [
            f"  {name:22} {value:.2e}"
            for name, value in differences(ours, theirs).items()
        ]
    return lines
