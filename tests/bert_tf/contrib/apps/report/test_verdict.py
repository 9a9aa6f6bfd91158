"""verdict.py: words that are true of each kind of run."""

import types

import pytest

from bert_tf.contrib.apps.report import verdict

INTERVAL = {"unit": "rows", "size": 400, "low": 0.75, "high": 0.85}
ROWS = {"dev": [{"text_a": "a"}], "test": [{"text_a": "a"}]}


def make(
    score=0.8,
    baseline=0.5,
    words=None,
    *,
    metric="accuracy",
    interval=INTERVAL,
    num_train=2000,
    name="reviews",
    labels=("bad", "good"),
    rows=ROWS,
    trained=True,
    **results,
):
    """Returns the verdict of a run as one text."""
    results = {
        "task_name": name,
        "best_metric": metric,
        "dev": {"loss": 0.5, metric: score},
        "majority_baseline": {"dev": {metric: baseline}}
        if baseline != ""
        else {},
        "confidence_interval": {"dev": interval} if interval else {},
    } | results
    if words is not None:
        results["tf_idf_baseline"] = {"dev": {metric: words}}
    train = {"train": types.SimpleNamespace(num_examples=num_train)}
    run = types.SimpleNamespace(
        results=results,
        labels=list(labels),
        rows=rows,
        manifests=train if num_train else {},
        settings={"task": name} if trained else {},
    )
    return "\n".join(verdict.make(run))


def test_all_that_is_known_is_said():
    assert make(words=0.7) == (
        "accuracy on dev: 0.8, with a 95 % interval from 0.75 to 0.85, by "
        "drawing the 400 rows again (bootstrap). The best constant answer has "
        "0.5: the score is above it. TF-IDF with logistic regression, which "
        "sees only words, has 0.7 on the same rows: the score is above it. The "
        "model was chosen on dev, so that this score can be too good: a "
        "--test_file with labels shows more.\n"
        "Next: if the score is not enough, read the most wrong rows below, and "
        "label more rows."
    )


MORE_ROWS = "Next: evaluate more rows, which makes the interval narrower"
TRAIN_BETTER = "Then try another --init_checkpoint, more --num_train_epochs, or"
FEW = "Next: 90 training rows of 2 labels are few. Label more, or try run_few"
CANNOT_TELL = "it is within the interval, so these rows cannot tell which"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"baseline": 0.9}, ["has 0.9: the score is below it", TRAIN_BETTER]),
        ({"baseline": 0.8}, [CANNOT_TELL, MORE_ROWS]),
        (
            {"words": 0.9},
            ["0.9 on the same rows: the score is below", "Then try"],
        ),
        ({"words": 0.78}, [f"same rows: {CANNOT_TELL}", MORE_ROWS]),
        ({"words": 0.9, "num_train": 90}, [FEW]),
        ({"baseline": 0.9, "num_train": 90}, [FEW]),
        ({"words": 0.7, "num_train": 90}, ["read the most wrong rows below"]),
        (
            {"interval": None},
            ["0.8; its interval is not known.", "is above it"],
        ),
        (
            {"interval": None, "baseline": 0.8},
            ["has 0.8: the score is the same.", TRAIN_BETTER],
        ),
        (
            {"score": None},
            ["accuracy on dev: undefined, all pred", TRAIN_BETTER],
        ),
        # Not trained here, and no training rows.
        (
            {"trained": False, "num_train": 0},
            [
                "There are no training rows at hand to fit TF-IDF",
                "Next: if the score is not enough, read the most wrong rows "
                "below, and train on rows of this table.",
            ],
        ),
        (
            {"trained": False, "num_train": 0, "baseline": 0.9},
            ["the labels of the model mean the same in this table; then train"],
        ),
        (
            {"trained": False, "num_train": 0, "baseline": 0.8},
            ["Next: evaluate more rows, or train on rows of this table."],
        ),
    ],
)
def test_words_are_true_of_classes(changes, expected):
    found = make(**changes)
    assert all(text in found for text in expected), found


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # Several labels.
        ({"metric": "micro_f1", "words": 0.9}, "below it"),
        # Regression: a constant has no correlation.
        (
            {"metric": "spearman", "labels": (), "baseline": None},
            "The best constant answer has 0: the score is above it.",
        ),
        (
            {"metric": "ndcg@10", "labels": (), "baseline": 0.4}
            | {"interval": INTERVAL | {"unit": "queries"}},
            "drawing the 400 queries again (bootstrap). Passages in an "
            "arbitrary order have 0.4: the score is above it.",
        ),
        # A search: no baseline, no interval.
        (
            {"metric": "mrr", "labels": (), "interval": None, "baseline": ""},
            "There is no baseline to compare it with.",
        ),
        (
            {"metric": "entity_f1", "labels": (), "name": "NER"},
            "Each word with its most frequent tag has 0.5: the score is above",
        ),
        (
            {"metric": "f1", "labels": (), "name": "SQuAD", "score": 80.0}
            | {"interval": INTERVAL | {"low": 75.0, "high": 85.0}},
            "f1 on dev: 80, with a 95 % interval from 75 to 85",
        ),
    ],
)
def test_words_are_true_of_other_tasks(changes, expected):
    found = make(**{"rows": {}} | changes)
    assert expected in found
    assert "wrong rows below" not in found
    assert ("TF-IDF" in found) == ("words" in changes)


def test_a_pair_has_no_line_about_words():
    rows = {"dev": [{"text_a": "a", "text_b": "b"}]}
    assert "TF-IDF" not in make(rows=rows, num_train=0)


def test_a_test_file_comes_first_and_decides_no_advice():
    test = {"accuracy": 0.3}
    found = make(test=test).split("\n")
    assert found[0].startswith("accuracy on test: 0.3; its interval is not")
    assert found[1].endswith(
        "The model was chosen on dev; test decided nothing."
    )
    assert found[2] == make().split("\n")[-1]
