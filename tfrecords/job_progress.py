"""Results of jobs as they end -> the same, and lines that say how far it is."""

import contextlib
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from absl import logging
from tqdm import tqdm

_LOG_SECONDS = 30


def show(
    results: Generator[tuple[int, Any], None, None],
    jobs: Sequence[Any],
    weights: Sequence[int],
    *,
    name: str,
    unit: str,
) -> Iterator[tuple[Any, Any]]:
    """Yields (job, its result): a bar on a terminal, lines in the log.

    Args:
      results: place of a job in `jobs` and its result, in any order; closed
        when this is left.
      jobs: all jobs.
      weights: work in each job, in units.
      name: of the stage.
      unit: of the weights.
    """
    begin = logged = time.monotonic()
    done, total = 0, sum(weights)
    bar = tqdm(
        total=total,
        desc=name,
        unit=f" {unit}",
        unit_scale=True,
        disable=None,
    )
    with bar, contextlib.closing(results):
        for place, result in results:
            yield jobs[place], result
            done += weights[place]
            bar.update(weights[place])
            now = time.monotonic()
            if now - logged > _LOG_SECONDS or done == total:
                logged = now
                seconds = max(now - begin, 1e-6)
                logging.info(
                    "%s  %s %d of %d  %s/s %.0f  seconds %.1f  "
                    "eta_seconds %.0f",
                    name,
                    unit,
                    done,
                    total,
                    unit,
                    done / seconds,
                    seconds,
                    seconds * (total - done) / max(done, 1),
                )
