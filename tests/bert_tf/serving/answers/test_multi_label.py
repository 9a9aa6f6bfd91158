"""multi_label.py: thresholds of a model, and labels that are compared."""

import exports
import pytest

import bert_tf


@pytest.fixture
def predictor(tmp_path):
    """Thresholds -> a Predictor of one model."""
    model = exports.make_model("multi_label")

    def make(thresholds):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        exports.save_model(model, "multi_label", folder, thresholds=thresholds)
        return bert_tf.Predictor(str(folder))

    return make


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("below", [True, False])
def test_a_label_is_an_answer_from_its_threshold(predictor, below):
    values = predictor(exports.THRESHOLDS)("the cat sat").probabilities
    # At the probability of the second label, below or above the others.
    change = -0.01 if below else 0.01
    thresholds = [p + change * (i != 1) for i, p in enumerate(values.values())]
    found = predictor(thresholds)("the cat sat")
    assert found.probabilities == values
    expected = exports.LABELS if below else exports.LABELS[1:2]
    assert found.labels == tuple(expected)
