"""Setting -> a step of transformers' BERT on onnxruntime, only for inference.

The file from `hugging_face.save_onnx` first passes through onnxruntime's own
optimizer for BERT, which makes one operation of each attention, GELU and
LayerNorm with its residual. On an x86 CPU onnxruntime 1.32 has no operations
for bfloat16, so matrix products are float32 for both precisions. Peak memory
includes torch's conversion.
"""

import functools
import os
import tempfile

from benchmarks import work
from benchmarks.peers import hugging_face


def make(setting: work.Setting) -> work.Step:
    """Returns the step of onnxruntime."""
    return hugging_face.onnx_step(*load(setting))


def load(setting: work.Setting):
    """Returns a function of inputs to logits, and the number of weights."""
    import onnxruntime
    from onnxruntime.transformers import optimizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    )
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "bert.onnx")
        # It does not know the operations of "sdpa".
        num_parameters = hugging_face.save_onnx(setting, "eager", file)
        fused = optimizer.optimize_model(
            file,
            "bert",
            num_heads=setting.config["num_attention_heads"],
            hidden_size=setting.config["hidden_size"],
            opt_level=0,  # With 1 or more it does not find the attention.
        )
        fused.save_model_to_file(file)
        session = onnxruntime.InferenceSession(
            file, options, providers=["CPUExecutionProvider"]
        )
    return functools.partial(session.run, None), num_parameters
