"""Setting -> a step of transformers' BERT on OpenVINO, only for inference.

OpenVINO reads the file from `hugging_face.save_onnx` and converts the weights
to bfloat16 itself. Peak memory includes torch's conversion.
"""

import os
import sys
import tempfile

from benchmarks import work
from benchmarks.peers import hugging_face


def make(setting: work.Setting) -> work.Step:
    """Returns the step of OpenVINO."""
    return hugging_face.onnx_step(*load(setting))


def load(setting: work.Setting):
    """Returns a function of inputs to logits, and the number of weights."""
    # `import openvino` sends usage data to Intel, unless this is missing.
    sys.modules["openvino_telemetry"] = None
    import openvino

    core = openvino.Core()
    properties = {
        "INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[
            setting.precision
        ],
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": len(os.sched_getaffinity(0)),
    }
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "bert.onnx")
        num_parameters = hugging_face.save_onnx(setting, "sdpa", file)
        model = core.compile_model(core.read_model(file), "CPU", properties)
    request = model.create_infer_request()

    def logits(batch):
        found = request.infer(batch, share_inputs=True, share_outputs=True)
        return list(found.values())

    return logits, num_parameters
