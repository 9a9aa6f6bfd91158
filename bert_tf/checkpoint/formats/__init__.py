"""Checkpoints of other BERTs <-> Contents, by tables of names."""
