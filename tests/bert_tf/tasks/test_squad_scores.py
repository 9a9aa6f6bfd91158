r"""squad_scores.py: scores equal those of SQuAD's official scripts to 1e-9.

The golden numbers are printed by the official evaluate-v1.1.py and
evaluate-v2.0.py for the files that `write_files` makes:

    PYTHONPATH=tests:tests/bert_tf/tasks \
      python -c 'import test_squad_scores as t; t.write_files(".")'
    python evaluate-v1.1.py data-1.1.json predictions-1.1.json
    python evaluate-v2.0.py data-2.0.json predictions-2.0.json
    python evaluate-v2.0.py data-2.0.json predictions-2.0.json \
      --na-prob-file na_probs.json --na-prob-thresh 0.5
"""

import json
import pathlib

import numpy as np
import planted_squad
import pytest
from absl import logging

from bert_tf.tasks import squad_scores

# Question id: answers, prediction, probability of no answer.
QUESTIONS = {
    "q1": (["the old mill", "old mill"], "An Old  Mill!", 0.1),
    "q2": (["in 1872", "1872"], "1872 or 1873", 0.3),
    "q3": (["Zürich"], "", 0.3),
    "q4": (["the A"], "a", 0.2),
    "q5": (["naïve café", "a cafe"], "NAÏVE CAFÉ’S", 0.75),
    "q6": (["one one two"], "one two two", 0.3),
    "q7": (["twenty-five per cent", "25%"], "25 %", 0.0),
    "q8": (["red, green and blue"], "blue and red", 0.5),
}
NO_ANSWER = {
    "n1": ([], "", 0.9),
    "n2": ([], "something", 0.3),
    "n3": ([], "the", 0.6),
    "n4": ([], "nothing at all", 0.95),
}
GOLDEN_1 = {"exact_match": 37.5, "f1": 56.547619047619044}
GOLDEN_2 = {
    "exact": 41.666666666666664,
    "f1": 62.69841269841269,
    "total": 12,
    "HasAns_exact": 37.5,
    "HasAns_f1": 69.04761904761904,
    "HasAns_total": 8,
    "NoAns_exact": 50.0,
    "NoAns_f1": 50.0,
    "NoAns_total": 4,
}
GOLDEN_2_WITH_NA_PROBS = {
    "exact": 50.0,
    "f1": 66.86507936507935,
    "total": 12,
    "HasAns_exact": 37.5,
    "HasAns_f1": 62.79761904761904,
    "HasAns_total": 8,
    "NoAns_exact": 75.0,
    "NoAns_f1": 75.0,
    "NoAns_total": 4,
    "best_exact": 58.333333333333336,
    "best_exact_thresh": 0.2,
    "best_f1": 68.05555555555556,
    "best_f1_thresh": 0.3,
}


def make_data(version, questions):
    """Returns the content of a file in SQuAD's layout."""
    passage = " ".join(
        text for texts, _, _ in questions.values() for text in texts
    )
    entries = [
        planted_squad.question(
            *(name, f"What is {name}?", passage, *texts),
            is_impossible=not texts,
        )
        for name, (texts, _, _) in questions.items()
    ]
    paragraphs = [(passage, [entry]) for entry in entries]
    return planted_squad.article(*paragraphs, version=version)


WITH_NA_PROBS = {
    "na_probs": {n: x for n, (_, _, x) in (QUESTIONS | NO_ANSWER).items()},
    "na_prob_thresh": 0.5,
}


def predictions_of(questions):
    return {name: text for name, (_, text, _) in questions.items()}


def write_files(folder):
    """Writes the input files of the official scripts."""
    both = QUESTIONS | NO_ANSWER
    first = predictions_of(QUESTIONS) | {"nobody": "q3"}
    del first["q3"]
    for name, content in {
        "data-1.1": make_data("1.1", QUESTIONS),
        "data-2.0": make_data("v2.0", both),
        "predictions-1.1": first,
        "predictions-2.0": predictions_of(both),
        "na_probs": WITH_NA_PROBS["na_probs"],
    }.items():
        path = pathlib.Path(folder, f"{name}.json")
        path.write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture
def folder(tmp_path):
    write_files(tmp_path)
    return tmp_path


def score(folder, version, **keywords):
    answers = squad_scores.read_answers(str(folder / f"data-{version}.json"))
    path = folder / f"predictions-{version}.json"
    predictions = json.loads(path.read_text(encoding="utf-8"))
    return squad_scores.score(*answers, predictions, **keywords)


@pytest.mark.parametrize(
    ("version", "settings", "golden"),
    [
        ("1.1", {}, GOLDEN_1),
        ("2.0", {}, GOLDEN_2),
        ("2.0", WITH_NA_PROBS, GOLDEN_2_WITH_NA_PROBS),
    ],
)
def test_scores_are_those_of_the_official_script(
    folder, version, settings, golden
):
    scores = score(folder, version, **settings)
    assert list(scores) == list(golden)
    assert scores == pytest.approx(golden, abs=1e-9, rel=0)


def test_the_best_threshold_gives_the_best_score():
    answers = {"a": ["x"], "b": ["y"], "c": [], "d": []}
    predictions = {"a": "x", "b": "y", "c": "z", "d": "z"}
    probs = {"a": 0.1, "b": 0.6, "c": 0.5, "d": 0.9}
    scores = squad_scores.score("2.0", answers, predictions, probs)
    assert (scores["best_f1"], scores["best_f1_thresh"]) == (75.0, 0.1)
    at_best = squad_scores.score(
        "2.0", answers, predictions, probs, scores["best_f1_thresh"]
    )
    assert at_best["f1"] == 75.0


def test_the_threshold_is_0_if_answering_none_is_best():
    scores = squad_scores.score("2.0", {"a": []}, {"a": "x"}, {"a": 0.7})
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (100.0, 0.0)


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("The  Cat's!", "cats"),
        ("an-other", "another"),
        ("a.n apple", "apple"),
        ("Theatre a", "theatre"),
        ("“İZMİR”\u00a0", "“i̇zmi̇r”"),
        ("", ""),
    ],
)
def test_texts_are_normalized_as_in_the_official_scripts(text, normalized):
    assert squad_scores.normalize(text) == normalized


def test_all_answers_of_a_file_are_read(folder):
    version, answers = squad_scores.read_answers(str(folder / "data-2.0.json"))
    assert version == "2.0"
    assert answers == {
        name: texts for name, (texts, _, _) in (QUESTIONS | NO_ANSWER).items()
    }


def test_real_files_are_read(shared_data):
    for version, total in (("1.1", 1169), ("2.0", 2466)):
        path = str(shared_data / "squad" / f"dev-v{version}.json")
        found, answers = squad_scores.read_answers(path)
        assert (found, len(answers)) == (version, total)
        first = {name: (texts or [""])[0] for name, texts in answers.items()}
        scores = squad_scores.score(version, answers, first)
        assert scores["f1"] == pytest.approx(100.0)


def test_missing_and_unknown_predictions_are_logged(folder, caplog):
    with caplog.at_level(logging.WARNING, logger="absl"):
        score(folder, "1.1")
    for message in (
        "1 predictions are for unknown questions and are ignored: 'nobody'",
        "1 of 8 questions have no prediction and count as wrong: 'q3'",
    ):
        assert message in caplog.text


def test_each_question_of_version_2_needs_a_prediction():
    answers = {f"q{i}": [] for i in range(9)}
    with pytest.raises(ValueError, match="8 of 9 questions have no") as raised:
        squad_scores.score("2.0", answers, {"q0": ""})
    assert "'q4', 'q5', and 3 more" in str(raised.value)


@pytest.mark.parametrize(
    ("version", "predictions", "na_probs", "message"),
    [
        ("1.1", {"x": "y"}, None, "None of the 1 predictions .*'x'.*belong"),
        ("2.0", {}, None, "None of the 0 predictions .* there are none"),
        ("2.0", {"q": None}, None, "prediction for question 'q' is None; it"),
        ("1.1", {"q": "y"}, {"q": 0.5}, "are for SQuAD 2.0"),
        ("2.0", {"q": "y"}, {}, "answer for question 'q' is None; it should"),
        ("2.0", {"q": "y"}, {"q": "0.5"}, "question 'q' is '0.5'; it should"),
        ("2.0", {"q": "y"}, {"q": np.nan}, "question 'q' is nan; it should"),
    ],
)
def test_invalid_predictions_and_probabilities_raise(
    version, predictions, na_probs, message
):
    with pytest.raises(ValueError, match=message):
        squad_scores.score(version, {"q": ["y"]}, predictions, na_probs)


ONE = {"q": (["y"], "", 0.0)}


@pytest.mark.parametrize(
    ("content", "version", "message"),
    [
        ([], None, r"the content is \[\]; it should be an object.*layout"),
        ({"version": "1.1"}, None, "data is missing or null; it should be a l"),
        (make_data("v3.0", ONE), None, "version is 'v3.0'; it should be 1.1"),
        (make_data(None, ONE), None, "SQuAD version is None; it should be"),
        (make_data("v2.0", ONE), "1.1", "version is 'v2.0', but 1.1 was asked"),
        (make_data("1.1", NO_ANSWER), None, "question 'n1' has no answer, and"),
        ({"version": "1.1", "data": []}, None, "has no questions"),
        (
            {"version": "1.1", "data": [{"title": "T", "paragraphs": [{}]}]},
            None,
            r"article 1 \('T'\), paragraph 1: qas is missing or null; it",
        ),
        (
            make_data("1.1", ONE) | {"data": 2 * make_data("1.1", ONE)["data"]},
            None,
            "1 ids are those of several questions: 'q'",
        ),
    ],
)
def test_invalid_files_raise(tmp_path, content, version, message):
    path = tmp_path / "data.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"data.json.*{message}"):
        squad_scores.read_answers(str(path), version)


@pytest.mark.parametrize(
    ("in_file", "version", "expected"),
    [
        ("1.0", None, "1.1"),
        ("v1.3", None, "1.1"),
        ("V2.0", None, "2.0"),
        (2.0, None, "2.0"),
        # Files without one.
        (None, "2.0", "2.0"),
        ("of mine", "2.0", "2.0"),
    ],
)
def test_a_version_is_identified_by_its_first_digit_or_given(
    tmp_path, in_file, version, expected
):
    path = tmp_path / "data.json"
    questions = {262: (["cat"], "cat", 0.0)}
    # With a byte order mark, as Windows editors write it.
    content = json.dumps(make_data(in_file, questions))
    path.write_text(content, encoding="utf-8-sig")
    found = squad_scores.read_answers(str(path), version)
    # An id that is a number is the key with its digits.
    assert found == (expected, {"262": ["cat"]})
