"""RuntimeConfig -> folder with a model for another runtime, and a report.

Beside it are our tokenizer and predict.py; or, for Hugging Face's libraries,
the files that they read.
"""

import dataclasses
import os
import shutil
import sys
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.checkpoint import contents, model_card
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.contrib.runtimes import networks, report, rows, tokenizer
from bert_tf.contrib.runtimes.config import HUGGING_FACE, RuntimeConfig
from bert_tf.serving import export_model, kinds, saved_model
from bert_tf.serving.answers.kind import Kind
from tfrecords.io import atomic_files, json_files, stored_folders
from tfrecords.text import vocab

# Format -> file of the model. The module of this name writes it.
_FILES = {
    "litert": "model.tflite",
    "onnx": "model.onnx",
    "openvino": "model.xml",  # And model.bin, the weights.
    HUGGING_FACE: "onnx/model.onnx",
}
METADATA = "model.json"
REPORT = "report.json"
# Rows that static quantization reads, as NNCF does by default.
_CALIBRATION_TEXTS = 300
# Files of ours that are copied beside the model.
_COPIED = ("tokenizer.py", "predict.py")
# Settings that the model card lists.
_IN_CARD = ("kind", "max_seq_length", "weights", "precision")
# A conversion in float32 that differs by more is wrong.
_MAX_DIFFERENCE = 1e-3


def export(config: RuntimeConfig) -> None:
    """Writes the folder of a run, model folder or converted checkpoint.

    It has the model's file, `model.json`, `vocab.txt`, `tokenizer.py`,
    `predict.py`, the model card and, unless omitted, `report.json`. One of
    Hugging Face is that of `convert_checkpoint`, with `onnx/model.onnx`.

    Raises:
      ValueError: if a setting does not apply to the model, no model exists, a
        package is missing, or the format lacks an operation of the model.
      OSError: if a file cannot be written.
      RuntimeError: if the exported model does not run, or its outputs differ.
    """
    config.check_installed()
    model_card.check_license(config.license)
    read = config.model_dir, config.calibration_file, config.report_file
    for path in filter(None, read):
        stored_folders.check_kept(path, config.export_dir)
    saved_model.check_free(
        config.export_dir, config.overwrite, **_marks(config.format)
    )
    given = Checkpoint.open(
        config.model_dir,
        accept_tokenizer_differences=config.accept_tokenizer_differences,
    )
    if config.format == HUGGING_FACE:
        _export_hugging_face(config, given)
    else:
        with atomic_files.temporary_folder() as work:
            _export(config, given, work)
    logging.info(
        "exported %s for %s to %s",
        config.model_dir,
        config.format,
        config.export_dir,
    )


def _export(config: RuntimeConfig, given: Checkpoint, work: str) -> None:
    metadata = export_model.export_metadata(given)
    model = export_model.load_model(given, "float32")
    kind = kinds.choose(config, metadata, model)
    words = export_model.load_tokenizer(given, kind.kept_tokens)
    length = kinds.choose_length(config, metadata, model.config)
    answers = kind(model, words, length, metadata, config)
    settings = make_settings(config, answers)
    calibration, texts = _read_texts(config, kind, settings)
    network = networks.make(answers)
    in_card = {x: settings[x] for x in _IN_CARD if x in settings}
    card = export_model.make_card(
        config,
        given,
        metadata,
        kind,
        in_card | answers.settings(),
        config.format,
    )
    source = os.path.join(work, "network")
    _save(model, network, source)
    settings["outputs"] = list(
        network.get_concrete_function().structured_outputs
    )
    with saved_model.new_export(
        config.export_dir, config.overwrite, **_marks(config.format)
    ) as target:
        path = os.path.join(target, "vocab.txt")
        vocab.write(words.vocab, path)
        settings["vocab_size"] = len(words.vocab)
        settings["vocab_sha256"] = atomic_files.digest(path)
        json_files.write(os.path.join(target, METADATA), settings)
        for name in _COPIED:
            own = os.path.join(os.path.dirname(tokenizer.__file__), name)
            shutil.copyfile(own, os.path.join(target, name))
        calibration = _encode(calibration, target, kind, settings)
        _convert(config, network, source, target, settings, calibration)
        if config.report:
            _report(source, target, settings, work, model.config, texts)
        model_card.write(target, card)


def _export_hugging_face(config: RuntimeConfig, given: Checkpoint) -> None:
    from bert_tf.checkpoint import convert
    from bert_tf.checkpoint.formats.hugging_face import tokenizer_files
    from bert_tf.contrib.runtimes import onnx

    metadata = export_model.export_metadata(given)
    model = export_model.load_model(given, "float32")
    kind = kinds.choose(config, metadata, model)
    length = kinds.choose_length(config, metadata, model.config)
    is_vector = kind.made_for == contents.SENTENCE_EMBEDDING
    steps = None
    if is_vector:  # Their libraries pool, by modules.json.
        steps = kind(model, None, length, metadata, config).steps
    written = dataclasses.replace(
        given,
        metadata=given.metadata | {"max_seq_length": length},
        sentence_embedding=steps,
    )
    if kind.task is None:  # The network has no head.
        written = dataclasses.replace(
            written.without_head(), task="pretraining", labels=()
        )
    # transformers.js's names, by its `dtype`: fp32, fp16, q8.
    files = {_FILES[HUGGING_FACE]: (None, False)}
    if config.half:
        files["onnx/model_fp16.onnx"] = (None, True)
    if config.quantize:
        files["onnx/model_quantized.onnx"] = (config.quantize, False)
    settings = {"kind": kind.name, "max_seq_length": length}
    settings["files"] = list(files)
    card = export_model.make_card(
        config, given, metadata, kind, settings, "hugging_face"
    )
    network = networks.make_hugging_face(model, kind)
    with saved_model.new_export(
        config.export_dir, config.overwrite, **_marks(HUGGING_FACE)
    ) as target:
        accepted = config.accept_tokenizer_differences
        convert.write(written, "hugging_face", target, accepted)
        if not os.path.exists(os.path.join(target, tokenizer_files.TOKENIZER)):
            raise ValueError(
                f"{given.path_of('vocab.txt')} gives no tokenizer.json, see "
                "the warning above; without it transformers.js, fastembed and "
                "others have no tokenizer. Mend it, or use --format=onnx."
            )
        os.mkdir(os.path.join(target, "onnx"))
        converted = onnx.convert(network)
        for name, (quantize, half) in files.items():
            path = os.path.join(target, name)
            onnx.write(converted, path, quantize=quantize, half=half, rows=())
            largest = report.compare_onnx(network, path, model.config)
            logging.info("%s: largest difference %.2g", name, largest)
            _check_difference(name, largest, not (quantize or half))
        model_card.write(target, card)


def _marks(name: str) -> dict[str, str]:
    """Returns `file` and `title` of a format, see `saved_model.check_free`."""
    return {"file": _FILES[name], "title": f"a model for {name}"}


def _read_texts(config: RuntimeConfig, kind: type[Kind], settings: Mapping):
    """Returns the texts for calibration and those for the report."""
    calibration = []
    if config.calibration_file:
        calibration = rows.read(
            config.calibration_file, kind, _CALIBRATION_TEXTS
        )
    texts, path = calibration, config.calibration_file
    if config.report_file:
        path = config.report_file
        texts = rows.read(path, kind)
    if config.report and path:
        rows.check_labels(path, texts, kind, settings.get("labels", ()))
    return calibration, texts


def make_settings(config: RuntimeConfig, answers: Kind) -> dict:
    """Returns the content of model.json: what tokenizer and answers need."""
    settings = {
        "kind": answers.name,
        "format": config.format,
        "file": _FILES[config.format],
        "inputs": list(networks.inputs(answers.name)),
        "do_lower_case": True,
        **vocab.rules_of(answers.metadata),
        "max_seq_length": answers.max_seq_length,
        "weights": "float16" if config.half else "float32",
    }
    if config.precision == "bfloat16":  # Of the computation.
        settings["precision"] = config.precision
    if config.quantize:
        settings["weights"] = f"int8, {config.quantize}"
    return settings | networks.settings(answers) | answers.settings()


def _save(model, network, folder: str) -> None:
    """Writes the network as a SavedModel, from which others are converted."""
    module = tf.Module()
    module.variables_of_model = [v.value for v in model.variables]
    module.network = network
    with saved_model.without_logs():
        tf.saved_model.save(
            module, folder, signatures={"serving_default": network}
        )


def _convert(
    config, network, source: str, target: str, settings, calibration
) -> None:
    options = {
        "quantize": config.quantize,
        "half": config.half,
        "rows": calibration,
    }
    path = os.path.join(target, settings["file"])
    if config.format == "litert":
        from bert_tf.contrib.runtimes import litert

        length = settings["max_seq_length"]
        litert.convert(source, path, max_seq_length=length, **options)
    elif config.format == "onnx":
        from bert_tf.contrib.runtimes import onnx

        onnx.write(onnx.convert(network), path, **options)
    else:
        from bert_tf.contrib.runtimes import openvino

        openvino.convert(source, path, **options)


def _encode(texts, target: str, kind, settings) -> list[dict[str, np.ndarray]]:
    """Returns the inputs of the network for texts, [1, s] int32 each."""
    vocab_file = os.path.join(target, "vocab.txt")
    words = tokenizer.Tokenizer(
        vocab_file, kept_tokens=kind.kept_tokens, **vocab.rules_of(settings)
    )
    encoded = [
        row
        for x in texts
        for row in tokenizer.encode_fields(words, x, settings)
    ]
    if texts and not encoded:
        raise ValueError("The texts of --calibration_file have no words.")
    return [
        {n: np.array(x, np.int32) for n, x in tokenizer.pad([row]).items()}
        for row in encoded[:_CALIBRATION_TEXTS]
    ]


def _report(source, target, settings, work, config, texts) -> None:
    """Writes report.json; raises RuntimeError as in `_check_difference`."""
    folder = os.path.join(work, "report")
    os.makedirs(folder)
    found = report.make(
        target, source, settings, folder, config=config, texts=texts
    )
    for line in report.lines(found):
        logging.info("%s", line)
    largest = np.max([*found["largest_difference"]["random"].values()])
    dtypes = settings["weights"], settings.get("precision", "float32")
    is_whole = dtypes == ("float32", "float32")
    _check_difference(settings["format"], largest, is_whole)
    json_files.write(os.path.join(target, REPORT), found)


def _check_difference(name: str, largest: float, is_float32: bool) -> None:
    """Raises RuntimeError if it is no number, or too large for float32."""
    if not largest <= (_MAX_DIFFERENCE if is_float32 else sys.float_info.max):
        raise RuntimeError(
            f"Outputs of {name} differ by {largest} from TensorFlow's (in "
            f"float32 {_MAX_DIFFERENCE} is allowed), so the export is not kept."
        )
