"""Rows of queries, passages and grades -> records of rows, or of lists."""

import dataclasses
from collections.abc import Iterator

from bert_tf.contrib.search.records import passage_lists
from bert_tf.contrib.search.records.ranking_tables import RankingTable
from tfrecords.tasks import glue_examples, glue_rows, split_records


def split_of(
    table: RankingTable,
    split: glue_examples.Split,
    encode,
    max_seq_length: int,
    *,
    seed: int,
) -> split_records.Split:
    """Returns the records of a split, to be made.

    With the loss "listwise", an example of train is a list of passages, which
    are drawn with `seed`. Other arguments are those of
    `glue_examples.split_of`.
    """
    found = glue_examples.split_of(table, split, encode, max_seq_length)
    has_lists = split.name == "train" and table.ranking_loss == "listwise"
    size, flags = table.passages_per_query, dict(found.flags)
    if split.is_labelled:
        flags["ranking_loss"] = table.ranking_loss
    if has_lists:
        flags |= {"passages_per_query": size, "groups": table.group_name}
        flags["lists_seed"] = seed

    def count():
        rows = glue_examples.rows_of(table, split)
        return glue_examples.count_rows(
            _checked(table, rows, split, has_lists), split
        )

    found = dataclasses.replace(found, flags=flags, count=count)
    if not has_lists:
        return found

    def examples(statistics):
        reading = glue_rows.ReadStatistics()
        counts = {"tokens": 0, "truncated_rows": 0}
        yield from passage_lists.examples(
            list(glue_examples.rows_of(table, split, reading)),
            lambda rows: glue_examples.encode_rows(rows, table, encode, counts),
            counts,
            size=size,
            seed=seed,
        )
        statistics |= dataclasses.asdict(reading) | counts

    sizes = found.sizes | {"num_choices": size}
    return dataclasses.replace(
        found, schema_name="ranking", sizes=sizes, examples=examples
    )


def _checked(
    table: RankingTable,
    rows: Iterator[glue_rows.Row],
    split: glue_examples.Split,
    has_lists: bool,
) -> Iterator[glue_rows.Row]:
    """Yields the rows, in train those of which a ranking can be learned."""
    is_train = split.name == "train"
    groups, grades = [], []  # Of train: other rows are not kept.
    for row in rows:
        for name, text in zip(table.text_columns, row.texts, strict=True):
            if not text.strip():
                raise ValueError(
                    f"{row.source}: {name!r} is empty; a ranking needs a query "
                    "and a passage in each row. Correct or remove the row."
                )
        if is_train:
            groups.append(row.group)
            grades.append(row.label)
        yield row
    if not grades:
        return
    if has_lists:
        lists = passage_lists.choose(groups, grades, size=2, seed=0)
        if next(lists, None) is None:
            raise ValueError(
                f"{split.path}: none of the {len(set(groups))} queries "
                f"({table.group_name!r}) of train has a relevant passage "
                f"and one of a lower grade ({table.label_column!r}), so "
                "there is no ranking to learn. Add rows, name another "
                "--group_column, or use --ranking_loss=binary."
            )
    elif len({grade > 0 for grade in grades}) < 2:
        which = "above 0, relevant" if any(grades) else "0"
        raise ValueError(
            f"{split.path}: all {len(grades)} grades ({table.label_column!r}) "
            f"of train are {which}, so there is nothing to learn. Add rows of "
            "both, or name another --label_column."
        )
