"""Flags -> the quickstart, run by `python -m run_scripts.quickstart`."""

from run_scripts.quickstart import tour

tour.run()
