"""TF2 checkpoints of the Model Garden <-> model folders."""
