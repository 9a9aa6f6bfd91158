"""Training state <-> disk: the checkpoints of a run.

A checkpoint is a model folder (see model_folders.py), with
`optimizer.safetensors` and `state.json` beside. The latter has the sha256 of
every file, and of its own other entries (see checksums.py).
"""

import os
import re
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.training import checksums, model_folders
from tfrecords.io import atomic_files

OPTIMIZER = "optimizer.safetensors"
STATE = checksums.STATE
_PREFIX = "step-"
_DAMAGED = "damaged-"  # Prefix of a checkpoint that could not be restored.
BEST = "best"


def name(step: int) -> str:
    """Returns the name of the folder of a checkpoint after `step` updates."""
    return f"{_PREFIX}{step:08d}"


def steps(folder: str, before: str = "") -> list[int]:
    """Returns the steps of checkpoints in a folder, oldest first."""
    if not os.path.isdir(folder):
        return []
    pattern = re.compile(rf"{before}{_PREFIX}([0-9]{{8,}})")
    matches = map(pattern.fullmatch, os.listdir(folder))
    return sorted(int(match[1]) for match in matches if match)


def newest_step(output_dir: str) -> int:
    """Returns the step of a run's newest checkpoint; 0 if it has none.

    One that is damaged counts: the run has begun, and must not be begun anew
    over what can still be saved. `restore_latest` moves damaged ones aside when
    it has gone back to one before; after it, this is the step that it returned.
    """
    return max(steps(os.path.join(output_dir, "checkpoints")), default=0)


def find(path: str) -> str:
    """Returns the model folder that `path` means.

    What is missing or cut short is seen here, and changed bytes in metadata;
    changed bytes in weights are seen by who reads them (`read_tensors`), since
    gigabytes should not be read twice.

    Args:
      path: a model folder, or a run folder: then its best model if it keeps
        one, else its newest checkpoint that is not seen to be damaged.

    Raises:
      DamagedError: a ValueError, if `path` itself, or the best, or all
        checkpoints are damaged: which other one will do is the user's to say.
      ValueError: if there is none.
    """
    if os.path.isfile(os.path.join(path, model_folders.WEIGHTS)):
        checksums.check_quickly(path)
        return path
    inside = os.path.join(path, "checkpoints")
    best = os.path.join(path, BEST)
    try:
        if _has_model(best):
            return best
    except checksums.DamagedError as error:
        raise checksums.DamagedError(
            f"{error} To take another, give a folder of {inside}/ itself."
        ) from error
    faults = []
    for step in reversed(steps(inside)):
        folder = os.path.join(inside, name(step))
        try:
            if _has_model(folder):
                return folder
        except checksums.DamagedError as error:
            logging.warning("%s The one before is tried.", error)
            faults.append(str(error))
    if faults:
        faults.append(f"{path} has no other checkpoint.")
        raise checksums.DamagedError("\n".join(faults))
    raise ValueError(
        f"{path} holds no model: expected {model_folders.WEIGHTS} in it, or in "
        f"its checkpoints/{_PREFIX}*. Give the output_dir of a run."
    )


def _has_model(folder: str) -> bool:
    """Returns whether a model is there; raises DamagedError if half of one."""
    checksums.check_quickly(folder)
    has_weights = os.path.isfile(os.path.join(folder, model_folders.WEIGHTS))
    if not has_weights and os.path.isfile(os.path.join(folder, STATE)):
        raise checksums.damaged(folder, f"{model_folders.WEIGHTS} is missing")
    return has_weights


def step_of(folder: str) -> int:
    """Returns the updates behind a model folder; 0 if it does not say."""
    if not os.path.exists(os.path.join(folder, STATE)):
        return 0
    return checksums.read_state(folder).get("step", 0)


class RunCheckpoints:
    """The newest checkpoints of a run, and how to restore the last one.

    Args:
      folder: where they stand, each as `step-00001000`.
      model: what is trained.
      optimizer: with `slots()` and `step`.
      keep: newest checkpoints to keep.
      metadata: for `model_folders.save_model`.
      vocab_file: for `model_folders.save_model`.
      extra: name -> scalar variable of the training's state, such as a loss
        scale. One that a checkpoint lacks keeps its value.
      is_chief: whether this process may change the folder; others only read.

    Attributes:
      last_step: of the checkpoint saved or restored last; 0 for none.
    """

    def __init__(
        self,
        folder: str,
        model: keras.Model,
        optimizer,
        *,
        keep: int = 3,
        metadata: Mapping | None = None,
        vocab_file: str | None = None,
        extra: Mapping[str, tf.Variable] | None = None,
        is_chief: bool = True,
    ):
        self.folder = folder
        self.model = model
        self.optimizer = optimizer
        self.keep = keep
        self.metadata = dict(metadata or {})
        self.vocab_file = vocab_file
        self.extra = dict(extra or {})
        self.is_chief = is_chief
        self.last_step = 0
        if is_chief:
            # Of this run when it was killed; a model each, so they add up.
            atomic_files.remove_leftovers(folder, _PREFIX)
            atomic_files.remove_leftovers(os.path.dirname(folder), BEST)

    def path(self, step: int) -> str:
        """Returns the folder of the checkpoint after `step` updates."""
        return os.path.join(self.folder, name(step))

    def recovery_hint(self) -> str:
        """Returns what to do about a loss that is not finite."""
        last = "There is no checkpoint yet"
        if self.last_step:
            last = f"The last good one is {self.path(self.last_step)}"
        return (
            f"{last}. Start in another --output_dir, with it as "
            "--init_checkpoint if you like, and a lower --learning_rate; or "
            "look at these records."
        )

    def _slots(self) -> dict:
        """Returns the slots by name, without the model's own name in theirs.

        Keras numbers the models of a process: the same command after another
        training gives other names.
        """
        own = f"/{self.model.name}/"
        slots = self.optimizer.slots()
        return {name.replace(own, "/", 1): slots[name] for name in slots}

    def save(self, step: int, is_regular=lambda step: True) -> None:
        """Writes one checkpoint, and removes the oldest over `keep`: the chief.

        One of the same step is replaced. Nothing is removed before the new one
        is on the disk; then first what is of no regular step: a stop left it.

        Raises:
          OSError: that names the checkpoint, as of a full disk.
        """
        if self.is_chief:
            self._write(step)
            self._remove_old(step, is_regular)
        self.last_step = step

    def _write(self, step: int) -> None:
        with atomic_files.atomic_folder(self.path(step)) as folder:
            model_folders.save_model(
                folder,
                self.model,
                metadata=self.metadata,
                vocab_file=self.vocab_file,
            )
            path = os.path.join(folder, OPTIMIZER)
            model_folders.write_tensors(self._slots(), path)
            checksums.write_checksums(folder, self._state(step))

    def _state(self, step: int) -> dict:
        """Returns the content of state.json but for the sums of files."""
        sha256 = model_folders.digest(self.model)
        state = {"step": step, "weights_sha256": sha256}
        if self.extra:
            # JSON gives every float back as it was.
            extra = sorted(self.extra.items())
            state["extra"] = {n: x.numpy().item() for n, x in extra}
        return state

    def _remove_old(self, step: int, is_regular) -> None:
        """Removes what the checkpoint of `step`, just written, makes needless.

        Those of later steps, if any, are not of this run's past: they neither
        count nor go. Damaged ones that the run has passed go.
        """
        older = [old for old in steps(self.folder) if old < step]
        older.sort(key=is_regular)
        for old in older[: max(0, len(older) + 1 - self.keep)]:
            atomic_files.remove_folder(self.path(old))
        for old in steps(self.folder, _DAMAGED):
            if old <= step:
                atomic_files.remove_folder(self._damaged_path(old))

    def restore_latest(self) -> int:
        """Loads the newest whole checkpoint; returns its step, 0 for none.

        Damaged ones are named in a warning. When one before them is whole the
        chief moves them aside, as `damaged-step-00001000`, so that the newest
        step is that of this run; a later `save` removes them.

        Raises:
          ValueError: if it is of a model of another size, or all are damaged.
        """
        damaged, faults = [], []
        for step in reversed(steps(self.folder)):
            try:
                self._restore(step)
            except checksums.DamagedError as error:
                logging.warning("%s The one before is tried.", error)
                damaged.append(step)
                faults.append(str(error))
                continue
            for other in damaged if self.is_chief else ():
                self._set_aside(other)
            logging.info("resumes from step %d of %s", step, self.path(step))
            self.last_step = step
            return step
        faults += [
            f"{self._damaged_path(step)} was damaged before."
            for step in reversed(steps(self.folder, _DAMAGED))
        ]
        if faults:
            faults.append(
                f"No checkpoint of {self.folder} is whole. Put a good copy of "
                "one in its place, or remove them all to begin anew."
            )
            raise checksums.DamagedError("\n".join(faults))
        return 0

    def _restore(self, step: int) -> None:
        """Gives model, optimizer and extra what a checkpoint holds.

        Raises:
          DamagedError: if the checkpoint is not what was written.
          ValueError: if it is of a model of another size.
        """
        folder = self.path(step)
        state = checksums.read_state(folder)
        if state.get("step") != step:
            raise checksums.damaged(
                folder, f"its {STATE} is of step {state.get('step')}"
            )
        # Weights and slots are checked as they are read, once.
        checksums.check_quickly(folder)
        weights = os.path.join(folder, model_folders.WEIGHTS)
        # All of them, whatever model.json says that a source once lacked.
        model_folders.assign(
            model_folders.weight_names(self.model),
            model_folders.read_tensors(weights),
            weights,
        )
        slots = os.path.join(folder, OPTIMIZER)
        model_folders.assign(
            self._slots(), model_folders.read_tensors(slots), slots
        )
        values = state.get("extra", {})
        for name in set(values) & set(self.extra):
            variable = self.extra[name]
            variable.assign(np.asarray(values[name], variable.dtype.name))
        self.optimizer.step.assign(step)

    def _damaged_path(self, step: int) -> str:
        return os.path.join(self.folder, _DAMAGED + name(step))

    def _set_aside(self, step: int) -> None:
        path = self._damaged_path(step)
        if os.path.isdir(path):
            atomic_files.remove_folder(path)
        atomic_files.move(self.path(step), path)
        logging.warning("%s is now %s.", self.path(step), path)
