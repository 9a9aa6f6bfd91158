"""Flags -> configuration of a run."""
