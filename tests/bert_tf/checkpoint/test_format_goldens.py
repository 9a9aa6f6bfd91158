"""Tiny models in every format -> what format_goldens.json says of them.

The file was made by the code at commit 30644e39, before `Checkpoint.open`. Of
each format and each of `CASES` it has the files that a conversion writes, the
model that they are opened as, and its files as a model of ours (`back`), or why
the format is refused. Make it anew when a format changes on purpose:

    python -m tests.bert_tf.checkpoint.test_format_goldens
"""

import dataclasses
import hashlib
import json
import tempfile
import zlib
from collections import ChainMap
from pathlib import Path

import h5py
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from bert_tf.checkpoint import contents, detection
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.checkpoint.options import FORMATS, OURS
from bert_tf.config import BertConfig
from bert_tf.model.sentence_embedding import Dense, SentenceEmbedding
from bert_tf.workflows import conversion
from tfrecords.io import atomic_files

GOLDENS = Path(__file__).with_name("format_goldens.json")
_GRAPH, _END = "_CHECKPOINTABLE_OBJECT_GRAPH", "/.ATTRIBUTES/VARIABLE_VALUE"
_TABLES = ("config", "tensors")
_TEXT = {"vocabulary": b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nof\n"}
_LOWER = _TEXT | {"do_lower_case": True}
_DENSE = Dense(np.eye(4, 3, dtype=np.float32), np.ones(3, np.float32), "tanh")
_OF_TEXTS = _LOWER | {
    "metadata": {"max_seq_length": 6, "strip_accents": False},
    "sentence_embedding": SentenceEmbedding(("cls",), (_DENSE,)),
}
_HEADS = ("masked_lm", "next_sentence")
# Task, prefixes of the names of weights that are missing, fields of Contents.
CASES = {
    "pretraining": ("pretraining", (), _LOWER | {"step": 7}),
    "classification": ("classification", (), _LOWER | {"labels": ("a", "b")}),
    "spans": ("spans", (), _TEXT | {"do_lower_case": False}),
    "encoder": ("pretraining", _HEADS, {}),
    "masked_lm": ("pretraining", ("encoder/pooler", "next_sentence"), {}),
    "sentence_embedding": ("pretraining", _HEADS, _OF_TEXTS),
}


def _values(name, shape):
    """Returns multiples of 1/64, the same for a name with every NumPy."""
    random = np.random.RandomState(zlib.crc32(name.encode()))
    return (random.randint(-64, 65, shape) / 64).astype(np.float32)


def _model(case):
    task, missing, fields = CASES[case]
    config = BertConfig(
        vocab_size=7,
        hidden_size=4,
        num_hidden_layers=2 if case == "masked_lm" else 1,
        num_attention_heads=2,
        intermediate_size=6,
    )
    shapes = contents.shapes(config, task, len(fields.get("labels", ())))
    shapes = {n: x for n, x in shapes.items() if not n.startswith(missing)}
    if "step" in fields:  # Adam's moments.
        slots = {f"{kind}/{n}": x for kind in "mv" for n, x in shapes.items()}
        fields = fields | {"slots": {n: _values(n, slots[n]) for n in slots}}
    fields = fields | {"tensors": {n: _values(n, shapes[n]) for n in shapes}}
    return contents.Contents(source="test", config=config, task=task, **fields)


def _sha256(content):
    return hashlib.sha256(content).hexdigest()[:16]


def _table(tensors, drawn=()):
    """Returns name -> shape, dtype and, unless it is drawn, sha256."""
    return {
        name: f"{'x'.join(map(str, x.shape))} {x.dtype.str[1:]} "
        + ("drawn" if name in drawn else _sha256(x.tobytes()))
        for name, x in sorted(tensors.items())
    }


def _read(path):
    """Returns the tensors of a file whose bytes a library makes."""
    if path.suffix == ".safetensors":
        return safetensors.numpy.load_file(path)
    names = []
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            file.visit(names.append)
            names = [name for name in names if "/vars/" in name]
            return {f"{path.stem}/{name}": file[name][()] for name in names}
    reader = tf.train.load_checkpoint(str(path.with_suffix("")))
    names = set(reader.get_variable_to_shape_map()) - {_GRAPH}
    return {
        name.removesuffix(_END): np.asarray(reader.get_tensor(name))
        for name in names
    }


def _files(folder):
    """Returns sha256 of files, or tensors if other bytes mean the same."""
    path, files, tensors, hidden = folder / "model.json", {}, {}, []
    about = json.loads(path.read_text()) if path.exists() else {}
    drawn = about.get("untrained", ())
    # JSON last: it may have the sha256 of the others.
    for path in sorted(folder.rglob("*"), key=lambda x: x.suffix == ".json"):
        is_drawn = drawn and path.name == "model.safetensors"
        if is_drawn or path.suffix in (".h5", ".index"):
            tensors |= _table(_read(path), drawn)
            hidden.append(atomic_files.digest(str(path)).encode())
        elif path.is_file() and ".data-" not in path.name:
            content = path.read_bytes()
            for digest in hidden:
                content = content.replace(digest, b"")
            files[path.relative_to(folder).as_posix()] = _sha256(content)
    return {"files": dict(sorted(files.items())), "tensors": tensors}


def _as_of_others(path):
    """Makes tensors half as wide, and adds two that nothing reads."""
    tensors = safetensors.numpy.load_file(path)
    tensors["bert.embeddings.position_ids"] = np.arange(8)[None]
    tensors["extra.weight"] = np.zeros(3, np.float32)
    halves = {n: x.astype(np.float16) for n, x in tensors.items()}
    safetensors.numpy.save_file(halves, path)


def _record(name, case, parent):
    folder = parent / case
    source, target, back = (folder / x for x in ("source", "target", "back"))
    with atomic_files.atomic_folder(str(source)) as aside:
        detection.format_module(OURS).write(_model(case), aside)
    try:
        conversion.convert(str(source), name, str(target))
    except ValueError as error:
        return {"refused": {"message": str(error).replace(f"{folder}/", "")}}
    parts = {"written": _files(target)}
    if (name, case) == ("hugging_face", "masked_lm"):
        _as_of_others(target / "model.safetensors")
    given = Checkpoint.open(str(target), with_slots=True)
    parts["opened"] = {
        "config": dataclasses.asdict(given.config),
        "model_json": given.model_json(),  # Task, labels and so on.
        "vocabulary": given.vocabulary and _sha256(given.vocabulary),
        "step": given.step,
        "unused": given.unused,
        "notes": [f"{type(note).__name__}: {note}" for note in given.notes],
        "tensors": _table(given.all_tensors()),  # Slots too.
    }
    if name != OURS:
        given.save(str(back))
        parts["back"] = _files(back)
    return json.loads(json.dumps(parts).replace(f"{folder}/", ""))


def _tables(records):
    for part in (part for x in records.values() for part in x.values()):
        yield from ((part, x) for x in _TABLES if x in part)


def write_goldens():
    goldens = {"groups": {}}
    for name in FORMATS:
        with tempfile.TemporaryDirectory() as folder:
            goldens[name] = {x: _record(name, x, Path(folder)) for x in CASES}
        for part, table in _tables(goldens[name]):
            groups = {}
            for key, line in part[table].items():
                group = "/".join(key.split("/")[:-1][:2])
                groups.setdefault(group, {})[key] = line
            own = {_sha256(str(x).encode())[:8]: x for x in groups.values()}
            part[table] = list(own)
            goldens["groups"] |= own
    text = json.dumps(goldens, indent=0, separators=(",", ":"))
    GOLDENS.write_text(f"{text}\n")


@pytest.mark.parametrize("name", FORMATS)
def test_files_are_written_and_opened_as_before(name, tmp_path):
    goldens = json.loads(GOLDENS.read_text())
    groups, expected = goldens["groups"], goldens[name]
    for part, table in _tables(expected):
        part[table] = dict(ChainMap(*(groups[key] for key in part[table])))
    for case in CASES:
        assert _record(name, case, tmp_path) == expected[case], case


if __name__ == "__main__":
    write_goldens()
