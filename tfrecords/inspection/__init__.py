"""Records -> diagnostics, statistics, and text for people."""
