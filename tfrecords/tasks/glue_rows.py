"""Tables of a GLUE task, or a user's own -> rows of texts and label."""

import collections
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from absl import logging

from tfrecords.options import quoted, shortened
from tfrecords.tables import table_files
from tfrecords.tables.table_files import ReadStatistics
from tfrecords.tasks import glue_tables

# Maximum number of labels that are collected from a file.
_MAX_LABELS = 50
# In a column of `label_columns`, and in a vector of one item per label.
_INDICATORS = {"0": 0, "1": 1, "false": 0, "true": 1, "0.0": 0, "1.0": 1}
# Lists as pandas, NumPy, DuckDB, PostgreSQL and annotation tools print them.
_PRINTED_LIST = re.compile(
    r"\s*(\[.*\]|\{.*\}|\(.*,.*\)|\w+\([\[{(].*\))\s*", re.DOTALL
)

# Class id, score, or ids of several labels; None in test sets.
Label = int | float | tuple[int, ...] | None


class Row(NamedTuple):
    """A text or a pair of texts, and its label."""

    texts: tuple[str, ...]  # One or two.
    label: Label
    source: str  # "file:line".
    weight: float | None = None  # In the loss; None if it has none.
    group: str | None = None  # Of a ranking, its query unless named.
    id: str | None = None


def takes_labels(data: glue_tables.GlueData) -> bool:
    """Returns whether labels of a user's own tables are not given."""
    has_labels = bool(data.labels or data.label_columns)
    return bool(data.own_files()) and not has_labels


def has_labels(data: glue_tables.GlueData) -> bool:
    """Returns whether labels are given, or can be collected from train."""
    return not takes_labels(data) or "train" in data.own_files()


def choose_task(data: glue_tables.GlueData) -> glue_tables.GlueTask:
    """Returns `GlueData.choose_task`, with labels of the file if not given.

    Raises:
      ValueError: likewise; if text columns are omitted, or labels that cannot
        be collected, the message has the columns or the values of the file.
    """
    paths = data.own_files()
    if paths and not data.text_column:
        (split, path), *_ = paths.items()
        names = ",".join(table_files.read_header(path, data.input_format))
        raise ValueError(
            f"--{split}_file needs --text_column, the names of one or two "
            f"columns. {path} has {shortened(names, 300)}."
        )
    labels = None
    split = next((split for split in paths if split != "test"), None)
    if takes_labels(data) and split:
        labels = _named_labels(data, split, paths[split])
        labels = labels or _collect_labels(data, split, paths[split])
    return data.choose_task(labels)


def _named_labels(data, split: str, path: str) -> tuple[str, ...]:
    """Returns the names in a file's metadata, if it has some."""
    column = data.label_column
    names = table_files.class_names(path, data.input_format, column)
    if names:
        logging.info("labels of %s, which names them: %s", path, names)
    ids = tuple(map(str, range(len(names))))
    if any(map(_is_number, names)) and names != ids:
        raise ValueError(
            f"--{split}_file needs --labels: column {column!r} of {path} has "
            f"ids of {shortened(', '.join(names), 300)}, of which some look "
            "like other ids. Give new names in this order, with letters."
        )
    return names


def _collect_labels(data, split: str, path: str) -> tuple[str, ...]:
    """Returns the labels of a file, sorted; raises ValueError for numbers."""
    counts = _count_labels(data, path)
    found = sorted(counts)
    where = f"column {data.label_column!r} of {path} has"
    needs = f"--{split}_file needs --labels, in the order of their ids: {where}"
    if not found:
        raise ValueError(
            f"{needs} no values. Name another with --label_column."
        )
    if len(found) > _MAX_LABELS:
        raise ValueError(
            f"{needs} more than {_MAX_LABELS} different values, such as "
            f"{quoted(found[0])}. Give --labels=score if it is a number to "
            "predict, or name another column with --label_column."
        )
    if all(map(_is_number, found)):
        order = ",".join(sorted(found, key=float))
        score = "; or --labels=score to predict the number"
        raise ValueError(
            f"{needs} --labels={order}{'' if data.multi_label else score}"
        )
    logging.info(
        "labels of %s, in the order of their ids: %s",
        path,
        ", ".join(f"{label} ({counts[label]} rows)" for label in found),
    )
    return tuple(found)


def _count_labels(data, path) -> collections.Counter:
    """Returns the labels of a file, at most a few more than `_MAX_LABELS`."""
    wanted, counts = [data.label_column], collections.Counter()
    separator = data.label_separator if data.multi_label else None
    fix = (
        "Name one with --label_column; in a table without a header, by its "
        "number, from 0."
    )
    for line, cells in table_files.read_columns(
        path, data.input_format, wanted, fix
    ):
        where = f"{path}:{line}: {data.label_column!r}"
        cell = table_files.to_cell(cells[0], where)
        if isinstance(cell, list) and not data.multi_label:
            raise ValueError(
                f"{where} is a list, {quoted(cell)}. Add --multi_label."
            )
        _check_not_printed(cell, where, data.multi_label)
        labels = _split(cell, separator)
        if data.multi_label and _has_repeated_indicator(labels):
            raise ValueError(
                f"{where} is {quoted(cell)}, a vector of 0 and 1. Give "
                f"--labels with {len(labels)} names, in the order of its items."
            )
        counts.update(labels)
        if len(counts) > _MAX_LABELS:
            break
    return counts


def _split(cell: table_files.Cell, separator: str | None) -> list[str]:
    """Returns the labels of a cell that are not empty."""
    if isinstance(cell, str):
        cell = (
            [x.strip() for x in cell.split(separator)] if separator else [cell]
        )
    return [label for label in cell or () if label]


def _check_not_printed(
    cell: table_files.Cell, where: str, multi_label: bool
) -> None:
    """Raises ValueError for a text that is a list as a program prints it."""
    if not isinstance(cell, str) or not _PRINTED_LIST.fullmatch(cell):
        return
    form = (
        'the labels with --label_separator between them, such as "a,b"; or '
        'JSON lines with a list in each row, such as ["a", "b"]: '
        'pandas.DataFrame.to_json(..., orient="records", lines=True) writes '
        "these"
        if multi_label
        else "one label. A label that has brackets must be given with --labels"
    )
    raise ValueError(
        f"{where} is {quoted(cell)}, a list printed as text. Write {form}."
    )


def _has_repeated_indicator(labels: Sequence[str]) -> bool:
    """Returns whether labels are items of a vector: 0 and 1, with repeats."""
    return len(set(labels)) < len(labels) and all(
        label.lower() in _INDICATORS for label in labels
    )


def _is_number(text: str) -> bool:
    return math.isfinite(glue_tables.number(text))


def read_rows(
    task: glue_tables.GlueTask,
    path: str,
    *,
    is_labelled: bool,
    is_train: bool = False,
    statistics: ReadStatistics | None = None,
) -> Iterator[Row]:
    """Yields the rows of a file, one at a time.

    Args:
      task: defines format, columns and labels.
      path: a table, see `tables.table_files.read`.
      is_labelled: whether to read labels and groups; test sets have none.
      is_train: whether to read weights.
      statistics: counts are added to it; None to count nothing.

    Raises:
      ValueError: naming file and line, if the file is empty, a column is
        missing, a row has too few or too many columns or an unclosed quote, or
        a label or weight is not one of the task's.
    """
    statistics = statistics or ReadStatistics()
    num_rows = statistics.rows
    wanted = task.columns(is_labelled, is_train)
    names = _names_of_ids(task, path) if is_labelled else ()
    first_lines: dict[bool, str] = {}  # Of vectors, and of other labels.
    for line, cells in table_files.read_columns(
        path,
        task.input_format,
        list(wanted.values()),
        "Name other columns with --text_column, --label_column, --id_column "
        "and so on, or use the task's official file.",
        header=task.header if is_labelled else None,
        # A skipped test row would shift the predictions after it.
        skips_bad_rows=task.skips_bad_rows and is_labelled,
        statistics=statistics,
    ):
        where = f"{path}:{line}"
        row = {
            key: table_files.to_cell(cell, f"{where}: {name!r}")
            for (key, name), cell in zip(wanted.items(), cells, strict=True)
        }
        if task.multi_label and "label" in row:
            row["label"], is_vector = _split_several(
                task, row["label"], where, has_ids=bool(names)
            )
            if is_vector or row["label"]:
                first_lines.setdefault(is_vector, where)
            _check_one_form(first_lines, task)
        if names:
            row["label"] = _named(row["label"], names)
        yield _make_row(task, row, where)
        statistics.rows += 1
    if statistics.rows == num_rows:
        raise ValueError(f"{path} has no rows; copy or create it again.")


def _split_several(
    task: glue_tables.GlueTask,
    cell: table_files.Cell,
    where: str,
    *,
    has_ids: bool,
) -> tuple[list[str], bool]:
    """Returns the labels of a cell, or their ids, and if it was a vector.

    A file that names the classes of its ids (`has_ids`) has no vectors.

      labels anger, grief, joy     [0, 1, 1]          ["grief", "joy"]  True
                                   ["joy", "grief"]   ["joy", "grief"]  False
                                   [2, 1]             ["2", "1"]        False

    Raises:
      ValueError: if a text is a printed list, or an id is repeated.
    """
    where = f"{where}: {task.label_column!r}"
    if cell not in task.labels:
        _check_not_printed(cell, where, multi_label=True)
    found = _split(cell, task.label_separator)
    lower = [label.lower() for label in found]
    is_repeated = _has_repeated_indicator(lower)
    # A text "0,1" has two ids, and so have names that are numbers.
    is_list = isinstance(cell, list) and not set(found) <= set(task.labels)
    is_vector = len(found) == len(task.labels) and (
        is_repeated or (is_list and all(x in _INDICATORS for x in lower))
    )
    if is_vector and not has_ids:
        pairs = zip(task.labels, lower, strict=True)
        return [name for name, x in pairs if _INDICATORS[x]], True
    ids = [label for label in found if label not in task.labels]
    if is_repeated or len(set(ids)) < len(ids):
        labels = shortened(", ".join(task.labels), 300)
        raise ValueError(
            f"{where} is {quoted(cell)}, which repeats an id. Give each label "
            f"once; or a vector of {len(task.labels)} items, 0 or 1 for each "
            f"of {task.name}'s labels: {labels}."
        )
    return found, False


def _check_one_form(first_lines: Mapping[bool, str], task) -> None:
    """Raises ValueError if a file has vectors of 0 and 1, and other labels."""
    if len(first_lines) > 1:
        raise ValueError(
            f"{first_lines[True]}: {task.label_column!r} is a vector of 0 and "
            f"1, and {first_lines[False]} has labels or ids. Write the names "
            "of the labels in all rows."
        )


def _names_of_ids(task, path: str) -> tuple[str, ...]:
    """Returns the classes whose ids a file has, if it names the task's.

    () if it names none, or none of the task's: then its ids are the task's.
    """
    if task.label_columns or task.is_regression:
        return ()
    names = table_files.class_names(path, task.input_format, task.label_column)
    if not set(names) & set(task.labels):
        return ()
    unknown = [name for name in names if name not in task.labels]
    if unknown:
        raise ValueError(
            f"{path} has ids of {shortened(', '.join(names), 300)}, of which "
            f"{unknown[0]!r} is not one of {task.name}'s labels: "
            f"{shortened(', '.join(task.labels), 300)}. Give --labels with all "
            "of them, or correct the file."
        )
    return names


def _named(cell: table_files.Cell, names: Sequence[str]) -> table_files.Cell:
    """Returns a cell of labels with names in place of a file's ids."""
    if isinstance(cell, list):
        return [_named(label, names) for label in cell]
    if cell and cell.isdecimal() and int(cell) < len(names):
        return names[int(cell)]
    return cell


def _make_row(task, cells: Mapping[str, table_files.Cell], where: str) -> Row:
    """Returns a row, of cells whose keys are those of `GlueTask.columns`."""
    texts = []
    for number, name in enumerate(task.text_columns):
        texts.append(cells[f"text_{number}"])
        if not isinstance(texts[-1], str):
            fix = "Correct or remove the row."
            if isinstance(texts[-1], list):
                fix = "Write a row for each, as pandas.DataFrame.explode does."
            raise ValueError(
                f"{where}: {name!r} is {quoted(texts[-1])}; it should be a "
                f"text. {fix}"
            )
    label = weight = None
    if "label" in cells:
        label = _parse_label(task, cells["label"], where)
    elif "label_0" in cells:
        flags = [cells[f"label_{i}"] for i in range(len(task.label_columns))]
        label = _indicated(task, flags, where)
    for key, column in (("group", task.group_column), ("id", task.id_column)):
        if key in cells:
            _check_name(cells[key], column, where)
    if "weight" in cells:
        weight = _parse_weight(task, cells["weight"], where)
    # The group of a ranking is its first text, unless a column is named.
    is_first = task.group_name and not task.group_column
    group = texts[0] if is_first else cells.get("group")
    return Row(tuple(texts), label, where, weight, group, cells.get("id"))


def _check_name(cell: table_files.Cell, column: str, where: str) -> None:
    """Raises ValueError for a group or an id that is no name."""
    if not isinstance(cell, str) or not cell or not cell.isprintable():
        raise ValueError(
            f"{where}: {column!r} is {quoted(cell)}; a group or an id should "
            "be a text without tabs and line breaks, and not empty. Correct "
            "the line."
        )


def _parse_label(task, cell: table_files.Cell, where: str) -> Label:
    if task.multi_label:
        return tuple(sorted({_class_id(task, label, where) for label in cell}))
    if not isinstance(cell, str):
        raise ValueError(
            f"{where}: {task.label_column!r} is {quoted(cell)}; it should be "
            "one label. Correct the row, or add --multi_label if rows have "
            "several."
        )
    if not task.is_regression:
        if cell not in task.labels:
            column = f"{where}: {task.label_column!r}"
            _check_not_printed(cell, column, multi_label=False)
        return _class_id(task, cell, where)
    return task.parse_score(cell, where)


def _class_id(task, label: str, where: str) -> int:
    """Returns the id of a label, which may be the id itself."""
    if label in task.labels:
        return task.labels.index(label)
    # As in files of Hugging Face's datasets. Not if labels are numbers.
    if label.isdecimal() and not any(map(_is_number, task.labels)):
        if int(label) < len(task.labels):
            return int(label)
    raise ValueError(
        f"{where}: label {quoted(label)} is not one of {task.name}'s: "
        f"{shortened(', '.join(task.labels), 300)}. Correct the line or the "
        "labels."
    )


def _indicated(task, cells: Sequence, where: str) -> tuple[int, ...]:
    """Returns the ids of the label columns that have a 1."""
    found = []
    for i, (name, cell) in enumerate(
        zip(task.label_columns, cells, strict=True)
    ):
        value = _INDICATORS.get(str(cell).lower())
        if value is None:
            raise ValueError(
                f"{where}: {name!r} is {quoted(cell)}; a column of "
                "--label_columns should have 0 or 1. Correct the line."
            )
        found += [i] * value
    return tuple(found)


def _parse_weight(task, cell: table_files.Cell, where: str) -> float:
    weight = glue_tables.number(cell)
    if not 0 <= weight <= glue_tables.MAX_SCORE:
        raise ValueError(
            f"{where}: {task.weight_column!r} is {quoted(cell)}; the weight of "
            "a row should be a number of at least 0. Correct the line."
        )
    return weight
