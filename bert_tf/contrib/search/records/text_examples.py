"""Rows of similar texts -> records of T texts each, and perhaps their score.

N rows, T texts of each, S max_seq_length.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_tf.contrib.search.records import search_files, text_tables
from tfrecords.io import records
from tfrecords.tables import parts, table_files
from tfrecords.tasks import glue_examples, split_records
from tfrecords.tasks.glue_examples import Split
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
            *(table, split, encode, max_seq_length, prompts),
            rank if is_train else None,
        )
        for table, split in _splits(data, seed)
        for is_train in [split.name == "train"]
        if not (is_train and only_dev)
    ]
    if search:
        first = _search_split(search, encode, max_seq_length, prompts)
        splits = [first, *splits]
    return split_records.make(
        splits, split_records.vocabulary_of(tokenizer), output_dir
    )


def first_length(folders: Mapping[str, str]) -> int | None:
    """Returns the length of the longest first text of all rows, rounded up.

    Args:
      folders: some of `make_records`; SEARCH has no rows of several texts.

    Returns:
      Its tokens with [CLS] and [SEP], a multiple of 4; None without records.

    Raises:
      ValueError: if the manifest of a folder lacks it.
    """
    found = []
    for split, folder in folders.items():
        if split == SEARCH:
            continue
        statistics = records.Manifest.read(folder).statistics
        if _LONGEST_FIRST_TEXT not in statistics:
            raise ValueError(
                f"The manifest of {folder!r} has no {_LONGEST_FIRST_TEXT}: the "
                "records are of an older version. Delete the folder, so that "
                "they are made again."
            )
        found.append(statistics[_LONGEST_FIRST_TEXT])
    return -(-max(found) // _MULTIPLE) * _MULTIPLE if found else None


def _splits(data, seed: int) -> list[tuple[text_tables.Table, Split]]:
    """Returns tables and splits; a share of train is dev if no table is."""
    tables, share = data.tables(), data.dev_share
    train = tables.get("train")
    is_whole = "dev" in tables or not train or not share
    if is_whole or len(train.text_columns) == 1:
        return [(x, Split(name, x.path)) for name, x in tables.items()]

    def read():
        # Rows of equal first texts stay together: a query may have several
        # passages.
        groups = [row.texts[0] for row in train.rows()]
        has_groups = len(set(groups)) < len(groups)
        return [0] * len(groups), groups if has_groups else None

    held_out = {"dev_share": share, "seed": seed}
    splits = glue_examples.held_out_splits(train.path, read, held_out)
    return [(train, split) for split in splits]


def _to_make(
    table: text_tables.Table,
    split: Split,
    encode,
    max_seq_length: int,
    prompts: tuple[str, str],
    rank: Rank | None,
) -> split_records.Split:
    schema_name = "scored_texts" if table.score_column else "texts"
    taught = {}
    if rank:
        schema_name = "taught_texts"
        taught = {"num_candidates": len(table.text_columns) - 1}
    sizes = taught | {
        "num_texts": len(table.text_columns),
        "max_seq_length": max_seq_length,
    }

    def rows(statistics=None):
        found = table.rows(statistics)
        return (row for i, row in enumerate(found) if split.takes_row(i))

    def examples(statistics):
        reading = table_files.ReadStatistics()
        counts = dict.fromkeys(_COUNTS, 0)
        yield from _examples(rows(reading), encode, counts, prompts, rank)
        statistics |= dataclasses.asdict(reading) | counts

    scores = {"score_column": table.score_column}
    scores |= {"score_range": list(table.bounds)}
    return split_records.Split(
        name=split.name,
        schema_name=schema_name,
        sizes=sizes,
        flags={
            "task_name": "similarity",
            "max_seq_length": max_seq_length,
            "text_columns": list(table.text_columns),
            "texts_of_a_row": len(table.text_columns),
            "held_out": split.held_out,
            **(scores if table.score_column else {}),
            **_prompt_flags(prompts),
            **({"teacher": rank.sha256} if rank else {}),
            **table_files.manifest_entries(table.path, table.input_format),
        },
        count=lambda: glue_examples.count_rows(rows(), split),
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

    files = {
        name: parts.source(getattr(search, name))["source_sha256"]
        for name in ("queries_file", "corpus_file", "judgements_file")
    }
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
            **table_files.manifest_entries(
                search.corpus_file, search.input_format
            ),
            "sha256": files,
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
