"""Hugging Face folders <-> model folders."""
