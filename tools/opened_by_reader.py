"""Folders of opened_by.py -> a line of JSON for each library installed here.

    python opened_by_reader.py WORK

For environments without bert_tf. A line has the library, its version, what of
it opened the folders, and the largest difference from our model, or the error.
"""

import importlib.metadata
import importlib.util
import json
import pathlib
import sys
import tempfile

import numpy as np

_HEADS = {
    "classification": "ForSequenceClassification",
    "fill_mask": "ForMaskedLM",
    "multi_label": "ForSequenceClassification",
    "question_answering": "ForQuestionAnswering",
    "regression": "ForSequenceClassification",
    "sentence_embedding": "",
    "tagging": "ForTokenClassification",
}
_FILES = [f"onnx/{x}.onnx" for x in ("model", "model_fp16", "model_quantized")]


def _largest(work, call, kinds=tuple(_HEADS)):
    """Returns the largest difference of the results of a call from ours.

    `call(kind, folder, texts)` returns name -> [B, ...] of outputs, padded to
    the longest text; or of "answer".
    """
    found = []
    for kind in kinds:
        rows = json.loads((work / kind / "expected.json").read_text())
        outputs = call(kind, str(work / kind), [row["text"] for row in rows])
        for i, row in enumerate(rows):
            answer = {"answer": row["answer"]}
            wanted = row["outputs"] if len(kinds) > 1 else answer
            for name in wanted:
                values = np.ravel(outputs[name][i])[: len(wanted[name])]
                found.append(np.max(np.abs(values - wanted[name])))
    return float(np.max(found))  # Not max, which ignores NaN.


def _tokenized(folder, texts):
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = [list(x) for x in zip(*texts, strict=True)]
    return tokenizer(*texts, padding=True, return_tensors="pt")


def _onnxruntime(kind, folder, texts):
    import onnxruntime
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.enable_padding()
    rows = tokenizer.encode_batch([x if x[1:] else x[0] for x in texts])
    names = ("input_ids", "ids"), ("token_type_ids", "type_ids")
    names = (*names, ("attention_mask", "attention_mask"))
    inputs = {n: np.array([getattr(x, a) for x in rows]) for n, a in names}
    session = onnxruntime.InferenceSession(f"{folder}/{_FILES[0]}")
    outputs = [x.name for x in session.get_outputs()]
    return dict(zip(outputs, session.run(outputs, inputs), strict=True))


def _transformers(kind, folder, texts):
    import torch
    import transformers

    model = getattr(transformers, f"AutoModel{_HEADS[kind]}")
    with torch.inference_mode():
        model = model.from_pretrained(folder).eval()
        return dict(model(**_tokenized(folder, texts)))


def _optimum(kind, folder, texts):
    from optimum import onnxruntime

    name = f"ORTModel{_HEADS[kind] or 'ForFeatureExtraction'}"
    model = getattr(onnxruntime, name).from_pretrained(folder)
    return dict(model(**_tokenized(folder, texts)))


def _ctranslate2(kind, folder, texts):
    import ctranslate2

    with tempfile.TemporaryDirectory() as converted:
        converter = ctranslate2.converters.TransformersConverter(folder)
        encoder = ctranslate2.Encoder(converter.convert(converted, force=True))
        ids = [_tokenized(folder, [x])["input_ids"][0].tolist() for x in texts]
        hidden = [encoder.forward_batch([x]).last_hidden_state for x in ids]
    return {"answer": [np.array(x)[0].mean(0) for x in hidden]}


def _fastembed(folder, texts, file):
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    TextEmbedding.add_custom_model(
        file,
        PoolingType.MEAN,
        normalization=False,
        sources=ModelSource(hf=file),
        dim=16,
        model_file=file,
    )
    model = TextEmbedding(file, specific_model_path=folder)
    return {"answer": list(model.embed([x[0] for x in texts]))}


def _sentence_transformers(folder, texts, **more):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu", **more)
    return {"answer": model.encode([x[0] for x in texts])}


def _rows():
    """Yields library, what of it, a function for `_largest`, and its kinds."""
    vectors = ("sentence_embedding",)
    yield "onnxruntime", "`InferenceSession`", _onnxruntime
    yield "transformers", "`AutoModelFor...`", _transformers
    yield "optimum-onnx", "`ORTModelFor...`", _optimum
    yield "ctranslate2", "`Encoder`", _ctranslate2, vectors
    library, name = "sentence-transformers", "`SentenceTransformer`"
    yield library, name, lambda _, *x: _sentence_transformers(*x), vectors
    for file in _FILES:
        call = lambda _, *x, file=file: _fastembed(*x, file)  # noqa: E731
        yield "fastembed", f"`add_custom_model`, {file}", call, vectors
        if importlib.util.find_spec("optimum"):
            more = {"backend": "onnx", "model_kwargs": {"file_name": file}}
            call = lambda _, *x, m=more: _sentence_transformers(*x, **m)  # noqa: E731
            yield library, f'{name}, `backend="onnx"`, {file}', call, vectors


def main(work):
    """Prints the rows."""
    for library, what, *check in _rows():
        try:
            version = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
        row = {"library": library, "version": version, "what": what}
        try:
            row["difference"] = _largest(work, *check)
        except Exception as error:  # It is the answer.
            row["error"] = f"{type(error).__name__}: {error}".split("\n")[0]
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
