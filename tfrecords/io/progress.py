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
    """A context manager that runs jobs, on this machine or on others."""

    def run(
        self,
        function: Callable[[Any], Any],
        jobs: Sequence[Any],
        weights: Sequence[int],
        *,
        name: str,
        unit: str,
    ) -> Iterator[tuple[Any, Any]]:
        """Yields (job, result) as jobs finish, and shows progress.

        Args:
          function: defined at the top level of a module, so that workers can
            import it.
          jobs: arguments of the function, one for each call.
          weights: amount of work in each job.
          name: name of the stage, for progress lines.
          unit: name of the unit of weights, for progress lines.

        Raises:
          ValueError, OSError: if a job raised one, with the same message.
          ChildProcessError: if a worker died or gave up a job.
        """
        results = self.results(function, jobs, name)
        yield from show(results, jobs, weights, name=name, unit=unit)

    @abc.abstractmethod
    def results(
        self, function: Callable[[Any], Any], jobs: Sequence[Any], name: str
    ) -> Generator[tuple[int, Any], None, None]:
        """Yields (index in `jobs`, result) as jobs finish."""


def show(
    results: Generator[tuple[int, Any], None, None],
    jobs: Sequence[Any],
    weights: Sequence[int],
    *,
    name: str,
    unit: str,
) -> Iterator[tuple[Any, Any]]:
    """Yields (job, result); shows a bar on a terminal and lines in the log.

    `results` are those of `Engine.results`, closed when this generator is; the
    other arguments are those of `Engine.run`.
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
