r"""Hugging Face folder -> files of a library, and its step: texts -> answers.

    python -m benchmarks.peers.answers NAME PRECISION TASK MODEL OUTPUT

writes the files. Each library is used as its documentation says, with its own
tokenizer and its faster settings for one row. The answer to a text is its label
and the label's probability; or, for "vectors", the mean of its tokens' vectors.
The module imports nothing of ours, for a Python that has only one library.
"""

import json
import os
import pathlib
import sys
import tempfile
from typing import NamedTuple

import numpy as np

from benchmarks import work

BATCH_SIZE = 32  # Maximum rows in one call of a model.
TASKS = ("classification", "vectors")
PRECISIONS = ("float32", "bfloat16", "int8")
# Library -> its precisions and tasks, ours first.
OURS = {
    "saved_model": (PRECISIONS[:2], TASKS),
    "predictor": (PRECISIONS[:2], TASKS),
    "onnx": (("float32", "int8"), TASKS),
    "litert": (("float32", "int8"), TASKS),
    "openvino": (PRECISIONS, TASKS),
}
LIBRARIES = OURS | {
    "pipeline": (PRECISIONS[:2], TASKS[:1]),
    "pipeline_compiled": (PRECISIONS[:2], TASKS[:1]),
    "optimum": (("float32", "int8"), TASKS[:1]),
    "openvino_own": (PRECISIONS, TASKS),
    "fastembed": (PRECISIONS[:1], TASKS[1:]),
}
# Those of the others that do not read the folder itself.
CONVERTED = ("optimum", "openvino_own", "fastembed")


class Setting(NamedTuple):
    """Files of a library, and what it computes with them.

    Attributes:
      folder: folder of its files.
      precision: one of `PRECISIONS`; "int8" is that of weights.
      task: one of `TASKS`.
      is_training: False.
    """

    folder: str
    precision: str
    task: str
    is_training: bool = False


def make(setting: Setting, library: str) -> work.Step:
    """Returns the step of a library, whose batches are lists of texts.

    Its answers are a list of (label, probability), or vectors [N, H].
    """
    opened = {
        "saved_model": _saved_model,
        "predictor": _predictor,
        "optimum": _optimum,
        "openvino_own": _openvino,
        "pipeline": _pipeline,
        "pipeline_compiled": _pipeline,
        "fastembed": _fastembed,
    }.get(library, _runtime)(setting)
    if library == "pipeline_compiled":
        # Compiled once for each length of the batches.
        opened.model.compile(dynamic=False)
    if "pipeline" in library or library == "optimum":
        opened = _labels_of(opened)
    return work.Step(list, opened, 0)


def _saved_model(setting):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  Its ops are in the graph.

    loaded = tf.saved_model.load(setting.folder)

    def answer(texts):
        found = {
            n: x.numpy() for n, x in loaded.text(tf.constant(texts)).items()
        }
        if setting.task == "vectors":
            return found["embedding"]
        labels = [label.decode() for label in found["label"].tolist()]
        scores = found["probabilities"].max(axis=-1).tolist()
        return list(zip(labels, scores, strict=True))

    return answer


def _predictor(setting):
    import bert_tf

    model, _ = bert_tf.load(setting.folder, dtype=setting.precision)
    if setting.task == "vectors":
        kind = {"kind": "sentence_embedding", "pooling": "mean"}
        return bert_tf.Predictor(model, **kind)
    predictor = bert_tf.Predictor(model)

    def answer(texts):
        found = predictor(texts) if texts[1:] else [predictor(texts[0])]
        return [(x.label, x.probability) for x in found]

    return answer


def _runtime(setting):
    """Opens our export for another runtime, with the script in its folder."""
    sys.path.insert(0, setting.folder)
    import predict

    model = predict.Model(setting.folder)

    def answer(texts):
        if setting.task == "vectors":
            found = model.answer([{"text": text} for text in texts])
            return np.array([x["embedding"] for x in found])
        found = model.answer([{"text_a": text} for text in texts])
        return [(x["label"], max(x["probabilities"])) for x in found]

    return answer


def _pipeline(setting):
    import torch
    import transformers

    return transformers.pipeline(
        "text-classification",
        model=setting.folder,
        dtype=getattr(torch, setting.precision),
        device="cpu",
        batch_size=BATCH_SIZE,
    )


def _labels_of(pipeline):
    """Returns the step of a pipeline, which answers one string at once."""

    def answer(texts):
        found = pipeline(texts if texts[1:] else texts[0])
        return [(x["label"], x["score"]) for x in found]

    return answer


def _optimum(setting):
    import transformers
    from optimum import onnxruntime

    (file,) = pathlib.Path(setting.folder).glob("*.onnx")
    model = onnxruntime.ORTModelForSequenceClassification.from_pretrained(
        setting.folder, file_name=file.name
    )
    return onnxruntime.pipeline(
        "text-classification",
        model=model,
        tokenizer=transformers.AutoTokenizer.from_pretrained(setting.folder),
        batch_size=BATCH_SIZE,
    )


def _openvino(setting):
    # `import openvino` sends usage data to Intel, unless this is missing.
    sys.modules["openvino_telemetry"] = None
    import openvino
    import tokenizers

    folder = pathlib.Path(setting.folder)
    hints = {"float32": {"INFERENCE_PRECISION_HINT": "f32"}}
    hints["bfloat16"] = {"INFERENCE_PRECISION_HINT": "bf16"}
    model = openvino.Core().compile_model(
        folder / "model.xml",
        "CPU",
        {"PERFORMANCE_HINT": "LATENCY"} | hints.get(setting.precision, {}),
    )
    request = model.create_infer_request()
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding()
    config = json.loads((folder / "config.json").read_text("utf-8"))

    def answer(texts):
        answers = []
        for i in range(0, len(texts), BATCH_SIZE):
            rows = tokenizer.encode_batch(texts[i : i + BATCH_SIZE])
            inputs = {
                "input_ids": np.array([row.ids for row in rows]),
                "attention_mask": np.array([x.attention_mask for x in rows]),
                "token_type_ids": np.array([row.type_ids for row in rows]),
            }
            outputs = request.infer(inputs, share_inputs=True)[0]
            if setting.task == "vectors":
                mask = inputs["attention_mask"][:, :, None]
                answers += [*((outputs * mask).sum(1) / mask.sum(1))]
                continue
            for logits in outputs.astype(np.float32):
                scores = np.exp(logits - logits.max())
                best = str(scores.argmax())
                score = float(scores.max() / scores.sum())
                answers.append((config["id2label"][best], score))
        return answers

    return answer


def _fastembed(setting):
    import fastembed
    from fastembed.common import model_description

    config = pathlib.Path(setting.folder, "config.json").read_text("utf-8")
    fastembed.TextEmbedding.add_custom_model(
        "model",
        model_description.PoolingType.MEAN,
        normalization=False,
        sources=model_description.ModelSource(hf="model"),
        dim=json.loads(config)["hidden_size"],
        model_file="model.onnx",
    )
    model = fastembed.TextEmbedding("model", specific_model_path=setting.folder)
    return lambda texts: np.array([*model.embed(texts, BATCH_SIZE)])


def convert(library: str, setting: Setting, source: str) -> None:
    """Writes the files of a library that is not ours.

    Args:
      library: one of `CONVERTED`.
      setting: names the folder to write.
      source: Hugging Face folder with `tokenizer.json`.
    """
    if library == "openvino_own":
        _convert_openvino(setting, source)
    elif library == "fastembed":
        from optimum.exporters import onnx

        onnx.main_export(source, setting.folder, task="feature-extraction")
    else:
        _convert_optimum(setting, source)
    for name in ("config.json", "tokenizer.json"):
        content = pathlib.Path(source, name).read_bytes()
        pathlib.Path(setting.folder, name).write_bytes(content)


def _convert_optimum(setting, source):
    from optimum import onnxruntime

    model = onnxruntime.ORTModelForSequenceClassification.from_pretrained(
        source, export=True
    )
    if setting.precision == "float32":
        onnxruntime.ORTOptimizer.from_pretrained(model).optimize(
            onnxruntime.AutoOptimizationConfig.O2(), save_dir=setting.folder
        )
        return
    config = onnxruntime.AutoQuantizationConfig.avx512_vnni(
        is_static=False, per_channel=False
    )
    with tempfile.TemporaryDirectory() as folder:
        # Its quantizer does not read what its optimizer writes.
        model.save_pretrained(folder)
        quantizer = onnxruntime.ORTQuantizer.from_pretrained(folder)
        quantizer.quantize(config, save_dir=setting.folder)


def _convert_openvino(setting, source):
    sys.modules["openvino_telemetry"] = None
    import openvino
    import torch
    import transformers

    kind = {
        "classification": transformers.AutoModelForSequenceClassification,
        "vectors": transformers.AutoModel,
    }[setting.task]
    names = ("input_ids", "attention_mask", "token_type_ids")
    ones = torch.ones((1, 2), dtype=torch.long)
    model = openvino.convert_model(
        kind.from_pretrained(source).eval(),
        example_input={name: ones for name in names},
    )
    if setting.precision == "int8":
        import nncf

        model = nncf.compress_weights(model)
    path = os.path.join(setting.folder, "model.xml")
    openvino.save_model(model, path, compress_to_fp16=False)


if __name__ == "__main__":
    name, precision, task, model_folder, output = sys.argv[1:]
    os.makedirs(output, exist_ok=True)
    convert(name, Setting(output, precision, task), model_folder)
