"""transformers' BERT as ONNX: onnxruntime and OpenVINO agree with torch."""

import importlib

import numpy as np
import pytest

from benchmarks import work
from benchmarks.peers import hugging_face


@pytest.mark.parametrize("task", work.TASKS)
@pytest.mark.parametrize(
    "package, module",
    [("onnxruntime", "onnx_runtime"), ("openvino", "open_vino")],
)
def test_logits(package, module, task, need, config, batch, precision, table):
    for name in ("torch", "transformers", "onnx", package):
        need(name)
    import torch

    # Weights so large that the two forms of GELU differ by more than the bound.
    values = config.to_dict() | {"initializer_range": 0.1}
    setting = work.Setting(
        values, task, False, *batch["input_mask"].shape, precision
    )
    if task == "fine_tuning":
        batch = {n: x for n, x in batch.items() if "masked_lm" not in n}
    inputs = hugging_face.onnx_inputs(batch)
    model, logits_of = hugging_face.build(setting)
    with torch.inference_mode():
        tensors = {name: torch.tensor(x) for name, x in inputs.items()}
        expected = logits_of(model.eval(), tensors)
    peer = importlib.import_module(f"benchmarks.peers.{module}")
    logits, num_parameters = peer.load(setting)
    found = logits(inputs)
    assert num_parameters == sum(w.numel() for w in model.parameters())
    names = ["class_logits"]
    if task == "pretraining":
        names = ["masked_lm_logits", "next_sentence_logits"]
    table.check(
        package,
        dict(zip(names, found, strict=True)),
        dict(zip(names, map(np.asarray, expected), strict=True)),
    )
