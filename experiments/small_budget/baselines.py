"""Rows of a GLUE task -> dev score of TF-IDF and logistic regression.

What somebody without BERT would try first, with scikit-learn: words and pairs
of words, and the strength of regularization by cross-validation.
"""

import os
from collections.abc import Sequence

from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from experiments import evaluation_tasks
from tfrecords.tasks import glue_rows

_STRENGTHS = (0.1, 1.0, 10.0, 100.0)
_FOLDS = 3


def has_score(folder: str) -> bool:
    """Returns whether a task has classes, and dev rows."""
    return not evaluation_tasks.glue_task(folder).is_regression and all(
        map(os.path.exists, evaluation_tasks.glue_files(folder))
    )


def tf_idf_score(folder: str) -> float:
    """Returns the dev score; Matthews correlation for CoLA, else accuracy.

    Args:
      folder: folder of a classification task of GLUE, named like it.

    Raises:
      ValueError: if a file is malformed.
    """
    task = evaluation_tasks.glue_task(folder)
    train_rows, dev_rows = (
        list(glue_rows.read_rows(task, path, is_labelled=True))
        for path in evaluation_tasks.glue_files(folder)
    )
    # Each text of a pair has features of its own.
    features = [
        _features(
            [row.texts[i] for row in train_rows],
            [row.texts[i] for row in dev_rows],
        )
        for i in range(len(train_rows[0].texts))
    ]
    train, evaluated = (
        sparse.hstack(columns) for columns in zip(*features, strict=True)
    )
    model = GridSearchCV(
        LogisticRegression(max_iter=1000),
        {"C": _STRENGTHS},
        scoring="matthews_corrcoef" if task.name == "CoLA" else "accuracy",
        cv=_FOLDS,
    )
    model.fit(train, [row.label for row in train_rows])
    return float(model.score(evaluated, [row.label for row in dev_rows]))


def _features(train: Sequence[str], evaluated: Sequence[str]):
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    return vectorizer.fit_transform(train), vectorizer.transform(evaluated)
