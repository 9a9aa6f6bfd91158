"""Records of pre-training -> a pre-trained model and its held-out metrics."""
