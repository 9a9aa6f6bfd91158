"""Texts and an encoder -> files of its hidden states, or of vectors."""
