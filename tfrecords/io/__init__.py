"""Content -> atomically written files; examples <-> records."""
