"""Text -> batches: tokenizer, examples, TFRecords."""

import os

# Otherwise, for five seconds, TensorFlow takes files in gs:// that others have
# changed or removed for unchanged. It reads the setting when it is imported.
os.environ.setdefault("GCS_STAT_CACHE_MAX_AGE", "0")
