"""Batches -> trained weights: training step, loop, checkpoints."""
