"""progress.py: all results are passed on, with progress lines."""

import logging as python_logging

from absl import logging

from tfrecords.io import progress


def results(closed):
    try:
        yield 1, "b"
        yield 0, "a"
    finally:
        closed.append(True)


def test_results_come_with_their_jobs_in_order_of_completion(caplog):
    closed = []
    logging.set_verbosity(logging.INFO)
    with caplog.at_level(python_logging.INFO, logger="absl"):
        found = list(
            progress.show(
                results(closed), ["x", "y"], [3, 4], name="write", unit="tokens"
            )
        )
    assert found == [("y", "b"), ("x", "a")] and closed == [True]
    assert "write  tokens 7 of 7" in caplog.text


def test_closing_the_generator_closes_the_results():
    closed = []
    shown = progress.show(
        results(closed), ["x", "y"], [1, 1], name="n", unit="u"
    )
    next(shown)
    shown.close()
    assert closed == [True]
