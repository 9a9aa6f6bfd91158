"""Text -> batches: tokeniser, examples, TFRecords. Importing it costs nothing."""
