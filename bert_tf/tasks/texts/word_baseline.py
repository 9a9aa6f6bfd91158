"""Training rows of texts and labels -> TF-IDF and logistic regression.

What words alone tell, without a BERT. N rows, C classes or labels.
"""

import copy
import functools
from collections.abc import Callable, Collection, Sequence

import numpy as np
from absl import logging

from bert_tf.tasks.task import DEV_SEED

# More rows, drawn at random, would take minutes.
MAX_ROWS = 20_000
_MAX_FEATURES = 100_000


class WordBaseline:
    """Scores of TF-IDF and logistic regression, of classes of single texts.

    Words of two texts say little of how they belong together.

    Args:
      task: a TextTask whose splits are open.
      splits: its splits. Without train there are no scores.
    """

    def __init__(self, task, splits: Collection[str]):
        self.task, self.predict = copy.copy(task), None
        self.task.tunes = True  # Thresholds are not the model's.
        is_single = len(task.table.text_columns) == 1
        self.is_wanted = is_single and task.class_names and "train" in splits

    def score(self, split: str) -> dict[str, float | None]:
        """Returns the metrics of a labelled split; {} if there are none.

        Thresholds of several labels are chosen as those of the model: on dev.
        """
        if not self.is_wanted:
            return {}
        try:
            self.predict = self.predict or self._fit()
            texts = [row.texts[0] for row in self.task.rows_of(split)]
        # One class, no words, or files that are no longer those of the records.
        # The scores of the model are still to be written.
        except (ValueError, OSError) as error:
            logging.info("no TF-IDF beside the scores: %s", error)
            return {}
        outputs = {"logits": self.predict(texts)}
        labels = self.task.labels[split]
        return self.task.metric_values(outputs, labels, f"{split}, TF-IDF")

    def _fit(self) -> Callable[[Sequence[str]], np.ndarray]:
        read = functools.partial(self.task.rows_of, "train")
        total = sum(1 for _ in read())  # All texts may not fit into memory.
        order = np.random.default_rng(DEV_SEED).permutation(total)
        chosen = {*order[:MAX_ROWS].tolist()}
        rows = [row for i, row in enumerate(read()) if i in chosen]
        labels = self.task.label_array([row.label for row in rows])
        return fit([row.texts[0] for row in rows], labels)


def fit(
    texts: Sequence[str], labels: np.ndarray
) -> Callable[[Sequence[str]], np.ndarray]:
    """Returns texts -> logits [N, C], of words and pairs of words.

    Args:
      texts: of N training rows.
      labels: [N] class ids, or [N, C] of 0 and 1, each a decision of its own.

    Raises:
      ValueError: if no text has a word, or all rows have the same class.
    """
    # Imported here: only an evaluation needs them.
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    vectorizer = TfidfVectorizer(
        ngram_range=(1, 2),
        sublinear_tf=True,
        max_features=_MAX_FEATURES,
        token_pattern=r"(?u)\w+",
    )
    features = vectorizer.fit_transform(texts)

    # For a decision of two, ten times as fast as the default.
    decision = functools.partial(LogisticRegression, solver="liblinear")

    def log_odds(is_label: np.ndarray):  # Of one label; constant without both.
        if len(set(is_label.tolist())) < 2:
            return lambda rows: np.full(rows.shape[0], 20 * is_label[0] - 10)
        return decision().fit(features, is_label).decision_function

    def predict(texts):
        rows = vectorizer.transform(texts)
        if labels.ndim == 2:
            return np.stack([f(rows) for f in of_labels], axis=1)
        # A class without training rows is never predicted.
        logits = np.full((len(texts), labels.max() + 1), -np.inf)
        logits[:, fitted.classes_] = fitted.predict_log_proba(rows)
        return logits

    if labels.ndim == 2:
        of_labels = [log_odds(column) for column in labels.T]
    else:
        is_decision = len(np.unique(labels)) == 2
        make = decision if is_decision else LogisticRegression
        fitted = make(max_iter=1000).fit(features, labels)
    return predict
