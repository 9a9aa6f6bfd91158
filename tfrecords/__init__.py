"""Text -> batches: tokenizer, examples, TFRecords."""

import os

from tfrecords import libraries

libraries.check()  # Before anything imports TensorFlow.

# Otherwise, for five seconds, TensorFlow takes files in gs:// that others have
# changed or removed for unchanged. It reads the setting when it is imported.
os.environ.setdefault("GCS_STAT_CACHE_MAX_AGE", "0")
