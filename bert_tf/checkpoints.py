"""Training state <-> disk: the checkpoints of a run.

A checkpoint is a model folder (see model_folders.py), with
`optimizer.safetensors` and `state.json` beside.
"""

import os
import shutil
from collections.abc import Mapping

import keras
from absl import logging

from bert_tf import model_folders
from tfrecords import whole_files

OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"
_PREFIX = "step-"
_BEST = "best"


def _steps(folder: str) -> list[int]:
    """Returns the steps of whole checkpoints in a folder, oldest first."""
    if not os.path.isdir(folder):
        return []
    return sorted(
        int(name.removeprefix(_PREFIX))
        for name in os.listdir(folder)
        if name.startswith(_PREFIX) and name.removeprefix(_PREFIX).isdigit()
    )


def newest_step(output_dir: str) -> int:
    """Returns the step of a run's newest checkpoint; 0 if it has none."""
    return max(_steps(os.path.join(output_dir, "checkpoints")), default=0)


def find(path: str) -> str:
    """Returns the model folder that `path` means.

    Args:
      path: a model folder, or a run folder: then its best model if it keeps
        one, else its newest checkpoint.

    Raises:
      ValueError: if there is none.
    """
    inside = os.path.join(path, "checkpoints")
    candidates = [path, os.path.join(path, _BEST)]
    candidates += [
        os.path.join(inside, f"{_PREFIX}{step:08d}")
        for step in reversed(_steps(inside))
    ]
    for candidate in candidates:
        if os.path.isfile(os.path.join(candidate, model_folders.WEIGHTS)):
            return candidate
    raise ValueError(
        f"{path} holds no model: expected {model_folders.WEIGHTS} in it, or in "
        f"its checkpoints/{_PREFIX}*. Give the output_dir of a run."
    )


def step_of(folder: str) -> int:
    """Returns the updates behind a model folder; 0 if it does not say."""
    path = os.path.join(folder, STATE)
    return whole_files.read_json(path)["step"] if os.path.exists(path) else 0


class RunCheckpoints:
    """The newest checkpoints of a run, and the way back to the last one.

    Args:
      folder: where they stand, each as `step-00001000`.
      model: what is trained.
      optimizer: with `slots()` and `step`.
      keep: newest checkpoints to keep.
      description: for `model_folders.save_model`.
      vocab_file: for `model_folders.save_model`.
    """

    def __init__(
        self,
        folder: str,
        model: keras.Model,
        optimizer,
        *,
        keep: int = 3,
        description: Mapping | None = None,
        vocab_file: str | None = None,
    ):
        self.folder = folder
        self.model = model
        self.optimizer = optimizer
        self.keep = keep
        self.description = dict(description or {})
        self.vocab_file = vocab_file
        # Of this run when it was killed; a model each, so they add up.
        whole_files.remove_leftovers(folder, _PREFIX)
        whole_files.remove_leftovers(os.path.dirname(folder), _BEST)

    def path(self, step: int) -> str:
        """Returns the folder of the checkpoint after `step` updates."""
        return os.path.join(self.folder, f"{_PREFIX}{step:08d}")

    def _slots(self) -> dict:
        """Returns the slots by name, without the model's own name in theirs.

        Keras numbers the models of a process: the same command after another
        training gives other names.
        """
        own = f"/{self.model.name}/"
        slots = self.optimizer.slots()
        return {name.replace(own, "/", 1): slots[name] for name in slots}

    def save(self, step: int) -> None:
        """Writes one checkpoint, then removes the oldest over `keep`."""
        with whole_files.whole_folder(self.path(step)) as folder:
            model_folders.save_model(
                folder,
                self.model,
                description=self.description,
                vocab_file=self.vocab_file,
            )
            slots = {n: s.numpy() for n, s in self._slots().items()}
            model_folders.write_tensors(slots, os.path.join(folder, OPTIMIZER))
            whole_files.write_json(
                os.path.join(folder, STATE),
                {
                    "step": step,
                    "weights_sha256": model_folders.digest(self.model),
                },
            )
        for old in _steps(self.folder)[: -self.keep]:
            shutil.rmtree(self.path(old))

    def restore_latest(self) -> int:
        """Loads the newest whole checkpoint; returns its step, 0 for none.

        Raises:
          ValueError: if it is of a model of another size, or its weights are
            not those that were written.
        """
        steps = _steps(self.folder)
        if not steps:
            return 0
        folder = self.path(steps[-1])
        state = whole_files.read_json(os.path.join(folder, STATE))
        model_folders.load_weights(self.model, folder)
        found = model_folders.digest(self.model)
        if found != state["weights_sha256"]:
            raise ValueError(
                f"{folder} is damaged: its weights have sha256 {found}, "
                f"written were {state['weights_sha256']}. Remove it to go on "
                "from the checkpoint before."
            )
        path = os.path.join(folder, OPTIMIZER)
        model_folders.assign(
            self._slots(), model_folders.read_tensors(path), path
        )
        self.optimizer.step.assign(state["step"])
        logging.info("goes on from step %d of %s", state["step"], folder)
        return state["step"]
