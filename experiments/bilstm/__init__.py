"""Encoder -> models with a BiLSTM before the head, fine-tuned (table 5)."""
