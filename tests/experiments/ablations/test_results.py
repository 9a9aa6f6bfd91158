import math

import pytest
from ablation_examples import (
    TASKS,
    make_settings,
    write_perplexity,
    write_result,
)

from experiments.ablations import results, tables
from experiments.ablations.tables import PERPLEXITY, Model
from experiments.dev_scores import Score

BASE = Model(4, 64, 4)


def test_scores_are_means_over_finished_seeds(tmp_path):
    settings = make_settings(str(tmp_path), num_seeds=3)
    row = tables.make(["5"], BASE, 4)[0]
    write_result(settings, row, TASKS[0], 0.5, index=0)
    write_result(settings, row, TASKS[0], 0.7, index=2)
    score = Score((0.5, 0.7), "accuracy", 0.5)
    assert results.of_row(row, TASKS, settings) == {"SST-2": score}
    assert score.mean == pytest.approx(0.6)
    # A standard deviation of 0.1414, over two seeds.
    assert score.error == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("table", "task", "value", "score"),
    [
        # The official score of SQuAD is in percent.
        ("5", TASKS[1], 40.0, Score((0.4,), "f1", 0.005)),
        ("8", TASKS[3], 0.3, Score((0.3,), "f1", 0.5)),
    ],
)
def test_one_run_has_no_standard_error(tmp_path, table, task, value, score):
    settings = make_settings(str(tmp_path))
    row = tables.make([table], BASE, 4)[0]
    write_result(settings, row, task, value)
    assert results.of_row(row, TASKS, settings) == {task.name: score}
    assert math.isnan(score.error)


def test_tables_share_a_run_and_points_of_the_figure_do_not(tmp_path):
    settings = make_settings(str(tmp_path))
    rows = tables.make(["5", "6", "figure5"], BASE, 4)
    write_result(settings, rows[0], TASKS[0], 0.5)
    scores = results.of_rows(rows, TASKS, settings)
    rows_with_scores = [
        (row.table, row.share)
        for row, of_row in zip(rows, scores, strict=True)
        if of_row
    ]
    assert rows_with_scores == [("5", 1.0), ("6", 1.0), ("figure5", 1.0)]


def test_perplexities_are_of_the_last_step_and_table_6(tmp_path):
    settings = make_settings(str(tmp_path))
    rows = tables.make(["5", "6"], BASE, 4)
    write_perplexity(settings, BASE, 12.5)
    scores = results.of_rows(rows, TASKS, settings)
    rows_with_scores = [
        (row.label, of_row[PERPLEXITY].mean)
        for row, of_row in zip(rows, scores, strict=True)
        if PERPLEXITY in of_row
    ]
    assert rows_with_scores == [("L-4_H-64_A-4", 12.5)]
    more = make_settings(str(tmp_path), num_seeds=3)
    write_perplexity(more, BASE, 13.5, index=2)
    scores = results.of_rows(rows, TASKS, more)
    (found,) = [score for score in scores if score]
    assert found == {PERPLEXITY: Score((12.5, 13.5), "perplexity")}
    later = make_settings(str(tmp_path), num_train_steps=200)
    assert not any(results.of_rows(rows, TASKS, later))
