"""verdict.py: words that are true of each kind of run."""

import types

import pytest

from bert_tf.contrib.apps.report import verdict

INTERVAL = {"unit": "rows", "size": 400, "low": 0.75, "high": 0.85}
WRONG = {"text_a": "a", "label": "bad", "predicted": "good"}
RIGHT = WRONG | {"predicted": "bad"}
ROWS = {"dev": [WRONG], "test": [WRONG]}


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
    few_shot=False,
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
        settings={"few_shot": True}
        if few_shot
        else {"task": name}
        if trained
        else {},
    )
    return "\n".join(verdict.make(run))


def test_all_that_is_known_is_said():
    assert make(words=0.7) == (
        "Accuracy on dev: 0.8. Its 95 % interval is 0.75 to 0.85 (bootstrap "
        "over 400 rows). The best constant answer has 0.5: the score is above "
        "it. TF-IDF with logistic regression, which "
        "sees only words, has 0.7 on the same rows: the score is above it. The "
        "model was chosen on dev, so this score can be too good: a "
        "--test_file with labels shows more.\n"
        "Next: if the score is not enough, read the most wrong rows below, and "
        "label more rows."
    )


MORE_ROWS = "Next: evaluate more rows, which makes the interval narrower"
TRAIN_BETTER = "Then try another --init_checkpoint, more --num_train_epochs, or"
FEW = "Next: label more rows: 90 training rows of 2 labels are few"
CANNOT_TELL = "that is within the interval, so these rows do not tell which"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"baseline": 0.9}, ["has 0.9: the score is below it", TRAIN_BETTER]),
        ({"baseline": 0.78}, [CANNOT_TELL, MORE_ROWS]),
        # The model always answers the same.
        ({"baseline": 0.8}, ["0.8: the score is the same", TRAIN_BETTER]),
        ({"rows": {"dev": [RIGHT]}}, ["Next: evaluate more rows: all of"]),
        (
            {"words": 0.9},
            ["0.9 on the same rows: the score is below", "Then try"],
        ),
        ({"words": 0.78}, [f"same rows: {CANNOT_TELL}", MORE_ROWS]),
        ({"words": 0.9, "num_train": 90}, [f"{FEW}; or try run_few_shot"]),
        ({"words": 0.9, "num_train": 90, "few_shot": True}, [f"{FEW}."]),
        # Several labels, which run_few_shot does not learn.
        ({"baseline": 0.9, "num_train": 90, "rows": {}}, [f"{FEW}."]),
        ({"baseline": 0.9, "num_train": 90}, [FEW]),
        ({"words": 0.7, "num_train": 90}, ["read the most wrong rows below"]),
        (
            {"interval": None},
            ["0.8. Its interval is not known.", "is above it"],
        ),
        (
            {"interval": None, "baseline": 0.8},
            ["has 0.8: the score is the same.", TRAIN_BETTER],
        ),
        (
            {"score": None},
            ["Accuracy on dev: undefined, all pred", TRAIN_BETTER],
        ),
        # Not trained here, and no training rows.
        (
            {"trained": False, "num_train": 0},
            [
                "Next: if the score is not enough, read the most wrong rows "
                "below, and train on rows of this table.",
            ],
        ),
        (
            {"trained": False, "num_train": 0, "baseline": 0.9},
            ["the labels of the model mean the same in this table; then train"],
        ),
        (
            {"trained": False, "num_train": 0, "baseline": 0.78},
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
            "(bootstrap over 400 queries). Passages in an arbitrary order have "
            "0.4: the score is above it.",
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
            "F1 on dev: 80. Its 95 % interval is 75 to 85",
        ),
    ],
)
def test_words_are_true_of_other_tasks(changes, expected):
    found = make(**{"rows": {}} | changes)
    assert expected in found
    assert "wrong rows below" not in found
    assert ("TF-IDF" in found) == ("words" in changes)


def test_a_pair_has_no_line_about_words():
    rows = {"dev": [WRONG | {"text_b": "b"}]}
    assert "TF-IDF" not in make(rows=rows, num_train=0)


def test_a_test_file_comes_first_and_decides_no_advice():
    test = {"accuracy": 0.3}
    found = make(test=test).split("\n")
    assert found[0].startswith("Accuracy on test: 0.3. Its interval is not")
    assert found[1].endswith(" The model was chosen on dev, not on test.")
    assert found[2] == make().split("\n")[-1]


def test_of_several_dev_sets_the_first_has_chosen():
    found = make(dev_mismatched={"accuracy": 0.3}).split("\n")
    assert "The model was chosen on dev, so this score" in found[0]
    assert "chosen" not in found[1]
