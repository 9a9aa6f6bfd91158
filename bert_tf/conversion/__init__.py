"""Checkpoints of any BERT <-> model folders: a table of names per format."""
