"""Rows of text and a model -> .npy or Parquet file with a vector for each.

Shapes: N rows, E size of a vector.

  .npy      [N, E] float32 or float16, in the order of the rows
  .parquet  a row for each: `line` int64, the number of its line from 1;
            `embedding`, a list of E numbers; and `--id_column` string

Which model and prompt made them, and of which rows, is in the metadata of the
Parquet file, otherwise in a file beside the array, `vectors.npy.json`.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np
from absl import logging

from bert_tf.checkpoint.options import CheckpointOptions
from bert_tf.contrib.search import prompts
from bert_tf.serving import kinds, text_rows
from tfrecords import libraries
from tfrecords.io import json_files, part_files, stored_folders, streams
from tfrecords.options import MAX_BATCH_SIZE, REQUIRED, option, quoted
from tfrecords.tables import table_files
from tfrecords.text import text_files

# A killed run loses at most one part. In a part, batches are of similar length.
_ROWS_PER_PART = 4096
RANKS = {"text": 1}
METADATA = "bert_tf"  # Key of the metadata in a Parquet file.
# Options that decide which rows of the input have vectors.
ROW_OPTIONS = ("input_format", "text_column", "id_column", "empty_rows")
SIDECAR = ".json"  # Of an array: vectors.npy.json.


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorOptions(kinds.PoolingOptions, CheckpointOptions):
    """Which model, and how it computes the vector of a text."""

    model_dir: str = option(
        REQUIRED,
        "Folder of a run or model, such as one of sentence-transformers, or a "
        "checkpoint of any format that convert_checkpoint reads.",
        reads=True,
    )
    batch_size: int = option(
        64,
        "Maximum number of texts in one call of the model.",
        at_least=1,
        at_most=MAX_BATCH_SIZE,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingConfig(
    text_rows.InputConfig, kinds.PromptOptions, VectorOptions
):
    """Which texts, which model, and where to write the vectors."""

    output_file: str = option(
        REQUIRED,
        "File to write, atomically: .npy, an array [rows, size]; or .parquet, "
        "with the line, the id and the vector of each row.",
        writes="file",
    )
    prompt: str | None = option(
        None,
        "Text put before each text, such as 'query: ', for models that were "
        "trained so. Default: by --prompt_name.",
        instead_of="prompt_name",
    )
    dtype: str = option(
        "float32",
        "Type of the numbers that are written.",
        choices=("float32", "float16"),
    )
    empty_rows: str = option(
        "error",
        "Rows whose text is empty, blank or null. zero: zeros for a vector, so "
        "that rows stay aligned; skip: left out, which needs --id_column.",
        choices=("error", "zero", "skip"),
    )

    def __post_init__(self):
        super().__post_init__()
        if not self.output_file.endswith((".npy", ".parquet")):
            raise ValueError(
                f"--output_file={self.output_file} should end in .npy or "
                ".parquet."
            )
        if self.id_column and not self.output_file.endswith(".parquet"):
            raise ValueError(
                f"--id_column={self.id_column}: an array has no ids. Give an "
                "--output_file that ends in .parquet, or omit the flag: row i "
                "of the array is row i of the input."
            )
        if self.empty_rows == "skip" and not self.id_column:
            raise ValueError(
                "--empty_rows=skip needs --id_column, or nobody could tell "
                "which row a vector is of. Give it, or --empty_rows=zero."
            )
        if self.id_column in ("line", "embedding"):
            raise ValueError(
                f"--id_column={self.id_column} is also the name of a column "
                "that is written. Rename the column of the input."
            )
        columns = dict(text_rows.read_columns(self, RANKS))
        if self.id_column == columns.get("text", "text"):
            raise ValueError(
                f"--id_column={self.id_column} is also the name of the text. "
                "Name another column, or omit it."
            )
        if self.inputs.size is None:
            raise ValueError(
                f"--input_file={self.input_file} should be a file: it is read "
                "twice, first to count and check its rows."
            )

    @functools.cached_property
    def inputs(self) -> text_rows.Inputs:
        """Returns the files to read."""
        return text_rows.Inputs(self.input_file)


def embed(config: EmbeddingConfig) -> int:
    """Writes the vectors; a rerun resumes a run that was stopped.

    Returns:
      The number of rows.

    Raises:
      ValueError: if the model has no such vectors, or a row has no text and
        `empty_rows` is "error".
      OSError: if a file cannot be read or written.
    """
    inputs = [("input_file", path) for path in config.inputs.paths]
    streams.check_output("output_file", config.output_file, inputs)
    is_table = config.output_file.endswith(".parquet")
    if is_table:
        with libraries.extra("parquet", f"Writing {config.output_file}"):
            import pyarrow.parquet  # noqa: F401
    sizes, digests = _check_rows(config)
    given, embedder = open_embedder(config)
    embedder.prompt = choose_prompt(given.metadata, config)
    embedder.check_prompt(embedder.prompt, "prompt")
    of_parts = enumerate(read_parts(config))
    made = {
        "model_dir": config.model_dir,
        "model": fingerprint(given, embedder.predictor),
        "prompt": embedder.prompt,
        "rows": {name: getattr(config, name) for name in ROW_OPTIONS},
        "num_rows": sum(sizes),
        "input": digests,  # Of the rows that were checked.
    }
    sidecar = None
    if not (is_table or streams.is_stream(config.output_file)):
        path = stored_folders.address(config.output_file) + SIDECAR
        sidecar = stored_folders.open_output(path, "file")

    def make_part(number: int) -> bytes:  # The numbers ascend.
        rows = next((x for i, x in of_parts if i == number), [])
        if digest(rows) != digests[number]:
            raise ValueError(
                f"{config.input_file} has changed since the run began. Run the "
                "command again."
            )
        return _make_part(rows, embedder, config)

    def join(file: IO[bytes], parts: Callable[[], Iterator[bytes]]) -> None:
        num_cut = sum(int(x["num_cut"]) for x in part_files.loaded(parts))
        embedder.warn_of_cut(num_cut, sum(sizes))
        if is_table:
            _join_parquet(config.id_column, made, file, parts)
            return
        if sidecar:  # That of other vectors, until these are there.
            with contextlib.suppress(FileNotFoundError):
                os.remove(sidecar)
        part_files.join_array(file, parts, "embedding", sum(sizes))

    def finish() -> None:
        if sidecar:
            json_files.write(sidecar, made)

    part_files.write(
        config.output_file,
        {
            "input": digests,
            **made["model"],
            "prompt": embedder.prompt,
            "dtype": config.dtype,
            "rows_per_part": _ROWS_PER_PART,
        },
        sizes,
        make_part,
        join,
        finish,
        unit="texts",
    )
    logging.info("wrote %d vectors to %s", sum(sizes), config.output_file)
    return sum(sizes)


def fingerprint(given, predictor) -> dict:
    """Returns everything that decides a text's vector, as JSON.

    Args:
      given: Checkpoint of the model.
      predictor: its Predictor of kind sentence_embedding.
    """
    steps = predictor.answers.steps.tensors()
    found = {
        "weights": given.sha256(),
        "config": given.config.to_dict(),
        "vocabulary": predictor.tokenizer.sha256,
        **predictor.tokenizer.rules,
        **predictor.answers.settings(),
        "tensors": {
            name: hashlib.sha256(x.tobytes()).hexdigest()
            for name, x in steps.items()
        },
        "layers": list(predictor.answers.layers),
        "max_seq_length": predictor.max_seq_length,
    }
    return json.loads(json.dumps(found))


def choose_prompt(metadata: Mapping, config: EmbeddingConfig) -> str:
    """Returns the prompt of each text: as given, or of the model.

    Raises:
      ValueError: if the model has no prompt of the name.
    """
    from bert_tf.serving.answers import vectors

    prompt = config.prompt
    if prompt is None:
        prompt = vectors.choose_prompt(metadata, config.prompt_name)
    log_prompt("texts", prompt, metadata)
    return prompt


def log_prompt(what: str, prompt: str, metadata: Mapping) -> None:
    """Logs a prompt, if there is one or the model has some.

    Args:
      what: the texts that have it.
      prompt: what is put before each.
      metadata: content of the model's model.json.
    """
    if prompt or metadata.get("prompts"):
        logging.info("before %s is put %r", what, prompt)


def open_embedder(options: VectorOptions):
    """Returns the Checkpoint of a model, and its Embedder without a prompt.

    Raises:
      ValueError: if there is no model, it has no vocabulary, or a setting does
        not apply to it.
    """
    from bert_tf.checkpoint.checkpoint import Checkpoint
    from bert_tf.serving.answers.vectors import SentenceEmbedding
    from bert_tf.serving.predictor import Predictor

    given = Checkpoint.open(
        options.model_dir,
        accept_tokenizer_differences=options.accept_tokenizer_differences,
    )
    if given.vocabulary is None:
        raise ValueError(
            f"{options.model_dir} has no vocabulary. Copy its vocab.txt there."
        )
    if not given.sentence_embedding:
        logging.info(
            "%s is no folder of sentence-transformers: vectors have pooling "
            "%s. A model that was not trained for vectors gives weak ones.",
            options.model_dir,
            options.pooling or "mean",
        )
    model = given.build(dtype="float32")
    predictor = Predictor(
        model,
        given.tokenizer([]),
        kind=SentenceEmbedding.name,
        batch_size=options.batch_size,
        pooling=options.pooling,
        layers=options.layers,
        max_seq_length=options.max_seq_length,
        prompt_name="",  # An Embedder puts it before the texts.
    )
    return given, Embedder(predictor)


class Embedder:
    """Texts -> vectors.

    Args:
      predictor: a Predictor of kind sentence_embedding.

    Attributes:
      prompt: put before each text, by default none.
      num_texts, num_cut: number of texts so far, and of those that were cut.
    """

    def __init__(self, predictor):
        self.predictor, self.prompt = predictor, ""
        self.num_texts = self.num_cut = 0

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Returns [N, E] float32."""
        rows = [
            text_rows.Row(i, {"text": self.prompt + text})
            for i, text in enumerate(texts)
        ]
        vectors, num_cut = self.predictor.answer_rows(rows)
        self.num_texts += len(rows)
        self.num_cut += num_cut
        return np.stack(vectors)

    def check_prompt(self, prompt: str, flag: str) -> None:
        """Raises ValueError if a prompt leaves no token for texts."""
        own = self.predictor
        prompts.check_length(prompt, flag, own.tokenizer, own.max_seq_length)

    def warn_of_cut(self, num_cut: int, num_texts: int) -> None:
        """Logs how many texts were cut."""
        from bert_tf.serving import row_outputs

        limit = self.predictor.max_seq_length
        row_outputs.warn_of_cut(num_cut, num_texts, limit)


def _make_part(
    rows: Sequence[tuple[str, str, str]],
    embedder: Embedder,
    config: EmbeddingConfig,
) -> bytes:
    """Returns the vectors of the rows of a part."""
    before = embedder.num_cut
    has_text = np.array([bool(text) for _, text, _ in rows])
    # A text of any kind tells the size of the vectors.
    found = embedder([text for _, text, _ in rows if text] or ["."])
    vectors = np.zeros((len(rows), found.shape[1]), config.dtype)
    vectors[has_text] = found[: has_text.sum()]
    is_finite = np.isfinite(vectors).all(axis=1)
    if not is_finite.all():
        raise ValueError(
            f"{rows[is_finite.argmin()][0]} has a vector with a number that is "
            f"not finite as {config.dtype}. Use --dtype=float32; or the "
            "model's weights are damaged."
        )
    names = json.dumps([name for *_, name in rows]).encode()
    lines = [int(where.rpartition(":")[2]) for where, *_ in rows]
    return part_files.to_npz(
        line=np.array(lines, np.int64),
        ids=np.frombuffer(names, np.uint8),
        embedding=vectors,
        num_cut=embedder.num_cut - before,
    )


def _join_parquet(
    id_column: str | None,
    made: Mapping,
    file: IO[bytes],
    parts: Callable[[], Iterator[bytes]],
) -> None:
    """Writes a table, a group of rows for each part."""
    import pyarrow
    import pyarrow.parquet

    metadata = {METADATA: json.dumps(made)}
    with contextlib.ExitStack() as stack:
        writer = None
        for arrays in part_files.loaded(parts):
            vectors = arrays["embedding"]
            columns: dict[str, Any] = {"line": arrays["line"]}
            if id_column:
                ids = json.loads(arrays["ids"].tobytes())
                columns[text_rows.id_name(id_column)] = ids
            kind = pyarrow.from_numpy_dtype(vectors.dtype)
            columns["embedding"] = pyarrow.FixedSizeListArray.from_arrays(
                pyarrow.array(vectors.ravel(), kind), vectors.shape[1]
            )
            table = pyarrow.table(columns, metadata=metadata)
            if writer is None:
                writer = stack.enter_context(
                    pyarrow.parquet.ParquetWriter(file, table.schema)
                )
            writer.write_table(table)


def _check_rows(config: EmbeddingConfig) -> tuple[list[int], list[str]]:
    """Returns the number of rows of each part, and a digest of them.

    What `empty_rows` makes of a row without text shows in the digests.
    """
    num_rows, empty = 0, []
    sizes, digests = [], []
    for rows in read_parts(config, empty):
        num_rows += len(rows)
        sizes.append(len(rows))
        digests.append(digest(rows))
    num_rows += len(empty) if config.empty_rows == "skip" else 0
    if not num_rows:
        raise ValueError(
            f"{config.input_file} has no rows. Give a file with a text."
        )
    if len(empty) == num_rows:
        raise ValueError(
            f"{empty[0]}: text is missing, blank or null, as in all {num_rows} "
            "rows. Give a file with a text; --text_column names its column."
        )
    if empty and config.empty_rows == "error":
        raise ValueError(
            f"{empty[0]} has no text, so it has no vector; {len(empty)} of "
            f"{num_rows} rows have none. --empty_rows=zero writes zeros for "
            "such rows; --empty_rows=skip, with --id_column, leaves them out."
        )
    if empty:
        logging.info(
            "%d of %d rows have no text, the first is %s: %s",
            *(len(empty), num_rows, empty[0]),
            "zeros" if config.empty_rows == "zero" else "left out",
        )
    return sizes, digests


def digest(rows: Sequence[tuple[str, str, str]]) -> str:
    """Returns the sha256 of lines, texts and ids, wherever their file is."""
    rows = [(where.rpartition(":")[2], *others) for where, *others in rows]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def read_parts(
    config: EmbeddingConfig, empty: list[str] | None = None
) -> Iterator[list[tuple[str, str, str]]]:
    """Yields "file:line", text and id, "" without ids, of the rows of a part.

    The text of a row without one is ""; if they are skipped, it is left out.

    Args:
      config: which files to read.
      empty: file and line of such rows are added to it.

    Raises:
      ValueError: naming file and line, if a row has no id; or if a format has
        no ids.
    """
    lines = config.inputs
    # Of a file, which is one block, all groups but the last are full.
    for group in lines.groups(config, RANKS, _ROWS_PER_PART, only_texts=True):
        rows = [_check(row, config.id_column, lines.name) for row in group]
        if empty is not None:
            empty += [where for where, text, _ in rows if not text]
        if config.empty_rows == "skip":
            rows = [row for row in rows if row[1]]
        if rows:
            yield rows


def _check(
    row: text_rows.Row | text_rows.BadLine, id_column: str | None, path: str
) -> tuple[str, str, str]:
    """Returns "file:line", text and id of a row of a file."""
    if isinstance(row, text_rows.BadLine):
        raise ValueError(row.message)
    where, text, name = f"{path}:{row.line}", row.fields["text"], ""
    if id_column:
        (value,) = (x for key, x in row.fields.items() if key != "text")
        name = table_files.to_cell(value, f"{where}: {id_column!r}")
        if isinstance(value, bool) or not name or not isinstance(name, str):
            raise ValueError(
                f"{where}: {id_column!r} is {quoted(value)}; an id should be a "
                "string or a number. Correct the line, or omit --id_column."
            )
    return where, text if text_files.has_token(text) else "", name
