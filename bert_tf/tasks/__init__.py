"""Task names -> Task records, one module for each family of tasks."""
