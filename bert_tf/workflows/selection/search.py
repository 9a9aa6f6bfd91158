"""--search -> the settings of trials: a grid, or those that Optuna suggests.

learning_rate:1e-5..1e-4:log    floats in a range, equally many per factor
train_batch_size:16|32          one of some numbers
"""

import contextlib
import itertools
import math
import os
from collections.abc import Callable, Sequence

from absl import logging

from tfrecords import libraries
from tfrecords.options import to_number

# Options that can be searched: they change no records.
SETTINGS = ("train_batch_size", "learning_rate", "num_train_epochs")
SETTINGS += ("warmup_proportion", "clip_norm", "label_smoothing", "lora_rank")
INTEGERS = ("train_batch_size", "lora_rank")
# Devlin et al. 2018, appendix A.3; the learning rate 4e-5 is in section 4.1.
PAPER = (
    "train_batch_size:16|32",
    "learning_rate:5e-5|4e-5|3e-5|2e-5",
    "num_train_epochs:2|3|4",
)
# Lines that Optuna's tools read. It is made again at each start, from trials:
# a kill may leave half a line, after which Optuna cannot write.
JOURNAL = "optuna.log"


def parse(words: Sequence[str]) -> dict[str, tuple]:
    """Returns option -> its numbers, or (low, high, "log" or "") of a range.

    Raises:
      ValueError: for a word that is no option and numbers.
    """
    found = {}
    if tuple(words) == ("none",):  # As --grid of earlier flag files.
        return found
    for word in PAPER if tuple(words) == ("paper",) else words:
        name, _, text = word.partition(":")
        text, _, scale = text.partition(":")
        is_range = ".." in text
        numbers = [*map(to_number, text.split(".." if is_range else "|"))]
        if name in INTEGERS or not is_range:
            numbers = [int(x) if x % 1 == 0 else x for x in numbers]
        is_wrong = name not in SETTINGS or name in found
        is_wrong |= any(map(math.isnan, numbers)) or scale not in ("", "log")
        if name in INTEGERS:
            is_wrong |= not all(isinstance(x, int) for x in numbers)
        if is_range:
            is_wrong |= len(numbers) != 2 or not numbers[0] < numbers[1]
            is_wrong |= bool(scale) and not numbers[0] > 0
        elif scale or len({*numbers}) < len(numbers):
            is_wrong = True
        if is_wrong:
            raise ValueError(
                f"--search={','.join(words)}: {word!r} should be one of "
                f"{', '.join(SETTINGS)}, each once, and its numbers, such as "
                "train_batch_size:16|32 or learning_rate:1e-5..1e-4:log, the "
                "lower one first, and above 0 with log."
            )
        found[name] = (*numbers, scale) if is_range else tuple(numbers)
    return found


def is_range(values: tuple) -> bool:
    """Returns whether the values of an option are a range."""
    return isinstance(values[-1], str)


def points(space: dict[str, tuple]) -> list[dict]:
    """Returns all settings of a grid; of a range its two ends."""
    ends = [x[:2] if is_range(x) else x for x in space.values()]
    return [dict(zip(space, x, strict=True)) for x in itertools.product(*ends)]


def run(
    space: dict[str, tuple],
    num_trials: int | None,
    seed: int,
    folder: str,
    score: Callable[[dict], float | None],
) -> None:
    """Calls `score` with each setting.

    Args:
      space: from `parse`.
      num_trials: settings that Optuna suggests; None for all of a grid.
      seed: of the suggestions, which depend on it and on earlier scores alone,
        so that a search that resumes has the same ones.
      folder: for the journal.
      score: setting -> its score, None if it diverged or is undefined.
    """
    if num_trials is None:
        for setting in points(space):
            score(setting)
        return
    with libraries.extra("tuning", f"--num_trials={num_trials}"):
        import optuna
        from optuna.storages import journal

    path = os.path.join(folder, JOURNAL)
    for name in (path, f"{path}.lock"):
        with contextlib.suppress(FileNotFoundError):
            os.remove(name)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        study_name="search",
        direction="maximize",
        storage=journal.JournalStorage(journal.JournalFileBackend(path)),
        pruner=optuna.pruners.NopPruner(),
    )
    logging.info("search by TPESampler of Optuna %s, no pruner", version())
    distributions = {name: _distribution(name, space[name]) for name in space}
    for number in range(num_trials):
        # A generator that has drawn before would depend on where it resumed.
        study.sampler = optuna.samplers.TPESampler(seed=seed + number)
        trial = study.ask(distributions)
        value = score(trial.params)
        # The sampler ranks one that was pruned below all others.
        pruned = optuna.trial.TrialState.PRUNED if value is None else None
        study.tell(trial, value, state=pruned)


def version() -> str | None:
    """Returns the version of Optuna, None if it is not installed."""
    return libraries.version("optuna")


def _distribution(name: str, values: tuple):
    from optuna import distributions

    if not is_range(values):
        return distributions.CategoricalDistribution(values)
    low, high, scale = values
    is_int = name in INTEGERS
    kind = "IntDistribution" if is_int else "FloatDistribution"
    return getattr(distributions, kind)(low, high, log=bool(scale))
