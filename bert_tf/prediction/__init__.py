"""Exported or trained model and texts -> answers or hidden states."""
