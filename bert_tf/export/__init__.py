"""Model folder -> SavedModel, one module for each signature."""
