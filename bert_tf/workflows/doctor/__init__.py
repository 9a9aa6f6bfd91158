"""A run before it begins -> diagnostics, and estimates of memory and time."""
