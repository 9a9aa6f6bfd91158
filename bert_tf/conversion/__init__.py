"""BERT checkpoints of other formats <-> model folders, by a table of names."""
