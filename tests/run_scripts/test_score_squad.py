"""score_squad: scores under the official names, or in a file."""

import json

import pytest

from run_scripts import score_squad

QUESTION = {"id": "q", "question": "What?", "is_impossible": False}
DATA = {
    "version": "v2.0",
    "data": [
        {
            "title": "T",
            "paragraphs": [
                {
                    "context": "an old mill",
                    "qas": [
                        QUESTION
                        | {"answers": [{"text": "old mill", "answer_start": 3}]}
                    ],
                }
            ],
        }
    ],
}


@pytest.fixture
def score(tmp_path):
    """Contents of files, flags -> runs the script on them."""

    def run(predictions, *more, na_probs=None):
        contents = {"data": DATA, "predictions": predictions}
        if na_probs is not None:
            contents["na_prob"] = na_probs
        argv = ["score_squad"]
        for name, content in contents.items():
            path = tmp_path / f"{name}.json"
            path.write_text(json.dumps(content))
            argv.append(f"--{name}_file={path}")
        score_squad.main([*argv, *more])

    return run


def test_scores_are_printed_under_the_official_names(score, capsys):
    score({"q": "The mill"})
    assert json.loads(capsys.readouterr().out) == {
        "exact": 0.0,
        "f1": pytest.approx(100 * 2 / 3),
        "total": 1,
        "HasAns_exact": 0.0,
        "HasAns_f1": pytest.approx(100 * 2 / 3),
        "HasAns_total": 1,
    }


def test_texts_are_compared_by_the_given_rules(score, capsys):
    score({"q": "MILL mlo"}, "--score=korquad")
    # Six of the seven characters of each are in both.
    assert json.loads(capsys.readouterr().out)["f1"] == pytest.approx(600 / 7)


def test_no_file_of_several_is_replaced(score, tmp_path):
    (tmp_path / "more.json").write_text(json.dumps(DATA))
    files = [f"{tmp_path}/data.json,{tmp_path}/more.json"]
    for output in ("data", "more", "predictions"):
        with pytest.raises(ValueError, match="would destroy this input"):
            score(
                *({"q": ""}, f"--data_file={files[0]}"),
                f"--output_file={tmp_path}/{output}.json",
            )


def test_scores_with_best_thresholds_are_written_to_a_file(score, tmp_path):
    path = tmp_path / "scores.json"
    score({"q": "old mill"}, f"--output_file={path}", na_probs={"q": 0.2})
    scores = json.loads(path.read_text())
    assert (scores["best_f1"], scores["best_f1_thresh"]) == (100.0, 0.2)
