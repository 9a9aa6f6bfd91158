"""Column files of named entities -> documents of sentences of words and tags.

The format of the CoNLL-2003 shared task: one word per line, columns separated
by spaces or tabs, the tag last; a blank line between sentences; documents begin
with a -DOCSTART- line. Tags of three schemes are read, and converted to IOB2:

  words   Mr  Ada  Byron  Babbage  of  London
  IOB1    O   PER: I-  I-     B-        O   I-LOC   B- right after the same type
  IOB2    O   PER: B-  I-     B-        O   B-LOC   B- at the first word
  BIOES   O   PER: B-  E-     S-        O   S-LOC   E- at the last, S- if alone
"""

import dataclasses
import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from tfrecords.options import Options, option, quoted, shortened
from tfrecords.tasks import data_files
from tfrecords.text import text_files

DOCUMENT_START = "-DOCSTART-"
OUTSIDE = "O"
SCHEMES = ("IOB2", "IOB1", "BIOES")
_TAG = re.compile(r"O|[BIES]-\S+")
_SPACE = re.compile(r"[ \t]+")  # A no-break space may be in a word.
# Split -> official name of its file in the English part.
FILES = {"train": "eng.train", "dev": "eng.testa", "test": "eng.testb"}
_OTHER = (
    "File to read instead of {}, in --data_dir or elsewhere: one word per "
    "line, the tag in the last column."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NerData(Options):
    """Column files to read, and the stride of windows over documents."""

    data_dir: str | None = option(
        None,
        f"Folder of {', '.join(FILES.values())}; any of them may be missing.",
        reads=True,
    )
    train_file: str | None = option(
        None, _OTHER.format(FILES["train"]), reads=True
    )
    dev_file: str | None = option(None, _OTHER.format(FILES["dev"]), reads=True)
    test_file: str | None = option(
        None, _OTHER.format(FILES["test"]), reads=True
    )
    test_has_tags: bool = option(
        True, "Whether the last column of the test file holds the tags."
    )
    entity_types: tuple[str, ...] | None = option(
        None,
        "Entity types, such as LOC,MISC,ORG,PER. Default: those in the "
        "training file; without training, the model's.",
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

    def read(
        self, split: str, path: str, entity_types: Collection[str] | None = None
    ) -> "Corpus":
        """Returns the contents of the file of a split: train, dev or test."""
        has_tags = split != "test" or self.test_has_tags
        return read(path, has_tags=has_tags, entity_types=entity_types)

    def find_labels(self, files: dict[str, str]) -> list[str]:
        """Returns the tags of a tagger to train, in the order of their ids.

        Raises:
          ValueError: if neither options nor files define the entity types.
        """
        if self.entity_types:
            return labels_of(self.entity_types)
        if "train" not in files:
            raise ValueError(
                "The entity types are unknown: give a training file, or "
                "--entity_types=LOC,MISC,ORG,PER."
            )
        corpus = self.read("train", files["train"])
        if not corpus.entity_types:
            raise ValueError(
                f"{corpus.path} has no entities: every tag is O. Is the tag in "
                "the last column? Give a file with entities."
            )
        return labels_of(corpus.entity_types)


class Sentence(NamedTuple):
    """Words with tags."""

    columns: tuple[tuple[str, ...], ...]  # Of each word, without the tag.
    tags: tuple[str, ...]  # IOB2; empty if the file has no tags.
    line: int  # Line number of the first word in the file.

    @property
    def words(self) -> tuple[str, ...]:
        """The first column."""
        return tuple(row[0] for row in self.columns)


class Document(NamedTuple):
    """Sentences that are context of each other."""

    start: tuple[str, ...]  # Columns of its -DOCSTART- line, if it has one.
    sentences: tuple[Sentence, ...]  # May be empty after such a line.

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
    each sentence is a document.
    """

    path: str
    scheme: str | None  # One of `SCHEMES`; None if the file has no tags.
    documents: tuple[Document, ...]  # In the file's order.

    @property
    def sentences(self) -> list[Sentence]:
        """Sentences of all documents."""
        return [s for d in self.documents for s in d.sentences]

    @property
    def entity_types(self) -> list[str]:
        """Entity types of all tags, sorted, such as LOC, MISC, ORG, PER."""
        return types_of(tag for s in self.sentences for tag in s.tags)


def labels_of(entity_types: Collection[str]) -> list[str]:
    """Returns the classes of a tagger: all IOB2 tags, O first."""
    sides = [f"{b}-{t}" for t in sorted(set(entity_types)) for b in "BI"]
    return [OUTSIDE, *sides]


def types_of(labels: Iterable[str]) -> list[str]:
    """Returns the entity types of tags, sorted."""
    return sorted({label[2:] for label in labels if label != OUTSIDE})


def tag_ids(sentences: Iterable[Sentence], labels: Sequence[str]) -> list[int]:
    """Returns the index in `labels` of each word's tag; 0 if it has none."""
    ids = {label: i for i, label in enumerate(labels)}
    return [
        ids[tag]
        for s in sentences
        for tag in s.tags or [labels[0]] * len(s.columns)
    ]


def read(
    path: str,
    *,
    has_tags: bool = True,
    entity_types: Collection[str] | None = None,
) -> Corpus:
    """Reads and checks a file.

    Args:
      path: plain, .gz or .zst.
      has_tags: whether the last column is the tag.
      entity_types: allowed types, such as those of a model; None for any.

    Raises:
      ValueError: naming file and line, if there are no words, a line lacks a
        column, a tag is malformed or of an unknown type, or the tags follow
        none of the three schemes.
    """
    documents = [
        Document(start, tuple(_sentences(rows, path, has_tags)))
        for start, rows in _documents(path)
    ]
    _check_columns(documents, path, has_tags)
    corpus = Corpus(path, None, tuple(documents))
    if has_tags:
        corpus = _in_iob2(corpus, entity_types)
    if not any(document.start for document in documents):
        documents = [Document((), (s,)) for s in corpus.sentences]
        corpus = dataclasses.replace(corpus, documents=tuple(documents))
    return corpus


def _documents(path: str) -> list[tuple[tuple[str, ...], list]]:
    """Returns (columns of -DOCSTART-, [(line, columns), ...]) per document."""
    documents: list[tuple[tuple[str, ...], list]] = [((), [])]
    statistics = text_files.ReadStatistics()
    for number, line in enumerate(text_files.read_lines(path, statistics), 1):
        columns = tuple(filter(None, _SPACE.split(line.strip("\r\n"))))
        if columns and columns[0].startswith(DOCUMENT_START):
            documents.append((columns, []))
        else:
            documents[-1][1].append((number, columns))
    return [d for d in documents if d[0] or any(row for _, row in d[1])]


def _sentences(rows, path: str, has_tags: bool):
    """Yields the sentences, which blank lines separate."""
    words: list[tuple[int, tuple[str, ...]]] = []
    for number, columns in [*rows, (0, ())]:
        if columns:
            words.append((number, columns))
        elif words:
            last = -1 if has_tags else None
            yield Sentence(
                tuple(row[:last] for _, row in words),
                tuple(row[-1] for _, row in words) if has_tags else (),
                words[0][0],
            )
            words = []


def _check_columns(documents, path: str, has_tags: bool) -> None:
    first = None
    for sentence in (s for d in documents for s in d.sentences):
        for index, columns in enumerate(sentence.columns):
            row = columns + sentence.tags[index : index + 1]
            where = f"{path}:{sentence.line + index}"
            if not columns:
                raise ValueError(
                    f"{where}: one column, {quoted(row[0])}, where a word and "
                    "its tag are expected. Add the missing column, or give "
                    "--notest_has_tags if a test file has no tags."
                )
            first = first or (len(row), where)
            if len(row) != first[0]:
                raise ValueError(
                    f"{where}: {len(row)} columns, {quoted(' '.join(row))}, "
                    f"where {first[1]} has {first[0]}. There is a column too "
                    "few or too many; correct this line."
                )
    if first is None:
        raise ValueError(f"{path} has no words; copy or create it again.")


def _in_iob2(corpus: Corpus, entity_types) -> Corpus:
    """Checks tags; returns the corpus with tags in IOB2."""
    wrong: dict[str, str] = {}  # First violation of each scheme.
    for sentence in corpus.sentences:
        before = OUTSIDE
        for index, tag in enumerate(sentence.tags):
            where = f"{corpus.path}:{sentence.line + index}"
            _check_tag(tag, entity_types, where)
            after = (*sentence.tags, OUTSIDE)[index + 1]
            tags = (shortened(t) for t in (tag, before, after))
            text = "{} has {} between {} and {}".format(where, *tags)
            for scheme, is_right in _IS_RIGHT.items():
                if not is_right(before, tag, after):
                    wrong.setdefault(scheme, text)
            before = tag
    right = [scheme for scheme in SCHEMES if scheme not in wrong]
    if not right:
        reasons = "; ".join(f"not {s}: {text}" for s, text in wrong.items())
        raise ValueError(
            f"{corpus.path}: the tags follow no scheme: {reasons}. Correct the "
            "lines that violate the intended scheme of the file."
        )
    documents = []
    for document in corpus.documents:
        rewritten = (
            s._replace(tags=to_iob2(s.tags)) for s in document.sentences
        )
        documents.append(Document(document.start, tuple(rewritten)))
    return Corpus(corpus.path, right[0], tuple(documents))


def _check_tag(tag: str, entity_types, where: str) -> None:
    if not _TAG.fullmatch(tag):
        raise ValueError(
            f"{where}: tag {quoted(tag)} is neither O nor B-, I-, E- or S- "
            "with a type, such as B-PER. The tag should be in the last column; "
            "correct the line."
        )
    if entity_types is not None and tag[2:] not in ("", *entity_types):
        raise ValueError(
            f"{where}: unknown tag {quoted(tag)}; the known types are "
            f"{', '.join(sorted(entity_types))}. Correct the line, or train "
            "with a file that has this type."
        )


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


# (previous tag, tag, next tag) -> whether the scheme allows it.
_IS_RIGHT = dict(zip(SCHEMES, (_iob2, _iob1, _bioes), strict=True))


def to_iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """Converts the tags of a sentence from any of the three schemes to IOB2.

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
