"""glue_tables.py: the table of GLUE tasks, and own tasks."""

import pytest

from tfrecords.tasks import glue_tables


def test_names_of_tasks_ignore_case_and_hyphens():
    for name in ("cola", "CoLA", "COLA"):
        assert glue_tables.find(name).name == "CoLA"
    assert glue_tables.find("sst2").name == "SST-2"
    assert glue_tables.find("sts-b").is_regression
    assert len(glue_tables.GLUE_TASKS) == 10


def test_unknown_names_raise_with_the_known_names():
    with pytest.raises(ValueError, match="No task named 'squad'.*CoLA, SST-2"):
        glue_tables.find("squad")


def test_mnli_labels_have_the_order_of_the_original():
    mnli, diagnostic = glue_tables.find("mnli"), glue_tables.find("ax")
    assert mnli.labels == ("contradiction", "entailment", "neutral")
    assert diagnostic.labels == mnli.labels


@pytest.mark.parametrize(
    "task", glue_tables.GLUE_TASKS, ids=lambda task: task.name
)
def test_every_task_of_the_table_is_consistent(task):
    from bert_tf.tasks import metrics

    assert set(task.metrics) <= set(metrics.METRICS)
    assert task.best_metric in task.metrics
    assert set(task.predictions) <= set(task.files)
    assert len(task.text_columns) in (1, 2)
    assert len(task.labels) in (0, 2, 3)


def own(**changes):
    settings = dict(
        files={"train": "a.csv"},
        text_columns=("text",),
        label_column="label",
        labels=("no", "yes"),
    )
    return glue_tables.own_task("mine", **(settings | changes))


def test_labels_of_own_tasks_determine_the_metrics():
    names = ("accuracy", "f1", "matthews_correlation", "macro_f1")
    assert own().metrics == names
    assert own(multi_label=True).best_metric == "micro_f1"
    assert "f1" not in own(labels=("a", "b", "c")).metrics
    assert own(labels=("score",)).is_regression
    assert own(labels=("score",)).best_metric == "spearman"


def test_three_text_columns_raise():
    with pytest.raises(ValueError, match="text_column='a,b,c' should name one"):
        own(text_columns=("a", "b", "c"))


@pytest.mark.parametrize("labels", [("only",), ("same", "same"), ()])
def test_fewer_than_two_labels_or_equal_labels_raise(labels):
    with pytest.raises(ValueError, match="two or more different"):
        own(labels=labels)
