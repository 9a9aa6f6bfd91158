"""Model folder -> model for a runtime other than TensorFlow, and a report."""
