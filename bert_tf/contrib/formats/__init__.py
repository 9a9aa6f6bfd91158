"""Checkpoints of KerasHub and the Model Garden <-> ours."""
