"""Files of named entities -> documents of sentences of words and tags.

The format of the CoNLL-2003 shared task: one word per line, columns separated
by spaces or tabs, the word first and the tag last unless options say otherwise;
a blank line between sentences; documents begin with a -DOCSTART- line. If every
line has the same number of tabs, only tabs separate columns. JSON lines, .json
and Parquet are rows of words or of texts with spans, see `tables.annotations`.
Tags of five schemes are read, and converted to IOB2:

  words   Mr  Ada  Byron  Babbage  of  London
  IOB1    O   PER: I-  I-     B-        O   I-LOC   B- right after the same type
  IOB2    O   PER: B-  I-     B-        O   B-LOC   B- at the first word
  BIOES   O   PER: B-  E-     S-        O   S-LOC   E- at the last, S- if alone
  BILOU   O   PER: B-  L-     U-        O   U-LOC   BIOES with other letters
  BMES    O   PER: B-  E-     S-        O   S-LOC   BIOES with M- for I-
  IO      O   PER  PER        PER       O   LOC     read as I-PER, I-LOC
  plain   tags that are no entities, such as parts of speech; read as they are

IO cannot tell apart two entities of one type in a row: they are one entity.
"""

import collections
import dataclasses
import itertools
import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from absl import logging

from tfrecords.options import option, quoted, shortened, to_index
from tfrecords.tables import annotations, parts
from tfrecords.tasks import data_files
from tfrecords.text import text_files

DOCUMENT_START = "-DOCSTART-"
OUTSIDE = "O"
PLAIN = "plain"
# Letters of the first, inner, last and only word of an entity.
_LETTERS = {
    "IOB2": "BI",
    "IOB1": "BI",
    "BIOES": "BIES",
    "BILOU": "BILU",
    "BMES": "BMES",
}
_WITH_LAST = ("BIOES", "BILOU", "BMES")
SCHEMES = (*_LETTERS, "IO", PLAIN)
# Predicted tags of files in these are written in the file's scheme, of others
# in IOB2, which conlleval reads.
WRITTEN_BACK = ("BILOU", "BMES", "IO", PLAIN)
_PREFIX = re.compile(r"[BIESLUM]-")
TAG = re.compile(rf"O|{_PREFIX.pattern}\S(?:.*\S)?")
# Tags of a scheme, but for the hyphen, the capitals or the order.
_ALMOST = re.compile(r"(?i:[BIESLUM][-_:./|]\S+|\S+[-_:./|][BIESLUM])")
# A column of N words has about 10 to 100 sqrt(N) different ones (Heaps' law);
# more than sqrt(10 N) different tags are words.
_MOST_TAGS = 10
# First columns of CoNLL-U: a word's number; 3-4, several words; 3.1, no word.
_NUMBER = re.compile(r"[0-9]{1,9}")
_NOT_A_WORD = re.compile(r"[0-9]+[-.][0-9]+")
_CONLL_U = re.compile(r"[0-9]+([-.][0-9]+)?(\t[^\t]+){9}")
_SPACE = re.compile(r"[ \t]+")  # A no-break space may be in a word.
# Split -> official name of its file in the English part.
_COLUMNS = (
    "one word per line with its tag in the last column, and a blank line "
    "after each sentence; or name the file .jsonl, if a line has the words and "
    "tags, or the text and spans, of a sentence"
)
FILES = {"train": "eng.train", "dev": "eng.testa", "test": "eng.testb"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class NerData(data_files.TaskFiles):
    """Files to read, and the stride of windows over documents."""

    test_has_tags: bool = option(
        True,
        "Whether the test file holds the tags, in the last column or in "
        "--tag_column.",
    )
    word_column: str | None = option(
        None,
        "Number of the column of the words, from 1. Default: the first; a "
        "first column that numbers the words is an error then. In JSON lines "
        "and Parquet, the name of the column of the words or of the text. "
        "Default: tokens, words or text.",
    )
    tag_column: str | None = option(
        None,
        "Number of the column of the tags, from 1. Default: the last. In JSON "
        "lines and Parquet, the name of the column of the tags or of the spans "
        "of characters. Default: ner_tags, tags or labels; for a text, "
        "entities, spans, ents, label or labels.",
    )
    span_mismatch: str = option(
        "error",
        "What becomes of a span of characters that does not begin and end "
        "where words do, or overlaps another. error: such spans are named. "
        "widen: its borders move out to whole words. drop: it is left out. Of "
        "two that overlap, the shorter or later one is left out by both.",
        choices=annotations.MISMATCHES,
    )
    comment_prefix: str | None = option(
        None,
        "Lines that begin with this are skipped, such as # in GermEval and "
        "CoNLL-U. Default: none are.",
    )
    tag_scheme: str = option(
        "auto",
        "Scheme of the tags in all files. plain: no entities, such as parts of "
        "speech, scored by the accuracy of words. auto: detected from the "
        "letters before the types; without any, IO if there is an O, else "
        "plain.",
        choices=("auto", *SCHEMES),
    )
    entity_types: tuple[str, ...] | None = option(
        None,
        "Entity types, such as LOC,MISC,ORG,PER; of plain tags, all tags. "
        "Default: those in the training file; without training, the model's.",
    )
    doc_stride: int | None = option(
        None,
        "Word pieces from the start of one window of a document to the start "
        "of the next. Default: half a window; without training, the model's.",
        at_least=1,
    )

    def find_files(self) -> dict[str, str]:
        """Returns {split: path}, by `data_files.find_files`."""
        given = {split: getattr(self, f"{split}_file") for split in FILES}
        return data_files.find_files(
            self.data_dir,
            given,
            FILES,
            "a column file: one word per line, the tag last",
        )

    def columns(self) -> dict[str, int | str | None]:
        """Returns the settings that decide which words and tags are read."""
        columns = {"word_column": self.word_column or None}
        columns["tag_column"] = self.tag_column or None
        for name, value in columns.items():
            if (number := to_index(str(value))) is not None:
                columns[name] = number
        is_default = self.span_mismatch == "error"
        return columns | {
            "comment_prefix": self.comment_prefix or None,
            "span_mismatch": None if is_default else self.span_mismatch,
        }

    def read(
        self,
        split: str,
        path: str,
        entity_types: Collection[str] | None = None,
        scheme: str | None = None,
    ) -> "Corpus":
        """Returns the contents of the file of a split: train, dev or test.

        Args:
          split: name of the split.
          path: its file.
          entity_types: see `read`.
          scheme: that of the tagger, see `Labels`; None for any.
        """
        schemes = None
        if self.tag_scheme != "auto":
            schemes = [self.tag_scheme]
        elif scheme:
            others = _LETTERS if scheme in _LETTERS else ()
            schemes = list(dict.fromkeys([scheme, *others]))
        return read(
            path,
            has_tags=split != "test" or self.test_has_tags,
            entity_types=entity_types,
            schemes=schemes,
            **self.columns(),
        )

    def collect_labels(self, files: dict[str, str]) -> "Labels":
        """Returns the tags of a tagger to train.

        Raises:
          ValueError: if neither options nor files define the entity types.
        """
        types = self.entity_types
        scheme = "IOB2" if self.tag_scheme == "auto" else self.tag_scheme
        if "train" in files and (self.tag_scheme == "auto" or not types):
            corpus = self.read("train", files["train"], types)
            scheme, types = corpus.scheme, types or corpus.entity_types
            if len(types) < 1 + (scheme == PLAIN):
                raise ValueError(
                    f"{corpus.path} has no entities: every tag is "
                    f"{types[0] if types else OUTSIDE}. Is the tag in the last "
                    "column? Give --tag_column, or a file with entities."
                )
        if not types:
            raise ValueError(
                "The entity types are unknown: give a training file, or "
                "--entity_types=LOC,MISC,ORG,PER."
            )
        return Labels(labels_of(types, scheme), scheme)


class Labels(NamedTuple):
    """The classes of a tagger."""

    tags: list[str]  # In the order of their ids.
    scheme: str  # That of its training file.


class Sentence(NamedTuple):
    """Words with tags."""

    columns: tuple[tuple[str, ...], ...]  # Of each word, without the tag.
    tags: tuple[str, ...]  # See `Corpus`; empty if the file has no tags.
    # Line number of each word in the file; of a row, file:line.
    lines: tuple[int | str, ...]
    word_index: int = 0  # Index of the word in `columns`.

    @property
    def words(self) -> tuple[str, ...]:
        """The column of the words."""
        return tuple(row[self.word_index] for row in self.columns)


class Document(NamedTuple):
    """Sentences that are context of each other."""

    start: tuple[str, ...]  # Columns of its -DOCSTART- line, if it has one.
    sentences: tuple[Sentence, ...]  # May be empty after such a line.
    row: annotations.Row | None = None  # The row that it is, in a table.

    @property
    def words(self) -> tuple[str, ...]:
        """Words of all sentences."""
        return tuple(w for s in self.sentences for w in s.words)

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of all sentences; empty if the file has no tags."""
        return tuple(tag for s in self.sentences for tag in s.tags)


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Contents of a file.

    In a file without -DOCSTART- lines, document boundaries are unknown, and
    each sentence is a document. Tags are IOB2; those of an IO file are O and
    I-type, and plain tags are as in the file.
    """

    path: str
    scheme: str | None  # That of the file; None if it has no tags.
    documents: tuple[Document, ...]  # In the file's order.
    counts: annotations.Counts | None = None  # Of texts with spans.

    @property
    def sentences(self) -> list[Sentence]:
        """Sentences of all documents."""
        return [s for d in self.documents for s in d.sentences]

    def where(self, line: int | str) -> str:
        """Returns file:line of a word, given its entry in `lines`."""
        return line if isinstance(line, str) else f"{self.path}:{line}"

    @property
    def entity_types(self) -> list[str]:
        """Entity types of all tags, sorted; of a plain file, the tags."""
        tags = {tag for s in self.sentences for tag in s.tags}
        return types_of(tags, self.scheme)


def labels_of(
    entity_types: Collection[str], scheme: str | None = "IOB2"
) -> list[str]:
    """Returns the classes of a tagger: all tags that a `Corpus` may have.

    O is the first, plain tags are sorted.
    """
    types = sorted(set(entity_types))
    if scheme == PLAIN:
        return types
    letters = "I" if scheme == "IO" else "BI"
    return [OUTSIDE, *(f"{b}-{t}" for t in types for b in letters)]


def types_of(labels: Iterable[str], scheme: str | None = "IOB2") -> list[str]:
    """Returns the entity types of tags, sorted; of plain tags, themselves."""
    if scheme == PLAIN:
        return sorted(set(labels))
    return sorted({label[2:] for label in labels if label != OUTSIDE})


def is_same_kind(scheme: str, other: str) -> bool:
    """Returns whether the tags of two schemes are the same in a `Corpus`."""
    return scheme == other or (scheme in _LETTERS and other in _LETTERS)


def scheme_of(labels: Collection[str]) -> str:
    """Returns the scheme of a tagger's labels, such as a foreign model's."""
    letters = {label[0] for label in labels if _PREFIX.match(label)}
    for some, scheme in (
        *(("LU", "BILOU"), ("M", "BMES"), ("ES", "BIOES")),
        *(("B", "IOB2"), ("I", "IO")),
    ):
        if letters & set(some):
            return scheme
    return PLAIN


def tag_ids(sentences: Iterable[Sentence], labels: Sequence[str]) -> list[int]:
    """Returns the index in `labels` of each word's tag; 0 if it has none.

    Raises:
      ValueError: if there is no such label.
    """
    ids = {label: i for i, label in enumerate(labels)}
    scheme = scheme_of(labels)
    found = []
    for sentence in sentences:
        tags = sentence.tags
        if scheme in _WITH_LAST:
            tags = with_last(tags, scheme)
        for tag in tags or [labels[0]] * len(sentence.columns):
            if tag not in ids:
                raise ValueError(
                    f"The tagger has no label {quoted(tag)}; it has "
                    f"{shortened(', '.join(labels))}. Use a model with this "
                    "label, or add --do_train."
                )
            found.append(ids[tag])
    return found


def read(
    path: str,
    *,
    has_tags: bool = True,
    entity_types: Collection[str] | None = None,
    schemes: Sequence[str] | None = None,
    word_column: int | str | None = None,
    tag_column: int | str | None = None,
    comment_prefix: str | None = None,
    span_mismatch: str | None = None,
) -> Corpus:
    """Reads and checks a file, or several.

    Args:
      path: a column file, plain or compressed; or JSON lines, .json or Parquet;
        or several, as in `parts.find`.
      has_tags: whether it has a column of tags.
      entity_types: allowed types, such as those of a model, or plain tags; None
        for any.
      schemes: allowed ones, in order of preference; None to detect it.
      word_column: number of the column of words, from 1; None for the first.
        Of a table, its name.
      tag_column: likewise, of tags; None for the last.
      comment_prefix: lines that begin with it are skipped; None for none.
      span_mismatch: see `annotations.read`; None for "error".

    Raises:
      ValueError: naming file and line, if there are no words, a line lacks a
        column, words are numbers that count them, a tag is malformed or of an
        unknown type, or the tags follow none of the schemes; or as in
        `annotations.read`.
    """
    counts = annotations.Counts()
    settings = {"has_tags": has_tags}
    settings |= {"word_column": word_column, "tag_column": tag_column}
    found = []
    for part in parts.find(path):
        if annotations.is_table(part):
            mismatch = span_mismatch or "error"
            corpus = _of_rows(part, counts, span_mismatch=mismatch, **settings)
        else:
            corpus = _of_columns(part, comment_prefix, **settings)
        found.append(corpus)
    corpus = found[0] if len(found) == 1 else _joined(path, found)
    if corpus.counts and schemes:  # Spans have tags in every scheme.
        if {*schemes} <= {"IO", PLAIN}:
            corpus = _without_letters(corpus)
        else:
            schemes = ["IOB2"]
    return _converted(corpus, entity_types, schemes) if has_tags else corpus


def _without_letters(corpus: Corpus) -> Corpus:
    """Returns a corpus with tags such as PER for B-PER."""
    documents = []
    for document in corpus.documents:
        sentences = tuple(
            s._replace(
                tags=tuple(tag.partition("-")[2] or tag for tag in s.tags)
            )
            for s in document.sentences
        )
        documents.append(document._replace(sentences=sentences))
    return dataclasses.replace(corpus, documents=tuple(documents))


def _joined(names: str, corpora: Sequence[Corpus]) -> Corpus:
    """Returns the contents of several files, whose lines name the file."""
    documents = []
    kinds = {(c.counts is None, c.documents[0].row is None) for c in corpora}
    if len(kinds) > 1:
        raise ValueError(
            f"{names} are files of several kinds: columns, rows of words, or "
            "rows of texts with spans. Give files of one kind."
        )
    for corpus in corpora:
        for document in corpus.documents:
            sentences = tuple(
                s._replace(lines=tuple(map(corpus.where, s.lines)))
                for s in document.sentences
            )
            documents.append(document._replace(sentences=sentences))
    return dataclasses.replace(
        corpora[0], path=names, documents=tuple(documents)
    )


def _of_columns(
    path: str, comment_prefix: str | None, has_tags, word_column, tag_column
) -> Corpus:
    """Returns the contents of a column file; tags as there."""
    word_column = _number("word_column", word_column, path)
    tag_column = _number("tag_column", tag_column, path)
    found = _documents(path, comment_prefix, word_column or 1)
    rows = [row for _, lines in found for row in lines if row[1]]
    if not rows:
        raise ValueError(f"{path} has no words; copy or create it again.")
    _check_widths(rows, path, has_tags, comment_prefix)
    width = len(rows[0][1])
    tag_index = (tag_column or width) - 1 if has_tags else None
    _check_columns(rows[0], path, word_column, tag_column, tag_index)
    if word_column != 1 and width - has_tags > 1:
        groups = [g for _, lines in found for g in _groups(lines)]
        if _are_numbered(groups, path, word_column):
            # Not lines 2-3 and 2.1 of CoNLL-U: the words of the first are on
            # other lines, too; the text has no word of the second.
            for _, lines in found:
                firsts = ("".join(row[:1]) for _, row in lines)
                is_word = [not _NOT_A_WORD.fullmatch(x) for x in firsts]
                lines[:] = itertools.compress(lines, is_word)
    word_index = (word_column or 1) - 1
    documents = [
        Document(start, tuple(_sentences(lines, word_index, tag_index)))
        for start, lines in found
    ]
    if not any(document.start for document in documents):
        documents = [Document((), (s,)) for d in documents for s in d.sentences]
    return Corpus(path, None, tuple(documents))


def _number(name: str, column: int | str | None, path: str) -> int | None:
    """Returns the number of a column of a column file."""
    if column is None:
        return None
    if not to_index(str(column)):
        raise ValueError(
            f"--{name}={column}: the columns of {path} have numbers, from 1. "
            "Give a number; names are for JSON lines and Parquet."
        )
    return int(column)


def _of_rows(
    path: str, counts: annotations.Counts, word_column, tag_column, **settings
) -> Corpus:
    """Returns the contents of a table, each row a document; tags as there."""
    settings["word_column"] = word_column and str(word_column)
    settings["tag_column"] = tag_column and str(tag_column)
    documents = []
    for row in annotations.read(path, counts, **settings):
        words = tuple((word,) for word in row.words)
        sentence = Sentence(words, row.tags, (row.where,) * len(words))
        documents.append(Document((), (sentence,) if words else (), row))
    if not any(document.sentences for document in documents):
        raise ValueError(
            f"{path} has no words that are tagged; copy or create it again."
        )
    has_spans = documents[0].row.text is not None
    return Corpus(path, None, tuple(documents), counts if has_spans else None)


def _documents(
    path: str, comment_prefix: str | None, word_column: int
) -> list[tuple[tuple[str, ...], list]]:
    """Returns (columns of -DOCSTART-, [(line, columns), ...]) per document."""
    documents: list[tuple[tuple[str, ...], list]] = [((), [])]
    is_named = False
    statistics = text_files.ReadStatistics()
    lines = []
    for line in text_files.read_lines(path, statistics):
        if not lines:
            text_files.check_not_json(line, path, _COLUMNS)
        lines.append(line.strip("\r\n"))
    comment_prefix = comment_prefix or _prefix_of_conll_u(lines)
    has_tabs = _are_split_by_tabs(lines, comment_prefix)
    for number, line in enumerate(lines, 1):
        columns = tuple(filter(None, _SPACE.split(line)))
        if has_tabs and not line.startswith(DOCUMENT_START):
            columns = tuple(filter(None, _cells(line)))
        if comment_prefix and line.startswith(comment_prefix):
            if len(columns) > 1 and TAG.fullmatch(columns[-1]) and not is_named:
                is_named = True
                logging.warning(
                    "%s:%d: this line is skipped as a comment, but has a tag: "
                    "%s. Is it a word? Give a longer --comment_prefix",
                    path,
                    number,
                    quoted(line.strip()),
                )
            continue
        first = (*columns[:1], *columns[word_column - 1 : word_column])
        if any(column.startswith(DOCUMENT_START) for column in first):
            documents.append((columns, []))
        else:
            documents[-1][1].append((number, columns))
    return [d for d in documents if d[0] or any(row for _, row in d[1])]


def _prefix_of_conll_u(lines: Sequence[str]) -> str | None:
    """Returns # for a treebank in CoNLL-U, where no word's line has it."""
    rows = [line for line in lines if line.strip() and line[0] != "#"]
    return "#" if rows and all(map(_CONLL_U.fullmatch, rows)) else None


def _cells(line: str) -> list[str]:
    return [cell.strip(" ") for cell in line.split("\t")]


def _are_split_by_tabs(lines: Sequence[str], comment_prefix) -> bool:
    """Returns whether columns end at tabs alone, and words may have spaces.

    This is so if every line has as many, and no column is empty; or most lines,
    if spaces do not give every line as many columns either.
    """
    skipped = tuple(filter(None, (DOCUMENT_START, comment_prefix)))
    rows = [x for x in lines if x.strip() and not x.startswith(skipped)]
    widths = collections.Counter(
        len(cells) * all(cells) for cells in map(_cells, rows)
    )
    ((width, count),) = widths.most_common(1) or [(0, 0)]
    if width < 2 or 2 * count <= len(rows):
        return False
    by_space = (len(_SPACE.split(row.strip(" \t"))) for row in rows)
    return count == len(rows) or len(set(by_space)) > 1


def _groups(lines):
    """Yields [(line, columns), ...] of each sentence."""
    for is_row, group in itertools.groupby(lines, lambda line: bool(line[1])):
        if is_row:
            yield list(group)


def _sentences(lines, word_index: int, tag_index: int | None):
    """Yields the sentences, which blank lines separate."""
    without = slice(0, 0)
    if tag_index is not None:
        without = slice(tag_index, tag_index + 1)
        word_index -= tag_index < word_index
    for group in _groups(lines):
        columns, tags = [], []
        for _, row in group:
            rest = list(row)
            tags += rest[without]
            del rest[without]
            columns.append(tuple(rest))
        numbers = tuple(number for number, _ in group)
        yield Sentence(tuple(columns), tuple(tags), numbers, word_index)


def _check_widths(rows, path: str, has_tags: bool, comment_prefix) -> None:
    """Raises ValueError for the first line with another number of columns."""
    # Of equally frequent widths, that of the earlier line.
    widths = collections.Counter(len(row) for _, row in rows)
    ((width, _),) = widths.most_common(1)
    usual = next(number for number, row in rows if len(row) == width)
    separator = "\t" if any(" " in x for _, row in rows for x in row) else " "
    for number, row in rows:
        where = f"{path}:{number}"
        hint = ""
        if row[0].startswith("#") and not comment_prefix:
            hint = " If lines with # are comments, give --comment_prefix=#."
        if has_tags and len(row) == 1:
            raise ValueError(
                f"{where}: one column, {quoted(row[0])}, where a word and "
                "its tag are expected. Add the missing column, or give "
                f"--notest_has_tags if a test file has no tags.{hint}"
            )
        if len(row) != width:
            raise ValueError(
                f"{where}: {len(row)} columns, {quoted(separator.join(row))}, "
                f"where {path}:{usual} has {width}. There is a column too "
                f"few or too many; correct this line.{hint}"
            )


def _check_columns(row, path, word_column, tag_column, tag_index) -> None:
    """Raises ValueError if a column that was asked for is not there."""
    number, columns = row
    asked = {"word_column": word_column}
    if tag_index is not None:
        asked["tag_column"] = tag_column
    for name, value in asked.items():
        if value and value > len(columns):
            raise ValueError(
                f"{path}:{number}: {len(columns)} columns, "
                f"{quoted(' '.join(columns))}, and no number {value}. Give a "
                f"--{name} of at most {len(columns)}."
            )
    if (word_column or 1) - 1 == tag_index:
        raise ValueError(
            f"{path}:{number}: column {tag_index + 1} of {len(columns)} cannot "
            "be both the word and its tag. Give --word_column and --tag_column."
        )


def _are_numbered(groups, path: str, word_column: int | None) -> bool:
    """Returns whether the first column is 1, 2, 3 ... in most sentences."""
    longer = [group for group in groups if len(group) > 1]
    numbered = list(filter(_is_numbered, longer))
    if 2 * len(numbered) <= len(longer):
        return False
    if word_column is None:
        (number, row), (_, second) = numbered[0][:2]
        raise ValueError(
            f"{path}:{number}: the first column numbers the words: "
            f"{quoted(row[0])}, {quoted(second[0])} and so on. Give "
            "--word_column and, unless it is the last, --tag_column, such as "
            "--word_column=2 --tag_column=3; or --word_column=1 if these are "
            "the words."
        )
    return True


def _is_numbered(group) -> bool:
    """Returns whether the first column is 1, 2, 3 and so on."""
    first = [row[0] for _, row in group if not _NOT_A_WORD.fullmatch(row[0])]
    if not first or not all(map(_NUMBER.fullmatch, first)):
        return False
    begin = int(first[0])
    return list(map(int, first)) == list(range(begin, begin + len(first)))


def _converted(corpus: Corpus, entity_types, schemes) -> Corpus:
    """Checks tags; returns the corpus with the tags that it documents."""
    schemes = _candidates(corpus, schemes)
    _check_tags(corpus, schemes[0], entity_types)
    scheme = schemes[0]
    if scheme in _LETTERS:
        scheme = _detect_scheme(corpus, schemes)
    documents = []
    for document in corpus.documents:
        rewritten = (
            s._replace(tags=_rewritten(s.tags, scheme))
            for s in document.sentences
        )
        documents.append(document._replace(sentences=tuple(rewritten)))
    return dataclasses.replace(
        corpus, scheme=scheme, documents=tuple(documents)
    )


def _candidates(corpus: Corpus, schemes) -> Sequence[str]:
    """Returns the schemes that the letters of the tags allow, of one kind."""
    if schemes and (len(schemes) == 1 or schemes[0] not in _LETTERS):
        return schemes
    tags = {tag for s in corpus.sentences for tag in s.tags} - {OUTSIDE}
    if schemes or not tags or any(map(_PREFIX.match, tags)):
        letters = {tag[0] for tag in tags}
        possible = ["IOB2", "IOB1", "BIOES"]
        if letters & set("LU"):
            possible = ["BILOU"]
        elif "M" in letters:
            possible = ["BMES"]
        return list(dict.fromkeys([*(schemes or ())[:1], *possible]))
    _check_no_scheme(corpus, tags)
    has_outside = any(OUTSIDE in s.tags for s in corpus.sentences)
    return ["IO" if has_outside else PLAIN]


def _check_no_scheme(corpus: Corpus, tags: Collection[str]) -> None:
    """Raises ValueError if tags without letters do not look like tags."""
    advice = "--tag_scheme=plain if they are the tags, or --tag_column."
    some = shortened(", ".join(sorted(tags)[:3]))
    if tags <= set("BIESLUMW"):
        raise ValueError(
            f"{corpus.path}: the tags {', '.join(sorted(tags))} have no type. "
            "Append one, such as B-PER, to score entities; or give "
            "--tag_scheme=plain to score single tags."
        )
    if all(_ALMOST.fullmatch(tag) for tag in tags - {"o"}):
        raise ValueError(
            f"{corpus.path}: tags such as {some} are of no scheme. Write O, "
            f"B-PER and I-PER for them; or give {advice}"
        )
    words = [
        (word, tag)
        for s in corpus.sentences
        for word, tag in zip(s.words, s.tags, strict=True)
        if tag != OUTSIDE and any(map(str.isalpha, tag))
    ]
    num_words = sum(len(s.tags) for s in corpus.sentences)
    kind, looks = "", "words"
    if len(tags) ** 2 > _MOST_TAGS * num_words:
        kind = f"{len(tags)} different tags"
    elif 2 * sum(w.casefold() == t.casefold() for w, t in words) > len(words):
        kind = "most words as their own tags"
    elif any(map(str.isdecimal, tags)):
        kind, looks = "numbers", "ids"
        advice += (
            " If they are ids, write names for them; a Parquet file of "
            "datasets (Dataset.to_parquet) has those of its ClassLabel."
        )
    elif tags & {"", "_"}:
        kind, looks = "words without a tag (_)", "another column"
    if kind:
        raise ValueError(
            f"{corpus.path}: {kind} in the last or given column, such as "
            f"{some}; they look like {looks}. Give {advice}"
        )


def _check_tags(corpus: Corpus, scheme: str, entity_types) -> None:
    """Raises ValueError for a malformed tag or one of an unknown type."""
    for sentence in corpus.sentences:
        for number, tag in zip(sentence.lines, sentence.tags, strict=True):
            where = corpus.where(number)
            if scheme in _LETTERS and not TAG.fullmatch(tag):
                raise ValueError(
                    f"{where}: tag {quoted(tag)} is neither O nor B-, I-, E- "
                    "or S- (in BILOU L- or U-, in BMES M-) with a type, such "
                    "as B-PER. The tag should be in the last column, or in "
                    "--tag_column; correct the line, or give --tag_scheme."
                )
            # A type may begin as E-MAIL and S-BAHN do.
            if scheme == "IO" and tag[:2] in ("B-", "I-"):
                raise ValueError(
                    f"{where}: tag {quoted(tag)} is not of the scheme IO, in "
                    "which tags are O and entity types, such as PER. Correct "
                    "the line; a training, a dev and a test file need one "
                    "scheme."
                )
            name = tag[2:] if scheme in _LETTERS else tag
            if scheme != PLAIN and tag == OUTSIDE:
                continue
            if entity_types is not None and name not in entity_types:
                known = ", ".join(sorted(entity_types))
                raise ValueError(
                    f"{where}: unknown tag {quoted(tag)}; the known "
                    f"{'tags' if scheme == PLAIN else 'types'} are {known}. "
                    "Correct the line, or train with a file that has this type."
                )


def _detect_scheme(corpus: Corpus, schemes: Sequence[str]) -> str:
    """Returns the first scheme that all tags follow."""
    wrong = []  # First violation of each scheme: sentence, word, text.
    for scheme in schemes:
        violation = _violation(corpus, scheme)
        if violation is None:
            return scheme
        wrong.append(violation)
    wrong.sort(key=lambda violation: violation[:2])
    raise ValueError(
        f"{corpus.path}: the tags follow no scheme: "
        f"{'; '.join(text for *_, text in wrong)}. Correct the lines that "
        "violate the intended scheme of the file."
    )


def _violation(corpus: Corpus, scheme: str) -> tuple[int, int, str] | None:
    is_right = _IS_RIGHT.get(scheme, _bioes)
    for place, sentence in enumerate(corpus.sentences):
        tags = [OUTSIDE, *_in_bioes(sentence.tags, scheme), OUTSIDE]
        for index, number in enumerate(sentence.lines):
            before, tag, after = tags[index : index + 3]
            if tag[0] == "?" or not is_right(before, tag, after):
                shown = (OUTSIDE, *sentence.tags, OUTSIDE)
                before, tag, after = map(shortened, shown[index : index + 3])
                where = corpus.where(number)
                text = f"{where} has {tag} between {before} and {after}"
                return place, index, f"not {scheme}: {text}"
    return None


def _in_bioes(tags: Sequence[str], scheme: str) -> list[str]:
    """Returns tags with the letters of BIOES; ? for letters of no meaning."""
    in_bioes = zip(_LETTERS[scheme], "BIES", strict=False)
    letters = {OUTSIDE: OUTSIDE, **dict(in_bioes)}
    return [letters.get(tag[0], "?") + tag[1:] for tag in tags]


def _rewritten(tags: Sequence[str], scheme: str) -> tuple[str, ...]:
    """Returns the tags of a sentence as in `Corpus`."""
    if scheme == PLAIN:
        return tuple(tags)
    if scheme == "IO":
        return tuple(tag if tag == OUTSIDE else f"I-{tag}" for tag in tags)
    return to_iob2(_in_bioes(tags, scheme))


def entity_tags(tags: Sequence[str], labels: Collection[str]) -> Sequence[str]:
    """Returns tags that a tagger with these labels predicted, with B- and I-.

    Only those of labels in BIOES, BILOU and BMES differ; a label that is no
    tag, such as [PAD], is O.
    """
    scheme = scheme_of(labels)
    if scheme not in _WITH_LAST:
        return tags
    tags = [tag if TAG.fullmatch(tag) else OUTSIDE for tag in tags]
    return to_iob2(_in_bioes(tags, scheme))


def in_scheme(tags: Sequence[str], scheme: str | None) -> list[str]:
    """Returns tags as in `Corpus` in the scheme of a file.

    Only those of `WRITTEN_BACK` differ. Predicted tags may violate IOB2, see
    `to_iob2`.

    Args:
      tags: those of a sentence.
      scheme: the scheme to write.
    """
    if scheme == "IO":
        return [tag if tag == OUTSIDE else tag[2:] for tag in tags]
    if scheme == PLAIN or scheme not in WRITTEN_BACK:
        return list(tags)
    return with_last(tags, scheme)


def with_last(tags: Sequence[str], scheme: str) -> list[str]:
    """Returns tags in IOB2 in BIOES, BILOU or BMES, see `in_scheme`."""
    first, inner, last, only = _LETTERS[scheme]
    rewritten = []
    iob2 = to_iob2(tags)
    for tag, after in zip(iob2, [*iob2, OUTSIDE][1:], strict=True):
        if tag != OUTSIDE:
            letters = (first, inner) if after[0] == "I" else (only, last)
            tag = letters[tag[0] == "I"] + tag[1:]
        rewritten.append(tag)
    return rewritten


def _iob1(before: str, tag: str, after: str) -> bool:
    # B- only if the previous word's entity has the same type.
    return before[2:] == tag[2:] if tag[0] == "B" else tag[0] in "IO"


def _iob2(before: str, tag: str, after: str) -> bool:
    return tag[0] in "BO" or (tag[0] == "I" and before[2:] == tag[2:])


def _bioes(before: str, tag: str, after: str) -> bool:
    is_open = before[0] in "BI"
    continues = after[0] in "IE" and after[2:] == tag[2:]
    if tag[0] in "OBS":
        return not is_open and (tag[0] != "B" or continues)
    return is_open and before[2:] == tag[2:] and (tag[0] == "E" or continues)


# (previous tag, tag, next tag) -> whether the scheme allows it; other schemes
# are those of `_bioes`.
_IS_RIGHT = {"IOB2": _iob2, "IOB1": _iob1}


def to_iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """Converts the tags of a sentence from IOB1, IOB2 or BIOES to IOB2.

    A model's tags may violate their scheme: an I- or E- that does not continue
    an entity of its type begins one, as in conlleval.
    """
    rewritten, before = [], OUTSIDE
    for tag in tags:
        begins = tag[0] in "BS" or before[0] in "OES" or before[2:] != tag[2:]
        side = "B-" if begins else "I-"
        rewritten.append(tag if tag == OUTSIDE else side + tag[2:])
        before = tag
    return tuple(rewritten)
