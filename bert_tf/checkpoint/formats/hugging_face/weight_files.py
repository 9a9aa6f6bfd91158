"""Weight files of a Hugging Face folder <-> tensors by their names.

Like transformers, `read` uses the first of these that exists:
`model.safetensors`, its shards, `pytorch_model.bin`, its shards, `tf_model.h5`,
its shards. A .bin is a pickle; it is opened only with torch's restricted
reader, so none of its code is run. Tensors of the TF classes of transformers 4,
in .h5 or .safetensors, get the names and shapes of the PyTorch classes.
"""

import fnmatch
import functools
import os
import re
from collections.abc import Mapping

import ml_dtypes  # Registers bfloat16 with NumPy, needed by safetensors.
import numpy as np

from bert_tf.checkpoint import tensor_files
from bert_tf.checkpoint.formats import h5_files
from bert_tf.checkpoint.formats.hugging_face import pickles
from tfrecords.io import json_files
from tfrecords.options import quoted, some

SAFETENSORS = "model.safetensors"
TORCH = "pytorch_model.bin"
TF = "tf_model.h5"
# Weight files, single or sharded.
_SHARD = re.compile(
    r"(?:model|pytorch_model|tf_model)-\d+-of-\d+\.(safetensors|bin|h5)"
)
_SINGLE = {"safetensors": SAFETENSORS, "bin": TORCH, "h5": TF}
_ADAPTER = "adapter_config.json"
_OF_CLASS = (
    "load it in the class that it was saved from, and write its BERT with "
    "save_pretrained"
)
_EXPORTED = "an exported network: give the folder that it was made from"
# Names of what cannot be read -> what it is, and what to do.
_NOT_READ = {
    _ADAPTER: "an adapter of PEFT, not a model: load it with peft, and write "
    "the result of its merge_and_unload() with save_pretrained",
    "zero_to_fp32.py": "part of a checkpoint of DeepSpeed: run `python "
    "zero_to_fp32.py . merged --safe_serialization` in this folder, and copy "
    "the files in merged beside config.json",
    "*.distcp": "a checkpoint of torch.distributed: run `python -m "
    "torch.distributed.checkpoint.format_utils dcp_to_torch . "
    f"{TORCH}` in this folder",
    "pytorch_model_fsdp_*": "a checkpoint of FSDP: `accelerate merge-weights` "
    "makes model.safetensors of it",
    "*.ckpt": "a checkpoint of PyTorch Lightning, if it is no file of "
    f"TensorFlow: {_OF_CLASS}",
    "*.gguf": "a file of llama.cpp: give the folder that it was made from",
    "*.onnx": _EXPORTED,
    "onnx": f"a folder with {_EXPORTED}",
    "openvino_model.*": _EXPORTED,
    "*.tflite": _EXPORTED,
    "*.keras": "a model of Keras: import bert_tf, and load it with "
    "keras.models.load_model",
    "*.weights.h5": "a file of weights of Keras: give the folder of a preset, "
    "with its config.json, or build the model and call its load_weights",
    "*.msgpack": f"a file of Flax: {pickles.AS_SAFETENSORS}",
    "*.pt": f"a pickle of PyTorch: {_OF_CLASS}",
    "*.pth": f"a pickle of PyTorch: {_OF_CLASS}",
}
# Last part of a weight's name in TF classes -> in PyTorch classes.
_TF_WEIGHTS = {
    "kernel": "weight",
    "embeddings": "weight",
    "gamma": "weight",
    "beta": "bias",
}
_LFS_POINTER = b"version https://git-lfs"

_Tensor = np.ndarray | tensor_files.StoredTensor


def is_weights(name: str) -> bool:
    """Returns whether a file's name is that of weights, a shard or an index."""
    name = name.removesuffix(".index.json")
    return name in _SINGLE.values() or bool(_SHARD.fullmatch(name))


def describe(path: str) -> str | None:
    """Returns which file cannot be read, what it is, and what to do.

    Args:
      path: a file, or a folder with it.
    """
    names = sorted(os.listdir(path)) if os.path.isdir(path) else []
    names = names or [os.path.basename(path)]
    if os.path.isdir(os.path.join(path, TORCH)):
        return (
            f"{TORCH} is a folder, as zero_to_fp32.py of DeepSpeed makes it: "
            "move the files in it one folder up."
        )
    for pattern, text in _NOT_READ.items():
        for name in fnmatch.filter(names, pattern):
            return f"{name} is {text}."
    return None


def _find(folder: str) -> str:
    """Returns the path of the weights, or of the index of their shards."""
    names = sorted(os.listdir(folder))
    # transformers would add the adapter to weights beside it.
    if _ADAPTER in names:
        raise ValueError(f"{folder}: {describe(folder)}")
    for name in _SINGLE.values():
        for file in (name, f"{name}.index.json"):
            path = os.path.join(folder, file)
            if os.path.isfile(path):
                return path
    for name in names:
        if shard := _SHARD.fullmatch(name):
            raise ValueError(
                f"{folder} has the shard {name} but no "
                f"{_SINGLE[shard[1]]}.index.json, which lists the shards. Copy "
                "it too."
            )
    advice = describe(folder) or (
        f"It contains {', '.join(names) or 'no files'}. Copy the weights too."
    )
    raise ValueError(
        f"{folder} has neither {SAFETENSORS} nor {TORCH}, nor their shards. "
        f"{advice}"
    )


def _shards(index: str) -> dict[str, list[str]]:
    """Returns shard -> names of its tensors; raises if a shard is missing."""
    weight_map = json_files.read(index, {"weight_map": dict})["weight_map"]
    if not weight_map:
        raise ValueError(f"{index}: weight_map lists no tensor. Copy it again.")
    shards: dict[str, list[str]] = {}
    for tensor, shard in weight_map.items():
        json_files.check(shard, str, index, f"weight_map.{tensor}")
        if os.path.basename(shard) != shard:
            raise ValueError(
                f"{index}: {tensor} is in {quoted(shard)}, which should be the "
                "name of a file in the same folder."
            )
        path = os.path.join(os.path.dirname(index), shard)
        shards.setdefault(path, []).append(tensor)
    missing = [path for path in sorted(shards) if not os.path.isfile(path)]
    if missing:
        raise ValueError(
            f"{index} lists {len(shards)} shards; {len(missing)} of them are "
            f"missing: {', '.join(map(os.path.basename, missing))}. Copy them "
            "too."
        )
    return shards


def _read_file(path: str) -> dict[str, _Tensor]:
    with open(path, "rb") as file:
        if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise ValueError(
                f"{path} is a Git LFS pointer, not the weights. Fetch them "
                "with `git lfs pull`."
            )
    if path.endswith(".bin"):
        return pickles.read(path)
    if path.endswith(".h5"):
        # Paths are <layer>/<model>/<name of the weight>, in shards the name.
        is_shard = bool(_SHARD.fullmatch(os.path.basename(path)))
        return {
            name if is_shard else name.split("/", 2)[-1]: tensor
            for name, tensor in h5_files.read(path).items()
        }
    return tensor_files.stored(tensor_files.TensorFile(path))


def _of_pytorch(tensors: dict[str, _Tensor]) -> dict[str, _Tensor]:
    """Returns tensors with the names and shapes of the PyTorch class.

    If they are of a TF class, `bert/encoder/layer_._0/output/dense/kernel:0`
    [I, H] becomes `bert.encoder.layer.0.output.dense.weight` [H, I].
    modeling_tf_pytorch_utils.py: convert_tf_weight_name_to_pt_weight_name.
    """
    renamed = {}
    for name, tensor in tensors.items():
        if name.endswith(":0"):
            *parts, last = name.removesuffix(":0").split("/")
            name = ".".join([*parts, _TF_WEIGHTS.get(last, last)])
            # TF classes name their heads mlm___cls and nsp___cls.
            name = re.sub("^(mlm|nsp)___", "", name).replace("_._", ".")
            if last == "kernel":
                read = functools.partial(np.transpose, tensor)
                tensor = tensor_files.StoredTensor(
                    tensor.shape[::-1], tensor.dtype, read
                )
        renamed[name] = tensor
    return renamed


def read(folder: str) -> dict[str, _Tensor]:
    """Returns all tensors of a folder, with their dtypes unchanged.

    Those of a .bin are read at once, others when they are asked for.

    Raises:
      ValueError: if weights or shards are missing or damaged, or a pickle
        contains anything but tensors. The message names the file.
    """
    path = _find(folder)
    if not path.endswith(".index.json"):
        return _of_pytorch(_read_file(path))
    tensors: dict[str, _Tensor] = {}
    for shard, names in _shards(path).items():
        of_shard = _read_file(shard)
        # TF classes list <model>/<name of the weight>.
        lost = sorted(
            name
            for name in names
            if not {name, name.partition("/")[2]} & of_shard.keys()
        )
        if lost:
            raise ValueError(
                f"{shard} lacks tensors that {os.path.basename(path)} lists "
                f"for it: {some(lost)}. Copy both files again."
            )
        tensors |= of_shard
    return _of_pytorch(tensors)


def with_float32(
    tensors: dict[str, _Tensor],
) -> tuple[dict[str, _Tensor], list[str]]:
    """Returns all float tensors as float32, and a note per converted dtype.

    Values of float16 and bfloat16 are kept exactly. Integers stay unchanged.
    """
    converted, counts = {}, {}
    for name, tensor in tensors.items():
        dtype = tensor.dtype
        is_float = dtype.kind == "f" or dtype == ml_dtypes.bfloat16
        if is_float and dtype != np.float32:
            counts[dtype.name] = counts.get(dtype.name, 0) + 1
            read = functools.partial(np.asarray, tensor, np.float32)
            tensor = tensor_files.StoredTensor(tensor.shape, np.float32, read)
        converted[name] = tensor
    notes = [
        f"{count} tensors converted from {dtype} to float32, "
        + ("rounded" if dtype == "float64" else "with the same values")
        for dtype, count in counts.items()
    ]
    return converted, notes


def write(tensors: Mapping[str, np.ndarray], folder: str) -> None:
    """Writes model.safetensors for transformers."""
    # transformers refuses files without the metadata "format".
    path = os.path.join(folder, SAFETENSORS)
    tensor_files.write_tensors(tensors, path, {"format": "pt"})
