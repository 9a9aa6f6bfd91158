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
    dev_share: float,
    seed: int,
) -> np.ndarray:
    """Returns the rows of dev, sorted.

    A stratum of a single row stays in train.

    Args:
      strata: [N] class of each row, whose shares dev should have.
      groups: [N] group of each row, which has all rows of a group; None for no
        groups. With groups, shares are only near `dev_share`.
      dev_share: share of the rows of dev, in (0, 1).
      seed: random seed.

    Raises:
      ValueError: if there are too few rows or groups.
    """
    strata = np.asarray(strata)
    if groups is not None:
        return _of_groups(strata, groups, dev_share, seed)
    from sklearn import model_selection

    counts = collections.Counter(strata.tolist())
    rows = np.array([i for i, x in enumerate(strata) if counts[x] > 1], int)
    num_strata = len(set(strata[rows].tolist()))
    num_dev = round(dev_share * len(rows))
    if num_strata and min(num_dev, len(rows) - num_dev) < num_strata:
        least = num_strata / len(rows)
        raise ValueError(
            f"--dev_share={dev_share:g} of {len(rows)} rows is {num_dev}, too "
            f"few or too many for {num_strata} classes with rows in both train "
            f"and dev. Give a share from {least:.2g} to {1 - least:.2g}, a dev "
            "file, or --dev_share=0 for no dev."
        )
    if not num_strata:
        return rows
    split = model_selection.StratifiedShuffleSplit(
        n_splits=1, test_size=num_dev, random_state=seed
    )
    _, dev = next(split.split(rows, strata[rows]))
    return np.sort(rows[dev])


def _of_groups(strata, groups, dev_share, seed) -> np.ndarray:
    """Returns the rows of one of about 1 / dev_share folds of groups."""
    from sklearn import model_selection

    num_groups = len(set(groups))
    if num_groups < 2:
        raise ValueError(
            f"All rows are in one group, {next(iter(groups), None)!r}, so none "
            "can be held out. Name another --group_column, or give a dev file."
        )
    num_folds = min(num_groups, max(2, round(1 / dev_share)))
    split = model_selection.StratifiedGroupKFold(
        num_folds, shuffle=True, random_state=seed
    )
    # Its numbers in order of appearance: scikit-learn sorts them.
    numbers = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    numbers = [numbers[group] for group in groups]
    with warnings.catch_warnings():
        # A class of fewer rows than folds is in some of them only.
        warnings.simplefilter("ignore", UserWarning)
        folds = list(split.split(strata, strata, numbers))
    # The fold whose size is nearest: groups may differ much.
    wanted = dev_share * len(strata)
    _, dev = min(folds, key=lambda fold: abs(len(fold[1]) - wanted))
    return np.sort(dev)
