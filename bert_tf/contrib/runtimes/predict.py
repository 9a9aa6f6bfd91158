r"""Texts -> answers of the model in this folder, without TensorFlow.

    python predict.py < texts.txt
    python predict.py --input_file=reviews.jsonl
    echo '{"question": "Who sat?", "context": "The cat sat."}' | \
      python predict.py

A line is a text; but it is a JSON object with the fields of the model in a file
whose name ends in .jsonl, .ndjson or .json, with --input_format=jsonl, and if
the model needs several texts. Fields are `text_a` and `text_b`, `question` and
`context`, `context` and `endings`, `query` and `passages`, `text`, or `words`.
A number or boolean there is a text. Files are UTF-8. Tables are not read;
`bert-predict` of bert_tf reads them.

Each row gives a line of JSON, in the same order: the answer alone. A line that
is no row, such as one that is not JSON, gives {"error": ...}, as does an answer
that is not finite, and the exit status is 1. It needs
Python 3.10 or later, NumPy, the runtime of the model (ai-edge-litert,
onnxruntime or openvino), and tokenizer.py beside it.

`export_savedmodel` copies this file beside a model. In Python:

    model = Model("folder")
    model.answer([{"text_a": "a fine film"}])

Shapes: N rows, S tokens of the longest row, C classes, P masks, k candidates.
"""

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import signal
import sys

if __name__ == "__main__":
    # Ctrl-C, also in the middle of an import. Not if the caller ignores it.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(
            signal.SIGINT, lambda *_: (os.write(2, b"stopped\n"), os._exit(130))
        )
try:
    import numpy as np
    import tokenizer as tokenizer_lib
except ImportError as error:
    if __name__ != "__main__":
        raise
    sys.exit(
        f"error: {error}. It needs NumPy (pip install numpy), and tokenizer.py "
        "beside it."
    )

_MAX_CHARACTERS = 100  # Of a line that is quoted.
_COPY = "Copy the whole folder again."


def _is_list(value, item):
    is_full = isinstance(value, list) and value != []
    return is_full and all(map(_IS[item], value))


# Type of an entry of model.json -> whether a value is of it.
_IS = {
    "a string": lambda x: isinstance(x, str),
    "a way to read long texts": lambda x: (
        x in ("cut", "head_tail", "windows", "windows_max")
    ),
    "true or false": lambda x: isinstance(x, bool),
    "a positive integer": lambda x: type(x) is int and x > 0,
    "a positive integer or null": lambda x: (
        x is None or _IS["a positive integer"](x)
    ),
    "a finite number": lambda x: type(x) in (int, float) and abs(x) < 3e38,
    "a number above 0 and at most 1": lambda x: (
        _IS["a finite number"](x) and 1e-38 < x <= 1
    ),
    "a list, each a finite number": lambda x: _is_list(x, "a finite number"),
    "a list, each a string": lambda x: _is_list(x, "a string"),
    "a list, each a number above 0 and at most 1": lambda x: _is_list(
        x, "a number above 0 and at most 1"
    ),
    "an object of strings": lambda x: (
        isinstance(x, dict) and all(map(_IS["a string"], x.values()))
    ),
}
# Entries of every kind, those that may be missing, and those of some kinds.
_ENTRIES = {
    "file": "a string",
    "inputs": "a list, each a string",
    "outputs": "a list, each a string",
    "do_lower_case": "true or false",
    "max_seq_length": "a positive integer",
    "vocab_size": "a positive integer",
    "vocab_sha256": "a string",
}
_RULES = ("strip_accents", "tokenize_chinese_chars", "split_special_tokens")
_OPTIONAL = {
    **dict.fromkeys(_RULES, "true or false"),
    "num_texts": "a positive integer",
    "precision": "a string",
    "prompt": "a string",
    "long_text": "a way to read long texts",
    "score_range": "a list, each a finite number",
    "prompts": "an object of strings",
}
_CLASSES = {
    "labels": "a list, each a string",
    "num_classes": "a positive integer",
}
_ENTRIES_OF = {
    "classification": _CLASSES,
    "multi_label": _CLASSES
    | {"thresholds": "a list, each a number above 0 and at most 1"},
    "question_answering": {
        "doc_stride": "a positive integer",
        "max_query_length": "a positive integer",
        "n_best_size": "a positive integer",
        "max_answer_length": "a positive integer",
        "version_2_with_negative": "true or false",
        "null_score_diff_threshold": "a finite number",
    },
    "tagging": _CLASSES | {"doc_stride": "a positive integer or null"},
    "pseudo_log_likelihood": {"within_word_masking": "true or false"},
}
# Outputs that the answers of a kind are made of.
_OUTPUTS = {
    "classification": ("logits", "probabilities"),
    "multi_label": ("logits", "probabilities"),
    "regression": ("score",),
    "ranking": ("score",),
    "question_answering": ("start_logits", "end_logits"),
    "multiple_choice": ("logits",),
    "tagging": ("logits",),
    "fill_mask": ("token_ids", "probabilities"),
    "pseudo_log_likelihood": ("log_probabilities",),
    "sentence_embedding": ("embedding",),
    "encoder": ("sequence_output",),
}


def read_settings(folder):
    """Returns the content of model.json.

    Raises:
      ValueError: if it is not JSON, an entry is missing or of another type, or
        the kind or the format is unknown.
      OSError: if it cannot be read.
    """
    path = os.path.join(folder, "model.json")
    try:
        with open(path, encoding="utf-8") as file:
            settings = json.load(file)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error}). {_COPY}") from error
    fault = next(_faults(settings), None)
    if fault:
        raise ValueError(f"{path}{fault}. {_COPY}")
    return settings


def _faults(settings):
    """Yields what is wrong in model.json; only the first one is of use."""
    if not isinstance(settings, dict):
        yield f" has {_quoted(settings)}; expected an object"
    for name, known in (("kind", tokenizer_lib.FIELDS), ("format", _RUNTIMES)):
        if settings.get(name) not in list(known):
            found = _quoted(settings.get(name))
            yield f": {name} is {found}; expected one of {', '.join(known)}"
    entries = _ENTRIES | _ENTRIES_OF.get(settings["kind"], {})
    entries |= {n: x for n, x in _OPTIONAL.items() if n in settings}
    for name, wanted in entries.items():
        if name not in settings or not _IS[wanted](settings[name]):
            shown = _quoted(settings[name]) if name in settings else "missing"
            yield f": {name} is {shown}; expected {wanted}"
    length, least = settings["max_seq_length"], 3  # [CLS], a token and [SEP].
    if settings["kind"] == "question_answering":
        least += settings["max_query_length"] + 1
    if length < least:
        yield f": max_seq_length is {length}, which is too few"
    # Another kind may have been written into it.
    kind, outputs = settings["kind"], settings["outputs"]
    if lacking := sorted(set(_OUTPUTS[kind]) - set(outputs)):
        yield f": kind is {kind}; expected {', '.join(lacking)} in outputs"
    others = {n for of_kind in _ENTRIES_OF.values() for n in of_kind}
    if others := sorted((others - set(entries)) & set(settings)):
        yield f": kind is {kind}; {', '.join(others)} belong to another kind"


def open_network(folder, settings, num_threads=None):
    """Returns a function from the inputs of the network to its outputs.

    Both are dicts of arrays; inputs are [N, S] int32. It raises ValueError if
    the file is not of this model.json.

    Args:
      folder: folder of the model.
      settings: content of model.json.
      num_threads: processor cores to use; None for all.

    Raises:
      ValueError: if the file is damaged.
      OSError: if it cannot be read.
      ImportError: if the runtime is not installed.
    """
    path = os.path.join(folder, settings["file"])
    with open(path, "rb"):  # Runtimes say less of a missing file.
        pass
    package, open_file = _RUNTIMES[settings["format"]]

    def fault(what, reason):
        reason = str(reason).strip().partition("\n")[0]
        reason = _quoted(reason.replace(path, settings["file"]))
        return ValueError(
            f"{path} cannot be {what} ({reason}): it is damaged, of another "
            f"model, or was copied in part. {_COPY}"
        )

    def run(inputs):
        try:
            outputs = network(inputs)
        except Exception as error:
            raise fault("run", error) from error
        for name in settings["outputs"]:
            if name not in outputs:
                raise fault("used", f"it has no output {name}")
        return outputs

    try:
        network = open_file(path, num_threads, settings)
    except ImportError as error:
        raise ImportError(f"{error}. pip install {package}") from error
    except Exception as error:  # Each runtime has its own.
        raise fault("opened", error) from error
    return run


def _open_litert(path, num_threads, settings):
    from ai_edge_litert import interpreter

    runner = interpreter.Interpreter(
        path, num_threads=num_threads or os.cpu_count()
    ).get_signature_runner()
    return lambda inputs: runner(**inputs)


def _open_onnx(path, num_threads, settings):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads or 0
    options.log_severity_level = 4  # Its errors are raised, too.
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(
        zip(names, session.run(names, inputs), strict=True)
    )


def _open_openvino(path, num_threads, settings):
    # `import openvino` sends usage data, unless this is missing.
    sys.modules.setdefault("openvino_telemetry", None)
    import openvino

    # Without a hint it computes in bfloat16 where the processor can.
    is_bfloat16 = settings.get("precision") == "bfloat16"
    hints = {"INFERENCE_PRECISION_HINT": "bf16" if is_bfloat16 else "f32"}
    if num_threads:
        hints["INFERENCE_NUM_THREADS"] = num_threads
    compiled = openvino.Core().compile_model(path, "CPU", hints)
    names = {
        output: name
        for output in compiled.outputs
        for name in output.get_names()
    }

    def run(inputs):
        outputs = compiled(inputs)
        return {name: outputs[output] for output, name in names.items()}

    return run


# Format -> the package of its runtime, and a function that opens a file.
_RUNTIMES = {
    "litert": ("ai-edge-litert", _open_litert),
    "onnx": ("onnxruntime", _open_onnx),
    "openvino": ("openvino", _open_openvino),
}


class Model:
    """The network with its tokenizer: texts to answers.

    Args:
      folder: folder of the model.
      num_threads: processor cores to use; None for all.
      batch_size: maximum number of rows in one call of the network.
      prompt_name: of a model of vectors, the prompt that is put before each
        text, "" for none; None for that of the export.

    Attributes:
      settings: content of model.json.
      run: the network, see `open_network`.

    Raises:
      ValueError: if a file is damaged, vocab.txt, labels or network are of
        another export, or there is no such prompt.
      OSError: if a file cannot be read.
      ImportError: if the runtime is not installed.
    """

    def __init__(
        self, folder, num_threads=None, batch_size=16, prompt_name=None
    ):
        self.settings = read_settings(folder)
        self.kind = self.settings["kind"]
        self.batch_size = batch_size
        self.run = open_network(folder, self.settings, num_threads)
        if prompt_name is not None:
            self._choose_prompt(prompt_name)
        self._check_vocabulary(folder)
        if "labels" in self.settings:
            self._check_classes(folder)
        self.tokenizer = tokenizer_lib.Tokenizer(
            os.path.join(folder, "vocab.txt"),
            self.settings["do_lower_case"],
            tokenizer_lib.KEPT_TOKENS.get(self.kind, ()),
            **{x: self.settings[x] for x in _RULES if x in self.settings},
        )

    def _choose_prompt(self, name):
        """Sets the prompt to that of a name; ValueError if there is none."""
        prompts = self.settings.get("prompts", {}) | {"": ""}
        if self.kind != "sentence_embedding" or name not in prompts:
            has = ", ".join(repr(x) for x in prompts if x) or "none"
            raise ValueError(
                f"--prompt_name={name}: the prompts of this model are {has}. "
                "Give one of them, or omit it."
            )
        self.settings["prompt"] = prompts[name]

    def _check_vocabulary(self, folder):
        """Raises ValueError if vocab.txt is not that of the export."""
        path = os.path.join(folder, "vocab.txt")
        with open(path, "rb") as file:
            content = file.read()
        size, found = content.count(b"\n"), hashlib.sha256(content).hexdigest()
        wanted = self.settings["vocab_sha256"]
        if found != wanted:
            raise ValueError(
                f"{path} has {size} entries and the sha256 {found[:8]}..., "
                "but the model was exported with "
                f"{self.settings['vocab_size']} and {wanted[:8]}...: it is the "
                f"vocabulary of another model, or was copied in part. {_COPY}"
            )

    def _check_classes(self, folder):
        """Raises ValueError if labels or outputs have not the export's classes.

        Runs the network on one token, as not all runtimes know the sizes of
        their outputs.
        """
        settings, wanted = self.settings, self.settings["num_classes"]
        token = np.ones((1, 1), np.int32)
        outputs = self.run({name: token for name in settings["inputs"]})
        found = {
            "labels in model.json": len(settings["labels"]),
            "thresholds in model.json": len(
                settings.get("thresholds", settings["labels"])
            ),
            f"outputs of {settings['file']}": outputs["logits"].shape[-1],
        }
        for what, number in found.items():
            if number != wanted:
                raise ValueError(
                    f"{folder} has {number} {what}, but the model was exported "
                    f"with {wanted} classes: files of two models are mixed. "
                    f"{_COPY}"
                )

    def answer(self, texts):
        """Returns a dict for each text, a dict of the kind's fields.

        Raises:
          ValueError: if an encoder has no pooled output.
        """
        names = self.settings["outputs"]
        if self.kind == "encoder" and "pooled_output" not in names:
            raise ValueError(
                "this model has no pooled_output, as its pooler was never "
                "trained. Use Model.outputs in Python, or export it with "
                "--kind=sentence_embedding."
            )
        make = getattr(self, f"_{self.kind}")
        if self.kind in ("question_answering", "tagging"):
            return [make(text) for text in texts]  # It is split into windows.
        rows = self._rows(texts)
        return [make(text, *next(rows)) for text in texts]

    def encode(self, fields):
        """Returns the rows that the network reads for the fields of a text."""
        return tokenizer_lib.encode_fields(
            self.tokenizer, fields, self.settings
        )

    def outputs(self, encoded):
        """Yields the outputs of each encoded row; there are some at padding."""
        for first in range(0, len(encoded), self.batch_size):
            part = encoded[first : first + self.batch_size]
            outputs = self.run(to_arrays(part))
            for i in range(len(part)):
                yield {name: values[i] for name, values in outputs.items()}

    def _rows(self, texts):
        """Yields the rows of each text, each with its inputs and outputs."""
        encoded = [self.encode(text) for text in texts]
        outputs = self.outputs([row for rows in encoded for row in rows])
        for rows in encoded:
            yield [row | next(outputs) for row in rows]

    def _pooled(self, rows):
        """Returns the outputs of a text: those of its windows are pooled."""
        settings, row = self.settings, rows[0]
        if len(rows) > 1:
            is_max = settings["long_text"] == "windows_max"
            pool = np.max if is_max else np.mean
            row = {
                name: pool([x[name] for x in rows], axis=0)
                for name in settings["outputs"]
            }
            if "logits" in row:
                logits, is_several = row["logits"], "thresholds" in settings
                row["probabilities"] = (
                    1 / (1 + np.exp(-logits))
                    if is_several
                    else _softmax(logits)
                )
        if "score_range" in settings:
            row = row | {
                "score": np.clip(row["score"], *settings["score_range"])
            }
        return row

    def _classification(self, text, *rows):
        row = self._pooled(rows)
        return {
            "label": self.settings["labels"][int(np.argmax(row["logits"]))],
            "probabilities": row["probabilities"].tolist(),
        }

    def _multi_label(self, text, *rows):
        row = self._pooled(rows)
        thresholds = np.array(self.settings["thresholds"], np.float32)
        reached = np.flatnonzero(row["probabilities"] >= thresholds)
        return {
            "labels": [self.settings["labels"][i] for i in reached],
            "probabilities": row["probabilities"].tolist(),
        }

    def _regression(self, text, *rows):
        return {"score": float(self._pooled(rows)["score"])}

    def _ranking(self, text, *rows):
        # Empty passages have no row.
        numbers = [i for i, x in enumerate(text["passages"]) if x]
        scores = [float(row["score"]) for row in rows]
        # Equal ones stay in their order.
        best = np.argsort(-np.array(scores), kind="stable")
        return {
            "ranked": [text["passages"][numbers[i]] for i in best],
            "scores": [scores[i] for i in best],
            "order": [numbers[i] for i in best],
        }

    def _encoder(self, text, row):
        return {"pooled_output": row["pooled_output"].tolist()}

    def _sentence_embedding(self, text, row):
        return {"embedding": row["embedding"].tolist()}

    def _multiple_choice(self, text, *rows):
        logits, endings = [row["logits"] for row in rows], text["endings"]
        choice = int(np.argmax(logits)) if endings else -1
        return {
            "choice": choice,
            "ending": endings[choice] if endings else "",
            "probabilities": _softmax(logits).tolist(),
        }

    def _fill_mask(self, text, row):
        entries, masks = self.tokenizer.entries, []
        # Other rows of the batch may have more masks.
        for i in range(len(row[tokenizer_lib.POSITIONS])):
            ids, probabilities = row["token_ids"][i], row["probabilities"][i]
            top = zip(ids, probabilities, strict=True)
            masks.append(
                [{"token": entries[k], "probability": float(p)} for k, p in top]
            )
        return {"masks": masks}

    def _pseudo_log_likelihood(self, text, *rows):
        found = [float(row["log_probabilities"][0]) for row in rows]
        ids = [row[tokenizer_lib.MASKED_IDS][0] for row in rows]
        return {
            "score": sum(found),
            "tokens": [self.tokenizer.entries[i] for i in ids],
            "log_probabilities": found,
        }

    def _tagging(self, text):
        words, encoded, positions = tokenizer_lib.word_windows(
            self.tokenizer, text, self.settings
        )
        logits = [x["logits"] for x in self.outputs(encoded)]
        tags = []
        for word, (window, position) in zip(words, positions, strict=True):
            scores = _softmax(logits[window][position])
            best = int(np.argmax(scores))
            tag = {
                "word": word.text,
                "tag": self.settings["labels"][best],
                "probability": float(scores[best]),
            }
            if word.start is not None:
                tag |= {"start": word.start, "end": word.end}
            tags.append(tag)
        return {"words": tags}

    def _question_answering(self, text):
        settings = self.settings
        windows = tokenizer_lib.question_windows(self.tokenizer, text, settings)
        logits = list(self.outputs([window.row for window in windows]))
        spans = _find_spans(windows, logits, settings)
        if settings["version_2_with_negative"]:
            # The lowest score of no answer, at [CLS], of all windows.
            null = min(
                float(x["start_logits"][0]) + float(x["end_logits"][0])
                for x in logits
            )
            # Last, so that others with the same score come first.
            spans.append((null, -1, -1))
        nbest = _find_nbest(spans, text["context"], settings["n_best_size"])
        chosen = ""
        if self.tokenizer.tokenize(text["question"]):
            chosen = _choose(nbest, settings["null_score_diff_threshold"])
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
        best = (np.argsort(-x, kind="stable")[:k] for x in (starts, ends))
        for i, j in itertools.product(*best):
            start, end = i - window.offset, j - window.offset
            if (
                0 <= start <= end < len(window.tokens)
                and end - start < settings["max_answer_length"]
                and window.has_max_context[start]
            ):
                first, last = window.tokens[start], window.tokens[end]
                found.append((starts[i] + ends[j], first.start, last.end))
    return found


def _find_nbest(spans, context, most):
    """Returns text -> (score, start, end) of the best answers, best first.

    No answer, "", is one of the `most` best, or else comes after them.

    Args:
      spans: (score, start, end) each; that of no answer starts at -1.
      context: the passage.
      most: maximum number of answers with text.
    """
    nbest = {}
    # Stable, as in the original.
    for score, start, end in sorted(spans, key=lambda span: -span[0]):
        text = context[start:end] if start >= 0 else ""
        if len(nbest) < most or not text:
            nbest.setdefault(text, (score, start, end))
    return nbest or {"": (0.0, -1, -1)}


def _choose(nbest, threshold):
    """Returns the best text, or "" if its score is too far below that of ""."""
    text = next(filter(None, nbest), "")
    score, _, _ = nbest[text]  # Without a text, there is "".
    null, _, _ = nbest.get("", (-np.inf, -1, -1))
    return "" if null - score > threshold else text


def _to_answer(nbest, chosen):
    """Returns the chosen answer, its place and probability, and `nbest`."""
    probabilities = _softmax([score for score, _, _ in nbest.values()])
    pairs = zip(nbest.items(), probabilities.tolist(), strict=True)
    answers = {
        text: {"answer": text, "start": start, "end": end, "probability": x}
        for (text, (_, start, end)), x in pairs
    }
    none = {"answer": "", "start": -1, "end": -1, "probability": 0.0}
    return {**answers.get(chosen, none), "nbest": list(answers.values())}


def _quoted(value):
    """Returns a value for a message, cut to 100 characters."""
    text = repr(value)
    if len(text) > _MAX_CHARACTERS:
        text = text[:_MAX_CHARACTERS] + "..."
    return text


def parse(line, kind, input_format):
    """Returns the fields of a line, which is bytes without its end.

    Args:
      line: a text, or an object of JSON.
      kind: kind of the model.
      input_format: "text" or "jsonl".

    Raises:
      ValueError: if it is not UTF-8 or JSON, or a field is missing or not text;
        those that may be missing may be null.
    """
    names, needed = tokenizer_lib.FIELDS[kind], tokenizer_lib.needed(kind)
    try:
        line = line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = line[error.start]
        raise ValueError(
            f"byte {byte:#04x} is not UTF-8. Convert the file to UTF-8."
        ) from error
    if input_format == "text":
        return {names[0]: line}
    try:
        fields = json.loads(line)
        # JSON may escape half of a surrogate pair, which is no text.
        json.dumps(fields, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        fields = None
    fields = fields if isinstance(fields, dict) else {}
    has_words = "words" in names and "words" in fields
    if not has_words and not all(x in fields for x in needed):
        raise ValueError(
            f"{_quoted(line)}: expected JSON with {', '.join(needed)}."
        )
    for name in names:
        value = fields.get(name)
        if value is None and (has_words or name not in needed):
            continue
        is_list = name in tokenizer_lib.LISTS
        texts = value if is_list else [value]
        if isinstance(texts, list):
            texts = [_to_text(x) for x in texts]
        if not isinstance(texts, list) or None in texts:
            wanted = "a list of strings" if is_list else "a string"
            shown = json.dumps(value)[:_MAX_CHARACTERS]
            raise ValueError(f"{name} is {shown}; expected {wanted}.")
        fields[name] = texts if is_list else texts[0]
    return fields


def _to_text(value):
    """Returns a string, or a number as JSON writes it; None for others."""
    if isinstance(value, str):
        return value
    # NaN is what pandas writes for a missing text.
    is_number = isinstance(value, int | float) and value == value
    return json.dumps(value) if is_number else None


def read(flags, kind):
    """Yields the line number and the fields, or a ValueError, of each row.

    Args:
      flags: `input_file`, `input_format` and `text_column`.
      kind: kind of the model.

    Raises:
      ValueError: for a table, or lines of text where the model needs several
        texts.
      OSError: if the file cannot be read.
    """
    path, needed = flags.input_file, tokenizer_lib.needed(kind)
    given = flags.input_format
    input_format = tokenizer_lib.choose_format(path, kind, given)
    if input_format not in ("text", "jsonl") or flags.text_column is not None:
        raise ValueError(
            f"{'stdin' if path == '-' else path}: predict.py reads lines of "
            "text and of JSON (--input_format=text or jsonl), and no tables. "
            "Convert it to JSON lines, or use bert-predict of bert_tf, which "
            "reads tables."
        )
    if input_format == "text" and len(needed) > 1:
        raise ValueError(
            f"a line of text is not enough for {', '.join(needed)}. Give "
            "--input_format=jsonl."
        )
    # Bytes, not the encoding and the line ends of the system.
    if path == "-":
        file = contextlib.nullcontext(sys.stdin.buffer)
    else:
        file = open(path, "rb")
    with file as lines:
        for number, line in enumerate(lines, 1):
            line = line.removesuffix(b"\n").removesuffix(b"\r")
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
                if given == "auto" and input_format == "text":
                    _note_json(line, kind)
            if input_format == "text" or line.strip():
                try:
                    yield number, parse(line, kind, input_format)
                except ValueError as error:
                    yield number, error


def _note_json(line, kind):
    """Prints a note if a line that is read as text is a row of JSON."""
    with contextlib.suppress(ValueError):
        parse(line, kind, "jsonl")
        print(
            "note: line 1 is JSON, but is read as text. For its fields give "
            "--input_format=jsonl, or a file named .jsonl.",
            file=sys.stderr,
        )


def _read_flags(words):
    flags = argparse.ArgumentParser(
        # Without docstrings with -OO.
        description=(__doc__ or "").partition("\n")[0],
        allow_abbrev=False,
    )
    flags.add_argument("--input_file", default="-", help="default: stdin")
    flags.add_argument(
        "--input_format",
        default="auto",
        metavar="{auto,text,jsonl}",
        help="default: by the name of the file, otherwise lines of text, or "
        "of JSON for models of several texts",
    )
    # Of bert-predict, for tables.
    flags.add_argument("--text_column", "--columns", help=argparse.SUPPRESS)
    flags.add_argument(
        "--prompt_name",
        help="of a model of vectors: name of the prompt that is put before "
        "each text, empty for none; default: that of the export",
    )
    return flags.parse_args(words)


def _not_finite(answer):
    """Returns why an answer is no JSON, which has no NaN; "" if it is."""
    try:
        json.dumps(answer, allow_nan=False)
    except ValueError:
        return (
            "the answer has a number that is not finite: the weights are "
            f"damaged, or too large for their precision. {_COPY}"
        )
    return ""


def _write(answer):
    """Prints an answer; a pipe that is closed, as by `| head`, ends silently.

    Raises:
      SystemExit: if it cannot be written.
    """
    try:
        print(json.dumps(answer, ensure_ascii=False), flush=True)
    except OSError as error:
        # Otherwise Python's flush at exit would fail, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(128 + 13)  # As of a process that SIGPIPE has ended.
        sys.exit(f"error: stdout: {error.strerror}; the output is incomplete.")


def main(words=None):
    """Answers the rows of a file or of stdin.

    Args:
      words: flags; None for those of the command line.
    """
    flags = _read_flags(words)
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    count = num_bad = 0
    try:
        folder = os.path.dirname(os.path.abspath(__file__))
        model = Model(folder, prompt_name=flags.prompt_name)
        model.answer([])  # An encoder may have no answers.
        for number, fields in read(flags, model.kind):
            fault = fields if isinstance(fields, ValueError) else None
            if not fault:
                (answer,) = model.answer([fields])
                fault = _not_finite(answer)
            if fault:
                answer = {"error": f"line {number}: {fault}"}
                print(answer["error"], file=sys.stderr)
                num_bad += 1
            count += 1
            _write(answer)
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"error: {error}")
    if num_bad:
        sys.exit(f"error: {num_bad} of {count} rows have no answer.")


if __name__ == "__main__":
    main()
