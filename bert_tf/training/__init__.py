"""Batches -> trained weights: the train step, the loop, the checkpoints."""
