"""word_baseline.py: words decide, classes without rows are never predicted."""

import types

import numpy as np
import pytest

from bert_tf.tasks.texts import word_baseline

TEXTS = ["good good", "bad, bad", "so good", "so bad"] * 5
ASKED = ["good", "bad", "unknown"]


def test_words_decide():
    # Class 1 of three has no rows.
    logits = word_baseline.fit(TEXTS, np.array([2, 0, 2, 0] * 5))(ASKED)
    assert logits.argmax(axis=1)[:2].tolist() == [2, 0]
    assert np.isneginf(logits[:, 1]).all()
    np.testing.assert_allclose(np.exp(logits).sum(axis=1), 1)


def test_each_label_is_a_decision_of_its_own():
    # The second label has no row, the third one all.
    labels = np.array([[1, 0, 1], [0, 0, 1]] * 10)
    logits = word_baseline.fit(TEXTS, labels)(ASKED)
    assert (logits[:2] > 0).tolist() == [
        [True, False, True],
        [False, False, True],
    ]


@pytest.mark.parametrize(
    ("texts", "labels"), [(["a", "b"], [0, 0]), (["", "!"], [0, 1])]
)
def test_what_cannot_be_learned_is_an_error(texts, labels):
    with pytest.raises(ValueError, match="class|vocabulary"):
        word_baseline.fit(texts, np.array(labels))


@pytest.mark.parametrize("error", [ValueError("changed"), OSError("gone")])
def test_rows_that_cannot_be_read_give_no_scores(error):
    def rows_of(split):
        raise error

    table = types.SimpleNamespace(text_columns=("text",))
    task = types.SimpleNamespace(table=table, class_names="ab", rows_of=rows_of)
    assert word_baseline.WordBaseline(task, ["train", "dev"]).score("dev") == {}
