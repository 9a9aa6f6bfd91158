"""Exported model and its network in TensorFlow -> report of their differences.

The model runs in a process without TensorFlow, see measure.py, which also makes
the inputs of texts with the tokenizer beside the model.
"""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.contrib.runtimes import label_scores, measure, networks, rows
from tfrecords.io import json_files

# Largest sequence length for which times are measured.
_MAX_TOKENS = 128
_RANDOM_ROWS = 4
# Runs a file with all installed packages, also those of PYTHONPATH. Not as a
# script, since onnx.py and openvino.py of its folder would hide the packages;
# and without "", the current folder.
_RUN = """
import runpy, sys
sys.path[:] = [path for path in sys.path if path]
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def make(
    folder: str,
    saved_model: str,
    settings: Mapping,
    work_folder: str,
    *,
    config: BertConfig,
    texts: Sequence[Mapping],
) -> dict:
    """Returns the report of an exported model.

    Args:
      folder: folder of the exported model.
      saved_model: SavedModel of the same network, in float32.
      settings: content of model.json.
      work_folder: an empty folder.
      config: config of the model, with the limits of random ids.
      texts: from `rows.read`; [] for random inputs only.

    Returns:
      `largest_difference` on random inputs, and on `texts` if any, of each
      output from the SavedModel's; `bytes` and `milliseconds` of both; and if
      texts have labels, `accuracy` or `pearson` of both, and `texts`, the
      number of texts with labels.

    Raises:
      RuntimeError: if the model does not run, or loads TensorFlow.
    """
    tokens = min(settings["max_seq_length"], _MAX_TOKENS)
    random = _random_inputs(settings, tokens, config)
    np.savez(os.path.join(work_folder, "random.npz"), **random)
    if texts:
        path = pathlib.Path(work_folder, "texts.json")
        path.write_text(json.dumps(texts), encoding="utf-8")
    measured = _run(folder, work_folder, tokens)
    loaded = tf.saved_model.load(saved_model)
    network = loaded.signatures["serving_default"]
    of_random, *of_texts = _outputs(network, work_folder)
    report = {
        "largest_difference": {"random": _differences([of_random])},
        "bytes": {
            settings["format"]: _size(folder),
            "savedmodel": _size(saved_model),
        },
        "milliseconds": {
            f"batch {size}, {tokens} tokens": {
                settings["format"]: round(own, 3),
                "savedmodel": round(
                    measure.time_calls(
                        lambda inputs: call(network, inputs),
                        measure.full_inputs(random, int(size), tokens),
                    ),
                    3,
                ),
            }
            for size, own in measured["milliseconds"].items()
        },
    }
    if texts:
        report["largest_difference"]["texts"] = _differences(of_texts)
        report |= _scores(settings, texts, of_texts)
    return report


def _random_inputs(settings: Mapping, tokens: int, config: BertConfig):
    """Returns random rows of several lengths, [4, S] int32 each."""
    rng = np.random.default_rng(0)
    lengths = np.linspace(tokens, 3, _RANDOM_ROWS).astype(int)[:, None]
    mask = np.arange(tokens) < lengths
    inputs = {
        "input_word_ids": rng.integers(1, config.vocab_size, mask.shape) * mask,
        "input_mask": mask,
        "input_type_ids": (np.arange(tokens) >= lengths // 2)
        * mask
        * (config.type_vocab_size > 1),
        "masked_lm_positions": rng.integers(0, lengths, (_RANDOM_ROWS, 2)),
        "masked_lm_ids": rng.integers(
            1, settings["vocab_size"], (_RANDOM_ROWS, 2)
        ),
    }
    return {name: inputs[name].astype(np.int32) for name in settings["inputs"]}


def compare_onnx(network, path: str, config: BertConfig) -> float:
    """Returns the largest difference of an ONNX file on random inputs.

    Args:
      network: function of `networks.make_hugging_face`, which it is made of.
      path: the file.
      config: config of the model, with the limits of random ids.
    """
    import onnxruntime

    names = networks.hugging_face(config)
    tokens = min(config.max_position_embeddings, _MAX_TOKENS)
    settings = {"inputs": names.values(), "vocab_size": config.vocab_size}
    random = _random_inputs(settings, tokens, config)
    inputs = {n: random[ours].astype(np.int64) for n, ours in names.items()}
    session = onnxruntime.InferenceSession(
        path, providers=["CPUExecutionProvider"]
    )
    if network.input_signature[0].shape.rank == 3:  # Choices.
        inputs = {name: x[:, np.newaxis] for name, x in inputs.items()}
    outputs = [x.name for x in session.get_outputs()]
    theirs = dict(zip(outputs, session.run(outputs, inputs), strict=True))
    ours = network(*map(tf.constant, inputs.values()))
    ours = {name: x.numpy() for name, x in ours.items()}
    # Not max, which ignores NaN.
    return float(np.max([*_differences([(theirs, ours)]).values()]))


def _run(folder: str, work_folder: str, tokens: int) -> dict:
    """Runs measure.py and returns what it measured."""
    # -B: no __pycache__ in the folder of the export.
    words = [sys.executable, "-B", "-c", _RUN, measure.__file__]
    process = subprocess.run(
        [*words, folder, work_folder, str(tokens)],
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise RuntimeError(
            f"The exported model does not run: {process.stderr[-2000:]}"
        )
    measured = json_files.read(os.path.join(work_folder, "measured.json"))
    if measured["tensorflow"]:
        raise RuntimeError(
            "The process of the report has loaded TensorFlow: "
            f"{', '.join(measured['tensorflow'][:3])}."
        )
    return measured


def call(network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the outputs of a signature."""
    inputs = {name: tf.constant(values) for name, values in inputs.items()}
    return {name: x.numpy() for name, x in network(**inputs).items()}


def _outputs(network, work_folder: str) -> Iterator[tuple[dict, dict]]:
    """Yields the outputs of the exported model and of TensorFlow, by batch."""
    number = 0
    while os.path.exists(
        path := os.path.join(work_folder, f"outputs_{number}.npz")
    ):
        parts = {"inputs": {}, "outputs": {}}
        with np.load(path) as file:
            for name, values in file.items():
                part, _, name = name.partition("/")
                parts[part][name] = values
        yield parts["outputs"], call(network, parts["inputs"])
        number += 1


def _differences(batches: Sequence[tuple[dict, dict]]) -> dict[str, float]:
    """Returns the largest absolute difference of each output of floats."""
    found = {}
    for theirs, ours in batches:
        for name, values in ours.items():
            if values.shape != theirs[name].shape:
                raise RuntimeError(
                    f"{name} has shape {theirs[name].shape} and in TensorFlow "
                    f"{values.shape}; the exported model is another one."
                )
            if values.dtype.kind == "f":
                difference = np.max(np.abs(values - theirs[name]))
                # Not max, which ignores NaN.
                largest = np.maximum(found.get(name, 0.0), difference)
                found[name] = float(largest)
    return found


def _size(folder: str) -> int:
    """Returns the bytes of model and weights, without the files beside them."""
    beside = ("vocab.txt", "tokenizer.py", "predict.py", "model.json")
    return sum(
        path.stat().st_size
        for path in pathlib.Path(folder).rglob("*")
        if path.is_file() and path.name not in beside
    )


def _scores(settings: Mapping, texts: Sequence[Mapping], pairs) -> dict:
    """Returns the score of both models on the texts that have labels."""
    labelled = [i for i, text in enumerate(texts) if rows.LABEL in text]
    # Outputs of windows are not those of texts.
    if not labelled or settings.get("long_text", "").startswith("windows"):
        return {}
    gold = [texts[i][rows.LABEL] for i in labelled]
    found = {}
    for side, files in enumerate((settings["format"], "savedmodel")):
        outputs = {
            name: np.concatenate([pair[side][name] for pair in pairs])[labelled]
            for name in label_scores.SCORED_OUTPUTS.get(settings["kind"], ())
        }
        if not outputs:
            return {}
        name, value = label_scores.score(outputs, gold, settings)
        found.setdefault(name, {})[files] = value
    return found | {"texts": len(labelled)}


def lines(report: Mapping) -> list[str]:
    """Returns the report as lines of text."""
    found = []
    for where, of_outputs in report["largest_difference"].items():
        found += [f"largest difference on {where} inputs:"]
        found += [f"  {n:22} {x:.2e}" for n, x in of_outputs.items()]
    for name in ("bytes", "accuracy", "pearson"):
        if name in report:
            both = (f"{n} {x:,}" for n, x in report[name].items())
            found += [f"{name}: {', '.join(both)}"]
    for title, times in report["milliseconds"].items():
        both = (f"{n} {x}" for n, x in times.items())
        found += [f"milliseconds, {title}: {', '.join(both)}"]
    return found
