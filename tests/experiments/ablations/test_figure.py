import numpy as np
import pytest
from ablation_examples import TASKS, make_settings
from matplotlib import image

from experiments.ablations import checks as ablation_checks
from experiments.ablations import figure, tables
from experiments.ablations.tables import PERPLEXITY, Model
from experiments.dev_scores import Score

KINDS = {task.name: task.kind for task in TASKS}


def scores_of(row, index):
    scores = {
        name: Score((0.5 + 0.01 * index, 0.52 + 0.01 * index), "accuracy")
        for name in KINDS
    }
    if row.table == "6":
        scores[PERPLEXITY] = Score((20.0 - index,), "perplexity")
    return scores


@pytest.mark.parametrize(
    "names", [pytest.param(list(tables.TABLES), marks=pytest.mark.slow), ["6"]]
)
def test_a_figure_is_drawn_from_the_available_scores(tmp_path, names):
    rows = tables.make(names, Model(4, 64, 4), 4)
    settings = make_settings(str(tmp_path))
    colored = []
    for scores in (
        [{} for _ in rows],
        [scores_of(row, index) for index, row in enumerate(rows)],
    ):
        checks = ablation_checks.make(rows, scores, KINDS)
        figure.draw(rows, scores, checks, TASKS, settings)
        assert [path.name for path in tmp_path.iterdir()] == ["report.png"]
        pixels = image.imread(tmp_path / "report.png")
        assert pixels.shape[0] > 1000 and pixels.shape[1] > 1000
        colored.append((np.ptp(pixels[..., :3], axis=-1) > 0.2).sum())
    assert colored[1] > colored[0] + 1000
