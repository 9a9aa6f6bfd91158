"""Checkpoint of any format -> the same model in another format, a report."""

import dataclasses
import fnmatch
import os
import pathlib
from collections.abc import Sequence

import numpy as np

from bert_tf.checkpoint import (
    contents,
    detection,
    model_card,
    run_models,
    tensor_files,
)
from bert_tf.checkpoint import convert as convert_lib
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.checkpoint.options import OURS
from tfrecords.io import atomic_files, stored_folders

_POSITIONS = "encoder/embeddings/position_embeddings"


def convert(
    path: str,
    to: str,
    output_dir: str,
    hidden_act: str | None = None,
    *,
    overwrite: bool = False,
    allow_nan_weights: bool = False,
    accept_tokenizer_differences: bool = False,
    license: str | None = None,
    max_position_embeddings: int | None = None,
) -> list[str]:
    """Writes a checkpoint in another format, atomically, with a model card.

    The written files are read back and compared with the source, bit for bit.

    Args:
      path: as for `Checkpoint.open`.
      to: target format, one of `options.FORMATS`.
      output_dir: folder to write.
      hidden_act: as for `Checkpoint.open`.
      overwrite: whether to replace an existing model.
      allow_nan_weights: as for `Checkpoint.open`.
      accept_tokenizer_differences: as for `Checkpoint.open`, and for a
        format that cannot hold the rules of the tokenizer.
      license: of the weights, for the card; see `model_card.check_license`.
      max_position_embeddings: see `with_positions`; None for the source's.

    Returns:
      The lines of the report.

    Raises:
      ValueError: if the source cannot be read, the target format cannot hold
        it, or the written files differ from it. `output_dir` is then unchanged.
    """
    model_card.check_license(license)
    path = stored_folders.fetch(path)
    _check_free(path, output_dir, overwrite)
    given = Checkpoint.open(
        path,
        hidden_act=hidden_act,
        allow_nan_weights=allow_nan_weights,
        accept_tokenizer_differences=accept_tokenizer_differences,
        with_slots=True,
        log_notes=False,  # The report has them.
    )
    contents.check_labels(given)
    warnings = []
    if max_position_embeddings is not None:
        given = with_positions(given, max_position_embeddings)
        warnings = [
            "warning: position embeddings are interpolated, so the outputs of "
            "all texts differ. Train the model before it is used."
        ]
    with atomic_files.atomic_folder(os.path.normpath(output_dir)) as folder:
        written, changes = convert_lib.write(
            given, to, folder, accept_tokenizer_differences
        )
        source = detection.detect(path)
        run = run_models.read_run(given.folder) if source == OURS else {}
        card = model_card.of_checkpoint(given, to, license, run)
        model_card.write(folder, card)
        report = [
            f"{given.source} -> {to} {output_dir}",
            f"task {given.task}, hidden_act {written.config.hidden_act}",
            *(
                f"note on the source: {note}"
                for note in given.notes + given.tokenizer_differences
            ),
            *changes,
            *warnings,
        ]
    return report


def with_positions(given: Checkpoint, length: int) -> Checkpoint:
    """Returns a checkpoint for longer texts, which must be trained.

    Its position embeddings are interpolated linearly, as those of larger images
    in ViT (Dosovitskiy et al. 2020, arXiv 2010.11929, section 3.2): neighbours
    are closer, so that short texts have other outputs, too. Adam's slots and
    the step are left out.

    Args:
      given: a checkpoint of any model.
      length: its new number of positions.

    Raises:
      ValueError: if it has as many positions or more.
    """
    old = np.asarray(given.tensors[_POSITIONS])
    if length <= len(old):
        raise ValueError(
            f"--max_position_embeddings={length} should be more than the "
            f"model's own {len(old)}. Leave it out to keep those."
        )
    # First, since it refuses a table that would not fit into memory.
    config = dataclasses.replace(given.config, max_position_embeddings=length)
    places = np.linspace(0, len(old) - 1, length)
    columns = old.T.astype(np.float64)
    new = [np.interp(places, np.arange(len(old)), x) for x in columns]
    table = np.stack(new, axis=1).astype(old.dtype)
    return dataclasses.replace(
        given,
        config=config,
        tensors=tensor_files.merged({_POSITIONS: table}, given.tensors),
        slots={},
        step=0,
    )


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
    name = detection.detect(output_dir)
    unexpected_files = _unexpected_files(
        output_dir, detection.format_module(name).WRITES
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
