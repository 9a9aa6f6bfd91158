"""Training rows of texts and labels -> TF-IDF and logistic regression.

What words alone tell, without a BERT. N rows, C classes or labels.
"""

from collections.abc import Callable, Sequence

import numpy as np

# More rows, drawn at random, would take minutes.
MAX_ROWS = 20_000
_MAX_FEATURES = 100_000


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

    def log_odds(is_label: np.ndarray):  # Of one label; constant without both.
        if len(set(is_label.tolist())) < 2:
            return lambda rows: np.full(rows.shape[0], 20 * is_label[0] - 10)
        return (
            LogisticRegression(max_iter=1000)
            .fit(features, is_label)
            .decision_function
        )

    if labels.ndim == 2:
        of_labels = [log_odds(column) for column in labels.T]

        def predict(texts):
            rows = vectorizer.transform(texts)
            return np.stack([f(rows) for f in of_labels], axis=1)

        return predict
    fitted = LogisticRegression(max_iter=1000).fit(features, labels)
    size = int(labels.max()) + 1

    def predict_class(texts):
        # A class without training rows is never predicted.
        logits = np.full((len(texts), size), -np.inf)
        rows = vectorizer.transform(texts)
        logits[:, fitted.classes_] = fitted.predict_log_proba(rows)
        return logits

    return predict_class
