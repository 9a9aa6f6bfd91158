r"""Texts -> answers of the model in this folder, without TensorFlow.

    python predict.py < texts.txt
    python predict.py --input_file=reviews.csv --columns=text_a=review
    echo '{"question": "Who sat?", "context": "The cat sat."}' | \
      python predict.py

A line is a text; but it is a JSON object with the fields of the model in a file
whose name ends in .jsonl, .ndjson or .json, with --input_format=jsonl, and if
the model needs several texts. Fields are `text_a` and `text_b`, `question` and
`context`, `context` and `endings`, `text`, or `words`; --columns names those of
a CSV or TSV file.

Each row gives a line of JSON, in the same order. A line that is no row, such as
one that is not JSON, gives {"error": ...}, and the exit status is 1. It needs
Python 3.10 or later, NumPy, the runtime of the model (ai-edge-litert,
onnxruntime or openvino), and tokenizer.py beside it.

`export_savedmodel` copies this file beside a model. In Python:

    model = Model("folder")
    model.answer([{"text_a": "a fine film"}])

Shapes: N rows, S tokens of the longest row, C classes, P masks, k candidates.
"""

import argparse
import contextlib
import csv
import errno
import hashlib
import itertools
import json
import math
import os
import signal
import stat
import sys

if __name__ == "__main__":
    # Ctrl-C, also in the middle of an import. Not if the caller ignores it.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(
            signal.SIGINT,
            lambda *_: (os.write(2, b"stopped\n"), os._exit(130)),
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
_MAX_CELL = 1 << 24  # The csv module's limit is less than a long passage.
# 128 + SIGPIPE: status of a process that writes to a closed pipe.
_CLOSED_PIPE_EXIT_CODE = 141
_COPY = "Copy the whole folder again."
# Entries of model.json -> their types; [type] is a list that is not empty, an
# integer is positive, and None may be null. Those of every kind, then the
# others.
_ENTRIES = {
    "file": str,
    "inputs": [str],
    "outputs": [str],
    "do_lower_case": bool,
    "max_seq_length": int,
}
_ENTRIES_OF = {
    "classification": {"labels": [str]},
    "multi_label": {"labels": [str], "thresholds": [float]},
    "regression": {},
    "ranking": {},
    "question_answering": {
        "doc_stride": int,
        "max_query_length": int,
        "n_best_size": int,
        "max_answer_length": int,
        "version_2_with_negative": bool,
        "null_score_diff_threshold": float,
    },
    "multiple_choice": {},
    "tagging": {"labels": [str], "doc_stride": (int, None)},
    "fill_mask": {},
    "pseudo_log_likelihood": {"within_word_masking": bool},
    "sentence_embedding": {},
    "encoder": {},
}
# Exports of earlier versions have none of these.
_VOCABULARY_ENTRIES = {"vocab_size": int, "vocab_sha256": str}
_TYPES = {
    str: "a string",
    bool: "true or false",
    int: "a positive integer",
    float: "a finite number",
}
# Outputs of the network that an answer is made of.
_READS = {
    "classification": ("logits", "probabilities"),
    "multi_label": ("probabilities",),
    "regression": ("score",),
    "ranking": ("score",),
    "question_answering": ("start_logits", "end_logits"),
    "multiple_choice": ("logits",),
    "tagging": ("logits",),
    "fill_mask": ("token_ids", "probabilities"),
    "pseudo_log_likelihood": ("log_probabilities",),
    "sentence_embedding": ("embedding",),
    "encoder": (),
}
_MIN_LENGTH = 3  # [CLS], a token and [SEP].


def _is_of(value, wanted):
    """Returns whether a value of JSON is of a type of `_ENTRIES`."""
    if isinstance(wanted, tuple):
        return value is None or _is_of(value, wanted[0])
    if isinstance(wanted, list):
        is_full = isinstance(value, list) and value != []
        return is_full and all(_is_of(item, wanted[0]) for item in value)
    if wanted is int:
        return type(value) is int and value > 0
    if wanted is float:
        return type(value) in (int, float) and math.isfinite(value)
    return isinstance(value, wanted)


def read_settings(folder):
    """Returns the content of model.json.

    Raises:
      ValueError: if it is not JSON, an entry is missing or of another type, or
        the kind or the format is unknown; or as in `_check_prompts`.
      OSError: if it cannot be read.
    """
    path = os.path.join(folder, "model.json")
    try:
        with open(path, encoding="utf-8") as file:
            settings = json.load(file)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error}). {_COPY}") from error
    if not isinstance(settings, dict):
        raise ValueError(
            f"{path} has {_quoted(settings)}; expected an object. {_COPY}"
        )
    for name, known in (("kind", _ENTRIES_OF), ("format", _RUNTIMES)):
        if settings.get(name) not in list(known):
            raise ValueError(
                f"{path}: {name} is {_quoted(settings.get(name))}; expected "
                f"one of {', '.join(known)}. {_COPY}"
            )
    entries = _ENTRIES | _ENTRIES_OF[settings["kind"]]
    if not settings.keys().isdisjoint([*_VOCABULARY_ENTRIES, "num_classes"]):
        entries |= _VOCABULARY_ENTRIES
        entries |= {"num_classes": int} if "labels" in entries else {}
    for name, wanted in entries.items():
        if name not in settings or not _is_of(settings[name], wanted):
            shown = _quoted(settings[name]) if name in settings else "missing"
            first = wanted[0] if isinstance(wanted, (list, tuple)) else wanted
            a_list = "a list, each " if isinstance(wanted, list) else ""
            raise ValueError(
                f"{path}: {name} is {shown}; expected {a_list}{_TYPES[first]}. "
                f"{_COPY}"
            )
    if settings["max_seq_length"] < _MIN_LENGTH or (
        settings["kind"] == "question_answering"
        and settings["max_query_length"] + _MIN_LENGTH
        >= settings["max_seq_length"]
    ):
        raise ValueError(
            f"{path}: max_seq_length is {settings['max_seq_length']}, which is "
            f"too few. {_COPY}"
        )
    _check_prompts(path, settings)
    return settings


def _check_prompts(path, settings):
    """Raises ValueError if there are prompts that are no texts."""
    prompts = settings.get("prompts", {})
    values = [settings.get("prompt", "")]
    values += prompts.values() if isinstance(prompts, dict) else [prompts]
    for value in values:
        if not isinstance(value, str):
            raise ValueError(
                f"{path}: prompt or prompts has {_quoted(value)}; expected a "
                f"string, and an object of strings. {_COPY}"
            )


def choose_prompt(settings, name):
    """Returns settings with another prompt, which is put before each text.

    Args:
      settings: content of model.json.
      name: name of a prompt; "" for none; None for that of the export.

    Raises:
      ValueError: if the model has no such prompt.
    """
    if name is None:
        return settings
    prompts = settings.get("prompts", {}) | {"": ""}
    if settings["kind"] != "sentence_embedding" or name not in prompts:
        has = ", ".join(repr(x) for x in prompts if x) or "none"
        raise ValueError(
            f"--prompt_name={name}: the prompts of this model are {has}. Give "
            "one of them, or omit it."
        )
    return settings | {"prompt": prompts[name]}


def check_vocabulary(folder, settings):
    """Checks that vocab.txt is the one that the model was exported with.

    Args:
      folder: folder of the model.
      settings: content of model.json.

    Raises:
      ValueError: if it has other bytes: it belongs to another model, or the
        folder was copied in part.
    """
    path = os.path.join(folder, "vocab.txt")
    size, sha256 = (settings.get(n) for n in ("vocab_size", "vocab_sha256"))
    if sha256 is None:
        _say(
            f"note: {folder}/model.json is of an earlier version, without the "
            "sha256 of vocab.txt, which is not checked. Export the model again "
            "to add it."
        )
        return
    with open(path, "rb") as file:
        content = file.read()
    found = hashlib.sha256(content).hexdigest()
    entries = content.count(b"\n")
    if found != sha256:
        raise ValueError(
            f"{path} has {entries} entries and the sha256 "
            f"{found[:8]}..., but the model was exported with {size} and "
            f"{sha256[:8]}...: it is the vocabulary of another model, or was "
            f"copied in part. {_COPY}"
        )


def check_classes(folder, settings, run):
    """Checks that labels and outputs have the classes of the export.

    Runs the network on one token, as not all runtimes know the sizes of their
    outputs.

    Args:
      folder: folder of the model.
      settings: content of model.json.
      run: the network, see Network.

    Raises:
      ValueError: if there are more or fewer.
    """
    if "labels" not in settings:
        return
    # An export of an earlier version has only the labels.
    wanted = settings.get("num_classes", len(settings["labels"]))
    inputs = {name: np.ones((1, 1), np.int32) for name in settings["inputs"]}
    found = {
        "labels in model.json": len(settings["labels"]),
        f"outputs of {settings['file']}": run(inputs)["logits"].shape[-1],
    }
    for what, number in found.items():
        if number != wanted:
            raise ValueError(
                f"{folder} has {number} {what}, but the model was exported "
                f"with {wanted} classes: files of two models are mixed. {_COPY}"
            )


class Network:
    """The exported model, from token ids to numbers.

    Args:
      folder: folder of the model.
      num_threads: processor cores to use; None for all.

    Attributes:
      settings: content of model.json.

    Raises:
      ValueError: if model.json or the model's file is damaged.
      OSError: if one of them cannot be read.
      ImportError: if the runtime is not installed.
    """

    def __init__(self, folder, num_threads=None):
        self.settings = read_settings(folder)
        self._path = os.path.join(folder, self.settings["file"])
        with open(self._path, "rb"):  # Runtimes say less of a missing file.
            pass
        package, open_model = _RUNTIMES[self.settings["format"]]
        try:
            self._run = open_model(self._path, num_threads)
        except ImportError as error:
            raise ImportError(f"{error}. pip install {package}") from error
        except Exception as error:  # Each runtime has its own.
            raise self._error("opened", error) from error

    def run(self, inputs):
        """Returns the outputs for a dict of inputs, [N, S] int32.

        Raises:
          ValueError: if the file is not of this model.json.
        """
        try:
            outputs = self._run(inputs)
        except Exception as error:
            raise self._error("run", error) from error
        for name in _READS[self.settings["kind"]]:
            if name not in outputs:
                raise self._error("used", f"it has no output {name}")
        return outputs

    def _error(self, what, reason):
        reason = str(reason).strip().partition("\n")[0]
        reason = _quoted(reason.replace(self._path, self.settings["file"]))
        return ValueError(
            f"{self._path} cannot be {what} ({reason}): it is damaged, of "
            f"another model, or was copied in part. {_COPY}"
        )


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
    options.log_severity_level = 4  # Its errors are raised, too.
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
      num_threads: see Network.
      batch_size: maximum number of rows in one call of the network.
      prompt_name: of a model of vectors, the prompt that is put before each
        text, "" for none; None for that of the export.

    Raises:
      ValueError: if a file is damaged, vocab.txt, labels or network are of
        another export, or there is no such prompt.
      OSError: if a file cannot be read.
      ImportError: if the runtime is not installed.
    """

    def __init__(
        self, folder, num_threads=None, batch_size=16, prompt_name=None
    ):
        self.network = Network(folder, num_threads)
        self.settings = choose_prompt(self.network.settings, prompt_name)
        check_vocabulary(folder, self.settings)
        check_classes(folder, self.settings, self.network.run)
        self.kind = self.settings["kind"]
        self.batch_size = batch_size
        self.tokenizer = tokenizer_lib.Tokenizer(
            os.path.join(folder, "vocab.txt"),
            self.settings["do_lower_case"],
            tokenizer_lib.KEPT_TOKENS.get(self.kind, ()),
            strip_accents=self.settings.get("strip_accents"),
            tokenize_chinese_chars=self.settings.get(
                "tokenize_chinese_chars", True
            ),
        )

    @property
    def has_pooled_output(self):
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

    def _multi_label(self, texts):
        thresholds = np.array(self.settings["thresholds"], np.float32)
        return [
            {
                "labels": [
                    self.settings["labels"][i]
                    for i in np.flatnonzero(x["probabilities"] >= thresholds)
                ],
                "probabilities": x["probabilities"].tolist(),
            }
            for x in self._each(texts)
        ]

    def _regression(self, texts):
        return [{"score": float(x["score"])} for x in self._each(texts)]

    def _ranking(self, texts):
        outputs, answers = self._each(texts), []
        for text in texts:
            numbers = [i for i, x in enumerate(text["passages"]) if x]
            scores = [
                float(x["score"])
                for x in itertools.islice(outputs, len(numbers))
            ]
            # Equal ones stay in their order.
            best = np.argsort(-np.array(scores), kind="stable")
            answers.append(
                {
                    "ranked": [text["passages"][numbers[i]] for i in best],
                    "scores": [scores[i] for i in best],
                    "order": [numbers[i] for i in best],
                }
            )
        return answers

    def _encoder(self, texts):
        if not self.has_pooled_output:
            raise ValueError(
                "this model has no pooled_output, as its pooler was never "
                "trained. Use Model.outputs in Python, or export it with "
                "--kind=sentence_embedding."
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

    def _pseudo_log_likelihood(self, texts):
        encoded = [self.encode(text) for text in texts]
        outputs = self.outputs([row for rows in encoded for row in rows])
        answers = []
        for rows in encoded:
            found = [
                float(x["log_probabilities"][0])
                for x in itertools.islice(outputs, len(rows))
            ]
            ids = [row[tokenizer_lib.MASKED_IDS][0] for row in rows]
            answers.append(
                {
                    "score": sum(found),
                    "tokens": [self.tokenizer.entries[i] for i in ids],
                    "log_probabilities": found,
                }
            )
        return answers

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


def _say(line):
    """Prints a line to stderr, which may be closed or on a full disk."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr)


def _quoted(value):
    """Returns a value for a message, cut to 100 characters."""
    text = repr(value)
    is_long = len(text) > _MAX_CHARACTERS
    return text[:_MAX_CHARACTERS] + "..." if is_long else text


def needed_of(kind):
    """Returns the fields that no text of a kind may lack."""
    names = tokenizer_lib.FIELDS[kind]
    return [name for name in names if name not in tokenizer_lib.OPTIONAL]


def parse(line, kind, input_format="text"):
    """Returns the fields of a line of the format "text" or "jsonl".

    Raises:
      ValueError: if it is not JSON, or a field is missing or not text; those
        that may be missing may be null.
    """
    names, needed = tokenizer_lib.FIELDS[kind], needed_of(kind)
    if input_format == "text":
        return {names[0]: line}
    try:
        fields = json.loads(line)
        # JSON may escape half of a surrogate pair, which is no text.
        json.dumps(fields, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        fields = None
    is_complete = isinstance(fields, dict) and (
        "words" in names
        and "words" in fields
        or all(x in fields for x in needed)
    )
    if not is_complete:
        raise ValueError(
            f"{_quoted(line)}: expected JSON with {', '.join(needed)}."
        )
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
            shown = json.dumps(value)[:_MAX_CHARACTERS]
            raise ValueError(f"{name} is {shown}; expected {wanted}.")
    return fields


def read_columns(words, kind):
    """Returns pairs of a field and its column.

    Args:
      words: "field=column" each.
      kind: kind of the model.

    Raises:
      ValueError: for an unknown field, or if one is missing or there twice.
    """
    names, columns = tokenizer_lib.FIELDS[kind], []
    for word in words:
        name, equals, column = word.partition("=")
        is_twice = name in dict(columns) and name not in tokenizer_lib.LISTS
        if not equals or name not in names or is_twice:
            raise ValueError(
                f"--columns={word}: expected a field and its column, each once;"
                f" fields of this model are {', '.join(names)}."
            )
        columns.append((name, column))
    missing = [x for x in needed_of(kind) if x not in dict(columns)]
    if missing and "words" not in dict(columns):
        raise ValueError(f"--columns needs a column for {', '.join(missing)}.")
    return columns


def _resolve_columns(columns, header):
    """Returns the index of each column in the header.

    Raises:
      ValueError: if a column is not there once.
    """
    for column in columns:
        if header.count(column) != 1:
            raise ValueError(
                f"the header has the column {column!r} {header.count(column)} "
                f"times; it has {_quoted(header)}. Without a header, give "
                "indices from 0."
            )
    return [header.index(column) for column in columns]


def _cells(lines, is_csv):
    """Yields the line number and the cells, or a ValueError, of each row.

    An empty line of a CSV is no row.
    """
    if not is_csv:
        for number, line in enumerate(lines, 1):
            line = line.removesuffix("\n").removesuffix("\r")
            yield number, line.split("\t")
        return
    csv.field_size_limit(_MAX_CELL)
    table = csv.reader(lines, strict=True)
    while True:
        number = table.line_num + 1
        try:
            cells = next(table, None)
        except csv.Error as error:
            reason = f"{error}. Is a quote not closed?"
            if table.line_num > number:
                reason += f" The lines to {table.line_num} are not read."
            cells = ValueError(reason)
            if "limit" in str(error):  # What follows would be read as rows.
                raise cells from error
        if cells is None:
            return
        if cells != []:
            yield number, cells


def parse_table(lines, columns, is_csv):
    """Yields the line number and the fields, or a ValueError, of each row.

    Args:
      lines: lines with their ends.
      columns: from `read_columns`: names in the header line, or indices from 0
        in a table without one.
      is_csv: whether there are commas and quotes; otherwise there are tabs, and
        quotes are text.

    Raises:
      ValueError: if the header is wrong or lacks a column.
    """
    names, columns = zip(*columns, strict=True)
    indices, width = None, None
    if all(column.isdecimal() for column in columns):
        indices = [int(column) for column in columns]
    for number, cells in _cells(lines, is_csv):
        if isinstance(cells, ValueError):
            if indices is None:
                raise cells
            yield number, cells
            continue
        if indices is None:
            indices, width = _resolve_columns(columns, cells), len(cells)
            continue
        is_other = is_csv and len(cells) != (width or len(cells))
        if is_other or len(cells) <= max(indices):
            fault = f"{len(cells)} columns, too few or too many: "
            yield number, ValueError(f"{fault}{_quoted(cells)}.")
            continue
        fields = {}
        for name, index in zip(names, indices, strict=True):
            if name in tokenizer_lib.LISTS:
                fields.setdefault(name, []).append(cells[index])
            else:
                fields[name] = cells[index]
        yield number, fields


def parse_lines(lines, kind, input_format):
    """Yields (line number, fields or ValueError) of text or JSON lines."""
    for number, line in enumerate(lines, 1):
        line = line.removesuffix("\n").removesuffix("\r")
        if input_format == "text" or line.strip():
            try:
                yield number, parse(line, kind, input_format)
            except ValueError as error:
                yield number, error


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
        choices=("auto", "text", "jsonl", "csv", "tsv"),
        help="default: by the name of the file, otherwise lines of text, or "
        "of JSON for models of several texts",
    )
    flags.add_argument(
        "--columns",
        default="",
        help="fields and their columns in a table, such as "
        "text_a=review,text_b=reply: names of the header, or indices from 0",
    )
    flags.add_argument(
        "--prompt_name",
        help="of a model of vectors: name of the prompt that is put before "
        "each text, empty for none; default: that of the export",
    )
    return flags.parse_args(words)


def _lines(file, name):
    """Yields the lines of a file, as bytes; errors name it.

    Raises:
      ValueError: for a device without an end, such as /dev/zero.
      OSError: if it cannot be read.
    """
    try:
        device = os.fstat(file.fileno())
        is_null = device.st_rdev == os.stat(os.devnull).st_rdev
        if stat.S_ISCHR(device.st_mode) and not (is_null or file.isatty()):
            raise ValueError(f"{name} is a device, and not a file.")
        yield from file
    except OSError as error:
        error.filename = error.filename or name
        raise


def _decoded(lines, name):
    """Yields lines as text; the first byte that is no UTF-8 is named.

    Raises:
      ValueError: if the file is UTF-16.
    """
    is_named = False
    for number, line in enumerate(lines, 1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
            if line.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise ValueError(f"{name} is UTF-16; convert it to UTF-8.")
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            if not is_named:
                _say(
                    f"warning: {name}:{number}: byte {line[error.start]:#04x} "
                    "is not UTF-8; such bytes are replaced"
                )
            is_named = True
            yield line.decode("utf-8", "replace")


def _noted(lines, kind):
    """Yields lines; a note says that a first line of JSON is read as text."""
    for number, line in enumerate(lines, 1):
        if number == 1 and line.lstrip().startswith("{"):
            try:
                parse(line, kind, "jsonl")
            except ValueError:
                pass  # It is no row of JSON.
            else:
                _say(
                    "note: line 1 is JSON, but is read as text. For its fields "
                    "give --input_format=jsonl, or a file named .jsonl."
                )
        yield line


def read(flags, kind):
    """Yields the line number and the fields, or a ValueError, of each row.

    Args:
      flags: `input_file`, `input_format` and `columns`.
      kind: kind of the model.

    Raises:
      ValueError: if the flags do not suit each other or the file.
      OSError: if the file cannot be read.
    """
    num_needed = len(needed_of(kind))
    path, given = flags.input_file, flags.input_format
    input_format = tokenizer_lib.choose_format(path, num_needed, given)
    words = flags.columns.split(",") if flags.columns else []
    if given == "auto" and words and input_format not in ("csv", "tsv"):
        input_format = "tsv"
    is_table = input_format in ("csv", "tsv")
    if is_table != bool(words):
        raise ValueError(
            f"the format of {path} is {input_format}. csv and tsv need "
            "--columns, and others have none; --input_format is another."
        )
    if input_format == "text" and num_needed > 1:
        raise ValueError(
            f"a line of text is not enough for {', '.join(needed_of(kind))}. "
            "Give --input_format=jsonl."
        )
    # Bytes, not the encoding and the line ends of the system.
    if path == "-" and sys.stdin is None:
        raise ValueError("stdin is closed. Give --input_file.")
    if path == "-":
        name, file = "stdin", contextlib.nullcontext(sys.stdin.buffer)
    else:
        name, file = path, open(path, "rb")
    with file as content:
        lines = _decoded(_lines(content, name), name)
        if is_table:
            columns = read_columns(words, kind)
            yield from parse_table(lines, columns, input_format == "csv")
        else:
            if given == "auto" and input_format == "text":
                lines = _noted(lines, kind)
            yield from parse_lines(lines, kind, input_format)


def _open_closed():
    """Opens the standard streams that the caller closed (`<&-`, `2>&-`).

    Otherwise the next file that is opened gets the number of the stream, and
    what libraries print is written into it. `sys.stdin` and `sys.stdout` remain
    None.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)


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
        if error.errno == errno.EPIPE:
            sys.exit(_CLOSED_PIPE_EXIT_CODE)
        sys.exit(f"error: stdout: {error.strerror}; the output is incomplete.")


def main(words=None):
    """Answers the rows of a file or of stdin.

    Args:
      words: flags; None for those of the command line.
    """
    _open_closed()
    flags = _read_flags(words)
    if sys.stdout is None:
        sys.exit("error: stdout is closed. Redirect it, such as with > FILE.")
    try:
        folder = os.path.dirname(os.path.abspath(__file__))
        model = Model(folder, prompt_name=flags.prompt_name)
        model.answer([])  # An encoder may have no answers.
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"error: {error}")
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    count = num_bad = 0
    try:
        for number, fields in read(flags, model.kind):
            if isinstance(fields, ValueError):
                answer = {"error": f"line {number}: {fields}"}
                _say(answer["error"])
            else:
                (answer,) = model.answer([fields])
            count += 1
            num_bad += "error" in answer
            _write(answer)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    if num_bad:
        sys.exit(f"error: {num_bad} of {count} rows have no answer.")


if __name__ == "__main__":
    main()
