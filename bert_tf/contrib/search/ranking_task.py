"""Scores and grades of a query's passages -> ranking losses, nDCG and MRR.

A pair is a query and a passage, and its grade, at least 0, says how relevant
the passage is. The model scores each pair by itself (a cross-encoder).

N pairs, B batch, C passages of a query, Q queries, S sequence.
"""

import functools
import hashlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.contrib.search import ranking
from bert_tf.contrib.search.records import ranking_examples
from bert_tf.model import encoder
from bert_tf.tasks import losses
from bert_tf.tasks.task import DEV_SEED, Resampled, Target
from bert_tf.tasks.texts.regression import Regression
from tfrecords import schema


class Queries(NamedTuple):
    """The queries of a labelled split.

    Attributes:
      path: file of the rows.
      rows: of each query the numbers of its rows.
      names: [N] of each row an id of its passage, which no other row has.
        Passages of equal scores are in the order of these, which says nothing
        about the order of the file: that may have the relevant one first.
    """

    path: str
    rows: list[np.ndarray]
    names: list[str]


class Ranking(Regression):
    """The grade of a passage for a query, to rank the passages of each query.

    `--ranking_loss` is one of

      binary    is the passage relevant, its grade above 0: `losses.relevance`
      listwise  which passages of a query are relevant: `losses.listwise`; an
                example has C of them, [C, S]

    On dev all passages of a query are ranked, in any number.
    """

    make_split = staticmethod(
        functools.partial(ranking_examples.split_of, seed=DEV_SEED)
    )

    def __init__(self, table, data=None):
        super().__init__(table, data)
        self.is_listwise = table.ranking_loss == "listwise"
        if self.is_listwise:
            self.schema = schema.RANKING
        self.queries: dict[str, Queries] = {}  # By split.

    def prepare(self, config, source):
        """Raises ValueError for what the loss cannot learn from a teacher."""
        losses_given = config.distillation_losses
        if (
            config.do_train
            and config.teacher
            and (self.is_listwise or "soft_targets" in losses_given)
        ):
            raise ValueError(
                f"--distillation_losses={','.join(losses_given)}: "
                "--ranking_loss=binary learns no soft_targets, and listwise "
                "nothing from a teacher. Omit --teacher, or use other losses."
            )
        return super().prepare(config, source)

    def open_splits(self, splits):
        """Reads grades, and queries and passages of labelled splits."""
        labelled = super().open_splits(splits)
        for split in self.labels:
            self.read_rows(split, self.rows_of(split))
        return labelled

    def read_rows(self, split, rows):
        """Takes queries and passages of a split."""
        members: dict[str, list[int]] = {}
        names, path = [], ""
        for number, row in enumerate(rows):
            path = path or row.source.rpartition(":")[0]
            members.setdefault(row.group, []).append(number)
            digest = hashlib.sha256(row.texts[1].encode()).hexdigest()
            names.append(f"{digest[:16]} {number:012d}")
        found = list(map(np.array, members.values()))
        self.queries[split] = Queries(path, found, names)

    def outputs(self, model, batch, dropout_key):
        """Returns `predictions`, [B, C] of lists of passages."""
        if not self.is_listwise:
            return super().outputs(model, batch, dropout_key)
        rows, dropout_key, choices = encoder.flatten(batch, dropout_key)
        found = super().outputs(model, rows, dropout_key)
        return {"predictions": tf.reshape(found["predictions"], [-1, choices])}

    def label_targets(self, batch, weights):
        """Returns the relevance of each row, or of each query's passages."""
        if not self.is_listwise:
            target = Target(
                "predictions", batch[self.feature], weights, losses.relevance
            )
            return {"relevance": target}
        grades = batch["passage_grades"]
        has_relevant = tf.reduce_any(grades > 0, axis=-1)
        target = Target(
            "predictions",
            grades,
            weights * tf.cast(has_relevant, tf.float32),
            functools.partial(
                losses.listwise, is_passage=batch["passage_weights"]
            ),
        )
        return {"listwise": target}

    def score(self, split, outputs):
        """Returns nDCG, MRR and the loss: of lists, the mean over queries."""
        if not self.is_listwise:
            return super().score(split, outputs)
        labels = self.labels[split]
        rows = self.queries[split].rows
        # [Q, C], filled with the first of each query.
        shape = len(rows), max(map(len, rows))
        places = np.array([np.resize(x, shape[1]) for x in rows])
        sizes = np.array([len(x) for x in rows])[:, np.newaxis]
        is_passage = (np.arange(shape[1]) < sizes).astype(np.float32)
        batch = {
            "passage_grades": tf.constant(labels[places] * is_passage),
            "passage_weights": tf.constant(is_passage),
            "is_real_example": tf.ones(len(rows)),
        }
        of_queries = tf.constant(self.predicted(outputs)[places])
        loss = self.mean_loss({"predictions": of_queries}, batch)
        return {"loss": loss} | self.metric_values(outputs, labels, split)

    def metric_values(self, outputs, labels, split):
        """Returns nDCG@10 and MRR, means over queries."""
        predicted = self.predicted(outputs)
        if not np.isfinite(predicted).all():
            logging.warning(
                "%s: %s are undefined: some scores are not finite",
                split,
                ", ".join(self.table.metrics),
            )
            return dict.fromkeys(self.table.metrics)
        return self._rank(predicted, labels, split)

    def _rank(self, predicted: np.ndarray, labels: np.ndarray, split: str):
        queries = self._ranked(predicted, labels, split)
        ranked, judged = zip(*queries, strict=True)
        found = ranking.scores(ranked, judged)
        return {name: found[name] for name in self.table.metrics}

    def _ranked(self, predicted, labels, split: str):
        """Yields each query's ids, the best first, and their grades."""
        queries = self.queries[split]
        for rows in queries.rows:
            names = [queries.names[i] for i in rows]
            best = ranking.Ranking(1, depth=len(rows))
            best.add(predicted[np.newaxis, rows], names)
            grades = dict(zip(names, labels[rows].tolist(), strict=True))
            yield best.ids()[0], grades

    def resampled(self, split, outputs):
        """Returns the best metric of any queries."""
        predicted, labels = self.predicted(outputs), self.labels[split]
        if not np.isfinite(predicted).all():
            return None
        queries = self._ranked(predicted, labels, split)
        found = [ranking.scores([x], [y])[self.best_metric] for x, y in queries]
        found = np.array(found)
        return Resampled(
            "queries", len(found), lambda i: float(found[i].mean())
        )

    def baseline(self, labels, split):
        """Returns the metrics if all scores are equal: an arbitrary order.

        Raises:
          ValueError: if no ranking of dev is better than another.
        """
        queries = self.queries[split]
        if not any(_can_differ(labels[rows]) for rows in queries.rows):
            raise ValueError(
                f"{queries.path}: none of the {len(queries.rows)} queries "
                f"({self.table.group_name!r}) of {split} has a relevant "
                f"passage, of a grade ({self.table.label_column!r}) above 0, "
                "and one of a lower grade, so all rankings have the same "
                "scores. Give a dev file with such queries, or omit --do_eval."
            )
        return self._rank(np.zeros(len(labels)), labels, split)

    def decisive_settings(self):
        """Returns the settings of `TextTask`, the loss and the group column."""
        return super().decisive_settings() | {
            "ranking_loss": self.table.ranking_loss,
            "groups": self.table.group_name,
        }

    def label_metadata(self):
        """Returns the loss."""
        loss = self.table.ranking_loss
        return super().label_metadata() | {"ranking_loss": loss}


def _can_differ(grades: np.ndarray) -> bool:
    """Returns whether the order of these passages matters."""
    return grades.max() > 0 and grades.min() < grades.max()
