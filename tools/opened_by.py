r"""Random models -> Hugging Face folders -> table of libraries that open them.

    python -m tools.opened_by --python=.venv-optimum/bin/python --node=DIR

prints the table of docs/guide/export.md: the largest difference of outputs or
answers from those of our own model. Asks this and each other Python which of
the libraries it has, and Node, if DIR has node_modules; `make opened-by` makes
them. Exits with status 1 if a library fails, or differs by more than 1e-5 in
float32, 0.01 in float16 or 0.2 in int8, whose weights have 7 bits.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from tests import exports

KINDS = (
    *("classification", "fill_mask", "multi_label", "question_answering"),
    *("regression", "sentence_embedding", "tagging"),
)
_TEXTS = [("The cat sat on old bread.", ""), ("a ship", "")]
_OTHERS = {
    "fill_mask": [("the [MASK] sat on old bread.", ""), ("a [MASK]", "")],
    "question_answering": [("Who sat?", "It sat. The cat sat."), ("a", "a")],
}
# Part of what a library opens -> largest difference.
_GOALS = {"": 1e-5, "fp16": 0.01, "q8": 0.2, "quantized": 0.2}
_TITLES = ("Library", "Version", "What", "Largest difference")


def _softmax(logits):
    values = np.exp(logits - np.max(logits, -1, keepdims=True))
    return values / values.sum(-1, keepdims=True)


def _answer(kind, outputs, ids, tokenizer):
    """Returns the numbers that a pipeline of transformers.js answers with."""
    if kind == "question_answering":
        inside = np.arange(len(ids)) > ids.index(tokenizer.sep_id)
        inside[-1], inside[0] = False, True  # [CLS] is only in the sum.
        logits = outputs["start_logits"], outputs["end_logits"]
        start, end = (_softmax(np.where(inside, x, -np.inf)) for x in logits)
        return np.max(np.triu(np.outer(start[1:], end[1:])))
    logits = outputs["logits"]
    if kind == "multi_label":
        return 1 / (1 + np.exp(-logits))
    if kind == "tagging":
        return _softmax(logits).max(-1)[1:-1]
    if kind == "fill_mask":
        masked = ids.index(tokenizer.vocab.index("[MASK]"))
        return np.sort(_softmax(logits[masked]))[:-6:-1]
    return _softmax(logits)


def _expected(kind: str, source: str) -> list[dict]:
    """Returns texts, their ids, and what our own model makes of them."""
    import bert_tf
    from bert_tf.checkpoint.checkpoint import Checkpoint
    from tfrecords.text import segments

    given = Checkpoint.open(source)
    model, words = given.build(), given.tokenizer(("[MASK]",))
    rows = []
    for pair in _OTHERS.get(kind, _TEXTS):
        batch = segments.pack(
            *(words([text]) for text in pair),
            exports.MAX_SEQ_LENGTH,
            words.cls_id,
            words.sep_id,
        )
        length = int(np.sum(batch["input_mask"]))
        batch = {name: x[:, :length] for name, x in batch.items()}
        batch["masked_lm_positions"] = np.arange(length, dtype=np.int32)[None]
        if kind == "sentence_embedding":
            hidden = model.encoder(batch).sequence_output
            outputs = {"last_hidden_state": hidden}
        else:
            outputs = dict(model(batch))
            outputs.pop("next_sentence_logits", None)
            names = ("predictions", "masked_lm_logits")
            outputs = {
                "logits" if n in names else n: x for n, x in outputs.items()
            }
        outputs = {name: np.asarray(x)[0] for name, x in outputs.items()}
        ids = np.asarray(batch["input_word_ids"])[0].tolist()
        if kind == "sentence_embedding":
            answer = bert_tf.Predictor(source, kind=kind)(pair[0])
        else:
            answer = _answer(kind, outputs, ids, words)
        types = batch["input_type_ids"][0]
        row = {"ids": ids, "types": types, "answer": answer}
        row |= {n: np.ravel(x).tolist() for n, x in row.items()}
        outputs = {n: np.ravel(x).tolist() for n, x in outputs.items()}
        rows.append(row | {"text": [x for x in pair if x], "outputs": outputs})
    return rows


def make_folders(work: pathlib.Path) -> None:
    """Writes a folder for each kind, with `expected.json`: what we compute."""
    from bert_tf.checkpoint import contents

    for kind in KINDS:
        source = work / "sources" / kind
        task = exports.TASKS.get(kind, kind)
        labels = exports.LABELS if task in contents.WITH_LABELS else []
        model = exports.make_for(kind)
        exports.save_model(model, task, source, labels=labels)
        flags = f"--kind={kind}", "--half", "--quantize=dynamic"
        exports.write(source, work / kind, "--format=hugging_face_onnx", *flags)
        content = json.dumps(_expected(kind, str(source)))
        (work / kind / "expected.json").write_text(content)


def read(command: list[str], work: pathlib.Path) -> list[dict]:
    """Returns the rows of the table that a reader prints, one on each line.

    Args:
      command: a Python; or node and a folder with node_modules.
      work: from `make_folders`.
    """
    name = f"opened_by_reader.{'cjs' if command[1:] else 'py'}"
    reader = pathlib.Path(__file__).with_name(name)
    words = [command[0], reader, work, *command[1:]]
    offline = os.environ | {"HF_HUB_OFFLINE": "1"}
    process = subprocess.run(
        words, capture_output=True, text=True, check=False, env=offline
    )
    lines = process.stdout.splitlines()
    if process.returncode:
        raise RuntimeError(f"{command} failed:\n{process.stderr[-3000:]}")
    return [json.loads(x) for x in lines if x.startswith('{"library"')]


def is_right(row: dict) -> bool:
    """Returns whether the library opens the folder, near enough to ours."""
    limits = [most for x, most in _GOALS.items() if x in row["what"]]
    return row.get("difference", np.inf) <= max(limits)


def main() -> int:
    """Makes the folders, asks each environment, prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--node", help="a folder with node_modules")
    options = parser.parse_args()
    commands = [[x] for x in (sys.executable, *options.python)]
    commands += [["node", options.node]] if options.node else []
    with tempfile.TemporaryDirectory() as work:
        make_folders(pathlib.Path(work))
        rows = [row for x in commands for row in read(x, pathlib.Path(work))]
    lines = {
        " | ".join((row["library"], row["version"], row["what"])): row.get(
            "error", f"{row.get('difference', 0):.1e}"
        )
        for row in rows
    }
    print(f"| {' | '.join(_TITLES)} |\n| --- | --- | --- | ---: |")
    print("\n".join(f"| {x} | {lines[x]} |" for x in sorted(lines)))
    return not all(map(is_right, rows))


if __name__ == "__main__":
    sys.exit(main())
