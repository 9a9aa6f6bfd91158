"""Name of an implementation, a setting -> how it does one step.

Each module has `make(setting, **options) -> work.Step`, and imports what it
needs inside: only its own process pays for it.
"""

import importlib

from benchmarks import work

# Name -> module, options. Which of a module is its best setting depends on CPU
# and sizes: XLA is slower for products on a CPU, torch.compile or not is close.
PEERS = {
    "ours": ("ours", {}),
    "model_garden": ("model_garden", {}),
    "model_garden_xla": ("model_garden", {"jit_compile": True}),
    "keras_hub": ("keras_hub", {}),
    "keras_hub_xla": ("keras_hub", {"jit_compile": True}),
    "hugging_face": ("hugging_face", {}),
    "hugging_face_eager": ("hugging_face", {"attention": "eager"}),
    "hugging_face_foreach": ("hugging_face", {"is_fused": False}),
    "hugging_face_compiled": ("hugging_face", {"is_compiled": True}),
    # The machine itself: one large matrix product.
    "product_tensorflow": ("products", {"library": "tensorflow"}),
    "product_torch": ("products", {"library": "torch"}),
}
# Module -> the package it is of.
PACKAGES = {
    "model_garden": "tf-models-official",
    "keras_hub": "keras-hub",
    "hugging_face": "transformers",
}


def make(name: str, setting: work.Setting, options: dict) -> work.Step:
    """Returns how an implementation does a step; builds its model."""
    module, known = PEERS[name]
    found = importlib.import_module(f"benchmarks.peers.{module}")
    return found.make(setting, **(known | options))
