"""Flags -> the page, run by `python -m run_scripts.explore`."""

from run_scripts.explore import page

page.run()
