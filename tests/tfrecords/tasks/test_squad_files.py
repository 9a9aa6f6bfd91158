"""squad_files.py: questions of SQuAD files, and errors of invalid files."""

import json
import re

import planted_squad as planted
import pytest

from tfrecords.tasks import squad_files

PASSAGE = "The tower stands in Zürich."
OFFICIAL = [("train-v1.1", 6842), ("dev-v1.1", 1169)]
OFFICIAL += [("train-v2.0", 5681), ("dev-v2.0", 2466)]


def write(tmp_path, content):
    path = tmp_path / "file.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def read(tmp_path, content, is_version_2=False, is_training=True):
    return squad_files.read_questions(
        write(tmp_path, content),
        version_2_with_negative=is_version_2,
        is_training=is_training,
    )


def one(*answers, version="1.1", passage=PASSAGE, **members):
    qas = planted.question("q1", "Where?", PASSAGE, *answers, **members)
    return planted.article((passage, [qas]), version=version)


def check_message(tmp_path, content, message, **settings):
    with pytest.raises(ValueError) as raised:
        read(tmp_path, content, **settings)
    path = re.escape(str(tmp_path / "file.json"))
    assert re.search(path, str(raised.value))
    assert re.search(message, str(raised.value))


@pytest.mark.parametrize(("name", "count"), OFFICIAL)
def test_real_files_have_their_questions(shared_data, name, count):
    questions = squad_files.read_questions(
        str(shared_data / f"squad/{name}.json"),
        version_2_with_negative="v2" in name,
        is_training="train" in name,
    )
    assert len(questions) == count
    assert all(q.is_impossible or q.answers for q in questions)


def test_an_id_that_is_a_number_is_its_digits(tmp_path):
    content = one("Zürich")
    del content["version"]  # Such files name none.
    content["data"][0]["paragraphs"][0]["qas"][0]["id"] = 262
    (found,) = read(tmp_path, content)
    assert found.id == "262" and "question '262'" in found.source


@pytest.mark.parametrize("name", [True, 2.5, [1], None])
def test_an_id_is_text_or_an_integer(tmp_path, name):
    content = one("Zürich")
    content["data"][0]["paragraphs"][0]["qas"][0]["id"] = name
    check_message(tmp_path, content, "a question: id is .*; it should be a str")


def test_ids_are_the_keys_of_predictions(tmp_path):
    content = one("Zürich")
    content["data"] *= 2
    message = "1 ids are those of several questions: 'q1'. Give each"
    check_message(tmp_path, content, message, is_training=False)
    # Training predicts nothing; XQuAD has the same ids in all languages.
    assert len(read(tmp_path, content)) == 2


def test_a_question_has_passage_answers_and_source(tmp_path):
    (found,) = read(tmp_path, one("Zürich"))
    assert found == squad_files.Question(
        "q1",
        "Where?",
        PASSAGE,
        (squad_files.Answer("Zürich", 20),),
        False,
        f"{tmp_path / 'file.json'}: article 1 ('Invented'), paragraph 1, "
        "question 'q1'",
    )


def test_only_training_questions_need_answers(tmp_path):
    qas = {"id": "q1", "question": "Where?"}
    content = planted.article((PASSAGE, [qas]))
    for is_version_2 in (False, True):
        content["version"] = None
        (found,) = read(tmp_path, content, is_version_2, is_training=False)
        assert found.answers == ()
    check_message(tmp_path, content, "answers is missing")


def test_impossible_questions_have_no_answer(tmp_path):
    content = one(version="v2.0", is_impossible=True)
    assert read(tmp_path, content, is_version_2=True)[0].is_impossible


@pytest.mark.parametrize(
    ("version", "is_version_2", "message"),
    [
        ("v2.0", False, r"has version 'v2.0'.* Add --version_2_with_negative"),
        ("1.1", True, r"has version '1.1'; .* should be v2.0"),
    ],
)
def test_a_file_of_the_other_version_raises(
    tmp_path, version, is_version_2, message
):
    content = one("Zürich", version=version)
    check_message(tmp_path, content, message, is_version_2=is_version_2)


@pytest.mark.parametrize("value", [None, "no", 0])
def test_questions_of_version_2_need_is_impossible(tmp_path, value):
    content = one("Zürich", version="v2.0", is_impossible=value)
    check_message(
        tmp_path,
        content,
        rf"question 'q1': 'is_impossible' is {value!r}",
        is_version_2=True,
    )


def test_an_impossible_question_with_an_answer_raises(tmp_path):
    content = one("Zürich", version="v2.0", is_impossible=True)
    message = "'q1': is_impossible is true, but there is the answer 'Zürich'"
    check_message(tmp_path, content, message, is_version_2=True)


def test_all_answers_not_at_their_answer_start_are_listed(tmp_path):
    starts = {"right": 20, "off": 21, "before": -1, "after": 99, "first": 0}
    qas = [
        planted.question(name, "Where?", PASSAGE, "Zürich") for name in starts
    ] + [planted.question("lost", "Where?", PASSAGE, "in")]
    for entry, start in zip(qas, starts.values(), strict=False):
        entry["answers"][0]["answer_start"] = start
    qas[-1]["answers"][0]["text"] = "Rome"
    content = planted.article((PASSAGE, qas))
    with pytest.raises(ValueError) as raised:
        read(tmp_path, content)
    path = tmp_path / "file.json"
    where = "  article 1 ('Invented'), paragraph 1, question "
    lines = [
        f"{where}{name!r}: at answer_start {start} the passage has {found!r}, "
        "not the answer 'Zürich', which is first at 20"
        for name, start, found in (
            ("off", 21, "ürich."),
            ("before", -1, ""),
            ("after", 99, ""),
            ("first", 0, "The to"),
        )
    ]
    lines.append(
        f"{where}'lost': at answer_start 17 the passage has 'in Z', not the "
        "answer 'Rome', which is not in the passage"
    )
    assert str(raised.value).split("\n") == [
        f"{path}: 5 of 6 questions have an answer that is not at its "
        "answer_start, which counts characters, not bytes, from 0:",
        *lines,
        "Correct them, or skip these questions with --skip_misplaced_answers.",
    ]
    # It is not checked outside of training.
    assert len(read(tmp_path, content, is_training=False)) == 6


@pytest.mark.parametrize("passage", ["", " \n\u00a0"])
def test_an_empty_passage_raises(tmp_path, passage):
    message = f"paragraph 1: the passage {passage!r} is empty"
    check_message(
        tmp_path, one(passage=passage), re.escape(message), is_training=False
    )


def test_an_empty_question_raises(tmp_path):
    content = one("Zürich")
    content["data"][0]["paragraphs"][0]["qas"][0]["question"] = " "
    message = "question 'q1': the question ' ' is empty. Give its text"
    check_message(tmp_path, content, message, is_training=False)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ((), "'q1': 0 answers; a training question has exactly one"),
        (("Zürich", "in"), "'q1': 2 answers"),
        ((" ",), "'q1': the answer ' ' is empty"),
    ],
)
def test_training_needs_exactly_one_answer(tmp_path, answers, message):
    check_message(tmp_path, one(*answers), message)


def test_an_answer_without_answer_start_raises_in_training(tmp_path):
    content = one("Zürich")
    del content["data"][0]["paragraphs"][0]["qas"][0]["answers"][0][
        "answer_start"
    ]
    check_message(tmp_path, content, "'Zürich' has no 'answer_start'")
    (found,) = read(tmp_path, content, is_training=False)
    assert found.answers[0].start is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], r"the content is \[\]; it should be an object.*layout is that"),
        ({}, "data is missing or null; it should be a list"),
        ({"data": []}, "has no questions"),
        ({"data": [{}]}, "article 1: paragraphs is missing"),
        ({"data": [{"paragraphs": [{}]}]}, "paragraph 1: context is missing"),
        (planted.article((PASSAGE, [{}])), "a question: id is missing"),
        (planted.article((7, [])), "context is 7; it should be a string"),
        (
            planted.article(("\ud800", [])),
            "context is .*, which is not valid te",
        ),
    ],
)
def test_missing_and_invalid_members_raise(tmp_path, content, message):
    check_message(tmp_path, content, message)


def test_a_truncated_file_raises(tmp_path):
    path = tmp_path / "file.json"
    path.write_text('{"data": [')
    with pytest.raises(ValueError, match="file.json is not JSON"):
        squad_files.read_questions(
            str(path), version_2_with_negative=False, is_training=True
        )
