"""Records -> batches, in an order that is a function of the step."""
