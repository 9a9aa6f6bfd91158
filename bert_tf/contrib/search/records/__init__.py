"""Tables of texts, of passages, and files of a search -> rows, records."""
