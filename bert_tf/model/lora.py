"""Encoder <-> low-rank adapters of its kernels: LoRA.

Hu et al. 2021 (arXiv 2106.09685), section 4.1: a kernel W [I, O] is frozen,
and the layer computes x W + alpha / rank * (x A) B. Only A [I, rank] and
B [rank, O] are trained. B starts at 0, so that training starts from the
outputs of the pre-trained model.

A and B are those of `keras.layers.Dense.enable_lora`, whose `kernel` is then
W + alpha / rank * A B. The layers of the encoder know nothing of them: `enable`
gives each a `product` that adds (x A) B.
"""

import contextlib
import dataclasses
import hashlib
import math
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import safetensors
import tensorflow as tf
from safetensors import numpy as safetensors_numpy

from bert_tf.config import LORA_TARGETS
from bert_tf.model import encoder as encoder_lib
from bert_tf.model import layers
from tfrecords.io import atomic_files
from tfrecords.options import quoted

DEFAULT_TARGETS = ("query", "value")  # Section 7.1 of the paper.
_A, _B = "lora_kernel_a", "lora_kernel_b"  # Keras's names.
_FORMAT = "bert_tf LoRA weights"
_KEYS = {"format", "rank", "alpha", "targets", "base_sha256"}


@dataclasses.dataclass(frozen=True)
class Adapters:
    """Settings of the adapters of an encoder.

    Attributes:
      rank: columns of A and rows of B.
      alpha: scale of A B, which is divided by the rank.
      targets: names of the adapted products in each layer, of `LORA_TARGETS`.
    """

    rank: int
    alpha: float
    targets: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class MergedKernel:
    """W + alpha / rank * A B of a Dense layer, computed when it is read.

    It can be saved to a file like a variable, one kernel in memory at a time.
    """

    part: keras.layers.Dense

    @property
    def dtype(self) -> str:
        return frozen_kernel(self.part).dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(frozen_kernel(self.part).shape)

    def numpy(self) -> np.ndarray:
        # Not `part.kernel`: on a GPU its product may have 10 bits only (TF32).
        kernel = frozen_kernel(self.part).numpy()
        a, b = (own.numpy() for own in _factors(self.part))
        update = _scale(self.part) * (a @ b)
        return (kernel.astype(np.float32) + update).astype(kernel.dtype)


def frozen_kernel(part: keras.layers.Dense):
    """Returns W, [I, O]; also of a layer without adapter."""
    if not part.lora_enabled:
        return part.kernel
    return next(weight for weight in part.weights if weight.name == "kernel")


def _factors(part):
    return part.lora_kernel_a, part.lora_kernel_b


def _scale(part) -> float:
    return part.lora_alpha / part.lora_rank


def product(rows, parts, training=False) -> tf.Tensor:
    """Returns `layers.product` + alpha / rank * (x A) B of adapted parts."""
    kernels = [frozen_kernel(part) for part in parts]
    outputs = layers.product(rows, parts, training, kernels)
    downs, ups, before = [], [], 0
    for part in parts:
        after = outputs.shape[-1] - before - part.units
        if part.lora_enabled:
            a, b = (tf.convert_to_tensor(own) for own in _factors(part))
            downs.append(a)
            ups.append(tf.pad(_scale(part) * b, [[0, 0], [before, after]]))
        before += part.units
    if not downs:
        return outputs
    narrow = tf.matmul(rows, tf.concat(downs, 1))
    return outputs + tf.matmul(narrow, tf.concat(ups, 0))


def enable(
    encoder: encoder_lib.BertEncoder,
    rank: int,
    alpha: float | None = None,
    targets: Sequence[str] = DEFAULT_TARGETS,
) -> None:
    """Freezes the encoder except its pooler, and adds trained adapters.

    Hu et al. 2021 (arXiv 2106.09685): each adapted kernel W [I, O] becomes
    W + alpha / rank * A B; only A [I, rank] and B [rank, O] are trained.
    The pooler is trained as well: it belongs to the task, like the head,
    and pre-training without sentence pairs leaves it random. To freeze it,
    set `pooler.trainable = False`. Under a strategy, call it in its scope.

    Call it before `compile` and `fit`, which keep the weights to train,
    and before making a Predictor; but after `load_weights` of Keras, which
    sets A and B to 0. The attribute `lora`, None before, has the settings.

    Model folders, exports and `.keras` files have the merged kernels and
    no adapters. Load a file saved after `fit` with `compile=False`: the
    optimizer's slots, of the adapters, do not fit the loaded model.

    Args:
      encoder: a BertEncoder; this is its method `enable_lora`.
      rank: 1 or more; 8 is common.
      alpha: scale of A B; None for `rank`, which is a factor of 1.
      targets: names of the adapted products in each layer: query, key,
        value, attention_output, intermediate or output.

    Raises:
      ValueError: if rank, alpha or targets are out of range, or the
        encoder has adapters already.
    """
    alpha = rank if alpha is None else alpha
    _check(encoder, rank, alpha, targets)
    pooler = {id(weight) for weight in encoder.pooler.weights}
    for weight in encoder.weights:
        if id(weight) not in pooler:
            weight.trainable = False
    names = tuple(name for name in LORA_TARGETS if name in targets)
    encoder.lora = Adapters(rank, float(alpha), names)
    for part in _targets(encoder):
        # Without these scopes all adapters would have the same path.
        *scopes, _, _ = part.kernel.path.split("/")
        with contextlib.ExitStack() as stack:
            for scope in scopes:
                stack.enter_context(keras.name_scope(scope))
            part.enable_lora(rank, lora_alpha=float(alpha))
    for layer in encoder.encoder_layers:
        layer.product = layer.attention.product = product


def _check(encoder, rank, alpha, targets) -> None:
    """Raises ValueError for settings that do not suit the encoder."""
    if encoder.lora:
        raise ValueError(
            f"The encoder has adapters already: {encoder.lora}. Build a new "
            "encoder for others."
        )
    if not targets or not set(targets) <= set(LORA_TARGETS):
        raise ValueError(
            f"targets {quoted(tuple(targets))} should be one or more of "
            f"{', '.join(LORA_TARGETS)}."
        )
    config = encoder.config
    most = min(config.hidden_size, config.intermediate_size)
    if not 1 <= rank <= most:
        raise ValueError(
            f"rank={rank} should be at least 1 and at most {most}, the "
            "smaller side of the model's matrices."
        )
    if not 0 < alpha < math.inf:
        raise ValueError(f"alpha={alpha} should be above 0 and finite.")


def adapted(model: keras.Model) -> list[keras.layers.Layer]:
    """Returns the layers with an adapter, of ours or of Keras's enable_lora."""
    return [part for part in model._flatten_layers() if hasattr(part, _A)]


def _targets(encoder) -> list[keras.layers.Dense]:
    """Returns the layers that the settings of an encoder name."""
    return [
        _parts(layer)[target]
        for layer in encoder.encoder_layers
        for target in encoder.lora.targets
    ]


def _parts(layer) -> dict[str, keras.layers.Dense]:
    """Returns name of a target -> Dense layer, for a layer of an encoder."""
    attention = layer.attention
    return {
        "query": attention.query,
        "key": attention.key,
        "value": attention.value,
        "attention_output": attention.output_dense,
        "intermediate": layer.intermediate,
        "output": layer.output_dense,
    }


def is_factor(weight: keras.Variable) -> bool:
    """Returns whether a weight is the A or B of an adapter."""
    return weight.name in (_A, _B)


def merged(model: keras.Model, weights: Mapping) -> dict:
    """Returns ordinary weights by name, with MergedKernel where adapted."""
    kernels = {
        id(frozen_kernel(part)): MergedKernel(part) for part in adapted(model)
    }
    return {name: kernels.get(id(w), w) for name, w in weights.items()}


def unmerged(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns path -> W, A and B of each adapter; {} without adapters.

    Together with the other weights they restore a model exactly: W cannot be
    computed from the merged kernel.
    """
    weights = [
        weight
        for part in adapted(model)
        for weight in (frozen_kernel(part), *_factors(part))
    ]
    return encoder_lib.by_path(model, weights)


def reset(model: keras.Model) -> None:
    """Sets every B to 0: the model then computes with W alone."""
    for part in adapted(model):
        part.lora_kernel_b.assign(tf.zeros(part.lora_kernel_b.shape))


def merge(encoder: keras.Model) -> None:
    """Adds each adapter to its kernel, and sets the adapter's B to 0.

    Outputs stay the same, within rounding. Adapters saved before no longer
    belong to this encoder.
    """
    for part in adapted(encoder):
        frozen_kernel(part).assign(MergedKernel(part).numpy())
    reset(encoder)


def counts(model: keras.Model) -> tuple[int, int]:
    """Returns the numbers of trained values and of all, adapters included."""
    return tuple(
        sum(math.prod(weight.shape) for weight in weights)
        for weights in (model.trainable_weights, model.weights)
    )


def _base_sha256(encoder) -> str:
    """Returns the sha256 of the weights that adapters keep as they are."""
    sha256 = hashlib.sha256()
    weights = [w for w in encoder.weights if not is_factor(w)]
    for name, weight in sorted(encoder_lib.by_path(encoder, weights).items()):
        if not name.startswith("pooler/"):
            array = np.ascontiguousarray(weight.numpy())
            sha256.update(f"{name} {array.dtype} {array.shape}\n".encode())
            sha256.update(array.reshape(-1).view(np.uint8))
    return sha256.hexdigest()


def save(encoder: keras.Model, path: str) -> None:
    """Writes the trained weights: adapters, and the pooler if it is trained.

    The weights of the head, which is not in the encoder, are not written.

    Args:
      encoder: a BertEncoder; this is its method `save_lora_weights`.
      path: path of a new .safetensors file. Its metadata has rank, alpha,
        targets, and the sha256 of the frozen weights.

    Raises:
      ValueError: if there are no adapters.
    """
    if not encoder.lora:
        raise ValueError(
            f"{path} cannot be written: the encoder has no adapters. Call "
            "enable_lora first."
        )
    trained = encoder_lib.by_path(encoder, encoder.trainable_weights)
    content = safetensors_numpy.save(
        {name: weight.numpy() for name, weight in trained.items()},
        {
            "format": _FORMAT,
            "rank": str(encoder.lora.rank),
            "alpha": repr(encoder.lora.alpha),
            "targets": ",".join(encoder.lora.targets),
            "base_sha256": _base_sha256(encoder),
        },
    )
    with atomic_files.atomic_file(path, "wb") as file:
        file.write(content)


def load(encoder: keras.Model, path: str) -> None:
    """Reads a file of `save_lora_weights`; adds adapters if necessary.

    Raises:
      ValueError: if the file is missing or damaged, or was saved for other
        frozen weights, another rank, alpha or other targets.
    """
    settings, sha256, tensors = _read(path)
    if encoder.lora and encoder.lora != settings:
        raise ValueError(
            f"{path} has {settings}; the encoder has {encoder.lora}. Load it "
            "into an encoder without adapters, which gets those of the file."
        )
    own = _base_sha256(encoder)
    if own != sha256:
        raise ValueError(
            f"{path} belongs to an encoder with the weights sha256 {sha256}; "
            f"those of this one are {own}. Load it into the encoder that the "
            "adapters were trained with, in the same dtype."
        )
    if not encoder.lora:
        enable(encoder, settings.rank, settings.alpha, settings.targets)
    variables = encoder_lib.by_path(encoder, encoder.trainable_weights)
    shapes = {name: tuple(x.shape) for name, x in variables.items()}
    found = {name: tensor.shape for name, tensor in tensors.items()}
    if shapes != found:
        names = sorted(
            name
            for name in shapes | found
            if shapes.get(name) != found.get(name)
        )
        raise ValueError(
            f"{path} and the encoder's trained weights differ in "
            f"{', '.join(names[:3])}: are poolers frozen in one of them?"
        )
    for name, variable in variables.items():
        variable.assign(tensors[name])


def _read(path: str) -> tuple[Adapters, str, dict[str, np.ndarray]]:
    """Returns settings, sha256 of the base, and tensors of a file."""
    try:
        with safetensors.safe_open(path, "np") as file:
            known = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except (safetensors.SafetensorError, OSError) as error:
        raise ValueError(
            f"{path} is missing or damaged ({error}). Expected a file written "
            "by save_lora_weights."
        ) from error
    if known.get("format") != _FORMAT or not set(known) >= _KEYS:
        raise ValueError(
            f"{path} has no adapters of bert_tf. Expected a file written by "
            "save_lora_weights."
        )
    wrong = [n for n, x in tensors.items() if not np.isfinite(x).all()]
    if wrong:
        raise ValueError(
            f"{path}: {', '.join(wrong[:3])} has NaN or infinite values. Its "
            "training diverged; use another file."
        )
    targets = tuple(known["targets"].split(","))
    settings = Adapters(int(known["rank"]), float(known["alpha"]), targets)
    return settings, known["base_sha256"], tensors


# The public names, added from here so that encoder.py needs no adapters.
encoder_lib.BertEncoder.lora = None  # Adapters, once enabled.
encoder_lib.BertEncoder.enable_lora = enable
encoder_lib.BertEncoder.merge_lora = merge
encoder_lib.BertEncoder.save_lora_weights = save
encoder_lib.BertEncoder.load_lora_weights = load
