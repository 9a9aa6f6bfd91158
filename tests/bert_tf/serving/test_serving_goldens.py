"""Goldens of serving: names, numbers and lines of every kind of export.

serving_goldens.json has what tiny models with weights of a NumPy generator
answer to ten hard texts: files, model.json and lines of `run_scripts.predict`;
attributes, signatures and their outputs; answers of `bert_tf.Predictor`. Of the
formats with a predict.py, which answer alike, it has litert; TensorFlow runs it
if LiteRT is missing. After a change on purpose, make it anew and read the diff:

    PYTHONPATH=.:tests python -m tests.bert_tf.serving.test_serving_goldens
"""

import importlib.util
import io
import json
import pathlib
import re
import runpy
import sys
import tempfile
import types

import exports
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from run_scripts import export_savedmodel, predict

GOLDENS = pathlib.Path(__file__).with_name("serving_goldens.json")
TEXTS = (
    "",
    "Old bread and a warm ship! " * 3,  # More than max_seq_length.
    "the cat \U0001f600\u200d\U0001f680 sat",
    "\u6f22\u5b57 ship \u65e5\u672c\u8a9e,the",
    "cafe\u0301 na\u00efve \u00dcber sail",
    "\u05e9\u05dc\u05d5\u05dd the \u0645\u0631\u062d\u0628\u0627 \u202eabc",
    "the\x00cat\x07 \ufffd sat\u200bon\x85a\u2028b\t\r\nc\ufeff",
    "?!...(),;:-\u2014\u201c\u00bf",
    "[CLS] the [MASK] sat [SEP] [mask] [MASK]",
    "a" * 201,
)
SINGLE = [{"text": x} for x in TEXTS]
WORDS = [{"words": x.split()} for x in TEXTS if x]
MASKED = [{"text": f"[MASK] {x} [MASK]" if x else ""} for x in TEXTS]
PAIRS = [{"text_a": x} for x in TEXTS]
PAIRS += [{"text_a": "the cat", "text_b": x} for x in TEXTS]
QUESTIONS = [{"question": "Who sat?", "context": x} for x in TEXTS]
QUESTIONS += [{"question": x, "context": "The cat (old) sat."} for x in TEXTS]
ENDINGS = [{"context": x, "endings": ["a", f"{x} b"]} for x in TEXTS]
ENDINGS += [{"context": "the cat", "endings": ["sat", "on", "bread"]}]
SHORT = {"doc_stride": 4, "max_query_length": 4, "n_best_size": 3}
# Kind -> task of its model, rows, settings.
KINDS = {
    "classification": ("classification", PAIRS, {}),
    "regression": ("regression", PAIRS, {}),
    "question_answering": ("spans", QUESTIONS, SHORT),
    "tagging": ("tagging", SINGLE, {}),
    "multiple_choice": ("multiple_choice", ENDINGS, {}),
    "fill_mask": ("pretraining", MASKED, {}),
    "sentence_embedding": ("pretraining", SINGLE, {}),
    "encoder": ("regression", PAIRS, {}),
    "preprocessor": ("regression", PAIRS, {}),
}
CASES = [
    pytest.param(kind, name, marks=[pytest.mark.slow] * (name == "savedmodel"))
    for kind in KINDS
    for name in ("savedmodel", "litert", "onnx", "openvino")
][:-3]  # A preprocessor is a SavedModel.


def export(kind, name, folder):
    """Writes a model and its export of a format, whose path it returns."""
    task, _, settings = KINDS[kind]
    model = exports.make_model(task, num_hidden_layers=1 + (kind == "encoder"))
    rng = np.random.default_rng(7)
    for weight in model.trainable_variables:
        mean = float(weight.path.endswith("gamma"))
        weight.assign(rng.normal(mean, 0.3, weight.shape).astype(np.float32))
    exports.save_model(model, task, folder / "model")
    paths = {"model_dir": folder / "model", "export_dir": folder / name}
    words = paths | {"kind": kind, "format": name} | settings
    words = [f"--{key}={value}" for key, value in words.items()]
    export_savedmodel.main(["export_savedmodel", "--noreport", *words])
    return folder / name


def printed(main, words, rows, folder, patch):
    """Returns the lines that a script prints for rows."""
    path, out = folder / "rows.jsonl", io.TextIOWrapper(io.BytesIO(), "utf-8")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    patch.setattr(sys, "stdout", out)
    main([*words, f"--input_file={path}"])
    out.flush()
    lines = out.buffer.getvalue().decode().removesuffix("\n").split("\n")
    answers = [json.loads(line) for line in lines]
    assert lines == [json.dumps(x, ensure_ascii=False) for x in answers]
    return answers


def specs(tensors):
    return {k: [x.dtype.name, *x.shape] for k, x in sorted(tensors.items())}


def example(row):
    found = tf.train.Example()
    for name, text in row.items():
        found.features.feature[name].bytes_list.value.append(text.encode())
    return found.SerializeToString()


def outputs_of(signature, rows):
    """Returns its strings, and projections of its numbers."""
    inputs, outputs = {}, {}
    for name, spec in signature.structured_input_signature[1].items():
        values = [row.get(name, "") for row in rows]
        if name == "inputs":  # Of TensorFlow Serving's Classify and Regress.
            values = [example(row) for row in rows]
        elif spec.dtype == tf.int32:
            values = np.arange(8).reshape(2, 4) % (9 if "word" in name else 2)
        elif spec.shape.rank == 2:
            values = tf.ragged.constant(values).to_tensor()
        inputs[name] = tf.cast(values, spec.dtype)
    for name, tensor in sorted(signature(**inputs).items()):
        values = tensor.numpy()
        if values.dtype == object:
            values = np.vectorize(bytes.decode, "O")(values)
        else:
            onto = np.random.default_rng(5).normal(size=(4, values.size))
            values = onto @ values.ravel() / np.sqrt(1 + values.size)
        outputs[name] = values.tolist()
    return outputs


def of_saved_model(kind, path, patch):
    _, rows, settings = KINDS[kind]
    loaded = tf.saved_model.load(str(path))
    names = sorted(x for x in vars(loaded) if not x.startswith(("_", "tensor")))
    found = {"attributes": names, "signatures": {}, "outputs": {}, "lines": {}}
    patch.setattr(tf.saved_model, "load", lambda _: loaded)  # Not once more.
    for name, signature in sorted(loaded.signatures.items()):
        given = WORDS if name == "words" else rows
        inputs = specs(signature.structured_input_signature[1])
        outputs = specs(signature.structured_outputs)
        found["signatures"][name] = {"inputs": inputs, "outputs": outputs}
        if name != "serving_default":  # One of the others.
            found["outputs"][name] = outputs_of(signature, given)
        if name in ("text", "words"):
            words = ["predict", f"--export_dir={path}", f"--signature={name}"]
            words.append("--batch_size=4")
            lines = printed(predict.main, words, given, path.parent, patch)
            found["lines"][name] = lines
    if kind not in ("encoder", "preprocessor"):
        answer = bert_tf.Predictor(path.parent / "model", kind=kind, **settings)
        texts = [x["text"] if kind == "tagging" else x for x in rows]
        found["answers"] = [[type(x).__name__, x] for x in answer(texts)]
    return found


def record(kind, name, folder):
    with pytest.MonkeyPatch.context() as patch:
        if name == "litert" and not importlib.util.find_spec("ai_edge_litert"):
            litert = types.SimpleNamespace(__spec__=True, interpreter=tf.lite)
            patch.setitem(sys.modules, "ai_edge_litert", litert)
        path = export(kind, name, folder)
        files = sorted(str(x.relative_to(path)) for x in path.rglob("*"))
        if name == "savedmodel":
            found = of_saved_model(kind, path, patch)
        else:
            patch.syspath_prepend(path)
            patch.delitem(sys.modules, "tokenizer", raising=False)
            main = runpy.run_path(str(path / "predict.py"))["main"]
            found = {"lines": printed(main, [], KINDS[kind][1], folder, patch)}
    (metadata,) = path.rglob("model.json")
    found |= {"files": files, "model.json": json.loads(metadata.read_text())}
    text = json.dumps(found, default=np.ndarray.tolist)
    return json.loads(text, parse_float=lambda x: round(float(x), 6))


def leaves(value, where=""):
    """Yields the place and type of each part of JSON, and its value or size."""
    where += f"/{type(value).__name__}"
    parts = dict(enumerate(value)) if isinstance(value, list) else value
    is_leaf = not isinstance(parts, dict)
    yield where, value if is_leaf else len(parts)
    for key, part in {} if is_leaf else parts.items():
        yield from leaves(part, f"{where}/{key}")


@pytest.mark.filterwarnings(r"ignore:\s*Warning. tf.lite.Interpreter")
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_exports_are_and_answer_as_recorded(kind, name, tmp_path):
    module = {"onnx": "tf2onnx", "openvino": "openvino"}.get(name, "tensorflow")
    if not importlib.util.find_spec(module):
        pytest.skip(f"{module} is not installed; run make parity")
    found = record(kind, name, tmp_path)
    wanted = json.loads(GOLDENS.read_text("utf-8"))[kind]
    wanted = wanted.get(name) or wanted["litert"]
    if module != "tensorflow":
        found["model.json"] |= {"format": "litert", "file": "model.tflite"}
        found["files"] = wanted["files"]
    found, wanted = dict(leaves(found)), dict(leaves(wanted))
    assert found.keys() == wanted.keys()
    numbers = {key: x for key, x in wanted.items() if type(x) is float}
    assert found | numbers == wanted
    assert {x: found[x] for x in numbers} == pytest.approx(numbers, 1e-5, 1e-5)


def main():
    goldens = {kind: {} for kind in KINDS}
    for kind, name in (case.values for case in CASES):
        if name in ("savedmodel", "litert"):
            with tempfile.TemporaryDirectory() as folder:
                goldens[kind][name] = record(kind, name, pathlib.Path(folder))
    text = re.sub(r"\n( {5,}| {4}(?=[]}]))", "", json.dumps(goldens, indent=1))
    GOLDENS.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
