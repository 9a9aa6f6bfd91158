"""Flags -> runs: one thin script per command."""

import os

# Before any script imports TensorFlow, which logs messages about CUDA.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
