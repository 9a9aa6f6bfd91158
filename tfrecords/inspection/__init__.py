"""Records -> diagnostics, statistics and readable text."""
