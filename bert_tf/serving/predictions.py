"""Text rows and a model -> its answers in a file, and explanations."""

import contextlib
import dataclasses
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from absl import logging
from tqdm import tqdm

from bert_tf.checkpoint.options import CheckpointOptions
from bert_tf.serving import answer_files, kinds, text_rows
from tfrecords.io import json_files, streams
from tfrecords.options import MAX_BATCH_SIZE, option

# Batches whose rows are sorted by length, and answered before the first of them
# is written.
_BATCHES_OF_A_GROUP = 8
# Of an export: the path that saved_model.py, which imports Keras, writes.
_METADATA = os.path.join("assets.extra", "model.json")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictConfig(
    text_rows.InputConfig, kinds.CalibrationOptions, CheckpointOptions
):
    """Which model to use, what to read, and where to write the answers."""

    export_dir: str | None = option(
        None, "SavedModel that export_savedmodel wrote.", reads=True
    )
    model_dir: str | None = option(
        None,
        "Folder of a run or model, or a checkpoint of any format that "
        "convert_checkpoint reads; in place of --export_dir.",
        reads=True,
    )
    signature: str = option(
        "text",
        "Signature to call: text; or words, for models that tag words or give "
        "their vectors, and text that is already split into words.",
        # Inputs of other signatures are token ids or serialized examples.
        choices=("text", "words"),
    )
    output_file: str = option(
        "-",
        "File to write, atomically: JSON lines; or a table, with the columns "
        "of the input and those of the answer, if the name ends in .csv, .tsv "
        "(tabs and quotes) or .parquet. - is stdout, JSON lines.",
        writes="file",
    )
    batch_size: int = option(
        64,
        "Maximum number of rows in one call of the model.",
        at_least=1,
        at_most=MAX_BATCH_SIZE,
    )
    outputs: tuple[str, ...] | None = option(
        None,
        "Outputs to write, comma-separated. Default: all except those with "
        "values per token, such as sequence_output.",
    )
    min_probability: float | None = option(
        None,
        "classification: no label for a text whose likeliest class is less "
        "probable; logs the share of texts with one and, if there is a column "
        "`label`, the accuracy of these.",
        at_least=0.0,
        at_most=1.0,
    )
    explain: str | None = option(
        None,
        "HTML file to write, atomically: how much each word adds to each "
        "answer, by integrated gradients, for models that classify or score "
        "texts. If its name ends in attention.html: the attention of each "
        "head. Needs --model_dir.",
        writes="file",
    )

    def __post_init__(self):
        super().__post_init__()
        if bool(self.export_dir) == bool(self.model_dir):
            raise ValueError(
                "Give either --export_dir, a SavedModel, or --model_dir, the "
                "folder of a model."
            )
        for name in ("accept_tokenizer_differences", "uncalibrated"):
            if getattr(self, name) and not self.model_dir:
                raise ValueError(
                    f"--{name} is for --model_dir; a SavedModel has its own "
                    "tokenizer and weights. Omit it."
                )
        answer_files.is_table(self.output_file)  # Raises.
        if self.explain and not self.model_dir:
            raise ValueError(
                f"--explain={self.explain} needs gradients or attention, which "
                "a SavedModel does not have. In place of --export_dir give "
                "--model_dir, the folder that it was exported from."
            )
        if self.explain and self.explain == self.output_file:
            raise ValueError(
                f"--explain={self.explain} is also --output_file. Give each a "
                "file of its own."
            )


class Model(NamedTuple):
    """A model to call.

    Attributes:
      path: where it is from, for messages.
      kind: class of its answers.
      signature: function of named string tensors.
      ranks: rank of each of its inputs: 1 for a text, 2 for a list of texts.
      outputs: names of its outputs.
      owner: the SavedModel, whose variables live as long as it does; or the
        Predictor.
      max_seq_length: longer texts are cut, unless they are read in windows;
        None if it is unknown.
      num_tokens: function of the same inputs -> the lengths of texts before
        they are cut; None if they are read in windows.
      prompt: what the signature puts before each text.
      labels: names of the classes, if any.
      abstain: answer, outputs and cells of a row -> the answer, perhaps without
        a label.
    """

    path: str
    kind: type
    signature: Callable
    ranks: dict[str, int]
    outputs: Sequence[str]
    owner: Any
    max_seq_length: int | None = None
    num_tokens: Callable | None = None
    prompt: str = ""
    labels: Sequence[str] = ()
    abstain: Callable = lambda answer, outputs, cells: answer


# Opens the file of explanations: its path and a Model -> a context whose value
# is called with each row that was answered.
OpenExplanations = Callable[
    [str, Model], contextlib.AbstractContextManager[Callable]
]


def predict(
    config: PredictConfig, open_explanations: OpenExplanations | None = None
) -> int:
    """Writes a line or row for each row of the input; returns their number.

    A line that is no row, such as one that is not JSON, or whose answer is not
    finite, is logged, and has the key `error` in place of an answer.

    Args:
      config: model, input and output.
      open_explanations: called if `config.explain`, see OpenExplanations.

    Raises:
      ValueError: if there is no SavedModel with the signature, or the file or a
        setting is invalid; and, when all is written, if a line was no row.
      OSError: if a file cannot be read or written.
    """
    from bert_tf.serving import row_outputs  # Imports TensorFlow.

    lines = text_rows.Inputs(config.input_file)
    inputs = [("input_file", path) for path in lines.paths]
    streams.check_output("output_file", config.output_file, inputs)
    if config.explain:
        inputs.append(("output_file", config.output_file))
        streams.check_output("explain", config.explain, inputs)
    model = open_model(config)
    ranks = model.ranks
    outputs = choose_outputs(config, model)
    explanations = contextlib.nullcontext()
    if config.explain:
        explanations = open_explanations(config.explain, model)
    started = time.monotonic()
    is_table = answer_files.is_table(config.output_file)
    with (
        row_outputs.abstaining(model, config.min_probability) as model,
        answer_files.open_file(config.output_file) as write,
        explanations as explain,
        tqdm(
            total=lines.size,
            unit="B",
            unit_scale=True,
            # Answers on the terminal would garble the progress bar.
            disable=config.output_file == "-" and sys.stdout.isatty() or None,
        ) as bar,
    ):
        count, num_cut, num_bad, first_bad = 0, 0, 0, ""
        most_rows = _BATCHES_OF_A_GROUP * config.batch_size
        for group in lines.groups(config, ranks, most_rows):
            rows = [row for row in group if isinstance(row, text_rows.Row)]
            num_bytes = lines.num_read - bar.n
            answers = {}
            for batch in row_outputs.batches_of(rows, ranks, config.batch_size):
                num_cut += row_outputs.count_cut(
                    *(batch, ranks, model.max_seq_length, model.num_tokens),
                    model.prompt,
                )
                answers |= row_outputs.answer(
                    *(model, batch, outputs, lines.name), is_table
                )
                bar.update(num_bytes * len(batch) // len(rows))
            pairs = [(row, answers.get(row.line, row)) for row in group]
            for row, found in pairs:
                if isinstance(found, text_rows.BadLine):
                    logging.error("%s", found.message)
                    first_bad = first_bad or found.message
                    num_bad += 1
                else:
                    count += 1
                    if explain:
                        explain(row)
            write(pairs)
            bar.update(lines.num_read - bar.n)
        logging.info(
            "wrote %d answers to %s  texts/s %.1f",
            *(count, config.output_file, count / (time.monotonic() - started)),
        )
        if lines.num_replaced:
            logging.warning("invalid UTF-8 replaced %d", lines.num_replaced)
        row_outputs.warn_of_cut(num_cut, count, model.max_seq_length)
        if not count and not num_bad:
            logging.warning(
                "%s has no rows, so there are no answers", lines.name
            )
    if num_bad:
        raise ValueError(
            f"{num_bad} of {num_bad + count} rows have no answer; the first: "
            f"{first_bad}"
        )
    return count


def load(export_dir: str, signature: str):
    """Returns a SavedModel with a signature that has string inputs.

    Raises:
      ValueError: if there is none, or TensorFlow cannot load it.
    """
    import tensorflow as tf

    from tfrecords.text import tokenizer  # noqa: F401, for tf.text's operations

    if not tf.saved_model.contains_saved_model(export_dir):
        raise ValueError(
            f"--export_dir={export_dir} contains no SavedModel. Create one "
            "with export_savedmodel, and give the folder that has "
            "saved_model.pb; --model_dir takes the folder of a model."
        )
    try:
        loaded = tf.saved_model.load(export_dir)
    except (MemoryError, tf.errors.ResourceExhaustedError):
        raise
    # TensorFlow's errors for missing, cut and changed files are of many types.
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        reason = re.sub(r"\{\{.*?\}\} ", "", reason)  # Names of operations.
        raise ValueError(
            f"--export_dir={export_dir}: TensorFlow {tf.__version__} cannot "
            f"load it ({reason}). It is damaged, or of another version: copy "
            "all its files again, or export the model again."
        ) from error
    if signature not in loaded.signatures:
        raise ValueError(
            f"{export_dir} has signatures {', '.join(loaded.signatures)}, but "
            f"not {signature!r}. Export the model with export_savedmodel."
        )
    return loaded


def open_model(config: PredictConfig) -> Model:
    """Returns the model that the flags name.

    Raises:
      ValueError: if there is none, or it does not have the signature.
    """
    if config.export_dir:
        from bert_tf.serving.answers import vectors

        loaded = load(config.export_dir, config.signature)
        metadata = _read_metadata(config.export_dir)
        name, prompt = _choose_signature(config, metadata)
        signature = loaded.signatures[name]
        specs = signature.structured_input_signature[1]
        outputs = sorted(signature.structured_outputs)
        if metadata.get("kind") in kinds.CLASSES:
            kind = kinds.by_name(metadata["kind"])
        else:
            kind = kinds.of_outputs(outputs)
        # A SavedModel sorts its inputs by name; the first comes first here.
        names = [*kind.inputs.get(config.signature, ()), *sorted(specs)]
        ranks = {
            name: specs[name].shape.rank for name in names if name in specs
        }
        return Model(
            config.export_dir,
            kind,
            signature,
            ranks,
            outputs,
            loaded,
            metadata.get("max_seq_length"),
            getattr(loaded, vectors.num_tokens_name(name), None),
            prompt,
            metadata.get("labels", ()),
        )
    from bert_tf.serving.predictor import Predictor  # Imports Keras.

    predictor = Predictor(
        config.model_dir,
        batch_size=config.batch_size,
        prompt_name=config.prompt_name,
        uncalibrated=config.uncalibrated,
        accept_tokenizer_differences=config.accept_tokenizer_differences,
    )
    kind = kinds.by_name(predictor.kind)
    if config.signature not in predictor.inputs:
        raise ValueError(
            f"{config.model_dir} is for {predictor.kind} and has no signature "
            f"{config.signature!r}. Omit --signature."
        )
    ranks = predictor.inputs[config.signature]
    signature = predictor.signatures[config.signature]
    outputs = signature.get_concrete_function().structured_outputs
    return Model(
        config.model_dir,
        kind,
        signature,
        ranks,
        sorted(outputs),
        predictor,
        predictor.max_seq_length,
        predictor.num_tokens,
        predictor.prompt,
        predictor.answers.labels,
    )


def _choose_signature(
    config: PredictConfig, metadata: Mapping[str, Any]
) -> tuple[str, str]:
    """Returns the name of the signature, and what it puts before a text."""
    name = config.prompt_name
    if name is None:
        return config.signature, metadata.get("prompt") or ""
    from bert_tf.serving.answers import vectors

    if metadata.get("kind") != vectors.SentenceEmbedding.name:
        raise ValueError(
            f"--prompt_name={name} is for exports of the kind "
            f"sentence_embedding, and {config.export_dir} is of the kind "
            f"{metadata.get('kind', 'unknown')}. Omit the flag."
        )
    return vectors.find_signature(metadata, name)


def _read_metadata(export_dir: str) -> Mapping[str, Any]:
    """Returns the entries read from an export's model.json, {} without it."""
    from bert_tf.checkpoint import contents

    path = os.path.join(export_dir, _METADATA)
    if not os.path.isfile(path):
        return {}
    values = json_files.read(
        path,
        {
            "kind": str,
            "labels?": [str],
            "max_seq_length?": int,
            "num_classes?": int,
            "prompt?": str,
        },
    )
    contents.check_prompts(values, path)
    json_files.check_thresholds(values, values.get("num_classes") or 0, path)
    return values


def choose_outputs(config: PredictConfig, model: Model) -> set[str]:
    """Returns the names of the outputs to write.

    Raises:
      ValueError: if the model does not have a requested output, or, without
        --outputs, none that is written by default.
    """
    for name in config.outputs or ():
        if name not in model.outputs:
            raise ValueError(
                f"--outputs={name} is not an output of this model; choose from "
                f"{', '.join(model.outputs)}."
            )
    is_table = answer_files.is_table(config.output_file)
    outputs = config.outputs or answer_files.default_outputs(
        model.outputs, is_table
    )
    if not outputs:
        raise ValueError(
            f"{model.path} has only outputs with values per token: "
            f"{', '.join(model.outputs)}. Name one with --outputs."
        )
    return set(outputs)
