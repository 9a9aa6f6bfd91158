"""sentence-transformers folder <-> steps from hidden states to a vector.

`modules.json` lists the modules: a Transformer, a Pooling and possibly more.
Each has its own subfolder; the Transformer may be in the folder itself. Source:
sentence-transformers 6.2, sentence_transformer/modules and base/modules.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from bert_tf import config as bert_config
from bert_tf.checkpoint import contents
from bert_tf.checkpoint.formats.hugging_face import config_json, weight_files
from bert_tf.model.sentence_embedding import (
    POOLING_MODES,
    Dense,
    Normalize,
    SentenceEmbedding,
)
from tfrecords.io import json_files
from tfrecords.options import quoted

MODULES = "modules.json"
_TRANSFORMER_FILE = "sentence_bert_config.json"
TEXTS_FILE = "config_sentence_transformers.json"
_POOLING = "1_Pooling"
WRITES = (
    MODULES,
    _TRANSFORMER_FILE,
    TEXTS_FILE,
    f"{_POOLING}/{config_json.CONFIG}",
    f"*_Dense/{config_json.CONFIG}",
    f"*_Dense/{weight_files.SAFETENSORS}",
)
# Key of a Pooling's config in versions before 5 -> mode, in the order of the
# results.
_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
IDENTITY = "torch.nn.modules.linear.Identity"
SIGMOID = "torch.nn.modules.activation.Sigmoid"
# Class of torch.nn -> Keras's activation.
ACTIVATIONS = {
    IDENTITY: "linear",
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.GELU": "gelu",
    SIGMOID: "sigmoid",
    "torch.nn.modules.activation.SiLU": "silu",
}
_TYPE = "sentence_transformers.models."
_LENGTH = range(3, 2**31)  # [CLS], a token, [SEP].
# Settings of a Transformer that limit a text, the one that counts first.
_LENGTHS = (
    "processing_kwargs.common.max_length",
    "processing_kwargs.text.max_length",
    "processor_kwargs.model_max_length",
    "max_seq_length",
)
# Others -> the values that change no output; () for any value.
_HARMLESS = {
    "do_lower_case": (),  # Followed, as are the lengths.
    "modality_config.text.method": ("forward",),
    "unpad_inputs": (),
    "processing_kwargs.text.add_special_tokens": (True,),
    "processing_kwargs.text.padding": (True, "longest", "max_length"),
    "processing_kwargs.text.padding_side": ("right",),
    "processing_kwargs.text.truncation": (True, "longest_first"),
    "processor_kwargs.use_fast": (),
    "model_kwargs.add_pooling_layer": (),
    "model_kwargs.attn_implementation": (),
    "model_kwargs.dtype": (),  # Weights are read as float32.
    "model_kwargs.torch_dtype": (),
    **dict.fromkeys(_LENGTHS, ()),
}
# Prefixes of those of other inputs than texts.
_OTHER_INPUTS = tuple(
    f"processing_kwargs.{name}."
    for name in ("audio", "chat_template", "image", "video")
)
# Keys that `write` has of its own, or that hold for the source's weights.
_REPLACED = (
    *("max_seq_length", "do_lower_case"),
    *("processing_kwargs", "processor_kwargs", "tokenizer_args"),
    *("model_kwargs", "model_args"),
)
# Of a Transformer before a Pooling, and of one with a head of its own.
_ENCODER = {
    "transformer_task": ("feature-extraction",),
    "modality_config.text.method_output_name": ("last_hidden_state",),
    "module_output_name": ("token_embeddings",),
}
_CROSS_ENCODER = {
    "transformer_task": ("sequence-classification",),
    "modality_config.text.method_output_name": ("logits",),
    "module_output_name": ("scores",),
}
_VECTOR = "sentence_embedding"  # Input and output of the modules.
_DENSE = {
    "in_features": range(1, 2**31),
    "out_features": range(1, 2**31),
    "bias?": bool,
    "activation_function?": str,
    "use_residual?": bool,
}


class Modules(NamedTuple):
    """What a folder says beside its BERT.

    Attributes:
      folder: folder of the BERT: the folder itself, or one in it.
      embedding: the steps after the BERT; None if the folder has no modules.
      max_seq_length: tokens of a text; None if it is not specified.
      do_lower_case: whether texts are lower-cased before the tokenizer, which
        then leaves their accents.
      texts: the entries of model.json on texts put before a text, and on how
        vectors are compared.
      notes: for the user: which of them is.
      settings: file -> its other keys, for `write`.
    """

    folder: str
    embedding: SentenceEmbedding | None = None
    max_seq_length: int | None = None
    do_lower_case: bool = False
    texts: Mapping[str, object] = {}
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Mapping] = {}


def _listed(path: str) -> list[tuple[str, str]]:
    """Returns the type and the folder of each module, in order."""
    file = os.path.join(path, MODULES)
    listed = json_files.read(file, [{"type": str, "path?": str}])
    modules = []
    for module in listed:
        relative = os.path.normpath(module.get("path") or ".")
        if os.path.isabs(relative) or relative.startswith(".."):
            raise ValueError(
                f"{file}: path {module['path']!r} is outside the folder; it "
                "should be the name of a subfolder."
            )
        module_type = module["type"]
        # A class of another library keeps its whole name.
        if module_type.startswith("sentence_transformers."):
            module_type = module_type.rpartition(".")[2]
        modules.append(
            (module_type, os.path.normpath(os.path.join(path, relative)))
        )
    return modules


def read(path: str) -> Modules:
    """Reads the modules of a folder, which may have none.

    Raises:
      ValueError: if a module, or a setting of it, is not supported; such a
        folder gives other vectors than would be computed without it.
    """
    file = os.path.join(path, MODULES)
    if not os.path.lexists(file):
        return Modules(path)
    modules = _listed(path)
    module_types = [module_type for module_type, _ in modules]
    is_alone = module_types == ["Transformer"]
    if not is_alone and module_types[:2] != ["Transformer", "Pooling"]:
        raise ValueError(
            f"{file} lists {', '.join(module_types) or 'nothing'}; the first "
            "two should be a Transformer (the BERT) and a Pooling. "
            f"{_advice(path)}"
        )
    folder = modules[0][1]
    steps = [
        _step(module_type, inside, file) for module_type, inside in modules[2:]
    ]
    given = config_json.read_object(folder, _TRANSFORMER_FILE)
    settings = _parse_transformer(given, folder, path, is_alone)
    values = config_json.read_object(path, TEXTS_FILE)
    texts = {} if is_alone else _parse_texts(values, path)
    # Versions are of the libraries that wrote it.
    replaced = "__version__", "activation_fn", *texts
    kept = {
        _TRANSFORMER_FILE: _without(given, _REPLACED),
        TEXTS_FILE: _without(values, replaced),
    }
    if is_alone:
        return Modules(folder, None, *settings, settings=kept)
    return Modules(
        folder,
        SentenceEmbedding(
            _read_pooling(modules[1][1]), tuple(step for step in steps if step)
        ),
        *settings,
        texts,
        _note(texts),
        kept,
    )


def _advice(path: str) -> str:
    """Returns how the BERT of a folder is read without its modules."""
    inside = [path, *(os.path.join(path, x) for x in sorted(os.listdir(path)))]
    berts = [
        folder
        for folder in inside
        if "model_type" in config_json.read_object(folder, config_json.CONFIG)
    ]
    if path in berts:
        return f"To read the BERT alone, copy its folder without {MODULES}."
    if berts:
        return f"To read a BERT alone, give its folder: {', '.join(berts)}."
    return "Give a folder that starts with a Transformer and a Pooling."


def _flat(values: Mapping, outer: str = "") -> Iterator[tuple[str, object]]:
    """Yields key.of.nested.objects, value for all values but null."""
    for key, value in values.items():
        # Names before version 5.3.
        key = key.removesuffix("_args") + "_kwargs" * key.endswith("_args")
        key = "processor_kwargs" if key == "tokenizer_kwargs" else key
        if isinstance(value, dict):
            yield from _flat(value, f"{outer}{key}.")
        elif value is not None:
            yield outer + key, value


def _parse_transformer(
    values: Mapping, folder: str, path: str, is_alone: bool
) -> tuple[int | None, bool]:
    """Returns the tokens of a text, and whether it is lower-cased first."""
    file = os.path.join(folder, _TRANSFORMER_FILE)
    given = dict(_flat(values))
    task = given.get("transformer_task")
    is_scorer = is_alone and task == "sequence-classification"
    harmless = _HARMLESS | (_CROSS_ENCODER if is_scorer else _ENCODER)
    for key, value in given.items():
        # The library itself does not read the second from a file.
        if key.startswith(_OTHER_INPUTS) or key.endswith("trust_remote_code"):
            continue
        values = harmless.get(key.replace(".common.", ".text."))
        if values is None or (values and value not in values):
            expected = f", expected {quoted(values[0])}" if values else ""
            raise ValueError(
                f"{file}: {key} is {quoted(value)}{expected}; this is not "
                "supported, and without it outputs would be others than those "
                f"of sentence-transformers. {_advice(path)}"
            )
    followed = {f"{key}?": _LENGTH for key in _LENGTHS}
    json_files.check(given, followed | {"do_lower_case?": bool}, file)
    lengths = [given[key] for key in _LENGTHS if key in given]
    return next(iter(lengths), None), given.get("do_lower_case", False)


def activation(name: str) -> str | None:
    """Returns Keras's name of a class of torch.nn, by its long or short path.

    None for others.
    """
    known = {x.rpartition(".")[2]: ours for x, ours in ACTIVATIONS.items()}
    is_class = name.startswith("torch.nn.")
    return known.get(name.rpartition(".")[2]) if is_class else None


def _without(values: Mapping, names: Collection[str]) -> dict[str, object]:
    return {name: x for name, x in values.items() if name not in names}


def _read_config(folder: str, entries: dict) -> tuple[str, dict]:
    """Returns the path and the content of a module's config."""
    file = os.path.join(folder, config_json.CONFIG)
    if not os.path.isfile(file):
        raise ValueError(f"{file} is missing. Copy the whole folder again.")
    return file, json_files.read(file, entries)


def _read_pooling(folder: str) -> tuple[str, ...]:
    """Returns the modes of a Pooling module."""
    flags = {f"{name}?": bool for name in _FLAGS}
    file, values = _read_config(folder, flags | {"include_prompt?": bool})
    if values.get("include_prompt") is False:
        raise ValueError(
            f"{file}: include_prompt=false is not supported: without it, "
            "vectors of texts with a prompt would be others. If no text has a "
            "prompt, remove it."
        )
    modes = values.get("pooling_mode")
    if modes is None:
        others = values.keys() - _FLAGS.keys()
        modes = [mode for key, mode in _FLAGS.items() if values.get(key)]
        modes += [x for x in others if x.startswith("pooling_mode_")]
        # Which the library takes for "mean".
        is_known = any(key in values for key in _FLAGS)
        modes = modes or (["mean"] if is_known else [])
    modes = [modes] if isinstance(modes, str) else modes
    unknown = not isinstance(modes, list) or [
        mode for mode in modes if mode not in POOLING_MODES
    ]
    if unknown or not modes:
        raise ValueError(
            f"{file}: the pooling is "
            f"{quoted(modes) if modes else 'not specified'}; expected "
            f'"pooling_mode" with one or more of {", ".join(POOLING_MODES)}.'
        )
    return tuple(modes)


def _step(module_type: str, folder: str, file: str) -> Dense | Normalize | None:
    """Returns a module after the Pooling; None if it has no effect."""
    values = config_json.read_object(folder, config_json.CONFIG)
    names = ("module_input_name", "module_output_name")
    others = [n for n in names if values.get(n) not in (None, _VECTOR)]
    if module_type == "Dense" and not others:
        return _read_dense(folder)
    if module_type == "Normalize" and not others:
        return Normalize()
    if module_type == "Dropout":
        return None  # Only in training.
    what = f", with {others[0]}={quoted(values[others[0]])}" if others else ""
    raise ValueError(
        f"{file} lists a module {module_type}{what}, which is not supported: "
        "without it the vectors would be others. Supported after a Pooling "
        "are Dense, Normalize and Dropout of the sentence embedding. "
        f"{_advice(os.path.dirname(file))}"
    )


def _read_dense(folder: str) -> Dense:
    file, values = _read_config(folder, _DENSE)
    name = values.get("activation_function", "torch.nn.modules.activation.Tanh")
    if activation(name) is None or values.get("use_residual"):
        what = "use_residual=true"
        if activation(name) is None:
            what = f"activation_function {quoted(name)}"
        raise ValueError(
            f"{file}: {what} is not supported; supported are "
            f"{', '.join(ACTIVATIONS)}, without a residual."
        )
    stored, _ = weight_files.with_float32(weight_files.read(folder))
    tensors = {name: np.asarray(tensor) for name, tensor in stored.items()}
    shape = values["out_features"], values["in_features"]
    wanted = {"linear.weight": shape}
    if values.get("bias", True):
        wanted["linear.bias"] = shape[:1]
    found = {name: tensor.shape for name, tensor in tensors.items()}
    if found != wanted:
        raise ValueError(
            f"{folder}: the tensors are {found}; expected {wanted}, by its "
            f"{config_json.CONFIG}. Copy the folder again."
        )
    kernel = tensors["linear.weight"].T.copy()
    return Dense(kernel, tensors.get("linear.bias"), activation(name))


def _parse_texts(values: Mapping, path: str) -> dict[str, object]:
    """Returns the entries of model.json, without prompts if none has a text."""
    if values.get("truncate_dim") is not None:
        raise ValueError(
            f"{os.path.join(path, TEXTS_FILE)}: truncate_dim="
            f"{quoted(values['truncate_dim'])} is not supported: vectors would "
            "be longer than those of sentence-transformers. Remove it, and cut "
            "the vectors yourself."
        )
    similarity = values.get(contents.SIMILARITY)
    if not isinstance(similarity, str | None):
        raise ValueError(
            f"{os.path.join(path, TEXTS_FILE)}: {contents.SIMILARITY} is "
            f"{quoted(similarity)}; it should be a string, such as cosine."
        )
    contents.check_prompts(values, os.path.join(path, TEXTS_FILE))
    names = [] if similarity == "cosine" else [contents.SIMILARITY]
    if any((values.get(contents.PROMPTS) or {}).values()):
        names += [contents.PROMPTS, contents.DEFAULT_PROMPT]
    return {n: values[n] for n in names if values.get(n) is not None}


def _note(texts: Mapping) -> tuple[str, ...]:
    """Returns a note on which prompt is put before texts."""
    if contents.PROMPTS not in texts:
        return ()
    default = texts.get(contents.DEFAULT_PROMPT)
    chosen = "no text has one by default"
    if default is not None:
        chosen = f"by default each text has {quoted(default)}"
    names = ", ".join(texts[contents.PROMPTS])
    note = f"it has the prompts {names}; {chosen}, and prompt_name chooses"
    return (contents.Detail(note),)


def write(
    embedding: SentenceEmbedding,
    metadata: Mapping[str, object],
    config: bert_config.BertConfig,
    folder: str,
) -> None:
    """Writes the modules beside a BERT.

    Args:
      embedding: the steps after the BERT.
      metadata: entries of model.json: the length of a text and the prompts, if
        known.
      config: of the BERT.
      folder: its folder, from `atomic_folder`.
    """
    kept = metadata.get(contents.SOURCE_SETTINGS, {})
    listed = [("", "Transformer"), (_POOLING, "Pooling")]
    modes = list(embedding.pooling)
    values = {key: mode in modes for key, mode in _FLAGS.items()}
    if [mode for mode in _FLAGS.values() if mode in modes] != modes:
        values = {"pooling_mode": modes}  # In an order of their own.
    values["word_embedding_dimension"] = config.hidden_size
    _write_config(os.path.join(folder, _POOLING), values)
    for i, step in enumerate(embedding.steps, 2):
        module_type = step.settings()["type"]
        listed.append((f"{i}_{module_type}", module_type))
        if isinstance(step, Dense):
            _write_dense(step, os.path.join(folder, listed[-1][0]))
    modules = [
        {
            "idx": i,
            "name": str(i),
            "path": path,
            "type": f"{_TYPE}{module_type}",
        }
        for i, (path, module_type) in enumerate(listed)
    ]
    json_files.write(os.path.join(folder, MODULES), modules)
    json_files.write(
        os.path.join(folder, _TRANSFORMER_FILE),
        {
            **kept.get(_TRANSFORMER_FILE, {}),
            "max_seq_length": metadata.get("max_seq_length"),
            "do_lower_case": False,
        },
    )
    names = contents.PROMPTS, contents.DEFAULT_PROMPT, contents.SIMILARITY
    texts = {x: metadata[x] for x in names if metadata.get(x) is not None}
    if texts := {**kept.get(TEXTS_FILE, {}), **texts}:
        json_files.write(os.path.join(folder, TEXTS_FILE), texts)


def _write_config(folder: str, values: dict) -> None:
    os.mkdir(folder)
    json_files.write(os.path.join(folder, config_json.CONFIG), values)


def _write_dense(dense: Dense, folder: str) -> None:
    names = {ours: theirs for theirs, ours in ACTIVATIONS.items()}
    num_inputs, num_outputs = dense.kernel.shape
    values = {
        "in_features": num_inputs,
        "out_features": num_outputs,
        "bias": dense.bias is not None,
        "activation_function": names[dense.activation],
    }
    _write_config(folder, values)
    tensors = {"linear.weight": np.ascontiguousarray(dense.kernel.T)}
    if dense.bias is not None:
        tensors["linear.bias"] = dense.bias
    weight_files.write(tensors, folder)
