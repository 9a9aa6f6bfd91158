"""Nothing -> TensorFlow, imported once for all worker processes.

They are forks of a process that imports this module and is safe to fork, since
it has one thread: NumPy's own library starts others, TensorFlow none before its
first operation.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tfrecords import libraries

libraries.quiet_tensorflow()
libraries.leave_out_keras()

import tensorflow as tf  # noqa: E402, F401
