"""Checkpoint of any format -> the same model in another format, a report."""

import dataclasses
import fnmatch
import os
import pathlib
from collections.abc import Sequence

from absl import logging

from bert_tf.checkpoint import checkpoint as ours
from bert_tf.checkpoint import (
    formats,
    model_card,
    model_folders,
    parity,
    run_models,
)
from tfrecords.io import atomic_files, stored_folders

_MAX_NAMES = 5  # Of tensors in a message.
_ACCEPT = (
    "Pass --accept_tokenizer_differences, or in Python "
    "accept_tokenizer_differences=True,"
)


def read(
    path: str,
    hidden_act: str | None = None,
    *,
    allow_nan_weights: bool = False,
    accept_tokenizer_differences: bool = False,
) -> ours.Checkpoint:
    """Reads a checkpoint of any format.

    Args:
      path: folder, or the prefix of a TensorFlow checkpoint.
      hidden_act: activation to use instead of the source's.
      allow_nan_weights: whether weights may be NaN or infinite.
      accept_tokenizer_differences: whether its own tokenizer may do what ours
        does not, with a warning.

    Raises:
      ValueError: if its format is unknown, its weights do not match its
        config, some are NaN or infinite, its tokenizer differs, or it has
        classes without names.
    """
    name = formats.detect(path)
    # Computed first, as the files may change while they are read.
    digest = formats.source_digest(path)
    checkpoint = formats.converter(name).read(path)
    ours.check_labels(checkpoint)
    model_folders.check_finite(
        checkpoint.all_tensors(), path, allow_nan=allow_nan_weights
    )
    checkpoint = _without_foreign_head(checkpoint, name, path)
    if checkpoint.tokenizer_differences:
        differences = "; ".join(checkpoint.tokenizer_differences)
        if not accept_tokenizer_differences:
            raise ValueError(
                f"{path}: {differences}. The tokenizer here is BERT's, so this "
                "model would get other tokens than in its training. "
                f"{_ACCEPT} to use it anyway."
            )
        logging.warning(
            "%s: %s. BERT's tokenizer makes other tokens", path, differences
        )
    own = checkpoint.config.hidden_act
    if hidden_act in (None, own):
        logging.info(
            "hidden_act %s, as in the source: %s",
            own,
            formats.ACTIVATIONS[own],
        )
    else:
        logging.warning(
            "hidden_act %s instead of the source's %s: %s. Outputs differ from "
            "those of the source",
            hidden_act,
            own,
            formats.ACTIVATIONS[hidden_act],
        )
    return dataclasses.replace(
        checkpoint,
        config=dataclasses.replace(
            checkpoint.config, hidden_act=hidden_act or own
        ),
        source=f"{name} {stored_folders.address(os.path.abspath(path))}",
        source_files=digest or "",
    )


def _without_foreign_head(
    checkpoint: ours.Checkpoint, name: str, path: str
) -> ours.Checkpoint:
    """Returns a Checkpoint without a head that has more weights than ours.

    Such a head has another layer, for example: its answers are not those that
    our head computes from a part of its weights. The weights count as newly
    initialized, which no kind of answer serves. Names what nothing reads.
    """
    unread = checkpoint.unread()
    if not unread:
        return checkpoint
    shown = ", ".join(unread[:_MAX_NAMES])
    if len(unread) > _MAX_NAMES:
        shown += f" and {len(unread) - _MAX_NAMES} more"
    logging.warning("%s: nothing here reads its tensors %s", path, shown)
    # Those of the pre-training heads, which another task does not read.
    table = formats.converter(name).table(checkpoint.config, "pretraining")
    known = {row.theirs for row in table}
    if checkpoint.task == "pretraining" or known.issuperset(unread):
        return checkpoint
    logging.warning(
        "%s: its head for %s has more tensors than BERT's, so that BERT's head "
        "would give other answers. Only the encoder is read, and the head is "
        "newly initialized: train it before you use its answers",
        path,
        checkpoint.task,
    )
    return checkpoint.without_head()


def _unexpected_files(
    folder: str, writes: Sequence[str], inside: str = ""
) -> list[str]:
    """Returns the paths in a folder that match none of `writes`, sorted."""
    unexpected_files = []
    for name in sorted(os.listdir(os.path.join(folder, inside))):
        path = os.path.join(inside, name)
        if os.path.isdir(os.path.join(folder, path)):
            # The folder of a file, or one above it.
            if any(
                fnmatch.fnmatchcase(path, above)
                for file in writes
                for above in map(str, pathlib.PurePosixPath(file).parents)
            ):
                unexpected_files += _unexpected_files(folder, writes, path)
            else:
                unexpected_files.append(f"{path}/")
        elif not any(fnmatch.fnmatchcase(path, file) for file in writes):
            unexpected_files.append(path)
    return unexpected_files


def _check_free(path: str, output_dir: str, overwrite: bool) -> None:
    """Raises ValueError if writing `output_dir` would destroy other files."""
    stored_folders.check_kept(path, output_dir)
    if not os.path.exists(output_dir) or (
        os.path.isdir(output_dir) and not os.listdir(output_dir)
    ):
        return
    if not overwrite:
        raise ValueError(
            f"{output_dir} already exists. Choose a new folder, or pass "
            "--overwrite to replace it."
        )
    # Only files that a conversion writes are replaced.
    name = formats.detect(output_dir)
    unexpected_files = _unexpected_files(
        output_dir, formats.converter(name).WRITES
    )
    card = model_card.FILE
    if card in unexpected_files and model_card.is_card(
        os.path.join(output_dir, card)
    ):
        unexpected_files.remove(card)
    if unexpected_files:
        num_more = len(unexpected_files) - 3
        more = f" and {num_more} more" if num_more > 0 else ""
        raise ValueError(
            f"{output_dir} contains {', '.join(unexpected_files[:3])}{more}, "
            f"which a conversion to {name} never writes, so it is not "
            "replaced. Choose another folder, or remove this one yourself."
        )


def _check_supported(given: ours.Checkpoint, to: str) -> None:
    """Raises ValueError if the target format cannot express the config."""
    keys = given.config.keys_of_ours()
    if keys and to != formats.OURS:
        settings = ", ".join(f"{name}={value}" for name, value in keys.items())
        raise ValueError(
            f"{given.source} has {settings} in its bert_config.json, which "
            f"{to} does not support: its weights would be read as those of an "
            "ordinary BERT. Keep such a model in the "
            f"format {formats.OURS}; export_savedmodel can export it."
        )


def _check_rules(given: ours.Checkpoint, to: str) -> None:
    """Raises ValueError if the target format cannot hold the tokenizer's rules.

    The case is inferred again from the vocabulary.
    """
    rules = given.rules()
    rules.pop("do_lower_case", None)
    if rules and to in ("google", "model_garden"):
        settings = ", ".join(f"{name}={value}" for name, value in rules.items())
        raise ValueError(
            f"The tokenizer of {given.source} has {settings}, which no file of "
            f"the format {to} holds: its readers would make other tokens. "
            f"Choose another format. {_ACCEPT} to write it anyway."
        )


def write(
    given: ours.Checkpoint,
    to: str,
    folder: str,
    accept_tokenizer_differences: bool = False,
) -> tuple[ours.Checkpoint, list[str]]:
    """Writes a Checkpoint, reads it back and compares the two, bit for bit.

    Args:
      given: what to write.
      to: target format, a key of `formats.CONVERTERS`.
      folder: a folder from `atomic_files.atomic_folder`.
      accept_tokenizer_differences: whether the format may lack the rules of the
        tokenizer.

    Returns:
      The Checkpoint read back, and lines of the report: its notes, and how
      tensors changed.

    Raises:
      ValueError: if the format cannot hold it, or the written files differ.
    """
    _check_supported(given, to)
    if not accept_tokenizer_differences:
        _check_rules(given, to)
    target = formats.converter(to)
    target.write(given, folder)
    written = target.read(folder)
    return written, [
        *(f"note on the target: {note}" for note in written.notes),
        *parity.tensor_lines(given, written),
        *parity.check_lossless(given, written),
    ]


def convert(
    path: str,
    to: str,
    output_dir: str,
    hidden_act: str | None = None,
    *,
    overwrite: bool = False,
    compare: bool = True,
    allow_nan_weights: bool = False,
    accept_tokenizer_differences: bool = False,
    license: str | None = None,
) -> list[str]:
    """Writes a checkpoint in another format, atomically, with a model card.

    The written files are read back and compared with the source, bit for bit.

    Args:
      path: as for `read`.
      to: target format, a key of `formats.CONVERTERS`.
      output_dir: folder to write.
      hidden_act: as for `read`.
      overwrite: whether to replace an existing model.
      compare: whether to also compute outputs and compare them with those of
        the libraries that define the two formats, if installed.
      allow_nan_weights: as for `read`.
      accept_tokenizer_differences: as for `read` and `write`.
      license: of the weights, for the card; see `model_card.check_license`.

    Returns:
      The lines of the report.

    Raises:
      ValueError: if the source cannot be read, the target format cannot hold
        it, or the written files differ from it. `output_dir` is then unchanged.
    """
    model_card.check_license(license)
    _check_free(path, output_dir, overwrite)
    given = read(
        path,
        hidden_act,
        allow_nan_weights=allow_nan_weights,
        accept_tokenizer_differences=accept_tokenizer_differences,
    )
    with atomic_files.atomic_folder(os.path.normpath(output_dir)) as folder:
        written, changes = write(
            given, to, folder, accept_tokenizer_differences
        )
        run = {}
        if formats.detect(path) == formats.OURS:
            run = model_card.find_run(run_models.find(path))
        facts = model_card.of_checkpoint(given, to, license, run)
        model_card.write(folder, facts)
        report = [
            f"{given.source} -> {to} {output_dir}",
            f"task {given.task}, hidden_act {written.config.hidden_act}",
            *(
                f"note on the source: {note}"
                for note in given.notes + given.tokenizer_differences
            ),
            *changes,
        ]
        if compare:
            source = formats.converter(formats.detect(path))
            target = formats.converter(to)
            sides = [("source", path, source), ("target", folder, target)]
            report += parity.peer_lines(
                written, [side for side in sides if side[2] is not ours]
            )
    return report
