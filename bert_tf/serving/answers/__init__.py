"""Strings -> batches, and model outputs -> answers, for each kind."""
