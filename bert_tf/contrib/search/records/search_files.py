"""Files of queries, documents and judgements -> texts with ids, grades."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from absl import logging

from tfrecords.io.inputs import file_kinds
from tfrecords.options import option, quoted, to_number
from tfrecords.tables import parts, table_files

# Columns of a judgements file with a header; without one, those of TREC, in
# this order, with an unused one after the first.
_JUDGEMENTS = (
    ("query-id", "query_id", "qid"),
    ("corpus-id", "corpus_id", "doc_id", "docid"),
    ("score", "relevance", "grade"),
)
_TREC_COLUMNS = ("query-id", "", "corpus-id", "score")
_NOT_JSON = "it a name that ends in .jsonl, or lines as of TREC"
_JUDGEMENTS_FIX = (
    "Name the columns of the judgements query-id, corpus-id and score."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchOptions(table_files.TableOptions):
    """Queries, the corpus that they search, and what is relevant in it."""

    corpus_file: str | None = option(
        None,
        "Documents: a table (TSV, CSV, JSON lines, Parquet) with ids.",
        reads=True,
    )
    queries_file: str | None = option(
        None, "Queries: a table with ids.", reads=True, needs="corpus_file"
    )
    judgements_file: str | None = option(
        None,
        "Grades of documents for queries, relevant from 1: lines of query, an "
        "unused column, document and grade, as of TREC; or a table (TSV, CSV, "
        "JSON lines, Parquet) with the columns query-id, corpus-id, score.",
        reads=True,
        needs="queries_file",
    )
    corpus_columns: tuple[str, ...] = option(
        ("text",),
        "Columns of --corpus_file that make the text of a document, with a "
        "space between them, such as title,text.",
    )
    query_column: str = option("text", "Column of --queries_file with texts.")
    id_column: str = option("id", "Column of both with ids.")

    def __post_init__(self):
        super().__post_init__()
        if self.corpus_file and not self.judgements_file:
            raise ValueError(
                f"--corpus_file={self.corpus_file} needs --queries_file and "
                "--judgements_file, too. Add them, or omit it."
            )


def read_queries(
    options: SearchOptions, judged: dict[str, dict[str, int]]
) -> tuple[list[str], list[str]]:
    """Returns ids and texts of the queries with judgements."""
    path = options.queries_file
    rows = list(_read_texts(options, path, (options.query_column,)))
    found = [row for row in rows if row[0] in judged]
    for name, text in found:
        if not text:
            raise ValueError(
                f"{path}: the query {name!r} has no text in "
                f"{options.query_column!r}. Remove it, or name another "
                "--query_column."
            )
    if not found:
        raise ValueError(
            f"{path}: no query has judgements. Its ids, such as "
            f"{rows[0][0]!r}, should be those of {options.judgements_file}, "
            f"such as {next(iter(judged))!r}."
        )
    if len(found) < len(rows) or len(found) < len(judged):
        logging.warning(
            "%d of %d queries have judgements, which are of %d",
            len(found),
            len(rows),
            len(judged),
        )
    return [name for name, _ in found], [text for _, text in found]


def check_documents(
    options: SearchOptions, judged: dict[str, dict[str, int]]
) -> int:
    """Returns the number of documents; checks all ids and texts."""
    path = options.corpus_file
    rows = _read_texts(options, path, options.corpus_columns)
    texts = {name: bool(text) for name, text in rows}
    names = {name for name, has_text in texts.items() if has_text}
    if empty := [name for name in texts if name not in names]:
        logging.warning(
            "%d of %d documents of %s have no text in %s, such as %r: they "
            "are never found",
            len(empty),
            len(texts),
            path,
            ", ".join(options.corpus_columns),
            empty[0],
        )
    if not names:
        raise ValueError(f"{path} has no texts. Name other --corpus_columns.")
    wanted = set().union(*judged.values())
    if missing := sorted(wanted - texts.keys()):
        message = (
            f"{path} lacks {len(missing)} of {len(wanted)} judged documents, "
            f"such as {missing[0]!r}"
        )
        if len(missing) == len(wanted):
            raise ValueError(
                f"{message}; it has {min(names)!r}. Give the corpus of the "
                "judgements, or another --id_column."
            )
        logging.warning("%s: they are never found", message)
    return len(names)


def read_corpus(options: SearchOptions) -> Iterator[tuple[str, str]]:
    """Yields id and text of each document with a text."""
    rows = _read_texts(options, options.corpus_file, options.corpus_columns)
    return (row for row in rows if row[1])


def _read_texts(
    options: SearchOptions, path: str, columns: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yields id, there once, and text, perhaps "", of each row of a table."""
    wanted = [options.id_column, *columns]
    fix = (
        "Name the columns with --id_column, --corpus_columns and "
        "--query_column."
    )
    seen: set[str] = set()
    for where, row in table_files.read_columns(
        path, options.input_format, wanted, fix
    ):
        cells = [
            table_files.to_cell(value, f"{where}: {name!r}")
            for name, value in zip(wanted, row, strict=True)
        ]
        name, *texts = cells
        if not isinstance(name, str) or name.split() != [name]:
            raise ValueError(
                f"{where}: {options.id_column!r} is {quoted(name)}; an id "
                "should be a string without spaces. Correct the line."
            )
        if name in seen:
            raise ValueError(
                f"{where}: the id {name!r} is there twice. Remove one of the "
                "rows."
            )
        seen.add(name)
        # A list has the sentences of a text.
        texts = (" ".join(x) if isinstance(x, list) else x for x in texts)
        yield name, " ".join(x for x in texts if x and x.strip())
    if not seen:
        raise ValueError(f"{path} has no rows; copy or create it again.")


def read_judgements(path: str) -> dict[str, dict[str, int]]:
    """Returns query -> document -> grade, of a file or those of `parts.find`.

    Raises:
      ValueError: naming file and line, if a line is not a judgement, or one is
        there twice; or if the first column of a table has no name.
    """
    found: dict[str, dict[str, int]] = {}
    files = parts.find(path)
    for where, values in itertools.chain.from_iterable(map(_judgements, files)):
        cells = [table_files.to_cell(value, where) for value in values]
        query, document = (
            cell.strip() if isinstance(cell, str) else "" for cell in cells[:2]
        )
        if len(query.split()) != 1 or len(document.split()) != 1:
            raise ValueError(
                f"{where}: query and document are {quoted(cells[:2])}; an id "
                "should be a string without spaces. Correct the line."
            )
        value = _grade(cells[2], where)
        if found.setdefault(query, {}).setdefault(document, value) != value:
            raise ValueError(
                f"{where}: query {query!r} and document {document!r} have two "
                "grades. Remove one of them."
            )
    if not found:
        raise ValueError(f"{path} has no judgements; copy it again.")
    return found


def _grade(cell: table_files.Cell, where: str) -> int:
    """Returns a grade; 1.0 is 1."""
    grade = to_number(cell)
    # trec_eval's are of 32 bits.
    is_small = abs(grade) < 2**31
    if not is_small or not grade.is_integer():
        fix = "Correct the line."
        if is_small:
            fix = "Multiply all by one number, such as 2 for 0.5; or round."
        raise ValueError(
            f"{where}: the grade is {quoted(cell)}; it should be an integer of "
            f"at most 2,147,483,647, relevant from 1. {fix}"
        )
    return int(grade)


def _judgements(path: str) -> Iterator[tuple[str, list]]:
    """Yields "file:line" and query, document and grade of each judgement."""
    input_format = table_files.format_of(path)
    header = table_files.read_header(path, input_format, not_json=_NOT_JSON)
    has_tabs = any("\t" in name for name in header)  # A .csv of them.
    if has_tabs or (input_format == "tsv" and not _names(header)):
        yield from _lines(path)
        return
    if "" in header:
        raise ValueError(
            f"{path}:1: column {header.index('')} has no name, as the index "
            "that pandas writes. Write the table without it: "
            ".to_csv(..., index=False)."
        )
    names = _names(header) or [known[0] for known in _JUDGEMENTS]
    yield from table_files.read_columns(
        path, input_format, names, _JUDGEMENTS_FIX
    )


def _lines(path: str) -> Iterator[tuple[str, list[str]]]:
    """Yields "file:line" and the judgement of each line of words, as TREC's."""
    columns = None
    with file_kinds.open_text(path) as file:
        statistics = table_files.ReadStatistics()
        lines = table_files.decoded(file, path, statistics, _NOT_JSON)
        for number, line in enumerate(lines, 1):
            words = line.split()
            if not words:
                continue
            columns = columns or (words if _names(words) else _TREC_COLUMNS)
            if columns is words:  # The header.
                continue
            if len(words) != len(columns):
                raise ValueError(
                    f"{path}:{number} is {quoted(line.strip())}; expected "
                    "query, an unused column, document and grade; or, below "
                    "the header query-id, corpus-id, score, these three. "
                    "Correct the line."
                )
            places = map(columns.index, _names(columns))
            yield f"{path}:{number}", [words[place] for place in places]


def _names(header: Sequence[str]) -> list[str]:
    """Returns the columns of query, document and grade; [] without them."""
    lower = [name.lower() for name in header]
    places = [
        next((lower.index(x) for x in known if x in lower), None)
        for known in _JUDGEMENTS
    ]
    return [] if None in places else [header[place] for place in places]
