"""Folders of fine-tuning runs -> a report, one HTML file."""
