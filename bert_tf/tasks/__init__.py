"""Task names -> Task records."""
