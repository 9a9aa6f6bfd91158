"""Keras's `export` of our models: the outputs of each runtime are equal."""

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf.model import models

CONFIG = bert_tf.BertConfig(
    vocab_size=40,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
)


def of_litert(path, batch):
    from ai_edge_litert import interpreter

    return interpreter.Interpreter(path).get_signature_runner()(**batch)


def of_onnx(path, batch):
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, batch), strict=True))


def of_openvino(path, batch):
    import openvino

    # Its default on a CPU with bfloat16 is off by 6e-4.
    precision = {"INFERENCE_PRECISION_HINT": "f32"}
    model = openvino.compile_model(path, "CPU", precision)
    found = model({x.any_name: batch[x.any_name] for x in model.inputs})
    return {x.any_name: found[x] for x in model.outputs}


RUNTIMES = {
    "litert": (of_litert, "ai_edge_litert", "tflite"),
    "onnx": (of_onnx, "onnxruntime", "onnx"),
    "openvino": (of_openvino, "openvino", "xml"),
}


@pytest.mark.parametrize("task", ["encoder", *models.TASK_MODELS])
@pytest.mark.parametrize("name", RUNTIMES)
def test_outputs(name, task, need, tmp_path):
    outputs_of, package, ending = RUNTIMES[name]
    need(package)
    if task == "encoder":
        model = bert_tf.BertEncoder(CONFIG)
    else:
        model = models.for_task(task, CONFIG, 3)
    ids = np.array([[2, 7, 8, 3, 0], [2, 9, 9, 5, 3]], np.int32)
    batch = {
        "input_word_ids": ids,
        "input_mask": (ids > 0).astype(np.int32),
        "input_type_ids": (ids > 8).astype(np.int32),
    }
    if task == "pretraining":
        batch["masked_lm_positions"] = np.array([[1, 2], [3, 0]], np.int32)
    if task == "multiple_choice":
        batch = {n: np.stack([x, x[::-1]], 1) for n, x in batch.items()}
    path = str(tmp_path / f"model.{ending}")
    model.export(path, format=name, verbose=False)
    found, expected = outputs_of(path, batch), model(batch)
    if task == "encoder":
        expected = {n: getattr(expected, n) for n in expected._fields[:2]}
    for n, x in expected.items():
        x = keras.ops.convert_to_numpy(x)
        by_shape = [y for y in found.values() if y.shape == x.shape]
        y = found.get(n, by_shape[0])
        np.testing.assert_allclose(y, x, atol=1e-5)
