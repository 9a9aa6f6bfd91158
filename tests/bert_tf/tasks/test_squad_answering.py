"""squad.py: answers, thresholds, scores and files from logits."""

import json

import numpy as np
import planted_squad as planted
import pytest

from bert_tf.tasks import squad, squad_scores
from tfrecords.tasks import squad_examples

PASSAGE = "The painter lived in ZÜRICH and her brother did not."
SETTINGS = squad_examples.Settings(
    max_seq_length=24, version_2_with_negative=True
)


# The last question has no answer.
ANSWERS = {"who": ["painter"], "in": ["ZÜRICH"], "when": []}


def outputs(null=(0, 4, 9)):
    """Returns logits whose best answers are right; [CLS] has `null`."""
    start = np.zeros((3, 20), np.float32)
    # [CLS] who ? [SEP] the painter lived in zürich
    start[0, 5] = start[1, 8] = start[2, 6] = 3
    end = start.copy()
    start[:, 0] = null
    return {"start_logits": start, "end_logits": end}


@pytest.fixture
def answer(squad_tokenizer, tmp_path):
    """Logits of questions of `ANSWERS` -> what they answer."""
    questions = [
        planted.question(
            *(name, f"{name.title()}?", PASSAGE, *texts),
            is_impossible=not texts,
        )
        for name, texts in ANSWERS.items()
    ]
    path = tmp_path / "dev.json"
    content = planted.article((PASSAGE, questions), version="v2.0")
    path.write_text(json.dumps(content), encoding="utf-8")
    return squad.Answerer(str(path), squad_tokenizer, SETTINGS, n_best_size=5)


def test_logits_give_answers_and_null_odds(answer):
    found = answer(outputs())
    assert found.best == {"who": "painter", "in": "ZÜRICH", "when": "lived"}
    assert found.null_odds == {"who": -6, "in": -2, "when": 3}
    assert squad.decide(found, 0.0) == found.best | {"when": ""}
    assert squad.decide(found, -3.0)["in"] == ""
    # As in the original, there is no answer above the threshold only.
    assert squad.decide(found, found.null_odds["when"]) == found.best
    entry = found.nbest["who"][0]
    names = ("text", "start_logit", "end_logit")
    assert [entry[name] for name in names] == ["painter", 3, 3]
    for entries in found.nbest.values():
        assert sum(e["probability"] for e in entries) == pytest.approx(1)


@pytest.mark.usefixtures("eagerly")
def test_the_threshold_is_tuned_on_dev(answer):
    # With threshold 0 all are answered; the last has the highest null odds.
    logits = outputs(null=(-9, -7, -5))
    found = answer(logits)
    given = squad.score(ANSWERS, found, 0.0, True)
    assert given["exact"] == pytest.approx(200 / 3)
    assert given["null_score_diff_threshold"] == 0
    tuned = squad.score(ANSWERS, found, None, True)
    assert tuned["exact"] == tuned["f1"] == 100
    assert tuned["HasAns_f1"] == tuned["NoAns_f1"] == 100
    assert tuned["null_score_diff_threshold"] == -12.0
    assert not any(name.startswith("best_") for name in tuned)


def test_the_threshold_may_be_below_all_null_odds():
    found = squad.Answered(
        dict.fromkeys(("who", "in", "when"), "not"),
        {},
        {"who": -3.0, "in": -1.0, "when": -2.0},
    )
    threshold = squad.tune_threshold(ANSWERS, found)
    assert threshold < -3
    assert set(squad.decide(found, threshold).values()) == {""}


@pytest.mark.parametrize("seed", range(20))
def test_no_threshold_is_better_than_the_tuned_one(seed):
    # Answers that share some words, so that F1 is fractional. No articles: the
    # official script treats answers of only articles inconsistently.
    random = np.random.default_rng(seed)
    words = "old mill by river in Ghent near two bridges".split()

    def text():
        return " ".join(random.choice(words, random.integers(1, 7)))

    ids = [f"q{number}" for number in range(60)]
    answers = {n: [text()] if random.random() < 0.5 else [] for n in ids}
    found = squad.Answered(
        {n: text() for n in ids},
        {},
        {n: float(random.normal()) for n in ids},
    )
    tuned = squad.score(answers, found, None, True)

    def f1(threshold):
        predicted = squad.decide(found, threshold)
        return squad_scores.score("2.0", answers, predicted)["f1"]

    # The reported score is that of the written answers.
    assert tuned["f1"] == f1(tuned["null_score_diff_threshold"])
    thresholds = [-9.0, *found.null_odds.values()]
    assert tuned["f1"] == pytest.approx(max(map(f1, thresholds)))


def test_questions_with_equal_null_odds_are_decided_together():
    odds = {"a": 1.0, "b": 1.0, "c": 2.0}
    found = squad.Answered(dict.fromkeys(odds, "mill"), {}, odds)
    answers = {"a": ["mill"], "b": ["mill"], "c": []}
    tuned = squad.score(answers, found, None, True)
    assert (tuned["f1"], tuned["null_score_diff_threshold"]) == (100, 1.5)
    answers = {"a": [], "b": ["mill"], "c": []}
    # The official script separates a and b, which no threshold can do.
    tuned = squad.score(answers, found, None, True)
    assert tuned["f1"] == pytest.approx(200 / 3)


def test_a_threshold_above_1_is_used():
    # The official script expects probabilities, which are at most 1.
    found = squad.Answered(
        {"who": "painter", "in": "ZÜRICH", "when": "lived"},
        {},
        {"who": 2.0, "in": 5.0, "when": 7.0},
    )
    assert squad.score(ANSWERS, found, 6.0, True)["f1"] == 100


def test_the_baseline_is_the_best_constant_answer():
    scores = squad.majority_baseline(ANSWERS, True)
    assert scores["f1"] == pytest.approx(100 / 3)
    answers = {"a": ["painter"], "b": ["not"], "c": ["painter"]}
    scores = squad.majority_baseline(answers, False)
    assert scores["exact_match"] == pytest.approx(200 / 3)


@pytest.mark.usefixtures("eagerly")
def test_answers_are_written_as_json(answer, tmp_path):
    found = answer(outputs())
    folder = tmp_path / "predictions"
    squad.write(found, 0.0, str(folder))
    written = {
        file.name: json.loads(file.read_text()) for file in folder.iterdir()
    }
    assert written == {
        "predictions.json": squad.decide(found, 0.0),
        "nbest_predictions.json": found.nbest,
        "null_odds.json": found.null_odds,
    }
    # Version 1.1 has no null odds.
    squad.write(found._replace(null_odds={}), 0.0, str(tmp_path / "1"))
    assert not (tmp_path / "1/null_odds.json").exists()
