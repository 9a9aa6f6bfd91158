"""Batches and data files of a task -> models, losses, scores, predictions."""
