"""Models, configs and exports that are damaged or absurd -> cases."""

import hashlib
import io
import json
import struct

import h5py
import numpy as np
from hostile.commands import Case

# 10,000 objects in each other.
_DEEP = b'{"a":' * 10_000 + b"1" + b"}" * 10_000
_NAN = "have NaN or infinite values: "
_VARIABLES = "export/variables/variables."
_DATA = "data-00000-of-00001"


def _entry(name, value):
    """Returns a change of one entry of a JSON file to a JSON text."""

    def change(content):
        values = json.loads(content) | {name: "@"}
        return json.dumps(values).replace('"@"', value).encode()

    return change


def _in_keras(name, value):
    """Returns a change of one entry of a serialized Keras object's config."""

    def change(content):
        values = json.loads(content)
        values["config"][name] = value
        return json.dumps(values).encode()

    return change


def _cut(end):
    return lambda content: content[:end]


def _flip(index):
    def change(content):
        flipped = bytearray(content)
        flipped[index] ^= 255
        return bytes(flipped)

    return change


def _weight(name, value):
    """Returns a change of a weight's first number in a .safetensors file."""

    def change(content):
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        begin = 8 + length + header[name]["data_offsets"][0]
        return content[:begin] + struct.pack("<f", value) + content[begin + 4 :]

    return change


def _header(name, **values):
    """Returns a change of a weight's entry in a .safetensors header."""

    def change(content):
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        header[name] |= values
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + content[8 + length :]

    return change


def _h5(edit):
    """Returns a change of an HDF5 file by a function of it."""

    def change(content):
        memory = io.BytesIO(content)
        with h5py.File(memory, "r+") as file:
            edit(file)
        return memory.getvalue()

    return change


def _replace(**arguments):
    def edit(file):
        del file["layers/dense/vars/0"]
        file.create_dataset("layers/dense/vars/0", **arguments)

    return _h5(edit)


def _two_paths(file):
    """40 groups with 2 links to the next: 2 ** 40 paths."""
    for i in range(40):
        file[f"{i}/a"] = file.require_group(str(i + 1))
        file[f"{i}/b"] = file[f"{i}/a"]


def _convert(source, message, files, flags=""):
    return Case(
        "convert_checkpoint",
        f"--from={source} --to=bert_tf {flags}",
        message,
        files,
    )


_KERNEL = "encoder/layer_0/attention/query/kernel"
_WEIGHTS = "model/model.safetensors"
_H5 = "keras_hub/model.weights.h5"
# Records are made before a model is loaded.
_OUT = ("out", "out/*", "out/*/*", "out/*/*/*", "out/*/*/*/*")

NAN_WEIGHTS = [
    *(
        Case(script, flags, _NAN + _KERNEL, {_WEIGHTS: _weight(_KERNEL, value)})
        for script, flags, value in (
            ("convert_checkpoint", "", np.nan),
            ("export_savedmodel", "--kind=encoder", np.inf),
        )
    ),
    Case(
        "run_glue",
        "--init_checkpoint=hugging_face --bert_config_file=",
        "hugging_face: 1 of 25 tensors have NaN or infinite values: "
        "encoder/embeddings/norm/gamma (1 of 16 values). Outputs can be NaN.",
        {
            "hugging_face/model.safetensors": _weight(
                "bert.embeddings.LayerNorm.weight", np.inf
            )
        },
        left=_OUT,
    ),
]

# Entry of bert_config.json, its JSON value, part of the message; others are in
# tests/bert_tf/test_config.py.
CONFIGS = [
    Case("run_pretraining", "", message, {"bert_config.json": change})
    for change, message in (
        (_entry("initializer_range", "1e400"), "=inf should be a finit"),
        (_entry("is_causal", '"false"'), "is 'false'; it should be true or"),
        (_entry("hidden_act", "{}"), "is {}; it should be a string"),
        (_entry("type_vocab_size", "9" * 5000), "limit (4300"),
        (_entry("num_hidden_layers", "1000000"), "1000000 layers"),
        (_DEEP, "nested deeper"),
    )
]

# Script, entry of model.json, its JSON value, part of the message.
_METADATA = (
    ("export_savedmodel", "do_lower_case", '"no"', "it should be true or fal"),
    ("export_savedmodel", "labels", "[1, 2]", "labels[0] is 1; it should be a"),
    ("export_savedmodel", "labels", "null", "has no labels; add"),
    ("export_savedmodel", "max_seq_length", '"16"', "should be an integer fro"),
    ("extract_features", "precision", '"fp8"', "precision is 'fp8'; it should"),
    ("export_savedmodel", "score_range", "[0]", "[0] should be two numbers"),
    ("export_savedmodel", "score_range", "[5, 0]", "two numbers, the lower"),
    (
        "export_savedmodel",
        "null_score_diff_threshold",
        "NaN",
        "null_score_diff_threshold nan one, all finite",
    ),
    ("export_savedmodel", "thresholds", "[0, 1]", "is [0, 1]; it should be a"),
    ("extract_features", "untrained", '"encoder"', "it should be a lis"),
    ("convert_checkpoint", "task", '["spans"]', "it should be a string"),
    ("convert_checkpoint", "source", "3", "source is 3; it should be a str"),
)
METADATA = [
    Case(script, "", message, {"model/model.json": _entry(name, value)})
    for script, name, value, message in _METADATA
]
STATES = [
    Case(
        "export_savedmodel",
        "",
        f"model is damaged: state.json: {message}",
        {"model/state.json": content},
    )
    for message, content in (
        ("the content is None; it should", b"null"),
        (
            "files is missing or null",
            b'{"state_sha256": "%s"}'
            % hashlib.sha256(b"{}").hexdigest().encode(),
        ),
    )
]

# Format, its JSON file, the new content, part of the message; other files are
# in tests/bert_tf/checkpoint/test_damaged_files.py.
_FILES = (
    ("model", "model.json", b'{"prompts": {"a": 3}}', "prompts.a is 3; it"),
    ("google", "bert_config.json", b"null", "the content is None"),
    (
        "hugging_face",
        "config.json",
        lambda x: _entry("id2label", "null")(_entry("num_labels", "1e9")(x)),
        "should be an integer from 1 to 1,000,000",
    ),
    ("hugging_face", "modules.json", b"{}", "{}; it should be a list"),
    (
        "hugging_face",
        "tokenizer.json",
        b'{"added_tokens": [3]}',
        "model is missing or null",
    ),
    (
        "hugging_face",
        "tokenizer.json",
        b'{"model": {}, "added_tokens": [3]}',
        "added_tokens[0] is 3; it should be an object",
    ),
    (
        "hugging_face",
        "tokenizer_config.json",
        _entry("do_lower_case", '"false"'),
        "is 'false'; it should be true",
    ),
    ("keras_hub", "task.json", _DEEP, "brackets are nested dee"),
    ("keras_hub", "bert_tf.json", _entry("step", "-1"), "step is -1; it sho"),
    (
        "keras_hub",
        "tokenizer.json",
        _in_keras("lowercase", "false"),
        "lowercase is 'false'; it should be true",
    ),
    (
        "keras_hub",
        "task.json",
        _in_keras("num_classes", 10**9),
        "is 1000000000; it should be an integer from 1",
    ),
)
JSON = [
    _convert(source, message, {f"{source}/{file}": content})
    for source, file, content, message in _FILES
]

_TENSORFLOW = "bert_model.ckpt is damaged ("
WEIGHTS = [
    *(
        _convert("model", f"{_WEIGHTS} is missing or damaged (", {_WEIGHTS: x})
        for x in (
            _cut(100),
            lambda content: struct.pack("<Q", 1 << 62) + content[8:],
            lambda content: struct.pack("<Q", len(_DEEP)) + _DEEP + content,
            _header(_KERNEL, data_offsets=[0, 10**15]),
            _header(_KERNEL, shape=[-16, -16]),
        )
    ),
    _convert(
        "model",
        f"1 weights do not match ({_WEIGHTS})",
        {_WEIGHTS: _header(_KERNEL, shape=[1] * 70 + [16, 16])},
    ),
    _convert(
        "model",
        f"{_KERNEL} is int32; weights are floats",
        {_WEIGHTS: _header(_KERNEL, dtype="I32")},
    ),
    *(
        _convert(
            "keras_hub", f"{_H5} cannot be read ({message}", {_H5: content}
        )
        for content, message in (
            (_cut(1000), "Unable to"),
            (
                _replace(shape=(10**6, 10**6), dtype="f4"),
                "/layers/dense/vars/0 claims 4,000,000,000,000 bytes",
            ),
            (
                _replace(shape=(10**6, 10**6), dtype="f4", compression="gzip"),
                "/layers/dense/vars/0 claims 4,000,000,000,000 bytes",
            ),
            (_h5(_two_paths), "0/a/a/a/a/a/"),
            (_replace(data=["a"]), "/layers/dense/vars/0 has the dtype obj"),
        )
    ),
    *(
        _convert(
            source,
            _TENSORFLOW if "index" in name or end == -1 else "index claims ",
            {f"{source}/bert_model.ckpt.{name}": _cut(end)},
        )
        for source, name, end in (
            ("google", "index", -1),
            ("google", _DATA, 0),
            ("model_garden", _DATA, 100),
        )
    ),
    _convert(
        "google", _TENSORFLOW, {"google/bert_model.ckpt.index": _flip(100)}
    ),
    _convert(
        "google", _TENSORFLOW, {f"google/bert_model.ckpt.{_DATA}": _flip(50)}
    ),
    _convert(
        "hugging_face",
        "hugging_face/pytorch_model.bin is ",  # A pickle, or damaged.
        {
            "hugging_face/model.safetensors": None,
            "hugging_face/pytorch_model.bin": b"PK\x03\x04",
        },
    ),
]

EXPORTS = [
    Case("predict", "", "--export_dir=export: TensorFlow ", {path: content})
    for path, content in (
        (f"{_VARIABLES}index", None),
        (f"{_VARIABLES}{_DATA}", _cut(100)),
    )
]

CASES = [
    *(*NAN_WEIGHTS, *CONFIGS, *METADATA, *STATES, *JSON, *WEIGHTS),
    *EXPORTS,
]
