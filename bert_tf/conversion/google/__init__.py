"""TF1 checkpoints of google-research/bert <-> model folders."""
