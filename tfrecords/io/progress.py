"""Results of jobs -> the same results, with progress lines."""

import abc
import contextlib
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from absl import logging
from tqdm import tqdm

_LOG_SECONDS = 30


class Engine(contextlib.AbstractContextManager):
    """Runs jobs, on this machine or others. A context manager."""

    def run(
        self,
        function: Callable[[Any], Any],
        jobs: Sequence[Any],
        weights: Sequence[int],
        *,
        name: str,
        unit: str,
    ) -> Iterator[tuple[Any, Any]]:
        """Yields (job, its result) as jobs end, and shows progress.

        Args:
          function: at the top level of a module, so that workers can import it.
          jobs: its arguments, one for each call.
          weights: work in each job, in units.
          name: of the stage, for progress lines.
          unit: of the weights, for progress lines.

        Raises:
          ValueError, OSError: what a job raised, with its message.
          ChildProcessError: if a worker died or gave the job up.
        """
        results = self.results(function, jobs, name)
        yield from show(results, jobs, weights, name=name, unit=unit)

    @abc.abstractmethod
    def results(
        self, function: Callable[[Any], Any], jobs: Sequence[Any], name: str
    ) -> Generator[tuple[int, Any], None, None]:
        """Yields the index of a job in `jobs` and its result, as jobs end."""


def show(
    results: Generator[tuple[int, Any], None, None],
    jobs: Sequence[Any],
    weights: Sequence[int],
    *,
    name: str,
    unit: str,
) -> Iterator[tuple[Any, Any]]:
    """Yields (job, its result): a bar on a terminal, lines in the log.

    `results` is that of `Engine.results`, closed when this is left; the other
    arguments are those of `Engine.run`.
    """
    begin = logged = time.monotonic()
    done, total = 0, sum(weights)
    bar = tqdm(
        total=total, desc=name, unit=f" {unit}", unit_scale=True, disable=None
    )
    with bar, contextlib.closing(results):
        for index, result in results:
            yield jobs[index], result
            done += weights[index]
            bar.update(weights[index])
            now = time.monotonic()
            if now - logged > _LOG_SECONDS or done == total:
                logged = now
                seconds = max(now - begin, 1e-6)
                eta = seconds * (total - done) / max(done, 1)
                logging.info(
                    f"{name}  {unit} {done} of {total}  "
                    f"{unit}/s {done / seconds:.0f}  seconds {seconds:.1f}  "
                    f"eta_seconds {eta:.0f}"
                )
