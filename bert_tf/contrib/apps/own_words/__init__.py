"""A checkpoint and words -> a checkpoint with a token for each word."""
