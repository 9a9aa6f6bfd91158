"""A model on disk, in any format <-> Checkpoint, Keras model, other formats."""
