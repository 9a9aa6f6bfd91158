"""Flags -> runs: one thin script for each command."""

import os

# Before any script imports TensorFlow, which greets with lines on CUDA.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
