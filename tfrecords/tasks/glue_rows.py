"""Tables of a GLUE task, or a user's own -> rows of texts and label."""

import collections
import contextlib
import json
import math
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from absl import logging

from tfrecords.options import quoted, shortened, to_index, to_number
from tfrecords.tables import parts, table_files
from tfrecords.tables.table_files import ReadStatistics
from tfrecords.tasks import glue_tables

# Maximum number of labels that are collected from a file.
_MAX_LABELS = 50
# In a column of `label_columns`, and in a vector of one item per label.
_INDICATORS = {"0": 0, "1": 1, "false": 0, "true": 1}
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
    names = _class_names(path, data.input_format, column)
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


def _class_names(names: str, input_format: str, column: str) -> tuple[str, ...]:
    """Returns `table_files.class_names`, which all files must agree on."""
    found = {
        table_files.class_names(path, input_format, column): path
        for path in parts.find(names)
    }
    if len(found) > 1:
        (first, path), (second, other), *_ = found.items()
        raise ValueError(
            f"{path} has ids of {shortened(', '.join(first) or 'no names')}, "
            f"and {other} of {shortened(', '.join(second) or 'no names')}, in "
            f"column {column!r}. Give files of one dataset."
        )
    return found.popitem()[0]


def _collect_labels(data, split: str, path: str) -> tuple[str, ...]:
    """Returns the labels of a file, sorted; raises ValueError for numbers."""
    counts = _count_labels(data, path)
    found = sorted(counts)
    _warn_of_equal(counts, path)
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
        if "-1" in found:
            score += "; or, if -1 is no gold label, --unlabelled_rows=skip and "
            score += "the others"
        raise ValueError(
            f"{needs} --labels={order}{'' if data.multi_label else score}"
        )
    logging.info(
        "labels of %s, in the order of their ids: %s",
        path,
        ", ".join(f"{label} ({counts[label]} rows)" for label in found),
    )
    return tuple(found)


def _warn_of_equal(counts: Mapping[str, int], path: str) -> None:
    """Logs the labels that a reader would call equal."""
    equal = collections.defaultdict(list)
    for label in counts:
        plain = unicodedata.normalize("NFKC", label).casefold()
        equal["".join(plain.split())].append(label)
    for labels in equal.values():
        if len(labels) > 1:
            shown = (f"{label!r} ({counts[label]} rows)" for label in labels)
            logging.warning(
                "%s has labels that look equal, and are learned as several: "
                "%s. Are they one? Write them in one way",
                *(path, ", ".join(shown)),
            )


def _count_labels(data, names) -> collections.Counter:
    """Returns the labels of a table, at most a few more than `_MAX_LABELS`."""
    wanted = [data.label_column]
    separator = data.label_separator if data.multi_label else None
    fix = (
        "Name one with --label_column; in a table without a header, by its "
        "number, from 0."
    )
    # Label Studio prints a list in some rows, and one label, which may have a
    # separator in it, in the others.
    whole, counts = collections.Counter(), collections.Counter()
    has_printed = False
    for source, (value,) in table_files.read_columns(
        names, data.input_format, wanted, fix
    ):
        where = f"{source}: {data.label_column!r}"
        cell = _label_cell(value, where, (), data.multi_label)
        has_printed |= isinstance(value, str) and isinstance(cell, list)
        labels = _split(cell, separator)
        if data.multi_label and _has_repeated_indicator(labels):
            raise ValueError(
                f"{where} is {quoted(cell)}, a vector of 0 and 1. Give "
                f"--labels with {len(labels)} names, in the order of its items."
            )
        for label in labels:
            if label not in counts:
                glue_tables.check_label(label, where)
        counts.update(labels)
        whole.update(_split(cell, None))
        if len(counts) > _MAX_LABELS:
            break
    counts = whole if has_printed else counts
    for label in [x for x in counts if x == "-" or x.lower() in _NULLS]:
        del counts[label]
    # It may be a label beside 0 and 1.
    if not all(map(_is_number, counts)) or data.unlabelled_rows == "skip":
        del counts["-1"]
    return counts


def _split(cell: table_files.Cell, separator: str | None) -> list[str]:
    """Returns the labels of a cell that are not empty."""
    if isinstance(cell, str):
        cell = cell.split(separator) if separator else [cell]
    return [label for label in map(glue_tables.spelled, cell or ()) if label]


def _label_cell(
    value: Any, where: str, labels: Collection[str], multi_label: bool
) -> table_files.Cell:
    """Returns a value of a file as one label, or a list of several.

      "1.0"                     "1"
      ["pos"]                   "pos", unless rows have several
      '["joy", "love"]'         ["joy", "love"]
      {"choices": ["joy"]}      ["joy"], as Label Studio writes it
      [["joy", "love"]]         ["joy", "love"], the answers of one annotator

    A text that is one of the `labels` is no list. Lists as a program prints
    them are refused.
    """
    is_text = isinstance(value, str)
    if is_text and glue_tables.spelled(value) not in labels:
        if _PRINTED_LIST.fullmatch(value):
            value = _parsed_list(value, where, multi_label)
    if isinstance(value, dict) and value.keys() == {"choices"}:
        value = value["choices"]
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], list):
            (value,) = value
        if not multi_label and len(value) < 2:
            value = value[0] if value else None
    cell = table_files.to_cell(value, where)
    if isinstance(cell, list) and not multi_label:
        raise ValueError(
            f"{where} is a list of several labels, {quoted(cell)}. Correct the "
            "row, or add --multi_label if rows may have several."
        )
    if isinstance(cell, str):
        return glue_tables.spelled(cell)
    return cell and [glue_tables.spelled(label) for label in cell]


def _parsed_list(text: str, where: str, multi_label: bool) -> Any:
    """Returns the list or object of a text that is one in JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list) or value and value.keys() == {"choices"}:
        return value
    form = (
        'the labels with --label_separator between them, such as "a,b"; or '
        'JSON lines with a list in each row, such as ["a", "b"]: '
        'pandas.DataFrame.to_json(..., orient="records", lines=True) writes '
        "these"
        if multi_label
        else "one label. A label that has brackets must be given with --labels"
    )
    raise ValueError(
        f"{where} is {quoted(text)}, a list printed as text. Write {form}."
    )


def _has_repeated_indicator(labels: Sequence[str]) -> bool:
    """Returns whether labels are items of a vector: 0 and 1, with repeats."""
    return len(set(labels)) < len(labels) and all(
        label.lower() in _INDICATORS for label in labels
    )


def _is_number(text: str) -> bool:
    return not math.isnan(to_number(text))


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
      path: a table, or its parts, see `tables.parts.find`.
      is_labelled: whether to read labels and groups; test sets have none.
      is_train: whether to read weights.
      statistics: counts are added to it; None to count nothing.

    Raises:
      ValueError: naming file and line, if the file is empty, a column is
        missing, a row has too few or too many columns or an unclosed quote, a
        label or weight is not one of the task's, or rows have no gold label.
    """
    statistics = statistics or ReadStatistics()
    num_rows = statistics.rows
    wanted = task.columns(is_labelled, is_train)
    places, others = [], []
    for place, (key, name) in enumerate(wanted.items()):
        is_label = key.startswith("label")
        places += [place] * is_label
        others += [(key, name, place)] * (not is_label)
    parse = _LabelParser(task, path, places) if places else None
    rows = table_files.read_columns(
        path,
        task.input_format,
        list(wanted.values()),
        "Name other columns with --text_column, --label_column, --id_column "
        "and so on, or use the task's official file.",
        header=task.header if is_labelled else None,
        # A skipped test row would shift the predictions after it.
        skips_bad_rows=task.skips_bad_rows and is_labelled,
        statistics=statistics,
    )
    for where, cells in rows:
        label = parse and parse(cells, where)
        if parse and label is None:
            if task.unlabelled_rows == "error":
                labels = (parse(cells, where) for where, cells in rows)
                _raise_unlabelled(task, where, cells[places[0]], labels)
            statistics.unlabelled_rows += 1
            continue
        row = {
            key: table_files.to_cell(cells[place], f"{where}: {name!r}")
            for key, name, place in others
        }
        yield _make_row(task, row, label, where)
        statistics.rows += 1
    if parse:
        parse.check_forms()
    if statistics.rows == num_rows:
        left_out = statistics.unlabelled_rows
        what = f"{left_out} rows, all without a gold label" * bool(left_out)
        raise ValueError(
            f"{path} has {what or 'no rows'}; copy or create it again."
        )


def read_test_labels(
    task: glue_tables.GlueTask, path: str
) -> list[Label] | None:
    """Returns the label of each row of a user's own test file.

    None if it has no labels: it lacks a column, no row has a gold label, or,
    with a warning, some rows have none.

    Raises:
      ValueError: naming file and line, for a label that is not the task's.
    """
    if not task.unlabelled_rows:
        return None  # Labels of GLUE's test files are not public.
    needed = task.columns(is_labelled=True, is_train=False)
    wanted = [name for key, name in needed.items() if key.startswith("label")]
    header = table_files.read_header(path, task.input_format, columns=wanted)
    numbers = map(str, range(len(header)))
    known = {*header, *(numbers if table_files.are_numbers(wanted) else ())}
    if not known.issuperset(needed.values()):
        return None
    parse = _LabelParser(task, path, range(len(wanted)))
    rows = table_files.read_columns(path, task.input_format, wanted, "")
    labels = [parse(cells, where) for where, cells in rows]
    parse.check_forms()
    # Placeholders: no label, no labels, and -1.
    if not set(labels) - {None, (), -1.0}:
        return None
    if None in labels or len(labels) < 2:
        logging.warning(
            "%s is predicted, not scored: %d of %d rows have a label, and "
            "scores need two or more, all with one. Give a file of these",
            *(path, len(labels) - labels.count(None), len(labels)),
        )
        return None
    return labels


# Null, empty; of annotators who disagree, as in SNLI; of ClassLabel.
_NO_LABELS = (None, "", "-", "-1")
_NULLS = ("nan", "null", "<na>")  # As texts, in any case, of a CSV.


def _raise_unlabelled(task, where, value, labels) -> None:
    """Raises ValueError for a row without a gold label; counts the others.

    `labels` yields those of the rows after it.
    """
    count = 1
    with contextlib.suppress(ValueError):  # Told when these are corrected.
        count += sum(label is None for label in labels)
    column = ", ".join(map(repr, task.label_columns or (task.label_column,)))
    named = str(value) in _NO_LABELS[2:] and not task.is_regression
    raise ValueError(
        f"{where}: {column} is {quoted(value)}, no gold label; {count} "
        "rows of the file have none. Add --unlabelled_rows=skip to leave them "
        f"out{'; or give --labels with it, if it is a label' * named}."
    )


class _LabelParser:
    """Values of the label columns of a file -> the labels of a task.

    Args:
      task: the task.
      path: the file.
      places: of the label columns in `cells`.
    """

    def __init__(self, task, path: str, places: Sequence[int]):
        self._task, self._places = task, places
        self._names = _names_of_ids(task, path)
        # Lines of vectors, and of other labels.
        self._first_lines: dict[bool, str] = {}
        self._known: dict[str, Label] = {}
        self._unclear: str | None = None  # Line of two ids, or of a vector.

    def check_forms(self) -> None:
        """Raises ValueError if all rows may be ids, or vectors, of two labels.

        It is called after the last row.
        """
        if self._unclear and False not in self._first_lines:
            raise ValueError(
                f"{self._unclear}: {self._task.label_column!r} is 0 and 1: two "
                "ids, or a vector of the two labels? No row tells. Write the "
                "names of the labels, or JSON lines with lists of 0 and 1."
            )

    def __call__(self, cells: Sequence, where: str) -> Label:
        """Returns the label of a row; None if it has no gold label.

        With `multi_label`, such a row has none of the labels instead.

        Args:
          cells: of a row, from `table_files.read_columns`.
          where: file and line, for messages.

        Raises:
          ValueError: if they are no label of the task.
        """
        value, task = cells[self._places[0]], self._task
        if type(value) is str and value in self._known:
            return self._known[value]
        if task.label_columns:
            found = [table_files.to_cell(cells[i], where) for i in self._places]
            if all(cell in _NO_LABELS[:2] for cell in found):
                return None
            return _indicated(task, found, where)
        place = f"{where}: {task.label_column!r}"
        if task.is_regression and isinstance(value, list) and len(value) > 1:
            raise ValueError(
                f"{place} is {quoted(value)}, a list of scores. Write a row "
                "for each, as pandas.DataFrame.explode does."
            )
        cell = _label_cell(value, place, task.label_ids, task.multi_label)
        lacks = cell in _NO_LABELS
        lacks = lacks or isinstance(cell, str) and cell.lower() in _NULLS
        lacks = lacks and cell not in task.label_ids
        if task.multi_label:
            return () if lacks else self._several(cell, where)
        if task.is_regression:
            lacks = lacks and cell != "-1"  # Which is a score.
        label = None
        if not lacks or not task.unlabelled_rows:
            if task.is_regression:
                return task.parse_score(cell, where)
            label = _class_id(task, _named(cell, self._names), where)
        if type(value) is str:
            self._known[value] = label
        return label

    def _several(self, cell: table_files.Cell, where: str) -> tuple[int, ...]:
        task = self._task
        found, is_vector = _split_several(
            task, cell, where, has_ids=bool(self._names)
        )
        is_text = isinstance(cell, str) and not task.label_ids.keys() & {*found}
        if is_text and len(task.labels) == 2 and sorted(found) == ["0", "1"]:
            self._unclear = self._unclear or where
        elif is_vector or found:
            self._first_lines.setdefault(is_vector, where)
        _check_one_form(self._first_lines, task)
        found = _named(found, self._names)
        return tuple(sorted({_class_id(task, label, where) for label in found}))


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
    """
    where = f"{where}: {task.label_column!r}"
    is_whole = isinstance(cell, str) and cell in task.label_ids
    found = [cell] if is_whole else _split(cell, task.label_separator)
    lower = [label.lower() for label in found]
    is_repeated = _has_repeated_indicator(lower)
    # A text "0,1" has two ids, and so have names that are numbers.
    is_list = isinstance(cell, list) and not task.label_ids.keys() >= set(found)
    is_vector = len(found) == len(task.labels) and (
        is_repeated or (is_list and all(x in _INDICATORS for x in lower))
    )
    if is_vector and not has_ids:
        pairs = zip(task.labels, lower, strict=True)
        return [name for name, x in pairs if _INDICATORS[x]], True
    ids = [label for label in found if label not in task.label_ids]
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
    names = _class_names(path, task.input_format, task.label_column)
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
    number = to_index(cell or "")
    return cell if number not in range(len(names)) else names[number]


def _make_row(
    task, cells: Mapping[str, table_files.Cell], label: Label, where: str
) -> Row:
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
    weight = None
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


def _class_id(task, label: str, where: str) -> int:
    """Returns the id of a label, which may be the id itself."""
    if label in task.label_ids:
        return task.label_ids[label]
    # As in files of Hugging Face's datasets. Not if labels are numbers.
    number = to_index(label)
    if number in range(len(task.labels)):
        if not any(map(_is_number, task.labels)):
            return number
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
        value = _INDICATORS.get(glue_tables.spelled(str(cell)))
        if value is None:
            raise ValueError(
                f"{where}: {name!r} is {quoted(cell)}; a column of "
                "--label_columns should have 0 or 1. Correct the line."
            )
        found += [i] * value
    return tuple(found)


def _parse_weight(task, cell: table_files.Cell, where: str) -> float:
    weight = to_number(cell)
    if not 0 <= weight <= glue_tables.MAX_SCORE:
        raise ValueError(
            f"{where}: {task.weight_column!r} is {quoted(cell)}; the weight of "
            "a row should be a number of at least 0. Correct the line."
        )
    return weight
