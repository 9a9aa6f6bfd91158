"""Records -> text and statistics of their examples."""
