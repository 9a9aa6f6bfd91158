"""Model and texts -> answers: exports, Predictor, predict and the page."""
