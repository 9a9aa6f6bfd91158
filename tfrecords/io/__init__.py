"""Content -> files that are whole or absent; examples <-> records."""
