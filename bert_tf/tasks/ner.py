"""Files of tagged words -> Ner: windows, model, losses, scores, predictions.

Devlin et al. 2018, section 5.3, without a CRF.

M windows or sentences, S their length, C tags, T words.
"""

import dataclasses
import functools
import json
import os
import re
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.model import models
from bert_tf.tasks import losses, ner_scores
from bert_tf.tasks.task import (
    FineTuningTask,
    Resampled,
    Target,
    evaluated_model,
)
from tfrecords import schema
from tfrecords.io import atomic_files
from tfrecords.options import quoted
from tfrecords.tasks import ner_examples, ner_files
from tfrecords.tasks.ner_files import OUTSIDE

_BREAK = re.compile("[\t\r\n]|^ +| +$")


class Ner(FineTuningTask):
    """Tagging of words, at their first pieces.

    Args:
      data: files and options; None if `make_records` is not used.
      labels: tags in the order of their ids, at least 2; None to read them from
        the training file or the model.

    Attributes:
      scheme: scheme of the tags, one of `ner_files.SCHEMES`; None if unknown.

    Raises:
      ValueError: in `build_model`, if there are fewer than 2 labels.
    """

    name = "NER"
    schema = schema.TAGGING
    prediction_splits = ("dev", "test")

    def __init__(
        self,
        data: ner_files.NerData | None = None,
        labels: Sequence[str] | None = None,
    ):
        self.data = data
        self.labels = labels
        self.scheme = labels and ner_files.scheme_of(labels)
        self.files: dict[str, str] = {}  # Split -> path; all existing files.
        self.splits: list[str] = []  # Splits that need records.
        # Split -> weights, 1 at first pieces, and tag ids, both [M, S].
        self.tags: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.read = functools.cache(self._read)

    @property
    def best_metric(self) -> str:
        """Entity F1, or the accuracy of words if tags are no entities."""
        is_plain = self.scheme == ner_files.PLAIN
        return "accuracy" if is_plain else "entity_f1"

    def _read(self, split: str, any_types: bool = False) -> ner_files.Corpus:
        """Returns a split's corpus; `any_types` allows unknown entity types."""
        types = None
        if not any_types:
            types = ner_files.types_of(self.labels, self.scheme)
        return self.data.read(split, self.files[split], types, self.scheme)

    def build_model(self, config, dtype=None):
        """Returns a BertTagger."""
        return models.BertTagger(
            config, num_classes=len(self.labels), dtype=dtype
        )

    def targets(self, batch):
        """Returns the tag of each word of a real window, at its first piece."""
        weights = batch["tag_weights"] * batch["is_real_example"][:, tf.newaxis]
        tags = batch["tag_ids"]
        target = Target("logits", tags, weights, accuracy_name="accuracy")
        return {"tagging": target}

    def prepare(self, config, source):
        """Finds files and tags; without training, the tags are the model's."""
        model_dir, model_metadata = evaluated_model(config, source)
        self.files = self.data.find_files()
        self.splits = list(self.files)
        if not model_dir:
            if self.labels is None:
                self.labels, self.scheme = self.data.collect_labels(self.files)
            return self
        self.splits = [split for split in self.files if split != "train"]
        task = model_metadata.get("task")
        if task != self.metadata()["task"]:
            raise ValueError(
                f"{model_dir} is a model of task {task}, not of tagging. Add "
                "--do_train, or give the output_dir of a run of run_ner."
            )
        if self.data.doc_stride is None:
            stride = model_metadata.get("doc_stride")
            self.data = dataclasses.replace(self.data, doc_stride=stride)
        self.labels = model_metadata["labels"]
        self.scheme = model_metadata.get("tag_scheme")
        self.scheme = self.scheme or ner_files.scheme_of(self.labels)
        if self.scheme not in ner_files.SCHEMES:
            raise ValueError(
                f"{model_dir}: tag_scheme {quoted(self.scheme)} in model.json "
                f"is none of {', '.join(ner_files.SCHEMES)}. Copy the folder "
                "again."
            )
        given = self.data.tag_scheme
        if given != "auto" and not ner_files.is_same_kind(given, self.scheme):
            raise ValueError(
                f"--tag_scheme={given}: the tags of {model_dir} are "
                f"{self.scheme}, {quoted(self.labels)}. Omit the flag, or add "
                "--do_train."
            )
        known = ner_files.types_of(self.labels, self.scheme)
        asked = self.data.entity_types
        if asked and sorted(set(asked)) != known:
            raise ValueError(
                f"--entity_types={','.join(asked)}: {model_dir} predicts "
                f"{','.join(known)}. Omit the flag, or add --do_train."
            )
        return self

    def make_records(self, tokenizer, output_dir, max_seq_length):
        """Writes missing records; returns the folder of each split."""
        return ner_examples.make_records(
            {split: self.files[split] for split in self.splits},
            output_dir,
            tokenizer,
            read=self.read,
            labels=self.labels,
            max_seq_length=max_seq_length,
            doc_stride=self.data.doc_stride,
            columns=self.data.columns(),
        )

    def open_splits(self, splits):
        """Reads the words and tags of all splits but train.

        Files are read now, since they may change while the model is trained.
        """
        names = ("tag_weights", "tag_ids")
        self.tags = {
            split: tuple(
                records.read({n: self.schema[n] for n in names}).values()
            )
            for split, records in splits.items()
            if split != "train"
        }
        labelled = [split for split in self.tags if self.read(split).scheme]
        return [split for split in labelled if split.startswith("test")]

    def score(self, split, outputs):
        """Returns the loss, and the scores of `ner_scores`."""
        weights, tag_ids = self.tags[split]
        gold = [sentence.tags for sentence in self.read(split).sentences]
        return {
            "loss": loss(outputs["logits"], weights, tag_ids)
        } | self._scores(gold, self._predicted(split, outputs))

    def resampled(self, split, outputs):
        """Returns the entity F1, or the accuracy of words, of sentences."""
        gold = [sentence.tags for sentence in self.read(split).sentences]
        pairs = zip(gold, self._predicted(split, outputs), strict=True)
        if self.scheme == ner_files.PLAIN:
            found = [
                (len(x), len(x), sum(map(str.__eq__, x, y))) for x, y in pairs
            ]
        else:
            found = [ner_scores.count([x], [y]) for x, y in pairs]
        counts = np.array(found)  # [N, 3]: gold, predicted and right.

        def score(i):
            wanted, named, right = counts[i].sum(axis=0).tolist()
            return 2 * right / (wanted + named) if wanted + named else 0.0

        return Resampled("sentences", len(counts), score)

    def _scores(self, gold, predicted) -> dict[str, float]:
        if self.scheme == ner_files.PLAIN:
            return {"accuracy": ner_scores.accuracy(gold, predicted)}
        return ner_scores.score(gold, predicted)

    def _predicted(self, split, outputs) -> list[list[str]]:
        """Returns the predicted tags of each sentence, as in its corpus."""
        weights, _ = self.tags[split]
        ids = predicted_tags(outputs["logits"], weights)
        sentences = in_sentences(self.read(split), ids, self.labels)
        if self.scheme == ner_files.PLAIN:
            return sentences
        return [ner_files.entity_tags(tags, self.labels) for tags in sentences]

    def majority_baseline(self):
        """Returns scores of tagging words with their most frequent tag.

        Frequencies are those of the training file; without it, this is empty.
        """
        if "train" not in self.files:
            return {}
        train = self.read("train", any_types=True).sentences
        words = [word for sentence in train for word in sentence.words]
        tags = [tag for sentence in train for tag in sentence.tags]
        baseline = {}
        for split in self.files:
            is_test = split.startswith("test")
            if split == "train" or is_test and not self.read(split).scheme:
                continue
            sentences = self.read(split, any_types=True).sentences
            baseline[split] = self._scores(
                [sentence.tags for sentence in sentences],
                ner_scores.tag_by_majority(
                    words,
                    tags,
                    [sentence.words for sentence in sentences],
                    None if self.scheme == ner_files.PLAIN else OUTSIDE,
                ),
            )
        return baseline

    def write_predictions(self, predict, output_dir):
        """Writes dev.txt and test.txt in the format of conlleval.

        Of a table, dev.rows.jsonl and test.rows.jsonl have its rows, too.
        """
        for split in self.tags:
            corpus = self.read(split)
            predicted = self._predicted(split, predict(split))
            path = os.path.join(output_dir, split)
            write_columns(corpus, predicted, f"{path}.txt", self.scheme)
            if corpus.documents[0].row:
                write_rows(corpus, predicted, f"{path}.rows.jsonl", self.scheme)

    def metadata(self, scores=None):
        """Returns task, tags and window stride, for model.json."""
        # Without it, the scheme is that of the labels.
        is_written = self.scheme in ner_files.WRITTEN_BACK
        return {
            "task": "tagging",
            "labels": self.labels,
            "doc_stride": self.data.doc_stride,  # None: half of a window.
        } | ({"tag_scheme": self.scheme} if is_written else {})


def predicted_tags(logits: np.ndarray, tag_weights: np.ndarray) -> np.ndarray:
    """Returns the tag of each word, in the order of the file, [T].

    Args:
      logits: [M, S', C]; S' may be less than S, if batches were trimmed.
      tag_weights: [M, S], from the records.
    """
    return _at_words(logits, tag_weights).argmax(axis=-1)


def loss(
    logits: np.ndarray, tag_weights: np.ndarray, tag_ids: np.ndarray
) -> float:
    """Returns the mean loss over words; the right tags are [M, S]."""
    chosen = _at_words(logits, tag_weights)
    mean = losses.cross_entropy(
        tf.constant(chosen),
        tf.constant(tag_ids[tag_weights > 0]),
        tf.ones(len(chosen)),
    )
    return float(mean.value())


def _at_words(logits, tag_weights):  # [T, C]
    return logits[tag_weights[:, : logits.shape[1]] > 0]


def in_sentences(
    corpus: ner_files.Corpus, ids: np.ndarray, labels: Sequence[str]
) -> list[list[str]]:
    """Returns the tags of each sentence, given the ids [T] of all words."""
    ends = np.cumsum([len(s.columns) for s in corpus.sentences])
    if ends[-1] != len(ids):
        raise ValueError(
            f"{len(ids)} tags for the {ends[-1]} words of {corpus.path}: the "
            "records were made from another file. Delete them, or give that "
            "file."
        )
    parts = np.split(ids, ends[:-1])
    return [[labels[i] for i in part] for part in parts]


def write_columns(
    corpus: ner_files.Corpus,
    predicted: Iterable[Sequence[str]],
    path: str,
    scheme: str | None = None,
) -> None:
    """Writes the columns of a file, followed by the predicted tag.

      EU      NNP  B-NP  B-ORG  B-ORG
      rejects VBZ  B-VP  O      O

    This is the input format of conlleval: a space between columns, and both
    tags in IOB2 for files in IOB1, IOB2 and BIOES. Other files keep their
    scheme, see `ner_files.WRITTEN_BACK`. Without gold tags, the predicted tag
    is the only one. If a word or a tag has a space, there are tabs between
    columns, for conlleval's -d; tabs and line breaks in words are _.

    Args:
      corpus: words, and gold tags if it has any.
      predicted: tags of each sentence.
      path: path of the file, which is written atomically.
      scheme: scheme to write if the file has no tags.
    """
    scheme = corpus.scheme or scheme
    os.makedirs(os.path.dirname(path), exist_ok=True)
    width = len(corpus.sentences[0].columns[0])
    has_tags = bool(corpus.scheme)
    answers, num_words = iter(predicted), 0
    lines = []
    for document in corpus.documents:
        if document.start:
            start = (document.start + ("-X-",) * width)[:width]
            lines += [start + (ner_files.OUTSIDE,) * (1 + has_tags), ()]
        for sentence in document.sentences:
            tags = ner_files.in_scheme(sentence.tags, scheme)
            tags = tags or [()] * len(sentence.columns)
            named = ner_files.in_scheme(next(answers), scheme)
            lines += [
                (*row, *([tag] if tag else []), answer)
                for row, tag, answer in zip(
                    sentence.columns, tags, named, strict=True
                )
            ]
            lines.append(())
            num_words += len(sentence.columns)
    lines = [[_BREAK.sub("_", cell) for cell in row] for row in lines]
    has_spaces = any(" " in cell for row in lines for cell in row)
    separator = "\t" if has_spaces else " "
    with atomic_files.atomic_file(path) as file:
        file.writelines(separator.join(row) + "\n" for row in lines)
    logging.info("%s  words %d", path, num_words)


def write_rows(
    corpus: ner_files.Corpus,
    predicted: Iterable[Sequence[str]],
    path: str,
    scheme: str | None = None,
) -> None:
    """Writes the rows of a table with predicted tags, or spans of characters.

      {"text": "Ada came", "entities": [{"start": 0, "end": 3, "label": "PER"}]}
      {"tokens": ["Ada", "came"], "tags": ["B-PER", "O"]}

    Each has the file and line of its row, too, as some are left out.
    The arguments are those of `write_columns`.
    """
    answers = iter(predicted)
    with atomic_files.atomic_file(path) as file:
        for document in corpus.documents:
            row = document.row
            tags = next(answers) if document.sentences else ()
            if row.text is None:
                named = ner_files.in_scheme(tags, corpus.scheme or scheme)
                content = {"tokens": row.words, "tags": named}
            else:
                found = sorted(ner_scores.extract_entities(tags))
                content = {"text": row.text, "entities": []}
                for first, last, label in found:
                    start, end = row.places[first][0], row.places[last - 1][1]
                    span = {"start": start, "end": end, "label": label}
                    content["entities"].append(span)
            content["row"] = os.path.basename(row.where)
            file.write(json.dumps(content, ensure_ascii=False) + "\n")
    logging.info("%s  rows %d", path, len(corpus.documents))
