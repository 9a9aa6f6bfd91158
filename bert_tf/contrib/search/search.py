"""Queries and the vectors of `embed` -> the nearest rows, the best first.

Search is exact: each vector is compared with each query, in chunks of bounded
memory.

Shapes: Q queries, C vectors of a chunk, E size of a vector.
"""

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from absl import logging

from bert_tf.contrib.search import embedding, ranking, retrieval
from bert_tf.serving import text_rows
from tfrecords import libraries
from tfrecords.io import atomic_files, json_files, stored_folders, streams
from tfrecords.options import REQUIRED, option

# Of the metadata that `embed` writes, see `json_files.check`.
_MADE = {
    "model": dict,
    "num_rows": int,
    "input": [str],
    "rows": {
        "input_format": str,
        "text_column?": [str],
        "id_column?": str,
        "empty_rows": str,
    },
}
_KEYS = ("query", "results", "score", "text")  # Of what is written.
_AGAIN = "Make them again with bert-embed."


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchConfig(text_rows.InputConfig, retrieval.QueryOptions):
    """Which queries, vectors and model."""

    vectors_file: str = option(
        REQUIRED,
        "Vectors that bert-embed wrote with the model of --model_dir: .npy, "
        "with its .npy.json beside it, or .parquet.",
        reads=True,
    )
    corpus_file: str | None = option(
        None,
        "The --input_file of bert-embed, whose texts are shown.",
        reads=True,
    )
    top_k: int = option(
        10, "Number of rows to find for a query.", at_least=1, at_most=10_000
    )
    output_file: str | None = option(
        None,
        "JSON lines file to write, a query each, with score, line or row, and "
        "text of what was found. Default: lines for a reader, on stdout.",
        writes="file",
    )

    def __post_init__(self):
        super().__post_init__()
        if not self.vectors_file.endswith((".npy", ".parquet")):
            raise ValueError(
                f"--vectors_file={self.vectors_file} should end in .npy or "
                ".parquet, as bert-embed writes it."
            )


def search(config: SearchConfig) -> None:
    """Writes the nearest rows of each query.

    Raises:
      ValueError: if the vectors are of another model or damaged, or the corpus
        is not that of the vectors; or if a query has no text.
      OSError: if a file cannot be read or written.
    """
    inputs = [("vectors_file", config.vectors_file)]
    inputs += [("corpus_file", x) for x in (config.corpus_file,) if x]
    output = config.output_file or "-"
    streams.check_output("output_file", output, inputs)
    made = read_metadata(config.vectors_file)
    queries = list(_read_queries(config))
    given, embed = embedding.open_embedder(config)
    _check_model(config, made, embedding.fingerprint(given, embed.predictor))
    similarity = config.similarity or ranking.choose_similarity(given.metadata)
    embed.prompt = retrieval.choose_prompt(given.metadata, config, "query")
    embed.check_prompt(embed.prompt, "query_prompt")
    logging.info(
        "compare %d queries with %d vectors by %s",
        *(len(queries), made["num_rows"], similarity),
    )
    vectors = ranking.comparable(
        embed([query["query"] for query in queries]), similarity
    )
    embed.warn_of_cut(embed.num_cut, embed.num_texts)
    found = ranking.Ranking(len(queries), config.top_k)
    names: dict[int, dict] = {}  # Of each row that was among the best.
    for first, chunk, name in _read_vectors(config, made, *vectors.shape):
        # Rows without a text, of --empty_rows=zero, are never found.
        (kept,) = np.nonzero(chunk.any(axis=1))
        chunk = ranking.comparable(chunk[kept].astype(np.float32), similarity)
        # Of equal scores, the first row has the highest such id.
        found.add(vectors @ chunk.T, (-first - kept).tolist())
        new = {-i for best in found.ids() for i in best if -i >= first}
        names |= {i: name(i - first) for i in new}
    texts = _read_texts(config, made, found) if config.corpus_file else {}
    with atomic_files.atomic_file(output) as file:
        for query, best in zip(queries, found.best, strict=True):
            results = [
                {"score": score}
                | {
                    text_rows.prefixed(x, _KEYS): y
                    for x, y in names[-i].items()
                }
                | ({"text": texts[-i]} if texts else {})
                for score, i in best
            ]
            if config.output_file:
                line = query | {"results": results}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                continue
            if len(queries) > 1:
                file.write(f"{query['query']}\n")
            for result in results:
                score, *rest = result.values()
                words = (" ".join(str(x).split()) for x in rest)
                file.write("\t".join([f"{score:.4f}", *words]) + "\n")


def read_metadata(path: str) -> dict:
    """Returns which model made the vectors of a file, and of which rows.

    Raises:
      ValueError: if the file does not say it, or is damaged.
      FileNotFoundError: if there is no such file.
    """
    if path.endswith(".npy"):
        sidecar = stored_folders.address(path) + embedding.SIDECAR
        try:
            return json_files.read(stored_folders.fetch(sidecar), _MADE)
        except FileNotFoundError:
            os.stat(path)  # Are the vectors there?
            raise ValueError(
                f"{sidecar} is missing, which says which model made the "
                f"vectors. Copy it, too. {_AGAIN}"
            ) from None
    metadata = _open_parquet(path).schema_arrow.metadata or {}
    text = metadata.get(embedding.METADATA.encode())
    if text is None:
        raise ValueError(
            f"{path} does not say which model made its vectors. {_AGAIN}"
        )
    return json_files.parse(text, path, _MADE)


def _open_parquet(path: str):
    with libraries.extra("parquet", f"Reading {path}"):
        import pyarrow.parquet
    try:
        return pyarrow.parquet.ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{path} is no Parquet file ({reason}).") from None


def _check_model(config: SearchConfig, made: Mapping, own: Mapping) -> None:
    """Raises ValueError if vectors were made with other settings than these."""
    for name, value in own.items():
        if name != "prompt" and (other := made["model"].get(name)) != value:
            shown = f": {other}, not {value}"
            raise ValueError(
                f"{config.vectors_file} has vectors of another model, that of "
                f"{made.get('model_dir')}; {name} differs"
                f"{shown if len(shown) < 80 else ''}. Give its --model_dir, "
                "and the same flags as to bert-embed."
            )


def _read_queries(config: SearchConfig) -> Iterator[dict]:
    """Yields `query`, and the id if there is an `id_column`."""
    lines = text_rows.Inputs(config.input_file)
    num_queries = 0
    for group in lines.groups(config, embedding.RANKS, 4096, only_texts=True):
        for row in group:
            if isinstance(row, text_rows.BadLine):
                raise ValueError(row.message)
            fields = dict(row.fields)
            text = fields.pop("text")
            if not text.strip():
                raise ValueError(
                    f"{lines.name}:{row.line} has no text. Remove the line."
                )
            num_queries += 1
            names = {text_rows.prefixed(x, _KEYS): y for x, y in fields.items()}
            yield names | {"query": text}
    if not num_queries:
        raise ValueError(f"{config.input_file} has no query. Give a text.")


def _read_vectors(
    config: SearchConfig, made: Mapping, num_queries: int, size: int
) -> Iterator[tuple[int, np.ndarray, Callable[[int], dict]]]:
    """Yields number of the first row, vectors [C, E], a row -> its names."""
    path, first = config.vectors_file, 0
    most = min(
        retrieval.DOCUMENTS_AT_ONCE,
        max(1, retrieval.SCORES_AT_ONCE // num_queries),
    )
    chunks = _read_array if path.endswith(".npy") else _read_table
    for vectors, name in chunks(path, most):
        if vectors.ndim != 2 or vectors.shape[1] != size:
            raise ValueError(
                f"{path} has vectors of shape {vectors.shape[1:]}; those of "
                f"the model have {size} numbers. {_AGAIN}"
            )
        yield first, vectors, name
        first += len(vectors)
    if first != made["num_rows"]:
        raise ValueError(
            f"{path} has {first} vectors and its metadata is of "
            f"{made['num_rows']}: they are of two runs. {_AGAIN}"
        )


def _read_array(path: str, most: int) -> Iterator[tuple]:
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(
            f"{path} is no array of vectors ({error}). Copy it again."
        ) from None
    if vectors.dtype.kind != "f":
        raise ValueError(f"{path} has {vectors.dtype}, not numbers. {_AGAIN}")
    for start in range(0, len(vectors), most):
        yield (
            vectors[start : start + most],
            lambda i, start=start: {"row": start + i + 1},
        )


def _read_table(path: str, most: int) -> Iterator[tuple]:
    for batch in _open_parquet(path).iter_batches(batch_size=most):
        vectors = batch.column("embedding").flatten().to_numpy()
        names = batch.drop_columns(["embedding"])
        yield (
            vectors.reshape(len(names), -1),
            lambda i, names=names: names.slice(i, 1).to_pylist()[0],
        )


def _read_texts(
    config: SearchConfig, made: Mapping, found: ranking.Ranking
) -> dict[int, str]:
    """Returns number of a row -> its text, of the rows that were found."""
    rows = {name: made["rows"].get(name) for name in embedding.ROW_OPTIONS}
    if columns := rows["text_column"]:
        rows["text_column"] = tuple(columns)
    source = embedding.EmbeddingConfig(
        model_dir=config.model_dir,
        input_file=config.corpus_file,
        output_file=config.vectors_file,
        **rows,
    )
    wanted = {-i for best in found.ids() for i in best}
    texts, first = {}, 0
    for number, part in enumerate(embedding.read_parts(source)):
        if made["input"][number : number + 1] != [embedding.digest(part)]:
            break
        numbers = wanted.intersection(range(first, first + len(part)))
        texts |= {i: part[i - first][1] for i in numbers}
        first += len(part)
    if first != made["num_rows"]:
        raise ValueError(
            f"--corpus_file={config.corpus_file} is not the file that the "
            f"vectors are of: they differ from row {first + 1} on, or later. "
            "Give that file."
        )
    return texts
