"""Outputs of a tagger -> scores on dev, files as conlleval reads them."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from absl import logging

from bert_tf.tasks import ner, ner_scores
from run_scripts.flags.ner_flags import Read
from tfrecords import schema
from tfrecords.io import atomic_files, records
from tfrecords.tasks import ner_files

Tags = list[list[str]]  # Of each sentence.


def read_tags(found: records.Records) -> tuple[np.ndarray, np.ndarray]:
    """Returns `tag_weights` and `tag_ids` of tagging records, each [M, S]."""
    names = ("tag_weights", "tag_ids")
    return tuple(
        found.read({name: schema.TAGGING[name] for name in names}).values()
    )


def in_sentences(
    corpus: ner_files.Corpus, ids: np.ndarray, labels: Sequence[str]
) -> Tags:
    """Returns the tags of each sentence, of ids of all words in their order."""
    ends = np.cumsum([len(s.columns) for s in corpus.sentences])
    if ends[-1] != len(ids):
        raise ValueError(
            f"{len(ids)} tags for the {ends[-1]} words of {corpus.path}: its "
            "records are of another file. Delete them, or give their file."
        )
    parts = np.split(ids, ends[:-1])
    return [[labels[i] for i in part] for part in parts]


def make_score(
    read: Read, labels: Sequence[str], sets: Mapping[str, records.Records]
) -> Callable[[str, Mapping[str, np.ndarray]], dict[str, float]]:
    """Returns (dev split, outputs) -> loss, and the scores of `ner_scores`."""
    tags = {
        split: read_tags(found)
        for split, found in sets.items()
        if split.startswith("dev")
    }

    def score(split, outputs):
        weights, right = tags[split]
        ids = ner.predicted_tags(outputs["logits"], weights)
        corpus = read(split)
        return {
            "loss": ner.loss(outputs["logits"], weights, right)
        } | ner_scores.score(
            [s.tags for s in corpus.sentences],
            in_sentences(corpus, ids, labels),
        )

    return score


def majority_baseline(
    read: Read, splits: Iterable[str]
) -> dict[str, dict[str, float]]:
    """Returns of each dev set what the commonest tag of each word scores.

    Args:
      read: split -> what its file holds.
      splits: that there are; without a training file nothing is known.
    """
    splits = list(splits)
    if "train" not in splits:
        return {}
    train = read("train")
    words = [w for s in train.sentences for w in s.words]
    tags = [tag for s in train.sentences for tag in s.tags]
    scores = {}
    for split in splits:
        if split.startswith("dev"):
            sentences = read(split).sentences
            answers = ner_scores.tag_by_majority(
                words, tags, [s.words for s in sentences]
            )
            scores[split] = ner_scores.score(
                [s.tags for s in sentences], answers
            )
    return scores


def write_predictions(
    corpus: ner_files.Corpus, predicted: Iterable[Sequence[str]], path: str
) -> None:
    """Writes the columns of a file and, last, the predicted tag.

      EU      NNP  B-NP  B-ORG  B-ORG
      rejects VBZ  B-VP  O      O

    As conlleval reads it, with a space between columns; so both tags are IOB2,
    whatever the scheme of the file. Without right tags the predicted is the
    last column alone.

    Args:
      corpus: what was predicted.
      predicted: tags of each sentence.
      path: of the file, which is written whole or not at all.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    width = len(corpus.sentences[0].columns[0])
    has_tags = bool(corpus.scheme)
    answers, num_words = iter(predicted), 0
    with atomic_files.atomic_file(path) as file:

        def write(row: tuple[str, ...]) -> None:
            file.write(" ".join(row) + "\n")

        for document in corpus.documents:
            if document.start:
                start = (document.start + ("-X-",) * width)[:width]
                write(start + (ner_files.OUTSIDE,) * (1 + has_tags))
                file.write("\n")
            for sentence in document.sentences:
                tags = sentence.tags or [()] * len(sentence.columns)
                for row, tag, answer in zip(
                    sentence.columns, tags, next(answers), strict=True
                ):
                    write((*row, *([tag] if tag else []), answer))
                file.write("\n")
                num_words += len(sentence.columns)
    logging.info("%s  words %d", path, num_words)
