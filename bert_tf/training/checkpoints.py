"""Training state <-> disk: the checkpoints of a run.

A checkpoint is a model folder (see model_folders.py) that also contains
`optimizer.safetensors` and `state.json`. `state.json` contains the sha256 of
every other file and of its own entries (see checksums.py). With LoRA there is
also `lora.safetensors`: adapters, and the frozen kernels that they belong to,
since the model folder has the merged kernels. If weights are averaged, the
model folder has the averages, and `optimizer.safetensors` the weights, too.
"""

import os
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.checkpoint import (
    checksums,
    model_folders,
    run_models,
    tensor_files,
)
from bert_tf.model import lora
from tfrecords.io import atomic_files

_DAMAGED = "damaged-"  # Prefix of checkpoints that could not be restored.


class RunCheckpoints:
    """Saves, restores and removes the checkpoints of a run.

    Args:
      folder: folder of the checkpoints, with names such as `step-00001000`.
      model: model to train.
      optimizer: an `optimizers.AdamW`, or one of its subclasses.
      keep: number of newest checkpoints to keep.
      metadata: see `model_folders.save_model`.
      vocabulary: see `model_folders.save_model`.
      extra: name -> scalar variable of the training state, such as a loss
        scale. A variable that is missing in a checkpoint keeps its value.
      is_chief: whether this process may change the folder; others only read.

    Attributes:
      last_step: step of the checkpoint saved or restored last; 0 for none.
    """

    def __init__(
        self,
        folder: str,
        model: keras.Model,
        optimizer,
        *,
        keep: int = 3,
        metadata: Mapping | None = None,
        vocabulary: bytes | None = None,
        extra: Mapping[str, tf.Variable] | None = None,
        is_chief: bool = True,
    ):
        self.folder = folder
        self.model = model
        self.optimizer = optimizer
        self.keep = keep
        self.metadata = dict(metadata or {})
        self.vocabulary = vocabulary
        self.extra = dict(extra or {})
        self.is_chief = is_chief
        self.last_step = 0
        if is_chief:
            # A killed run may leave temporary folders as large as checkpoints.
            atomic_files.remove_leftovers(folder, run_models.STEP_PREFIX)
            atomic_files.remove_leftovers(
                os.path.dirname(folder), run_models.BEST
            )

    def path(self, step: int) -> str:
        """Returns the folder of the checkpoint after `step` updates."""
        return os.path.join(self.folder, run_models.name(step))

    def recovery_hint(self) -> str:
        """Returns how to recover from a loss that is not finite."""
        last = "There is no checkpoint yet"
        if self.last_step:
            last = f"The last checkpoint is {self.path(self.last_step)}"
        return (
            f"{last}. Start a run in another --output_dir with a lower "
            "--learning_rate, optionally with a checkpoint as "
            "--init_checkpoint; or inspect the records of this step."
        )

    def _slots(self) -> dict:
        """Returns the slots by name, without the model's name.

        Keras numbers the models of a process, so the model's name would be
        different if the process had trained another model before.
        """
        own = f"/{self.model.name}/"
        slots = self.optimizer.slots()
        return {name.replace(own, "/", 1): slots[name] for name in slots}

    def save(self, step: int, is_regular=lambda step: True) -> None:
        """Writes a checkpoint, and removes the oldest ones beyond `keep`.

        Only the chief writes and removes. A checkpoint of the same step is
        replaced. Nothing is removed before the new one is on the disk.

        Args:
          step: optimizer updates applied.
          is_regular: step -> whether an uninterrupted run would save a
            checkpoint at this step. Checkpoints of other steps are removed
            first.

        Raises:
          OSError: with the path of the checkpoint, e.g. if the disk is full.
        """
        if self.is_chief:
            self._write(step)
            self._remove_old(step, is_regular)
        self.last_step = step

    def _write(self, step: int) -> None:
        with atomic_files.atomic_folder(self.path(step)) as folder:
            with self.optimizer.averaged():
                model_folders.save_model(
                    folder,
                    self.model,
                    metadata=self.metadata,
                    vocabulary=self.vocabulary,
                )
                state = self._state(step)
            path = os.path.join(folder, model_folders.OPTIMIZER)
            tensor_files.write_tensors(self._slots(), path)
            if adapters := lora.unmerged(self.model):
                path = os.path.join(folder, model_folders.LORA)
                tensor_files.write_tensors(adapters, path)
            checksums.write_checksums(folder, state)

    def _state(self, step: int) -> dict:
        """Returns the content of state.json, except the checksums of files."""
        sha256 = model_folders.digest(self.model)
        state = {"step": step, "weights_sha256": sha256}
        if self.extra:
            # JSON preserves floats exactly.
            extra = sorted(self.extra.items())
            state["extra"] = {n: x.numpy().item() for n, x in extra}
        return state

    def _remove_old(self, step: int, is_regular) -> None:
        """Removes checkpoints that the one just written makes obsolete.

        Checkpoints of later steps are neither counted nor removed. Folders
        renamed as damaged are removed if their step is at most `step`.
        """
        older = [old for old in run_models.steps(self.folder) if old < step]
        older.sort(key=is_regular)
        for old in older[: max(0, len(older) + 1 - self.keep)]:
            atomic_files.remove_folder(self.path(old))
        for old in run_models.steps(self.folder, _DAMAGED):
            if old <= step:
                atomic_files.remove_folder(self._damaged_path(old))

    def restore_latest(self) -> int:
        """Loads the newest intact checkpoint; returns its step, 0 for none.

        A warning is logged for each damaged checkpoint. If an older one is
        intact, the chief renames the damaged ones to e.g.
        `damaged-step-00001000`, so that `newest_step` returns the restored
        step. A `save` at their step or a later one removes them.

        Raises:
          ValueError: if the checkpoint's model has a different size, or all
            checkpoints are damaged.
        """
        damaged, faults = [], []
        for step in reversed(run_models.steps(self.folder)):
            try:
                self._restore(step)
            except checksums.DamagedError as error:
                logging.warning("%s Trying the previous one.", error)
                damaged.append(step)
                faults.append(str(error))
                continue
            for other in damaged if self.is_chief else ():
                self._rename_damaged(other)
            logging.info("resuming from step %d, %s", step, self.path(step))
            self.last_step = step
            return step
        faults += [
            f"{self._damaged_path(step)} was already found to be damaged."
            for step in reversed(run_models.steps(self.folder, _DAMAGED))
        ]
        if faults:
            faults.append(
                f"All checkpoints in {self.folder} are damaged. Restore one "
                "from a backup, or remove them all to start again."
            )
            raise checksums.DamagedError("\n".join(faults))
        return 0

    def _restore(self, step: int) -> None:
        """Restores model, optimizer and extra variables from a checkpoint."""
        folder = self.path(step)
        state = checksums.read_state(folder)
        if state.get("step") != step:
            raise checksums.damaged(
                folder, f"its {checksums.STATE} has step {state.get('step')}"
            )
        # Large files, weights and slots, are checked when they are read.
        checksums.check_quickly(folder)
        weights = os.path.join(folder, model_folders.WEIGHTS)
        # Those that are newly initialized in model.json, too.
        model_folders.assign(
            model_folders.weight_names(self.model),
            tensor_files.TensorFile(weights),
            weights,
        )
        if adapters := lora.unmerged(self.model):
            path = os.path.join(folder, model_folders.LORA)
            model_folders.assign(adapters, tensor_files.TensorFile(path), path)
        slots = os.path.join(folder, model_folders.OPTIMIZER)
        model_folders.assign(
            self._slots(), tensor_files.TensorFile(slots), slots
        )
        values = state.get("extra", {})
        for name in set(values) & set(self.extra):
            variable = self.extra[name]
            variable.assign(np.asarray(values[name], variable.dtype.name))
        self.optimizer.step.assign(step)

    def _damaged_path(self, step: int) -> str:
        return os.path.join(self.folder, _DAMAGED + run_models.name(step))

    def _rename_damaged(self, step: int) -> None:
        path = self._damaged_path(step)
        if os.path.isdir(path):
            atomic_files.remove_folder(path)
        atomic_files.move(self.path(step), path)
        logging.warning("Renamed %s to %s.", self.path(step), path)
