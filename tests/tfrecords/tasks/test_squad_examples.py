"""squad_examples.py: records are the original's; lost answers are listed."""

import json
import os

import numpy as np
import planted_squad as planted
import pytest

from tfrecords import schema
from tfrecords.io import records
from tfrecords.tasks import squad_examples

# To trace the tokenizer takes longer than a few rows.
pytestmark = pytest.mark.usefixtures("eagerly")

CASES = planted.golden()["cases"]
PASSAGE = "The painter lived in ZÜRICH. " + "She painted pictures. " * 8


def write(tmp_path, *questions, passage=PASSAGE):
    path = tmp_path / "train.json"
    content = planted.article((passage, questions))
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def make(tmp_path, tokenizer, path, split="train", **settings):
    settings = {"max_seq_length": 16, "doc_stride": 4} | settings
    folders = squad_examples.make_records(
        {split: path},
        str(tmp_path / "records"),
        tokenizer,
        squad_examples.Settings(**settings),
    )
    return records.Records.open(folders[split])


@pytest.mark.parametrize("case", CASES, ids=["v1.1", "v2.0"])
def test_training_records_are_those_of_the_original(
    tmp_path, squad_tokenizer, case
):
    names = ("max_seq_length", "doc_stride", "max_query_length")
    found = make(
        tmp_path,
        squad_tokenizer,
        planted.write(tmp_path, case),
        version_2_with_negative=case["version_2_with_negative"],
        **{name: case[name] for name in names},
    )
    rows = found.read(schema.SPANS)
    every = [
        question["id"]
        for article in planted.golden()[
            "v2.0" if case["version_2_with_negative"] else "v1.1"
        ]["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    lengths = rows["input_mask"].sum(axis=1)
    assert [
        ids[:length].tolist()
        for ids, length in zip(rows["input_word_ids"], lengths, strict=True)
    ] == [window["ids"] for window in case["windows"]]
    # The original skips the windows of answers with another space.
    skipped = [name for name in every if name not in case["training_ids"]]
    is_kept = [every[x["question"]] not in skipped for x in case["windows"]]
    # Of "Tea\xa0and", it has the places of these two tokens in its window.
    for name, column, place in (
        ("start_positions", 1, 5),
        ("end_positions", 2, 6),
    ):
        expected = [row[column] for row in case["training"]]
        assert rows[name][is_kept].tolist() == expected
        assert rows[name][~np.array(is_kept)].tolist() == [place]
    statistics = found.manifest.statistics
    assert statistics["answers_original_skips"] == skipped == ["hard space"]
    assert statistics["answers_not_found"] == []


def test_lost_answers_are_listed_and_logged(tmp_path, squad_tokenizer, caplog):
    passage = PASSAGE + "Tea \u200b and coffee"
    path = write(
        tmp_path,
        planted.question("found", "Who?", passage, "painter"),
        planted.question("no tokens", "What?", passage, "\u200b"),
        planted.question("long", "What?", passage, PASSAGE[:150].strip()),
        passage=passage,
    )
    found = make(tmp_path, squad_tokenizer, path)
    statistics = found.manifest.statistics
    assert statistics["questions"] == 3
    assert statistics["answers_not_found"] == ["no tokens"]
    assert statistics["answers_in_no_window"] == ["long"]
    assert statistics["windows"] == len(found)
    for name in ("no tokens", "long"):
        assert any(
            f"{path}: 1 answers " in message and name in message
            for message in caplog.messages
        )


def test_misplaced_answers_are_skipped_and_listed(
    tmp_path, squad_tokenizer, caplog
):
    right = planted.question("right", "Who?", PASSAGE, "painter")
    wrong = planted.question("wrong", "Who?", PASSAGE, "painter")
    wrong["answers"][0]["answer_start"] += 1
    found = make(
        tmp_path,
        squad_tokenizer,
        write(tmp_path, right, wrong, right),
        max_seq_length=64,
        skip_misplaced_answers=True,
    )
    assert len(found) == 2
    assert found.manifest.statistics["questions"] == 3
    assert found.manifest.statistics["answers_misplaced"] == ["wrong"]
    assert "1 answers are not at their answer_start; skipped: wrong" in (
        caplog.text
    )


def test_long_questions_are_truncated_and_counted(tmp_path, squad_tokenizer):
    question = planted.question("q", "who ? " * 20, PASSAGE, "painter")
    path = write(tmp_path, question)
    found = make(tmp_path, squad_tokenizer, path, max_query_length=6)
    assert found.manifest.statistics["truncated_questions"] == 1


def test_questions_without_text_are_answered(tmp_path, squad_tokenizer, caplog):
    """As by the script of CMRC 2018, whose trial file has two."""
    path = write(tmp_path, planted.question("q", " ", PASSAGE, "painter"))
    with caplog.at_level("WARNING", logger="absl"):
        found = make(tmp_path, squad_tokenizer, path, split="dev")
    assert "'q': the question ' ' has no tokens; its answer" in caplog.text
    assert len(found) == found.manifest.statistics["windows"]
    assert found.manifest.statistics["questions"] == 1


@pytest.mark.parametrize(
    ("question", "passage", "message"),
    [
        (
            "who ? " * 20,
            PASSAGE,
            "question 'q': the question has 40 tokens, of which 40 are kept "
            r"\(--max_query_length=64\); a window of 16 leaves no room",
        ),
        ("\u200b", PASSAGE, r"'q': the question '\\u200b' has no tokens"),
        ("", PASSAGE, "'q': the question '' has no tokens"),
        ("Who?", "\u200b", r"'q': the passage '\\u200b' has no tokens"),
    ],
)
def test_questions_and_passages_that_fit_no_window_raise(
    tmp_path, squad_tokenizer, question, passage, message
):
    path = write(
        tmp_path,
        planted.question("q", question, passage, passage[:3]),
        passage=passage,
    )
    with pytest.raises(ValueError, match=message):
        make(tmp_path, squad_tokenizer, path)
    assert not os.path.exists(tmp_path / "records" / "train")
