"""Pickled state dicts of PyTorch -> tensors, and nothing in them is run.

Only torch's restricted reader opens them, which makes tensors and no more.
"""

import importlib.util
import re

import ml_dtypes
import numpy as np

# Before it a file made for that can run code, weights_only or not:
# CVE-2025-32434 (mended in 2.6), CVE-2026-24747 (in 2.10).
SAFE_TORCH = (2, 10)
AS_SAFETENSORS = (
    "save the model as safetensors, which is what transformers' "
    "save_pretrained writes"
)


def read(path: str) -> dict[str, np.ndarray]:
    """Reads a pickled state dict, in the types that it is stored in.

    Raises:
      ValueError: that names the file, if it is damaged or holds anything but
        tensors, or if there is no torch that is safe to open it.
    """
    if importlib.util.find_spec("torch") is None:
        raise ValueError(
            f"{path} is a pickle; only torch reads its tensors without running "
            f"what else may be in it. Install torch, or {AS_SAFETENSORS}."
        )
    import torch

    if torch.__version__ < SAFE_TORCH:
        raise ValueError(
            f"{path} is a pickle, and torch {torch.__version__} can be made to "
            "run code in one (CVE-2026-24747). Install torch "
            f"{'.'.join(map(str, SAFE_TORCH))} or newer, or {AS_SAFETENSORS}."
        )
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # Of any kind, as files changed at random show.
        raise ValueError(
            f"{path} is damaged, or holds something else than tensors "
            f"({_reason(error)}). It is refused, and nothing in it was run. "
            f"Copy it again, or {AS_SAFETENSORS}."
        ) from error
    return _tensors_of(content, path)


def _reason(error: Exception) -> str:
    """Returns what is wrong, without torch's advice to load it all the same."""
    text = str(error)
    if text.startswith("Weights only"):
        match = re.search(
            r"(Unsupported|Trying to load unsupported) .*?(?=\. |\.?\n|$)", text
        )
        text = match[0] if match else "its restricted reader does not take it"
    first_line = text.partition("\n")[0]
    return f"torch: {first_line[:200] or type(error).__name__}"


def _tensors_of(content, path: str) -> dict[str, np.ndarray]:
    """Returns the arrays of a state dict; refuses all else."""
    import torch

    if not isinstance(content, dict):
        raise ValueError(
            f"{path} holds a {type(content).__name__}; expected a state dict, "
            "tensor by name."
        )
    others = [
        f"{name} ({type(value).__name__})"
        for name, value in content.items()
        if not isinstance(value, torch.Tensor)
        or value.layout != torch.strided
        or value.is_quantized
    ]
    if others:
        raise ValueError(
            f"{path} should hold plain tensors alone; there are also "
            f"{', '.join(others)}. Save model.state_dict() only."
        )
    return {str(name): _array(tensor) for name, tensor in content.items()}


def _array(tensor) -> np.ndarray:
    """torch.Tensor -> array of the same bits."""
    import torch

    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()
