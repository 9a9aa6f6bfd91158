"""Model outputs, labels of texts -> loss, scores, predicted labels."""
