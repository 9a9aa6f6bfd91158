"""A planned run -> diagnostics, estimates of memory and time."""
