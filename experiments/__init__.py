"""Experiments -> reports; not part of the installed package."""
