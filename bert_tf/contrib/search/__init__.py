"""Texts that belong together -> models of vectors and rankings, scores."""
