"""Text -> batches: tokeniser, examples, TFRecords."""
