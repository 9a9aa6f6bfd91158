"""Training state <-> disk: model folders that are whole or absent.

A model folder holds `model.safetensors` (weights by name), `bert_config.json`,
`model.json` and `vocab.txt`: all that export needs. A checkpoint of a run is a
model folder with `optimizer.safetensors` and `state.json` beside.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping

import keras
import numpy as np
import safetensors
from absl import logging
from safetensors import numpy as safetensors_numpy

WEIGHTS = "model.safetensors"
OPTIMIZER = "optimizer.safetensors"
CONFIG = "bert_config.json"
DESCRIPTION = "model.json"
VOCABULARY = "vocab.txt"
STATE = "state.json"
_PREFIX = "step-"


def weight_names(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns the weights by path, without the model's own name before it."""
    own = f"{model.name}/"
    return {weight.path.removeprefix(own): weight for weight in model.weights}


def digest(model: keras.Model) -> str:
    """Returns the sha256 of names, types, shapes and bytes of all weights."""
    sha256 = hashlib.sha256()
    for name, weight in sorted(weight_names(model).items()):
        array = np.ascontiguousarray(weight.numpy())
        sha256.update(f"{name} {array.dtype} {array.shape}\n".encode())
        sha256.update(array.tobytes())
    return sha256.hexdigest()


@contextlib.contextmanager
def atomic_folder(path: str) -> Iterator[str]:
    """Yields a folder to fill, which gets its name when it is whole.

    Raises:
      OSError: that names `path`, when the disk is full or not writable; what
        was written is removed again.
    """
    aside = f"{path}.tmp"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        os.makedirs(aside)
        yield aside
        for folder, _, names in os.walk(aside):
            for name in names:
                _sync(os.path.join(folder, name))
            _sync(folder)
        old = f"{path}.old"
        if os.path.isdir(path):
            shutil.rmtree(old, ignore_errors=True)
            os.rename(path, old)
        os.rename(aside, path)
        _sync(os.path.dirname(os.path.abspath(path)))
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise OSError(
            error.errno,
            f"{error.strerror or error}; nothing of it is left. Make room and "
            "run the same command again",
            path,
        ) from error
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: str, values: Mapping) -> None:
    """Writes a JSON file, whole or not at all."""
    with open(f"{path}.tmp", "w", encoding="utf-8") as file:
        json.dump(values, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.tmp", path)


def read_json(path: str) -> dict:
    """Reads a JSON object.

    Raises:
      ValueError: that names the file, if it holds none.
    """
    with open(path, encoding="utf-8") as file:
        try:
            return json.load(file)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} is no JSON: {error}.") from error


def _write_tensors(tensors: Mapping[str, np.ndarray], path: str) -> None:
    # By hand, since a full disk kills safetensors' own writer with a panic
    # on some file systems; bytes in memory let Python report it.
    with open(path, "wb") as file:
        file.write(safetensors_numpy.save(dict(tensors)))


def _read_tensors(path: str) -> dict[str, np.ndarray]:
    try:
        return safetensors_numpy.load_file(path)
    except (safetensors.SafetensorError, FileNotFoundError) as error:
        raise ValueError(
            f"{path} is missing or damaged ({error}). Take another checkpoint."
        ) from error


def save_model(
    folder: str,
    model: keras.Model,
    *,
    description: Mapping,
    vocab_file: str | None = None,
) -> None:
    """Fills `folder`, which must exist, with a model's weights and papers.

    Args:
      folder: a folder from `atomic_folder`.
      model: a model with a BertConfig as `.config`.
      description: what `model.json` says of task, labels and tokeniser.
      vocab_file: vocabulary to copy, if any.
    """
    model.config.to_json_file(os.path.join(folder, CONFIG))
    write_json(os.path.join(folder, DESCRIPTION), description)
    if vocab_file:
        shutil.copyfile(vocab_file, os.path.join(folder, VOCABULARY))
    weights = {n: w.numpy() for n, w in weight_names(model).items()}
    _write_tensors(weights, os.path.join(folder, WEIGHTS))


def _assign(
    variables: Mapping, tensors: Mapping[str, np.ndarray], source: str
) -> None:
    """Gives each variable its tensor, or says all that does not fit."""
    misfits = [
        f"  + in the checkpoint only: {name} {tensors[name].shape}"
        for name in sorted(set(tensors) - set(variables))
    ]
    misfits += [
        f"  - in the model only:      {name} {tuple(variables[name].shape)}"
        for name in sorted(set(variables) - set(tensors))
    ]
    misfits += [
        f"  ! of another size:        {name} {tensors[name].shape} in the "
        f"checkpoint, {tuple(variables[name].shape)} in the model"
        for name in sorted(set(variables) & set(tensors))
        if tensors[name].shape != tuple(variables[name].shape)
    ]
    if misfits:
        raise ValueError(
            f"{len(misfits)} weights have no partner ({source}).\n"
            + "\n".join(misfits)
            + "\nUse the bert_config.json that belongs to the checkpoint."
        )
    for name, variable in variables.items():
        variable.assign(tensors[name])


def load_weights(model: keras.Model, folder: str) -> None:
    """Loads all weights of a model folder into a model of the same kind.

    Raises:
      ValueError: that lists every weight without a partner of its size, or
        names a missing or damaged file.
    """
    path = os.path.join(folder, WEIGHTS)
    _assign(weight_names(model), _read_tensors(path), path)


def load_encoder(model: keras.Model, folder: str) -> None:
    """Loads the encoder's weights alone; heads keep their first weights.

    Args:
      model: a task model, with its encoder as `.encoder`.
      folder: a model folder, of any task.

    Raises:
      ValueError: as `load_weights`.
    """
    path = os.path.join(folder, WEIGHTS)
    prefix = "encoder/"
    tensors = {
        name.removeprefix(prefix): tensor
        for name, tensor in _read_tensors(path).items()
        if name.startswith(prefix)
    }
    _assign(weight_names(model.encoder), tensors, path)


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
    candidates = [path, os.path.join(path, "best")]
    candidates += [
        os.path.join(inside, f"{_PREFIX}{step:08d}")
        for step in reversed(_steps(inside))
    ]
    for candidate in candidates:
        if os.path.isfile(os.path.join(candidate, WEIGHTS)):
            return candidate
    raise ValueError(
        f"{path} holds no model: expected {WEIGHTS} in it, or in its "
        f"checkpoints/{_PREFIX}*. Give the output_dir of a run."
    )


def step_of(folder: str) -> int:
    """Returns the updates behind a model folder; 0 if it does not say."""
    path = os.path.join(folder, STATE)
    return read_json(path)["step"] if os.path.exists(path) else 0


class RunCheckpoints:
    """The newest checkpoints of a run, and the way back to the last one.

    Args:
      folder: where they stand, each as `step-00001000`.
      model: what is trained.
      optimizer: with `slots()` and `step`.
      keep: newest checkpoints to keep.
      description: for `save_model`.
      vocab_file: for `save_model`.
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
        with atomic_folder(self.path(step)) as folder:
            save_model(
                folder,
                self.model,
                description=self.description,
                vocab_file=self.vocab_file,
            )
            slots = {n: s.numpy() for n, s in self._slots().items()}
            _write_tensors(slots, os.path.join(folder, OPTIMIZER))
            write_json(
                os.path.join(folder, STATE),
                {"step": step, "weights_sha256": digest(self.model)},
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
        state = read_json(os.path.join(folder, STATE))
        load_weights(self.model, folder)
        found = digest(self.model)
        if found != state["weights_sha256"]:
            raise ValueError(
                f"{folder} is damaged: its weights have sha256 {found}, "
                f"written were {state['weights_sha256']}. Remove it to go on "
                "from the checkpoint before."
            )
        path = os.path.join(folder, OPTIMIZER)
        _assign(self._slots(), _read_tensors(path), path)
        self.optimizer.step.assign(state["step"])
        logging.info("goes on from step %d of %s", state["step"], folder)
        return state["step"]
