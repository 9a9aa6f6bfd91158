"""Runs, records -> reports for developers; not part of the package."""
