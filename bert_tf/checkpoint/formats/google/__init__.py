"""TensorFlow 1 checkpoints of google-research/bert <-> Contents."""
