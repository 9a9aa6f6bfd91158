"""examples/exercises.py: the fact that each picture shows, and its age."""

import json
import math
import pathlib
import re

import exercises
import numpy as np
import pytest
import reference_bert

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "figures" / "exercises"
PAGE = ROOT / "docs" / "guide" / "exercises.md"


def gelu(largest, at):
    assert 4e-4 < largest < 5e-4 and 2.6 < at < 2.8


def scale(scaled, unscaled):
    assert (abs(scaled - math.log(64)) < 0.7).all()
    assert (np.diff(unscaled) < 0).all() and unscaled[-1] < 0.3


def order(**found):
    assert max(found["without"]) < 1e-6 and min(found["with"]) > 0.5


def padding(masked, unmasked):
    assert max(masked) < 1e-6 and min(unmasked[1:]) > 1


def masks(**found):
    total = sum(found.values())
    assert abs(total - 15) < 0.2  # round(0.15 * 128) of 128.
    shares = [found[name] / total for name in ("[MASK]", "another token")]
    np.testing.assert_allclose(shares, [0.8, 0.1], atol=0.01)


def overlap(rule, **found):
    assert found["random"] > 0.9 > 0.6 > found["next"]
    assert 0.65 < rule < 0.85


def warm_up(first, constant, **found):
    np.testing.assert_allclose(first, math.sqrt(10), atol=1e-3)
    assert constant > 6 and found["warm-up"] < constant / 2


def depth(after, before, **spreads):
    assert after[-1] > 2 * before[-1] and before[0] > 1.5 * before[-1]
    # On the average they are alike in all layers.
    assert 0.5 < after[0] / after[-1] < 2
    ratios = spreads["after, spread"] / spreads["before, spread"]
    assert np.median(ratios) > 2


def by_heart(accuracy, cat, dog):
    assert accuracy > 0.98
    np.testing.assert_allclose([cat + dog, cat], [1, 0.5], atol=0.15)


def copying(attention, right):
    assert attention > 0.9 and right == 1


# How much numbers may differ on other machines, or with another Python, whose
# docstrings are other sentences.
TOLERANCES = {"overlap": 0.05, "depth": 0.01, "by_heart": 0.1, "copying": 0.05}


def texts(path):
    """Texts of an SVG file without their digits, in order."""
    found = re.findall(r">([^<>]+)</(?:text|tspan)>", path.read_text("utf-8"))
    return [re.sub(r"\d", "", text) for text in found]


@pytest.mark.filterwarnings("ignore:.*triggered tf.function retracing")
@pytest.mark.parametrize("name", exercises.EXERCISES)
def test_a_picture_shows_its_fact_and_is_up_to_date(name, tmp_path):
    numbers = exercises.draw(name, tmp_path)
    globals()[name](**{key: np.array(x) for key, x in numbers.items()})
    kept = json.loads((FOLDER / "numbers.json").read_text())[name]
    advice = f"Run python examples/exercises.py --output_dir={FOLDER} {name}"
    assert numbers.keys() == kept.keys(), advice
    for key, value in numbers.items():
        np.testing.assert_allclose(
            value, kept[key], atol=TOLERANCES.get(name, 1e-3), err_msg=advice
        )
    path = FOLDER / f"{name}.svg"
    assert texts(tmp_path / path.name) == texts(path), advice


def test_the_page_begins_with_code_that_runs_and_has_each_exercise(capsys):
    page = PAGE.read_text("utf-8")
    titles = re.findall(r"^## (\d+)\. ", page, re.MULTILINE)
    assert titles == [str(i) for i in range(1, 11)]
    pictures = re.findall(r"figures/exercises/(\w+)\.svg", page)
    assert pictures == list(exercises.EXERCISES)
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], {})
    assert capsys.readouterr().out == "(10, 32) (32,)\n"
    sections = page.split("\n## ")[1:]
    for name, section in zip(exercises.EXERCISES, sections, strict=True):
        assert "<summary>Hint</summary>" in section
        # Whoever tries first must not see the answer.
        assert (
            f"/{name}.svg" in section.partition("<summary>Answer</summary>")[2]
        )
        assert f"`{name}`" in section
    for i, function in enumerate(exercises.EXERCISES.values(), start=1):
        assert function.__doc__.startswith(f"{i}: ")


def test_an_unknown_exercise_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["exercises.py", "attention"])
    with pytest.raises(SystemExit):
        exercises.main()
    assert "'attention' is not one of gelu, scale" in capsys.readouterr().err


def test_bert_in_numpy_is_the_model(make_batch):
    import bert_tf

    config = bert_tf.BertConfig(**vars(reference_bert.CONFIG))
    model = bert_tf.BertPretrainer(config)
    rng = np.random.default_rng(1)
    weights = reference_bert.random_weights(config, rng, scale=0.3)
    for weight in model.weights:
        weight.assign(weights.pop(weight.path))
    assert not weights
    weights = {weight.path: weight.numpy() for weight in model.weights}
    batch = make_batch(config, rows=1)
    found = model(batch, training=False)
    example = {name: x[0] for name, x in batch.items()}
    expected = reference_bert.pretrain(example, weights, config)
    for name, logits in zip(
        ("masked_lm_logits", "next_sentence_logits"), expected, strict=True
    ):
        np.testing.assert_allclose(found[name][0], logits, atol=1e-4)


def test_bert_in_numpy_is_a_page_that_runs(capsys):
    reference_bert.main()
    loss = float(re.search(r"loss (\S+);", capsys.readouterr().out)[1])
    assert abs(loss - math.log(len(reference_bert.WORDS))) < 0.2
    path = ROOT / "examples" / "reference_bert.py"
    page = path.read_text("utf-8").partition("def random_weights")[0]
    assert len(page.splitlines()) <= 135
