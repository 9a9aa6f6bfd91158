r"""Texts -> answers of the model in this folder, without TensorFlow.

    python predict.py < texts.txt
    echo '{"question": "Who sat?", "context": "The cat sat."}' | \
      python predict.py

A line is a text, or a JSON object with the fields of the model: `text_a` and
`text_b`, `question` and `context`, `context` and `endings`, `text`, or `words`.
Each line gives a line of JSON. It needs Python 3.10 or later, NumPy, the
runtime of the model (ai-edge-litert, onnxruntime or openvino), and tokenizer.py
beside it.

`export_savedmodel` copies this file beside a model. In Python:

    model = Model("folder")
    model.answer([{"text_a": "a fine film"}])

Shapes: N rows, S tokens of the longest row, C classes, P masks, k candidates.
"""

import json
import os
import sys

import numpy as np
import tokenizer as tokenizer_lib

# First fields of kinds for which a line of text is enough.
_OF_ONE_TEXT = ("text_a", "text")


class Network:
    """The exported model, from token ids to numbers.

    Args:
      folder: folder of the model.
      num_threads: processor cores to use; None for all.

    Attributes:
      settings: content of model.json.
      run: dict of inputs, [N, S] int32 -> dict of outputs, see model.json.
    """

    def __init__(self, folder, num_threads=None):
        with open(os.path.join(folder, "model.json"), encoding="utf-8") as file:
            self.settings = json.load(file)
        runtimes = {
            "litert": _open_litert,
            "onnx": _open_onnx,
            "openvino": _open_openvino,
        }
        path = os.path.join(folder, self.settings["file"])
        self.run = runtimes[self.settings["format"]](path, num_threads)


def _open_litert(path, num_threads):
    from ai_edge_litert import interpreter

    runner = interpreter.Interpreter(
        path, num_threads=num_threads or os.cpu_count()
    ).get_signature_runner()
    return lambda inputs: runner(**inputs)


def _open_onnx(path, num_threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads or 0
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(
        zip(names, session.run(names, inputs), strict=True)
    )


def _open_openvino(path, num_threads):
    # `import openvino` sends usage data, unless this is missing.
    sys.modules.setdefault("openvino_telemetry", None)
    import openvino

    # Otherwise it computes in bfloat16 where the processor can.
    settings = {"INFERENCE_PRECISION_HINT": "f32"}
    if num_threads:
        settings["INFERENCE_NUM_THREADS"] = num_threads
    compiled = openvino.Core().compile_model(path, "CPU", settings)
    names = {
        output: name
        for output in compiled.outputs
        for name in output.get_names()
    }

    def run(inputs):
        outputs = compiled(inputs)
        return {name: outputs[output] for output, name in names.items()}

    return run


class Model:
    """The network with its tokenizer: texts to answers.

    Args:
      folder: folder of the model.
      num_threads: see Network.
      batch_size: maximum number of rows in one call of the network.
    """

    def __init__(self, folder, num_threads=None, batch_size=16):
        self.network = Network(folder, num_threads)
        self.settings = self.network.settings
        self.kind = self.settings["kind"]
        self.batch_size = batch_size
        self.tokenizer = tokenizer_lib.Tokenizer(
            os.path.join(folder, "vocab.txt"),
            self.settings["do_lower_case"],
            ("[MASK]",) if self.kind == "fill_mask" else (),
        )

    @property
    def has_pooler(self):
        """Whether an encoder returns `pooled_output`."""
        return "pooled_output" in self.settings["outputs"]

    def answer(self, texts):
        """Returns a dict for each text, a dict of the kind's fields.

        Raises:
          ValueError: if an encoder has no pooled output.
        """
        return getattr(self, f"_{self.kind}")(texts)

    def encode(self, fields):
        """Returns the rows that the network reads for the fields of a text."""
        return tokenizer_lib.encode_fields(
            self.tokenizer, fields, self.settings
        )

    def outputs(self, encoded):
        """Yields the outputs of each encoded row; there are some at padding."""
        for first in range(0, len(encoded), self.batch_size):
            part = encoded[first : first + self.batch_size]
            outputs = self.network.run(to_arrays(part))
            for i in range(len(part)):
                yield {name: values[i] for name, values in outputs.items()}

    def _each(self, texts):
        """Yields the outputs of texts that have one row each."""
        return self.outputs([row for x in texts for row in self.encode(x)])

    def _classification(self, texts):
        return [
            {
                "label": self.settings["labels"][int(np.argmax(x["logits"]))],
                "probabilities": x["probabilities"].tolist(),
            }
            for x in self._each(texts)
        ]

    def _regression(self, texts):
        return [{"score": float(x["score"])} for x in self._each(texts)]

    def _encoder(self, texts):
        if not self.has_pooler:
            raise ValueError(
                "This model has no pooled_output, only values per token. Use "
                "Model.outputs."
            )
        return [
            {"pooled_output": x["pooled_output"].tolist()}
            for x in self._each(texts)
        ]

    def _sentence_embedding(self, texts):
        return [
            {"embedding": x["embedding"].tolist()} for x in self._each(texts)
        ]

    def _multiple_choice(self, texts):
        logits = [x["logits"] for x in self._each(texts)]
        answers = []
        for text in texts:
            endings = text["endings"]
            own, logits = logits[: len(endings)], logits[len(endings) :]
            choice = int(np.argmax(own)) if endings else -1
            answers.append(
                {
                    "choice": choice,
                    "ending": endings[choice] if endings else "",
                    "probabilities": _softmax(own).tolist(),
                }
            )
        return answers

    def _fill_mask(self, texts):
        encoded = [row for text in texts for row in self.encode(text)]
        return [
            {
                "masks": [
                    self._candidates(x["token_ids"][i], x["probabilities"][i])
                    for i in range(len(row[tokenizer_lib.POSITIONS]))
                ]
            }
            for row, x in zip(encoded, self.outputs(encoded), strict=True)
        ]

    def _candidates(self, ids, probabilities):
        return [
            {
                "token": self.tokenizer.entries[i],
                "probability": float(probability),
            }
            for i, probability in zip(ids, probabilities, strict=True)
        ]

    def _tagging(self, texts):
        return [self._tag(text) for text in texts]

    def _tag(self, fields):
        words, located = fields.get("words"), []
        if not words:
            located = tokenizer_lib.split_words(fields.get("text") or "")
            words = [word.text for word in located]
        encoded, positions = self.tokenizer.word_windows(
            words,
            max_seq_length=self.settings["max_seq_length"],
            doc_stride=self.settings["doc_stride"],
        )
        logits = [x["logits"] for x in self.outputs(encoded)]
        tags = []
        for word, (window, position) in zip(words, positions, strict=True):
            scores = _softmax(logits[window][position])
            best = int(np.argmax(scores))
            tags.append(
                {
                    "word": word,
                    "tag": self.settings["labels"][best],
                    "probability": float(scores[best]),
                }
            )
        for tag, word in zip(tags, located, strict=False):
            tag |= {"start": word.start, "end": word.end}
        return {"words": tags}

    def _question_answering(self, texts):
        return [self._answer(text) for text in texts]

    def _answer(self, fields):
        windows = tokenizer_lib.question_windows(
            self.tokenizer, fields, self.settings
        )
        logits = list(self.outputs([window.row for window in windows]))
        null = None
        if self.settings["version_2_with_negative"]:
            null = _null_score(logits)
        spans = _find_spans(windows, logits, self.settings)
        nbest = _find_nbest(
            spans, null, fields["context"], self.settings["n_best_size"]
        )
        chosen = ""
        if self.tokenizer.tokenize(fields["question"]):
            threshold = self.settings["null_score_diff_threshold"]
            chosen = _choose(nbest, null, threshold)
        return _to_answer(nbest, chosen)


def to_arrays(encoded):
    """Returns the inputs of the network for encoded rows, int32."""
    padded = tokenizer_lib.pad(encoded)
    return {name: np.array(x, np.int32) for name, x in padded.items()}


def _softmax(logits):
    logits = np.asarray(logits, np.float32)
    exponentials = np.exp(logits - np.max(logits, initial=-np.inf))
    return exponentials / np.sum(exponentials)


def _find_spans(windows, logits, settings):
    """Returns (score, start, end) of pairs of the best starts and ends."""
    k = settings["n_best_size"]
    found = []
    for window, outputs in zip(windows, logits, strict=True):
        length = len(window.row["input_mask"])
        starts, ends = (
            outputs[name][:length].astype(np.float64)
            for name in ("start_logits", "end_logits")
        )
        best_ends = np.argsort(-ends, kind="stable")[:k] - window.offset
        for start in np.argsort(-starts, kind="stable")[:k] - window.offset:
            for end in best_ends:
                is_possible = (
                    0 <= start <= end < len(window.tokens)
                    and end - start < settings["max_answer_length"]
                    and window.has_max_context[start]
                )
                if is_possible:
                    score = starts[start + window.offset]
                    score += ends[end + window.offset]
                    first, last = window.tokens[start], window.tokens[end]
                    found.append((score, first.start, last.end))
    return found


def _null_score(logits):
    """Returns the lowest score of no answer, at [CLS], of all windows."""
    return min(
        np.float64(x["start_logits"][0]) + np.float64(x["end_logits"][0])
        for x in logits
    )


def _find_nbest(spans, null, context, most):
    """Returns text -> (score, start, end) of the best answers, best first.

    No answer, "", is one of the `most` best, or else comes after them.

    Args:
      spans: from `_find_spans`.
      null: score of no answer; None if every question has an answer.
      context: the passage.
      most: maximum number of answers with text.
    """
    # Last, so that others with the same score come first.
    spans = [*spans, *([] if null is None else [(null, -1, -1)])]
    spans.sort(key=lambda span: -span[0])  # Stable, as in the original.
    nbest = {}
    for score, start, end in spans:
        text = context[start:end] if start >= 0 else ""
        nbest.setdefault(text, (score, start, end))
        if len(nbest) == most:
            break
    if null is not None or not nbest:
        nbest.setdefault("", (0.0 if null is None else null, -1, -1))
    return nbest


def _choose(nbest, null, threshold):
    """Returns the best text, or "" if its score is too far below `null`."""
    with_text = [text for text in nbest if text]
    if not with_text:
        return ""
    score, _, _ = nbest[with_text[0]]
    is_null = null is not None and null - score > threshold
    return "" if is_null else with_text[0]


def _to_answer(nbest, chosen):
    """Returns the chosen answer, its place and probability, and `nbest`."""
    probabilities = _softmax([score for score, _, _ in nbest.values()])
    answers = {
        text: {
            "answer": text,
            "start": start,
            "end": end,
            "probability": float(probability),
        }
        for (text, (_, start, end)), probability in zip(
            nbest.items(), probabilities, strict=True
        )
    }
    none = {"answer": "", "start": -1, "end": -1, "probability": 0.0}
    return {**answers.get(chosen, none), "nbest": list(answers.values())}


def parse(line, kind):
    """Returns the fields of a line: a text, or a JSON object.

    Raises:
      ValueError: if the line is neither, or a field is missing or not text;
        those that may be missing may be null.
    """
    names = tokenizer_lib.FIELDS[kind]
    if names[0] in _OF_ONE_TEXT and not line.lstrip().startswith("{"):
        return {names[0]: line}
    try:
        fields = json.loads(line)
    except ValueError:
        fields = None
    needed = [x for x in names if x not in tokenizer_lib.OPTIONAL]
    is_complete = isinstance(fields, dict) and (
        "words" in names
        and "words" in fields
        or all(x in fields for x in needed)
    )
    if not is_complete:
        raise ValueError(f"{line!r}: expected JSON with {', '.join(needed)}.")
    for name in names:
        value = fields.get(name)
        if value is None and (name not in needed or "words" in fields):
            continue
        is_list = name in tokenizer_lib.LISTS
        texts = value if is_list else [value]
        if not isinstance(texts, list) or not all(
            isinstance(text, str) for text in texts
        ):
            wanted = "a list of strings" if is_list else "a string"
            raise ValueError(
                f"{name} is {json.dumps(value)[:100]}; expected {wanted}."
            )
    return fields


def main():
    """Answers the lines of stdin."""
    model = Model(os.path.dirname(os.path.abspath(__file__)))
    if model.kind == "encoder" and not model.has_pooler:
        sys.exit(
            "error: this model has no pooled_output, as its pooler was never "
            "trained. Use Model.outputs in Python, or export it with "
            "--kind=sentence_embedding."
        )
    # Not the encoding and the line ends of the system.
    sys.stdin.reconfigure(encoding="utf-8-sig", errors="replace", newline="\n")
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    for number, line in enumerate(sys.stdin, 1):
        line = line.removesuffix("\n").removesuffix("\r")
        try:
            fields = parse(line, model.kind)
        except ValueError as error:
            sys.exit(f"line {number}: {error}")
        (answer,) = model.answer([fields])
        print(json.dumps(answer, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
