"""Pickled state dicts of PyTorch -> tensors, without running their code.

They are opened only with torch's restricted reader (weights_only=True).
"""

import importlib.util
import re
import zipfile

import ml_dtypes
import numpy as np

# In older versions a malicious file can run code despite weights_only:
# CVE-2025-32434 (fixed in 2.6), CVE-2026-24747 (fixed in 2.10).
SAFE_TORCH = (2, 10)
AS_SAFETENSORS = (
    "save the model as safetensors, the format that transformers' "
    "save_pretrained writes"
)


def read(path: str) -> dict[str, np.ndarray]:
    """Reads a pickled state dict, with its tensors' dtypes unchanged.

    Raises:
      ValueError: if the file is damaged or contains anything but tensors, or if
        no version of torch is installed that can open it safely.
    """
    if importlib.util.find_spec("torch") is None:
        raise ValueError(
            f"{path} is a pickle; only torch reads its tensors without running "
            f"code that may be in it. Install torch, or {AS_SAFETENSORS}."
        )
    import torch

    if torch.__version__ < SAFE_TORCH:
        raise ValueError(
            f"{path} is a pickle, and torch {torch.__version__} may run code "
            "hidden in it (CVE-2026-24747). Install torch "
            f"{'.'.join(map(str, SAFE_TORCH))} or newer, or {AS_SAFETENSORS}."
        )
    try:
        # Mapped, so that tensors are in memory only where they are used.
        content = torch.load(
            path,
            map_location="cpu",
            weights_only=True,
            mmap=zipfile.is_zipfile(path),
        )
    except Exception as error:  # Damaged files raise exceptions of any type.
        raise ValueError(
            f"{path} is damaged, or contains something other than tensors "
            f"({_reason(error)}). It is refused, and no code in it was run. "
            f"Copy it again, or {AS_SAFETENSORS}."
        ) from error
    return _tensors_of(content, path)


def _reason(error: Exception) -> str:
    """Returns the cause, without torch's advice to load the file regardless."""
    text = str(error)
    if text.startswith("Weights only"):
        match = re.search(
            r"(Unsupported|Trying to load unsupported) .*?(?=\. |\.?\n|$)", text
        )
        text = match[0] if match else "its restricted reader refuses it"
    first_line = text.partition("\n")[0]
    return f"torch: {first_line[:200] or type(error).__name__}"


def _tensors_of(content, path: str) -> dict[str, np.ndarray]:
    """Returns the arrays of a state dict; refuses any other content."""
    import torch

    if not isinstance(content, dict):
        raise ValueError(
            f"{path} contains a {type(content).__name__}; expected a state "
            "dict of tensors by name."
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
            f"{path} should contain only plain tensors; it also has "
            f"{', '.join(others)}. Save only model.state_dict()."
        )
    return {str(name): _array(tensor) for name, tensor in content.items()}


def _array(tensor) -> np.ndarray:
    """Returns a torch.Tensor as an array with the same bits."""
    import torch

    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()
