"""Batch -> logits: BERT's layers, encoder, heads and models."""
