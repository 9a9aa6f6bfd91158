"""Checkpoint of any format, told apart by looking -> any other format.

Each format is a module with the same names:

    is_there(path)            whether a file or folder is of the format; cheap
    read(path)                -> Checkpoint; ValueErrors that name the path
    write(checkpoint, folder) fills a folder of `atomic_files.atomic_folder`
    WRITES                    paths in a folder that `write` fills; "*" is any
    table(config, task, num_labels)  its rename table
    PEER                      the source implementation, by name
    reference_outputs(path, batch)   what the source implementation computes
                              from `parity.batch`, or None where it is not
                              installed: by the names of `parity.outputs`,
                              any of them
"""

import dataclasses
import fnmatch
import os
from collections.abc import Sequence

from absl import logging

from bert_tf.conversion import checkpoint, parity, source_files
from bert_tf.conversion.google import convert as google
from bert_tf.conversion.hugging_face import convert as hugging_face
from bert_tf.conversion.keras_hub import convert as keras_hub
from bert_tf.conversion.model_garden import convert as model_garden
from bert_tf.training import checkpoints, model_folders
from tfrecords.io import atomic_files

OURS = "bert_tf"
# By name, as typed; a path is of the first that knows it.
FORMATS = {
    OURS: checkpoint,
    "google": google,
    "hugging_face": hugging_face,
    "model_garden": model_garden,
    "keras_hub": keras_hub,
}
EXPECTED = {
    OURS: "model.safetensors, model.json and bert_config.json, or the "
    "output_dir of a run",
    "google": "bert_model.ckpt.index, bert_model.ckpt.data-00000-of-00001 "
    "(or those of another prefix), bert_config.json and vocab.txt",
    "hugging_face": "config.json, model.safetensors or pytorch_model.bin, and "
    "vocab.txt or tokenizer.json",
    "model_garden": "a TensorFlow 2 checkpoint, ckpt-1.index and "
    "ckpt-1.data-00000-of-00001",
    "keras_hub": "config.json, model.weights.h5 and the tokenizer's assets",
}
# What hidden_act says, since "gelu" is not the same function everywhere.
ACTIVATIONS = {
    "gelu": "GELU by tanh, the original's gelu",
    "gelu_erf": "GELU by erf, what Hugging Face calls gelu",
    "relu": "ReLU",
    "tanh": "tanh",
}


def detect(path: str) -> str:
    """Returns the name of the format that a file or folder is of.

    Raises:
      ValueError: if nothing is there, or nothing known.
    """
    for name, module in FORMATS.items():
        if module.is_there(path):
            return name
    if not os.path.exists(path):
        raise ValueError(
            f"{path} is not there. Give the folder of a model; names are not "
            "looked up on any site."
        )
    raise ValueError(
        f"{path} holds no model: expected one of\n"
        + "\n".join(f"  {name}: {EXPECTED[name]}" for name in FORMATS)
        + "\nGive the folder that holds these files."
    )


def read(path: str, hidden_act: str | None = None) -> checkpoint.Checkpoint:
    """Reads a checkpoint of any format.

    Args:
      path: folder, or the prefix of a TensorFlow checkpoint.
      hidden_act: to use in place of the source's own.

    Raises:
      ValueError: if it is of no known format, or does not fit its config.
    """
    name = detect(path)
    # Before they are read, while they may change.
    files = source_files.digest(path)
    found = FORMATS[name].read(path)
    own = found.config.hidden_act
    if hidden_act in (None, own):
        logging.info(
            "hidden_act %s, as the source has it: %s", own, ACTIVATIONS[own]
        )
    else:
        logging.warning(
            "hidden_act %s, not the source's %s: %s. Outputs differ from "
            "those of the source",
            hidden_act,
            own,
            ACTIVATIONS[hidden_act],
        )
    return dataclasses.replace(
        found,
        config=dataclasses.replace(found.config, hidden_act=hidden_act or own),
        source=f"{name} {os.path.abspath(path)}",
        source_files=files or "",
    )


def _unexpected_files(folder: str, writes: Sequence[str]) -> list[str]:
    """Returns what is in a folder and not of some paths, sorted."""
    parents = {os.path.dirname(path) for path in writes}
    parents |= {os.path.dirname(path) for path in parents}
    unexpected_files = []
    for inside, folders, names in os.walk(folder):
        place = os.path.relpath(inside, folder)
        paths = {
            name: os.path.normpath(os.path.join(place, name))
            for name in folders + names
        }
        known = [name for name in folders if paths[name] in parents]
        unexpected_files += [f"{paths[n]}/" for n in folders if n not in known]
        unexpected_files += [
            paths[name]
            for name in names
            if not any(fnmatch.fnmatchcase(paths[name], x) for x in writes)
        ]
        folders[:] = known
    return sorted(unexpected_files)


def _check_free(path: str, output_dir: str, overwrite: bool) -> None:
    """Raises ValueError if something would be lost in `output_dir`."""
    source, target = os.path.realpath(path), os.path.realpath(output_dir)
    if os.path.commonpath([source, target]) == target:
        raise ValueError(
            f"{output_dir} holds the source, {path}, which would be replaced. "
            "Choose another folder."
        )
    if not os.path.exists(output_dir) or (
        os.path.isdir(output_dir) and not os.listdir(output_dir)
    ):
        return
    if not overwrite:
        raise ValueError(
            f"{output_dir} is there already. Choose a new folder, or pass "
            "--overwrite to replace it."
        )
    # Only what a conversion can have written is replaced.
    name = detect(output_dir)
    unexpected_files = _unexpected_files(output_dir, FORMATS[name].WRITES)
    if unexpected_files:
        more = (
            f" and {len(unexpected_files) - 3} more"
            if len(unexpected_files) > 3
            else ""
        )
        raise ValueError(
            f"{output_dir} holds {', '.join(unexpected_files[:3])}{more}, "
            "which no "
            f"conversion to {name} writes, so it is not replaced. Choose "
            "another folder, or remove that one yourself."
        )


def _check_known(given: checkpoint.Checkpoint, to: str) -> None:
    """Raises ValueError if the other format would be read as another model."""
    keys = given.config.keys_of_ours()
    if keys and to != OURS:
        words = ", ".join(f"{name}={value}" for name, value in keys.items())
        raise ValueError(
            f"{given.source} has {words} in its bert_config.json, which {to} "
            "does not know: its weights would be read as those of a BERT that "
            "reads both sides, without an LSTM. Such a model stays in the "
            f"format {OURS}; export_savedmodel takes it."
        )


def convert(
    path: str,
    to: str,
    output_dir: str,
    hidden_act: str | None = None,
    *,
    overwrite: bool = False,
    compare: bool = True,
) -> list[str]:
    """Writes a checkpoint in another format, whole or not at all.

    What was written is read back and compared with the source, bit for bit.

    Args:
      path: as for `read`.
      to: a key of `FORMATS`.
      output_dir: folder to write.
      hidden_act: as for `read`.
      overwrite: whether to replace a model that is there.
      compare: whether to compute outputs too, and compare them with those of
        the source's and the target's own implementations, if installed.

    Returns:
      The report, line by line.

    Raises:
      ValueError: if the source cannot be read, the other format cannot hold
        it, or anything was lost; then nothing is left.
    """
    _check_free(path, output_dir, overwrite)
    given = read(path, hidden_act)
    _check_known(given, to)
    with atomic_files.atomic_folder(os.path.normpath(output_dir)) as folder:
        FORMATS[to].write(given, folder)
        found = FORMATS[to].read(folder)
        report = [
            f"{given.source} -> {to} {output_dir}",
            f"task {given.task}, hidden_act {found.config.hidden_act}",
            *(f"note on the source: {note}" for note in given.notes),
            *(f"note on the target: {note}" for note in found.notes),
            *parity.tensor_lines(given, found),
            *parity.check_lossless(given, found),
        ]
        if compare:
            sides = [
                ("source", path, FORMATS[detect(path)]),
                ("target", folder, FORMATS[to]),
            ]
            report += parity.peer_lines(
                found, [side for side in sides if side[2] is not checkpoint]
            )
    return report


def _was_converted(path: str, folder: str, *, again: bool) -> bool:
    """Returns whether a folder holds what becomes of `path`, and logs it."""
    papers = os.path.join(folder, model_folders.METADATA)
    if not os.path.isfile(papers):
        return False
    before = atomic_files.read_json(papers)
    if before.get("source", "").partition(" ")[2] != os.path.abspath(path):
        return False
    now = source_files.digest(path)
    has_changed = now not in (None, before.get(checkpoint.SOURCE_FILES))
    if has_changed and again:
        logging.info("%s has changed since: converts it again", path)
        return False
    logging.info(
        "%s is %s as converted before%s; remove it to convert again",
        folder,
        path,
        ", though that has changed since" if has_changed else "",
    )
    return True


def as_model_folder(path: str, folder: str, *, again: bool = True) -> str:
    """Returns a model folder of ours for a checkpoint of any format.

    Args:
      path: a run or model folder of ours, which is the answer itself, or a
        checkpoint of another format.
      folder: where to keep what becomes of it; if it is there from an earlier
        call with the same path, and the files have not changed since or are
        gone, that is the answer.
      again: whether to convert what has changed since; not for a run that has
        begun, whose vocabulary and config are in `folder`.

    Raises:
      ValueError: as `convert`.
    """
    if _was_converted(path, folder, again=again):
        return folder
    if detect(path) == OURS:
        return checkpoints.find(path)
    report = convert(path, OURS, folder, overwrite=True, compare=False)
    for line in report:
        logging.info("%s", line)
    return folder
