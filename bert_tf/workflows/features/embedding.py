"""Rows of text and a model -> .npy or Parquet file with a vector for each.

Shapes: N rows, E size of a vector.

  .npy      [N, E] float32 or float16, in the order of the rows
  .parquet  a row for each: `line` int64, the number of its line from 1;
            `embedding`, a list of E numbers; and `--id_column` string
"""

import contextlib
import dataclasses
import functools
import hashlib
import io
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

import numpy as np
from absl import logging

from bert_tf.checkpoint.options import CheckpointOptions
from bert_tf.config import POOLING_MODES
from bert_tf.serving import text_rows
from tfrecords import libraries
from tfrecords.io import part_files, streams
from tfrecords.options import (
    MAX_BATCH_SIZE,
    MAX_SEQ_LENGTH,
    REQUIRED,
    option,
    quoted,
)

# A killed run loses at most one part. In a part, batches are of similar length.
_ROWS_PER_PART = 4096
_KIND = "sentence_embedding"
_RANKS = {"text": 1}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingConfig(text_rows.InputConfig, CheckpointOptions):
    """Which texts, which model, and where to write the vectors."""

    model_dir: str = option(
        REQUIRED,
        "Folder of a run or model, such as one of sentence-transformers, or a "
        "checkpoint of any format that convert_checkpoint reads.",
        reads=True,
    )
    output_file: str = option(
        REQUIRED,
        "File to write, atomically: .npy, an array [rows, size]; or .parquet, "
        "with the line, the id and the vector of each row.",
        writes="file",
    )
    prompt: str = option(
        "",
        "Text put before each text, such as 'query: ', for models that were "
        "trained so.",
    )
    pooling: str | None = option(
        None,
        "How the vectors of tokens become one, see export_savedmodel. Default: "
        "that of a folder of sentence-transformers, otherwise mean.",
        choices=POOLING_MODES,
    )
    layers: tuple[str, ...] | None = option(
        None,
        "Layers whose vectors are concatenated. Default: -1, the last.",
    )
    max_seq_length: int | None = option(
        None,
        "Maximum tokens of a text; longer texts are cut, and counted. Default: "
        "as in training.",
        at_least=5,
        at_most=MAX_SEQ_LENGTH,
    )
    dtype: str = option(
        "float32",
        "Type of the numbers that are written.",
        choices=("float32", "float16"),
    )
    batch_size: int = option(
        64,
        "Maximum number of texts in one call of the model.",
        at_least=1,
        at_most=MAX_BATCH_SIZE,
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
        if not os.path.isfile(self.input_file):
            raise ValueError(
                f"--input_file={self.input_file} should be a file: it is read "
                "twice, first to count and check its rows."
            )


def embed(config: EmbeddingConfig) -> int:
    """Writes the vectors; a rerun resumes a run that was stopped.

    Returns:
      The number of rows.

    Raises:
      ValueError: if the model has no such vectors, or a row has no text.
      OSError: if a file cannot be read or written.
    """
    inputs = [("input_file", config.input_file)]
    streams.check_output("output_file", config.output_file, inputs)
    if config.output_file.endswith(".parquet"):
        with libraries.extra("parquet", f"Writing {config.output_file}"):
            import pyarrow.parquet  # noqa: F401
    num_rows, digest = _check_rows(config)
    from bert_tf.checkpoint.checkpoint import Checkpoint
    from bert_tf.serving.predictor import Predictor

    given = Checkpoint.open(
        config.model_dir,
        accept_tokenizer_differences=config.accept_tokenizer_differences,
    )
    if given.vocabulary is None:
        raise ValueError(
            f"{config.model_dir} has no vocabulary. Copy its vocab.txt there."
        )
    if not given.sentence_embedding:
        logging.info(
            "%s is no folder of sentence-transformers: a vector is the %s of "
            "the tokens of a text. A model that was not trained for vectors "
            "gives weak ones.",
            config.model_dir,
            config.pooling or "mean",
        )
    model = given.build(dtype="float32")
    predictor = Predictor(
        model,
        given.tokenizer([]),
        kind=_KIND,
        pooling=config.pooling,
        layers=config.layers,
        max_seq_length=config.max_seq_length,
    )
    parts = _Parts(config, predictor)
    starts = range(0, num_rows, _ROWS_PER_PART)
    join = _join_npy
    if config.output_file.endswith(".parquet"):
        join = functools.partial(_join_parquet, _key(config))
    part_files.write(
        config.output_file,
        {
            "input": digest,  # Of the rows that were checked.
            "weights": given.sha256(),
            "config": given.config.to_dict(),
            "vocabulary": predictor.tokenizer.sha256,
            **predictor.tokenizer.rules,
            **predictor.answers.settings(),
            "layers": list(predictor.answers.layers),
            "max_seq_length": predictor.max_seq_length,
            "prompt": config.prompt,
            "dtype": config.dtype,
            "rows_per_part": _ROWS_PER_PART,
        },
        [min(_ROWS_PER_PART, num_rows - start) for start in starts],
        parts.make,
        join,
        unit="texts",
    )
    parts.warn_of_cut()
    logging.info("%s  rows %d", config.output_file, num_rows)
    return num_rows


class _Parts:
    """Vectors of the rows of a file, in parts of `_ROWS_PER_PART` rows.

    Args:
      config: file and settings.
      predictor: answers with vectors.
    """

    def __init__(self, config: EmbeddingConfig, predictor):
        self.config, self.predictor = config, predictor
        self.rows = _read_rows(config)
        self.next_part = self.num_rows = self.num_cut = 0

    def make(self, number: int) -> bytes:
        """Returns a part as .npz; the numbers of later calls are higher."""
        skipped = (number - self.next_part) * _ROWS_PER_PART
        rows = itertools.islice(self.rows, skipped, skipped + _ROWS_PER_PART)
        lines, texts, ids = zip(*rows, strict=True)
        self.next_part = number + 1
        file = io.BytesIO()
        np.savez(
            file,
            line=np.array(lines, np.int64),
            id=np.array(ids),
            embedding=self._vectors(texts).astype(self.config.dtype),
        )
        return file.getvalue()

    def _vectors(self, texts: Sequence[str]) -> np.ndarray:
        """Returns [N, E] float32."""
        from bert_tf.serving import row_outputs

        embed = self.predictor.signatures["text"]
        rows = [
            text_rows.Row(i, {"text": self.config.prompt + text})
            for i, text in enumerate(texts)
        ]
        found: dict[int, np.ndarray] = {}
        for batch in row_outputs.batches_of(
            rows, _RANKS, self.config.batch_size
        ):
            self.num_cut += row_outputs.count_cut(
                batch,
                _RANKS,
                self.predictor.max_seq_length,
                self.predictor.num_tokens,
            )
            vectors = embed(**row_outputs.make_inputs(batch, _RANKS))
            numbers = [row.line for row in batch]
            found |= zip(numbers, vectors["embedding"].numpy(), strict=True)
        self.num_rows += len(rows)
        return np.stack([found[i] for i in range(len(rows))])

    def warn_of_cut(self) -> None:
        """Logs how many texts of the parts that were made are cut."""
        limit = self.predictor.max_seq_length
        from bert_tf.serving import row_outputs

        row_outputs.warn_of_cut(self.num_cut, self.num_rows, limit, True)


def _join_npy(file: IO[bytes], parts: Callable[[], Iterator[bytes]]) -> None:
    """Writes an array, keeping one part at a time in memory."""
    num_rows = sum(len(_array(part, "line")) for part in parts())
    for number, part in enumerate(parts()):
        vectors = _array(part, "embedding")
        if not number:
            shape = (num_rows, vectors.shape[1])
            part_files.begin_array(file, vectors.dtype, shape)
        file.write(vectors.tobytes())


def _join_parquet(
    id_name: str | None,
    file: IO[bytes],
    parts: Callable[[], Iterator[bytes]],
) -> None:
    """Writes a table, a group of rows for each part."""
    import pyarrow
    import pyarrow.parquet

    with contextlib.ExitStack() as stack:
        writer = None
        for part in parts():
            vectors = _array(part, "embedding")
            kind = pyarrow.from_numpy_dtype(vectors.dtype)
            columns: dict[str, Any] = {"line": _array(part, "line")}
            if id_name:
                columns[id_name] = _array(part, "id").tolist()
            columns["embedding"] = pyarrow.FixedSizeListArray.from_arrays(
                pyarrow.array(vectors.ravel(), kind), vectors.shape[1]
            )
            table = pyarrow.table(columns)
            if writer is None:
                writer = stack.enter_context(
                    pyarrow.parquet.ParquetWriter(file, table.schema)
                )
            writer.write_table(table)


def _array(part: bytes, name: str) -> np.ndarray:
    with np.load(io.BytesIO(part)) as content:
        return content[name]


def _check_rows(config: EmbeddingConfig) -> tuple[int, str]:
    """Returns the number of rows, and a digest of texts and ids."""
    digest, num_rows = hashlib.sha256(), 0
    for _, text, name in _read_rows(config):
        digest.update(f"{len(text)} {text} {name}\n".encode())
        num_rows += 1
    if not num_rows:
        raise ValueError(
            f"{config.input_file} has no rows. Give a file with a text."
        )
    return num_rows, digest.hexdigest()


def _read_rows(config: EmbeddingConfig) -> Iterator[tuple[int, str, str]]:
    """Yields line, text and id, or "" without ids, of each row.

    Raises:
      ValueError: naming file and line, if a row has no text or no id.
    """
    columns = bool(text_rows.read_columns(config, _RANKS))
    input_format = text_rows.choose_format(config, _RANKS, columns)
    given = config
    if input_format not in ("csv", "tsv"):  # All keys are read.
        given = dataclasses.replace(config, id_column=None)
    parse = text_rows.make_parser(given, config.input_file, _RANKS)
    with text_rows.open_lines(config.input_file) as lines:
        for group in text_rows.make_groups(lines, parse, _ROWS_PER_PART):
            for row in group:
                if isinstance(row, text_rows.BadLine):
                    raise ValueError(row.message)
                yield row.line, *_check(row, _key(config), config.input_file)


def _key(config: EmbeddingConfig) -> str | None:
    """Returns the name of the ids of rows, None without ids."""
    is_number = config.id_column and config.id_column.isdecimal()
    return "id" if is_number else config.id_column


def _check(row: text_rows.Row, key: str | None, path: str) -> tuple[str, str]:
    """Returns text and id of a row."""
    text, name = row.fields["text"], ""
    if not text.strip():
        raise ValueError(
            f"{path}:{row.line} has no text, so it has no vector. Remove the "
            "line."
        )
    if key:
        name = row.fields.get(key)
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise ValueError(
                f"{path}:{row.line}: {key!r} is {quoted(name)}; an id should "
                "be a string or an integer. Correct the line, or omit "
                "--id_column."
            )
    return text, str(name)
