"""Rows of similar texts -> records of T texts each, and perhaps their score.

N rows, T texts of each, S max_seq_length.
"""

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.contrib.search.records import search_files, text_tables
from tfrecords.io import atomic_files, records
from tfrecords.tables import hold_out, table_files
from tfrecords.tasks import glue_examples, split_records
from tfrecords.text import tokenizer as tokenizer_lib

SEARCH = "dev_search"
# Query and other texts of some rows -> a score of each text. Its attribute
# `sha256` says which teacher it is.
Rank = Callable[[Sequence[tuple[str, Sequence[str]]]], list[list[float]]]
_ROWS_AT_ONCE = 256
_LONGEST_FIRST_TEXT = "longest_first_text"
# Statistics of a manifest.
_COUNTS = ("tokens", "truncated_texts", _LONGEST_FIRST_TEXT)
_MULTIPLE = 4  # As of `static_lengths.choose`.


@dataclasses.dataclass(frozen=True)
class _Part:
    """The rows of a table that are in a split."""

    split: str
    table: text_tables.Table
    takes_row: Callable[[int], bool] = lambda number: True
    held_out: dict | None = None  # Settings, if dev is held out from train.

    def rows(self, statistics=None) -> Iterator[text_tables.Row]:
        """Yields the rows, in the order of the records."""
        rows = self.table.rows(statistics)
        return (row for i, row in enumerate(rows) if self.takes_row(i))

    def count(self) -> int:
        """Checks all rows, and returns the number of those of the split."""
        num_rows = sum(1 for _ in self.rows())
        if not num_rows:
            raise ValueError(
                f"{self.table.path} has too few rows to hold some out: "
                f"{self.split} would have none. Give a --dev_file, or "
                "--dev_share=0."
            )
        return num_rows


def make_records(
    data: text_tables.SimilarityData,
    output_dir: str,
    tokenizer: tokenizer_lib.BertTokenizer,
    *,
    max_seq_length: int,
    seed: int,
    prompts: tuple[str, str] = ("", ""),
    search: search_files.SearchOptions | None = None,
    rank: Rank | None = None,
    only_dev: bool = False,
) -> dict[str, str]:
    """Writes a folder of records for each split; complete ones are kept.

      How old is she ? | She is six .
      [CLS] how old is she ? [SEP]      a row of the record for each text
      [CLS] she is six . [SEP]

    Args:
      data: the tables.
      output_dir: parent of a folder for each split, such as `train`.
      tokenizer: maps text to ids.
      max_seq_length: tokens of a text, including [CLS], [SEP] and padding.
      seed: random seed of the rows to hold out.
      prompts: text before the first text of each row, and before the others;
        also before queries and documents.
      search: queries and a corpus to be evaluated, which are the split
        SEARCH: a record of one text for each query with judgements, then for
        each document with a text; None for none.

      rank: the scores of a teacher, for the rows of train; None for none.
      only_dev: whether to leave out train.

    Returns:
      The folder of each split, SEARCH first.

    Raises:
      ValueError: as in `text_tables.Table.rows` and `split_records.make`.
    """
    encode = glue_examples.make_encoder(tokenizer, 1, max_seq_length)
    splits = [
        _to_make(
            *(part, encode, max_seq_length, prompts),
            rank if is_train else None,
        )
        for part in _parts(data, seed)
        for is_train in [part.split == "train"]
        if not (is_train and only_dev)
    ]
    if search:
        first = _search_split(search, encode, max_seq_length, prompts)
        splits = [first, *splits]
    return split_records.make(
        splits,
        split_records.vocabulary_of(tokenizer),
        output_dir,
    )


def first_length(folders: Mapping[str, str]) -> int | None:
    """Returns the length of the longest first text of all rows, rounded up.

    Args:
      folders: some of `make_records`; SEARCH has no rows of several texts.

    Returns:
      Its tokens with [CLS] and [SEP], a multiple of 4; None if records do not
      say it, or there are none.
    """
    manifests = [
        records.Manifest.read(folder)
        for split, folder in folders.items()
        if split != SEARCH
    ]
    found = [x.statistics.get(_LONGEST_FIRST_TEXT) for x in manifests]
    if not found or None in found:
        return None
    return -(-max(found) // _MULTIPLE) * _MULTIPLE


def _parts(data, seed: int) -> list[_Part]:
    """Returns the splits; a share of train is dev if no table is."""
    tables, share = data.tables(), data.dev_share
    train = tables.get("train")
    if "dev" in tables or not train or not share:
        return [_Part(split, table) for split, table in tables.items()]
    if len(train.text_columns) == 1:
        return [_Part("train", train)]
    # Only when records are made: it reads the file.
    dev_rows = functools.cache(lambda: _held_out_rows(train, share, seed))
    held_out = {"dev_share": share, "seed": seed}
    return [
        _Part("train", train, lambda i: i not in dev_rows(), held_out),
        _Part("dev", train, lambda i: i in dev_rows(), held_out),
    ]


def _held_out_rows(table, share: float, seed: int) -> frozenset[int]:
    """Returns the rows of dev: rows of equal first texts stay together."""
    groups = [row.texts[0] for row in table.rows()]
    rows = hold_out.choose(
        [0] * len(groups),
        # A query may have several passages.
        groups if len(set(groups)) < len(groups) else None,
        dev_share=share,
        seed=seed,
    )
    logging.info(
        "%s: %d of %d rows are held out as dev",
        table.path,
        len(rows),
        len(groups),
    )
    return frozenset(rows.tolist())


def _to_make(
    part: _Part,
    encode,
    max_seq_length: int,
    prompts: tuple[str, str],
    rank: Rank | None,
) -> split_records.Split:
    table = part.table
    schema_name = "scored_texts" if table.score_column else "texts"
    taught = {}
    if rank:
        schema_name = "taught_texts"
        taught = {"num_candidates": len(table.text_columns) - 1}
    sizes = taught | {
        "num_texts": len(table.text_columns),
        "max_seq_length": max_seq_length,
    }

    def examples(statistics):
        reading = table_files.ReadStatistics()
        counts = dict.fromkeys(_COUNTS, 0)
        rows = part.rows(reading)
        yield from _examples(rows, encode, counts, prompts, rank)
        statistics |= dataclasses.asdict(reading) | counts

    by_ending = table_files.format_of(table.path)
    own_format = table_files.format_of(table.path, table.input_format)
    scores = {"score_column": table.score_column}
    scores |= {"score_range": list(table.bounds)}
    return split_records.Split(
        name=part.split,
        schema_name=schema_name,
        sizes=sizes,
        flags={
            "task_name": "similarity",
            "max_seq_length": max_seq_length,
            "text_columns": list(table.text_columns),
            "texts_of_a_row": len(table.text_columns),
            "held_out": part.held_out,
            **(scores if table.score_column else {}),
            **_prompt_flags(prompts),
            **({"teacher": rank.sha256} if rank else {}),
            **({"input_format": own_format} if own_format != by_ending else {}),
            "source": os.path.basename(table.path),
            "source_sha256": atomic_files.digest(table.path),
        },
        count=part.count,
        examples=examples,
    )


def _prompt_flags(prompts: tuple[str, str]) -> dict:
    """Returns the entry of the manifest's flags, if there are prompts."""
    return {"prompts": list(prompts)} if any(prompts) else {}


def _search_split(
    search, encode, max_seq_length: int, prompts: tuple[str, str]
) -> split_records.Split:
    sizes = {"num_texts": 1, "max_seq_length": max_seq_length}

    def texts():
        judged = search_files.read_judgements(search.judgements_file)
        _, queries = search_files.read_queries(search, judged)
        yield from (prompts[0] + text for text in queries)
        corpus = search_files.read_corpus(search)
        yield from (prompts[1] + text for _, text in corpus)

    def count():
        judged = search_files.read_judgements(search.judgements_file)
        _, queries = search_files.read_queries(search, judged)
        return len(queries) + search_files.check_documents(search, judged)

    def examples(statistics):
        counts = dict.fromkeys(_COUNTS, 0)
        rows = (text_tables.Row((text,), None, "") for text in texts())
        yield from _examples(rows, encode, counts, ("", ""))
        statistics |= counts

    files = ("queries_file", "corpus_file", "judgements_file")
    return split_records.Split(
        name=SEARCH,
        schema_name="texts",
        sizes=sizes,
        flags={
            "task_name": "search",
            "max_seq_length": max_seq_length,
            "id_column": search.id_column,
            "query_column": search.query_column,
            "corpus_columns": list(search.corpus_columns),
            "texts_of_a_row": 1,
            **_prompt_flags(prompts),
            "source": os.path.basename(search.corpus_file),
            "sha256": {
                name: atomic_files.digest(getattr(search, name))
                for name in files
            },
        },
        count=count,
        examples=examples,
    )


def _examples(
    rows: Iterable[text_tables.Row],
    encode,
    counts: dict,
    prompts: tuple[str, str],
    rank: Rank | None = None,
) -> Iterator[split_records.Example]:
    """Yields an example for each row; rows are packed in batches."""
    rows = iter(rows)
    while chunk := list(itertools.islice(rows, _ROWS_AT_ONCE)):
        texts = [
            prompts[number > 0] + text
            for row in chunk
            for number, text in enumerate(row.texts)
        ]
        packed, is_cut = encode(tf.constant(texts))
        arrays = {
            name: values.numpy().reshape(len(chunk), -1, values.shape[-1])
            for name, values in packed.items()
        }  # [N, T, S]
        counts["tokens"] += int(arrays["input_mask"].sum())
        counts["truncated_texts"] += int(is_cut.numpy().sum())
        first = arrays["input_mask"][:, 0].sum(axis=-1)
        counts[_LONGEST_FIRST_TEXT] = max(
            counts[_LONGEST_FIRST_TEXT], int(first.max())
        )
        if rank:
            scores = rank(
                [(row.texts[0], list(row.texts[1:])) for row in chunk]
            )
            arrays["teacher_scores"] = np.array(scores, np.float32)
        for index, row in enumerate(chunk):
            example = {name: values[index] for name, values in arrays.items()}
            if row.score is not None:
                example["label_scores"] = np.float32(row.score)
            yield example
