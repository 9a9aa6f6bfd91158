"""Table files -> checked rows of texts, labels and other columns."""
