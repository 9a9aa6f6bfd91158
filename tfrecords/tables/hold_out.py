"""Strata and groups of a table's rows -> the rows to hold out as dev.

By scikit-learn, so that each class has its share of dev, and rows of a group,
such as those of one author, are in one split only.
"""

import collections
import warnings
from collections.abc import Hashable, Sequence

import numpy as np


def choose(
    strata: Sequence[int],
    groups: Sequence[Hashable] | None,
    *,
    dev_share: float | Sequence[int],
    seed: int,
) -> np.ndarray:
    """Returns the numbers of the rows of dev, sorted.

    A stratum of a single row stays in train. If there are more strata than rows
    of dev, the rarest ones are divided as one.

    Args:
      strata: [N] class of each row, whose shares dev should have.
      groups: [N] group of each row, which has all rows of a group; None for no
        groups. With groups, shares are only near `dev_share`.
      dev_share: share of the rows of dev, in (0, 1); or the fold that is dev,
        and the number of folds.
      seed: random seed.

    Returns:
      Rows, none if there are too few.

    Raises:
      ValueError: if all rows are in one group; or as in `folds`.
    """
    strata = np.asarray(strata)
    if isinstance(dev_share, Sequence):
        fold, num_folds = dev_share
        return np.flatnonzero(folds(strata, groups, num_folds, seed) == fold)
    if groups is not None and dev_share > 0.5:  # A fold is at most a half.
        train = _of_groups(strata, groups, 1 - dev_share, seed)
        return np.setdiff1d(np.arange(len(strata)), train)
    if groups is not None:
        return _of_groups(strata, groups, dev_share, seed)
    from sklearn import model_selection

    counts = collections.Counter(strata.tolist())
    rows = np.array([i for i, x in enumerate(strata) if counts[x] > 1], int)
    num_dev = round(dev_share * len(rows))
    most = min(num_dev, len(rows) - num_dev)
    if not most:
        return rows[:0]
    # Each stratum needs a row in both: the rarest ones are one.
    common = [x for x, count in counts.most_common() if count > 1]
    kept = common if len(common) <= most else common[: most - 1]
    numbers = {stratum: number for number, stratum in enumerate(kept)}
    split = model_selection.StratifiedShuffleSplit(
        n_splits=1, test_size=num_dev, random_state=seed
    )
    strata = [numbers.get(x, len(kept)) for x in strata[rows].tolist()]
    _, dev = next(split.split(rows, strata))
    return np.sort(rows[dev])


def _of_groups(strata, groups, dev_share, seed) -> np.ndarray:
    """Returns the rows of one of about 1 / dev_share folds of groups."""
    num_groups = len(set(groups))
    if num_groups < 2:
        raise ValueError(
            f"All rows are in one group, {next(iter(groups), None)!r}, so none "
            "can be held out. Give a dev file, or rows of several groups."
        )
    if max(collections.Counter(strata.tolist()).values()) < 2:
        strata = np.zeros_like(strata)
    most = max(collections.Counter(strata.tolist()).values())
    num_folds = min(num_groups, most, max(2, round(1 / dev_share)))
    found = folds(strata, groups, num_folds, seed)
    # The fold whose size is nearest: groups may differ much.
    sizes = np.bincount(found, minlength=num_folds)
    fold = np.abs(sizes - dev_share * len(strata)).argmin()
    return np.flatnonzero(found == fold)


def folds(
    strata: Sequence[int],
    groups: Sequence[Hashable] | None,
    num_folds: int,
    seed: int,
) -> np.ndarray:
    """Returns the fold of each row, [N] from 0; arguments as of `choose`.

    Raises:
      ValueError: if there are fewer rows, or groups, than folds.
    """
    from sklearn import model_selection

    strata, names = np.asarray(strata), dict.fromkeys(groups or ())
    count = len(strata) if groups is None else len(names)
    if count < num_folds:
        raise ValueError(
            f"--folds={num_folds}: train has {count} "
            f"{'rows' if groups is None else 'groups'}, and each fold needs "
            "one. Give fewer folds."
        )
    # scikit-learn needs a class of as many rows as folds.
    if max(collections.Counter(strata.tolist()).values()) < num_folds:
        strata = np.zeros_like(strata)
    # Groups are shuffled here: scikit-learn before 1.8 loses the shares of the
    # classes when it does. It takes groups in the order of their numbers.
    shuffled = np.random.default_rng(seed).permutation(len(names)).tolist()
    numbers = dict(zip(names, shuffled, strict=True))
    if groups is None:
        split = model_selection.StratifiedKFold(
            num_folds, shuffle=True, random_state=seed
        )
    else:
        split = model_selection.StratifiedGroupKFold(num_folds)
        groups = [numbers[group] for group in groups]
    found = np.zeros(len(strata), int)
    with warnings.catch_warnings():
        # A class of fewer rows than folds is in some of them only.
        warnings.simplefilter("ignore", UserWarning)
        parts = split.split(strata, strata, groups)
        for fold, (_, rows) in enumerate(parts):
            found[rows] = fold
    return found
