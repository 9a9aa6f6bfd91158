"""Name of an implementation and a setting -> its step function.

Each module has `make(setting, **options) -> work.Step`, which imports the
implementation inside, so that only its own process loads it.
"""

import importlib

from benchmarks import work

# Name -> module, options. Which options are fastest depends on CPU and sizes:
# XLA slows down matrix products on a CPU; torch.compile matters little.
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
    # The speed of the machine: one large matrix product.
    "product_tensorflow": ("products", {"library": "tensorflow"}),
    "product_torch": ("products", {"library": "torch"}),
}
# Module -> package.
PACKAGES = {
    "model_garden": "tf-models-official",
    "keras_hub": "keras-hub",
    "hugging_face": "transformers",
}


def make(name: str, setting: work.Setting, options: dict) -> work.Step:
    """Builds the model of an implementation and returns its step.

    Names that are not in `PEERS` are those of `answers.LIBRARIES`.
    """
    module, known = PEERS.get(name, ("answers", {"library": name}))
    found = importlib.import_module(f"benchmarks.peers.{module}")
    return found.make(setting, **(known | options))
