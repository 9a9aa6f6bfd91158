"""Exported or trained model, texts -> answers, hidden states."""
