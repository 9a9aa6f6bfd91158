"""Text -> batches: tokenizer, examples, TFRecords."""
