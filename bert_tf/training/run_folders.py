"""Settings of a run <-> run.json of its folder, and whether they agree."""

import os

from bert_tf.training import checkpoints
from tfrecords.io import atomic_files

FILE = "run.json"

# What runs did before there was a setting for it: their run.json lacks it.
_FORMERLY = {
    "optimizer": "adamw",
    "layerwise_lr_decay": 1.0,
    "gradient_accumulation_steps": 1,
    "clip_before_reduce": False,
    "bucket_lengths": None,
}


def check(output_dir: str, settings: dict, *, is_chief: bool = True) -> None:
    """Writes `run.json` of a new training, or checks it for one that goes on.

    A folder without a checkpoint holds no work: a run.json there is of a run
    that failed at once, and is replaced.

    Args:
      output_dir: of the run.
      settings: what makes this run this run.
      is_chief: whether this process writes; the others only check.

    Raises:
      ValueError: if the folder holds a run with other settings, or files that
        are no run's.
    """
    has_begun = checkpoints.newest_step(output_dir) > 0
    best = os.path.join(output_dir, checkpoints.BEST)
    if not has_begun and os.path.isdir(best):
        # It would be taken for the best of the new run.
        raise ValueError(
            f"{best} is of a run whose checkpoints are gone. Move it away, or "
            "choose another --output_dir."
        )
    if has_begun or is_chief:
        write_or_check(output_dir, settings, has_begun=has_begun)


def write_or_check(output_dir: str, settings: dict, *, has_begun: bool) -> None:
    """The same for a folder of which the caller knows whether it holds work."""
    path = os.path.join(output_dir, FILE)
    if not has_begun:
        os.makedirs(output_dir, exist_ok=True)
        atomic_files.write_json(path, settings)
        return
    if not os.path.exists(path):
        raise ValueError(
            f"{output_dir} holds a run without a {FILE}. Choose another "
            "--output_dir."
        )
    found = atomic_files.read_json(path)
    for name in set(_FORMERLY) & set(settings):
        found.setdefault(name, _FORMERLY[name])
    differences = [
        f"  {name}: {found.get(name)!r} there, {settings.get(name)!r} now"
        for name in sorted(set(found) | set(settings))
        if found.get(name) != settings.get(name)
    ]
    if differences:
        raise ValueError(
            f"{output_dir} holds another run:\n"
            + "\n".join(differences)
            + "\nChoose another --output_dir, or the settings it began with."
        )


def check_setting(output_dir: str, name: str, value) -> None:
    """Checks one setting of a run that goes on, before all are known.

    Raises:
      ValueError: if the folder holds a run with another value.
    """
    path = os.path.join(output_dir, FILE)
    if checkpoints.newest_step(output_dir) and os.path.exists(path):
        check(output_dir, atomic_files.read_json(path) | {name: value})
