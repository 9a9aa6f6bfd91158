"""Documents of words and tags -> tagging records, one per window of words."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from tfrecords import options
from tfrecords.io import atomic_files
from tfrecords.tables import parts
from tfrecords.tasks import ner_files, split_records
from tfrecords.text import tokenizer as tokenizer_lib
from tfrecords.text import word_windows

_DOCUMENTS_AT_ONCE = 64
# Maximum number of locations in a log message; the manifest lists all of them.
_NAMED = 5


def make_records(
    files: Mapping[str, str],
    output_dir: str,
    tokenizer: tokenizer_lib.BertTokenizer,
    *,
    read: Callable[[str], ner_files.Corpus],
    labels: Sequence[str],
    max_seq_length: int = 128,
    doc_stride: int | None = None,
    columns: Mapping[str, int | str | None] | None = None,
) -> dict[str, str]:
    """Writes a folder of records for each split; complete ones are kept.

    A document is cut into windows (see `word_windows`), and each of its words
    has its tag in exactly one of them: in the order of records and positions,
    words are in the order of the file. If the file has no tags, tag ids are 0.

    Args:
      files: path by split: train, dev or test.
      output_dir: parent of a folder for each split.
      tokenizer: maps words to pieces.
      read: returns the contents of a split's file.
      labels: tags in the order of their ids, from `ner_files.labels_of`.
      max_seq_length: tokens in a window, including [CLS], [SEP] and padding.
      doc_stride: see `word_windows.make`.
      columns: what decides which columns and lines `read` reads, from
        `ner_files.NerData.columns`, for the manifest.

    Returns:
      The folder of each split.

    Raises:
      ValueError: as in `read` and `split_records.make`.
    """
    doc_stride = doc_stride or word_windows.default_stride(max_seq_length)
    word_windows.check_stride(max_seq_length, doc_stride)
    make_windows = _make_windows(tokenizer, max_seq_length, doc_stride)
    sizes = {"max_seq_length": max_seq_length}

    def split_of(name: str, path: str) -> split_records.Split:
        return split_records.Split(
            name=name,
            schema_name="tagging",
            sizes=sizes,
            flags=sizes
            | {
                "doc_stride": doc_stride,
                "labels": list(labels),
                "source_sha256": atomic_files.digest(*parts.find(path)),
            }
            | dict(columns or {}),
            count=lambda: _count(read(name), path, make_windows),
            examples=lambda counts: _examples(
                read(name), make_windows, labels, max_seq_length, counts
            ),
        )

    return split_records.make(
        [split_of(*file) for file in files.items()],
        split_records.vocabulary_of(tokenizer),
        output_dir,
    )


def _make_windows(tokenizer, max_seq_length: int, doc_stride: int):
    """Returns words [N, (words)] -> word_windows.Windows, compiled."""
    return tf.function(
        lambda words: word_windows.make(
            words, tokenizer, max_seq_length, doc_stride
        ),
        input_signature=[tf.RaggedTensorSpec([None, None], tf.string, 1)],
        autograph=False,  # No control flow to convert; saves seconds.
    )


def as_ragged(documents: Sequence[ner_files.Document]) -> tf.RaggedTensor:
    """Returns the words of each document, [N, (words)] string."""
    return tf.RaggedTensor.from_row_lengths(
        tf.constant([w for d in documents for w in d.words], tf.string),
        [len(d.words) for d in documents],
    )


def _in_windows(
    corpus: ner_files.Corpus, make_windows
) -> Iterator[tuple[list[ner_files.Document], word_windows.Windows]]:
    """Yields batches of documents and their windows, as NumPy arrays."""
    documents = iter(corpus.documents)
    while some := list(itertools.islice(documents, _DOCUMENTS_AT_ONCE)):
        windows = make_windows(as_ragged(some))
        yield (
            some,
            tf.nest.map_structure(lambda tensor: tensor.numpy(), windows),
        )


def _count(corpus, path: str, make_windows) -> int:
    """Returns the number of windows of a file."""
    types = options.shortened(", ".join(corpus.entity_types))
    logging.info(
        f"{path}  scheme {corpus.scheme or 'none (no tags)'}  "
        f"documents {len(corpus.documents)}  sentences {len(corpus.sentences)}"
        + (f"  {len(corpus.entity_types)} types {types}" if types else "")
    )
    return sum(len(w.rows) for _, w in _in_windows(corpus, make_windows))


def _examples(
    corpus, make_windows, labels, max_seq_length: int, counts: dict
) -> Iterator[dict[str, np.ndarray]]:
    counts |= dict.fromkeys(
        ("documents", "sentences", "words", "pieces", "windows"), 0
    )
    counts |= {"words_without_pieces": 0, "tokens": 0}
    long_sentences, cut_words = [], []
    for documents, windows in _in_windows(corpus, make_windows):
        sentences = [s for d in documents for s in d.sentences]
        tags = ner_files.tag_ids(sentences, labels)
        tag_ids = np.zeros((len(windows.rows), max_seq_length), np.int32)
        weights = np.zeros(tag_ids.shape, np.float32)
        if tags:
            positions = tuple(windows.positions.T)
            tag_ids[positions] = tags
            weights[positions] = 1
        counts["documents"] += len(documents)
        counts["words"] += len(tags)
        counts["windows"] += len(tag_ids)
        counts["pieces"] += int(windows.num_pieces.sum())
        counts["words_without_pieces"] += int((windows.num_pieces == 0).sum())
        counts["tokens"] += int(windows.inputs["input_mask"].sum())
        counts["sentences"] += len(sentences)
        long, cut = _list_long(
            corpus, sentences, windows.num_pieces, max_seq_length - 2
        )
        long_sentences += long
        cut_words += cut
        for row in range(len(tag_ids)):
            inputs = {n: values[row] for n, values in windows.inputs.items()}
            yield inputs | {
                "tag_ids": tag_ids[row],
                "tag_weights": weights[row],
            }
    _report(counts, "long_sentences", "split into windows", long_sentences)
    _report(counts, "cut_words", "truncated to their first pieces", cut_words)
    if found := corpus.counts:
        counts["spans"] = found.spans
        counts["rows_without_annotation"] = found.rows_without_annotation
        moved = "moved out to whole words", found.widened_spans
        _report(counts, "widened_spans", *moved)
        _report(counts, "dropped_spans", "left out", found.dropped_spans)
        if found.rows_without_annotation:
            logging.warning(
                f"{corpus.path}: {found.rows_without_annotation} rows that "
                "nobody annotated, or that were rejected, are left out"
            )


def _list_long(
    corpus: ner_files.Corpus,
    sentences: Iterable[ner_files.Sentence],
    num_pieces: np.ndarray,
    most: int,
) -> tuple[list[str], list[str]]:
    """Returns file and line of sentences and of words longer than a window."""
    long_sentences, cut_words, first = [], [], 0
    for sentence in sentences:
        pieces = num_pieces[first : first + len(sentence.columns)]
        first += len(pieces)
        if pieces.sum() > most:
            long_sentences.append(
                f"{corpus.where(sentence.lines[0])}: {len(pieces)} words, "
                f"{pieces.sum()} pieces"
            )
        for index in np.flatnonzero(pieces > most):
            where = corpus.where(sentence.lines[index])
            cut_words.append(f"{where}: {pieces[index]} pieces")
    return long_sentences, cut_words


def _report(counts: dict, name: str, effect: str, lines: list[str]) -> None:
    """Adds a list and its length to the counts; logs it if it is not empty."""
    counts[name] = len(lines)
    counts[f"{name}_at"] = lines
    if lines:
        title = name.replace("_", " ")
        named = options.some(lines, "; ", _NAMED)
        logging.warning(f"{title}: {len(lines)}, {effect}: {named}")
