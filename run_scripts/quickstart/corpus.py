"""Docstrings of installed libraries -> documents, and labelled rows.

Every machine with this project has this text: some megabytes of English by many
authors, one document per source file. The labelled task uses the same kind of
text: which library does a paragraph come from?
"""

import ast
import html
import importlib.util
import inspect
import os
import random
import re
import sysconfig
from collections.abc import Iterator
from pydoc_data import topics
from typing import NamedTuple

from absl import logging

from tfrecords.io import atomic_files

LABELS = ("stdlib", "numpy", "scipy", "sklearn", "keras", "tensorflow")
# These folders hold tests, or generated copies of other text.
_SKIPPED = {"__pycache__", "site-packages", "test", "tests", "_tf_keras"}
LABELLED_SHARE = 0.08  # Share of documents; left out of pre-training.
NUM_TRAIN_ROWS = 240
NUM_DEV_ROWS = 900


class Source(NamedTuple):
    """One document: a source file's docstrings, or one help topic."""

    library: str
    name: str
    paragraphs: list[str]


def _is_prose(paragraph: str) -> bool:
    """Returns whether a paragraph consists of sentences, not code or tables."""
    words = re.findall(r"[A-Za-z][a-z']+", paragraph)
    return (
        len(words) >= 6
        and paragraph[-1] in ".!?:"
        and sum(map(len, words)) > 0.6 * len(paragraph)
        and not re.search(r">>>|={3}|-{3}|\w\(.*\)$", paragraph)
    )


def paragraphs(docstring: str) -> list[str]:
    """Returns the prose paragraphs of a docstring, each on one line."""
    blocks = re.split(r"\n\s*\n", inspect.cleandoc(docstring))
    joined = (" ".join(block.replace("`", "").split()) for block in blocks)
    return [block for block in joined if block and _is_prose(block)]


def _docstrings(path: str) -> list[str]:
    """Returns the docstrings of a Python file in order; [] if it is invalid."""
    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (SyntaxError, UnicodeDecodeError, ValueError):
        return []
    node_types = (
        ast.Module,
        ast.ClassDef,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
    )
    nodes = [node for node in ast.walk(tree) if isinstance(node, node_types)]
    # ast.walk goes level by level; this is the order in the file.
    nodes.sort(key=lambda node: getattr(node, "lineno", 0))
    return [text for node in nodes if (text := ast.get_docstring(node))]


def _folder(library: str) -> str:
    if library == "stdlib":
        return sysconfig.get_paths()["stdlib"]
    return importlib.util.find_spec(library).submodule_search_locations[0]


def _python_files(folder: str) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - _SKIPPED)
        for name in sorted(files):
            if name.endswith(".py"):
                yield os.path.join(parent, name)


def read_sources() -> Iterator[Source]:
    """Yields every document, without paragraphs that occurred before."""
    seen: set[str] = set()
    for name, text in sorted(topics.topics.items()):
        yield Source("stdlib", f"help/{name}", _new(seen, [text]))
    for library in LABELS:
        folder = _folder(library)
        for path in _python_files(folder):
            name = f"{library}/{os.path.relpath(path, folder)}"
            yield Source(library, name, _new(seen, _docstrings(path)))


def _new(seen: set[str], texts: list[str]) -> list[str]:
    """Returns the paragraphs that are not in `seen`, and adds them."""
    fresh = dict.fromkeys(p for text in texts for p in paragraphs(text))
    fresh = [p for p in fresh if p not in seen]
    seen.update(fresh)
    return fresh


def _labelled_rows(sources: list[Source], rng: random.Random):
    """Returns (text, label) rows, equally many for every library."""
    rows = []
    for library in LABELS:
        texts = [
            p.replace("\t", " ")
            for source in sources
            if source.library == library
            for p in source.paragraphs
            if len(p) >= 60
        ]
        rng.shuffle(texts)
        rows.append([(text, library) for text in texts])
    return [row for group in zip(*rows, strict=False) for row in group]


def _write_rows(path: str, rows: list[tuple[str, str]]) -> None:
    with atomic_files.atomic_file(path) as file:
        file.writelines(
            "\t".join(row) + "\n" for row in [("text", "label"), *rows]
        )


def write_corpus(
    corpus_file: str, train_file: str, dev_file: str, seed: int = 12345
) -> None:
    """Writes the documents, and a few labelled rows from other documents.

    Args:
      corpus_file: documents to pre-train on, in WikiExtractor's format.
      train_file: TSV with `NUM_TRAIN_ROWS` rows of text and label.
      dev_file: TSV with up to `NUM_DEV_ROWS` rows, of other texts.
      seed: seed for choosing documents and rows.
    """
    rng = random.Random(seed)
    labelled, num_documents, num_characters = [], 0, 0
    with atomic_files.atomic_file(corpus_file) as file:
        for source in read_sources():
            if not source.paragraphs:
                continue
            if rng.random() < LABELLED_SHARE:
                labelled.append(source)
                continue
            text = "\n".join(map(html.escape, source.paragraphs))
            title = html.escape(source.name)
            file.write(f'<doc id="{num_documents}" title="{title}">\n')
            file.write(f"{title}\n\n{text}\n\n</doc>\n")
            num_documents += 1
            num_characters += len(text)
    rows = _labelled_rows(labelled, rng)
    train_rows = rows[:NUM_TRAIN_ROWS]
    dev_rows = rows[NUM_TRAIN_ROWS : NUM_TRAIN_ROWS + NUM_DEV_ROWS]
    _write_rows(train_file, train_rows)
    _write_rows(dev_file, dev_rows)
    logging.info(
        "corpus  documents %d  characters %d  labelled rows: train %d, dev %d",
        num_documents,
        num_characters,
        len(train_rows),
        len(dev_rows),
    )
