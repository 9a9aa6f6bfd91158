"""Settings of the fine-tuning that `benchmarks.end_to_end` times.

A module without imports, so that reading them costs no library any time.
"""

EPOCHS = 3
BATCH_SIZE = 32
LEARNING_RATE = 5e-5
MAX_LENGTH = 128
