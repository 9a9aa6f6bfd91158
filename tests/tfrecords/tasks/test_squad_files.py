"""squad_files.py: questions of SQuAD files, and errors of invalid files."""

import gzip
import json

import planted_squad as planted
import pytest

from bert_tf.tasks import squad_scores
from tfrecords.tasks import squad_files

PASSAGE = "The tower stands in Zürich."
OFFICIAL = [("train-v1.1", 6842), ("dev-v1.1", 1169)]
OFFICIAL += [("train-v2.0", 5681), ("dev-v2.0", 2466)]
VERSION_2 = {"version_2_with_negative": True}
PREDICTION = {"is_training": False}


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Content, settings -> the questions of file.json with this content."""
    monkeypatch.chdir(tmp_path)

    def read(content, **settings):
        (tmp_path / "file.json").write_text(json.dumps(content), "utf-8")
        training = {"version_2_with_negative": False, "is_training": True}
        return squad_files.read_questions("file.json", **(training | settings))

    return read


def one(*answers, version="1.1", passage=PASSAGE, **members):
    """Returns the content of a file of one question."""
    entry = planted.question("q1", "Where?", PASSAGE, *answers, **members)
    return planted.article((passage, [entry]), version=version)


@pytest.mark.parametrize(("name", "count"), OFFICIAL)
def test_real_files_have_their_questions(shared_data, name, count):
    questions = squad_files.read_questions(
        str(shared_data / f"squad/{name}.json"),
        version_2_with_negative="v2" in name,
        is_training="train" in name,
    )
    assert len(questions) == count
    assert all(q.is_impossible or q.answers for q in questions)


def test_an_id_that_is_a_number_is_its_digits(read):
    content = one("Zürich", id=262)
    del content["version"]  # Such files name none.
    (found,) = read(content)
    assert found.id == "262" and "question '262'" in found.source


def test_ids_are_the_keys_of_predictions(read):
    content = one("Zürich")
    content["data"] *= 2
    message = "file.json: 1 ids are those of several questions: 'q1'. Give each"
    with pytest.raises(ValueError, match=message):
        read(content, **PREDICTION)
    # Training predicts nothing; XQuAD has the same ids in all languages.
    assert len(read(content)) == 2


def test_a_question_has_passage_answers_and_source(read):
    (found,) = read(one("Zürich"))
    assert found == squad_files.Question(
        "q1",
        "Where?",
        PASSAGE,
        (squad_files.Answer("Zürich", 20),),
        False,
        "file.json: article 1 ('Invented'), paragraph 1, question 'q1'",
    )


def test_only_training_questions_need_answers(read):
    entry = {"id": "q1", "question": "Where?"}
    content = planted.article((PASSAGE, [entry]), version=None)
    for settings in (PREDICTION, PREDICTION | VERSION_2):
        (found,) = read(content, **settings)
        assert found.answers == ()
    with pytest.raises(ValueError, match="'q1': answers is missing"):
        read(content)
    content = one(answers=[{"text": "Zürich"}])
    (found,) = read(content, **PREDICTION)
    assert found.answers[0].start is None
    with pytest.raises(ValueError, match="'Zürich' has no 'answer_start'"):
        read(content)


def test_impossible_questions_have_no_answer(read):
    content = one(version="v2.0", is_impossible=True)
    assert read(content, **VERSION_2)[0].is_impossible


def test_all_answers_not_at_their_answer_start_are_listed(read):
    starts = {"right": 20, "off": 21, "before": -1, "after": 99, "first": 0}
    qas = [
        planted.question(name, "Where?", PASSAGE, "Zürich") for name in starts
    ] + [planted.question("lost", "Where?", PASSAGE, "in")]
    for entry, start in zip(qas, starts.values(), strict=False):
        entry["answers"][0]["answer_start"] = start
    qas[-1]["answers"][0]["text"] = "Rome"
    content = planted.article((PASSAGE, qas))
    with pytest.raises(ValueError) as raised:
        read(content)
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
        "file.json: 5 of 6 questions have an answer that is not at its "
        "answer_start, which counts characters, not bytes, from 0:",
        *lines,
        "Correct them, or skip these questions with --skip_misplaced_answers.",
    ]
    # It is not checked outside of training.
    assert len(read(content, **PREDICTION)) == 6


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        (one("Zürich", id=True), {}, "a question: id is .*; it should be a st"),
        (one("Zürich", id=2.5), {}, "a question: id is .*; it should be a str"),
        (one("Zürich", id=[1]), {}, "a question: id is .*; it should be a str"),
        (one("Zürich", id=None), {}, "a question: id is .*; it should be a st"),
        (
            one("Zürich", version="v2.0"),
            {},
            "has version 'v2.0'.* Add --version_2_with_negative",
        ),
        (one("Zürich"), VERSION_2, "has version '1.1'; .* should be v2.0"),
        *(
            (
                one("Zürich", version="v2.0", is_impossible=value),
                VERSION_2,
                f"question 'q1': 'is_impossible' is {value!r}",
            )
            for value in (None, "no", 0)
        ),
        (
            one("Zürich", version="v2.0", is_impossible=True),
            VERSION_2,
            "'q1': is_impossible is true, but there is the answer 'Zürich'",
        ),
        (one(passage=""), PREDICTION, "paragraph 1: the passage '' is empty"),
        (
            one(passage=" \n\u00a0"),
            PREDICTION,
            r"paragraph 1: the passage ' \\n\\xa0' is empty",
        ),
        # Training needs exactly one answer.
        (one(), {}, "'q1': 0 answers; a training question has exactly one"),
        (one("Zürich", "in"), {}, "'q1': 2 answers"),
        (one(" "), {}, "'q1': the answer ' ' is empty"),
        # Members.
        (
            [],
            {},
            r"the content is \[\]; it should be an object.*layout is that",
        ),
        ({}, {}, "data is missing or null; it should be a list"),
        ({"data": []}, {}, "has no questions"),
        ({"data": [{}]}, {}, "article 1: paragraphs is missing"),
        ({"data": [{"paragraphs": [{}]}]}, {}, "1: qas is missing"),
        (
            {"data": [{"paragraphs": [{"qas": [{}]}]}]},
            {},
            "paragraph 1: context is missing",
        ),
        (planted.article((PASSAGE, [{}])), {}, "a question: id is missing"),
        (planted.article((7, [])), {}, "context is 7; it should be a string"),
        (
            planted.article(("\ud800", [])),
            {},
            "context is .*, which is not valid te",
        ),
    ],
)
def test_what_is_wrong_is_named_with_file_and_place(
    read, content, settings, message
):
    with pytest.raises(ValueError, match=f"file.json.*{message}"):
        read(content, **settings)


def row(*answers, **members):
    """Returns a row as datasets writes it."""
    starts = [PASSAGE.find(answer) for answer in answers]
    return {
        "id": "q1",
        "title": "Invented",
        "context": PASSAGE,
        "question": "Where?",
        "answers": {"text": list(answers), "answer_start": starts},
    } | members


def write_rows(rows, path="rows.json"):
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(x)}\n" for x in rows)
    return path


@pytest.mark.parametrize("version", ["1.1", "v2.0"])
@pytest.mark.parametrize("name", ["rows.json", "rows.json.gz", "rows.parquet"])
def test_rows_of_datasets_are_those_of_the_official_file(read, name, version):
    is_version_2 = version == "v2.0"
    given = {"q1": ("Zürich",), "q2": ("tower", "The tower")}
    given |= {"q3": ()} if is_version_2 else {}
    rows = [row(*answers, id=name) for name, answers in given.items()]
    entries = [
        planted.question(name, "Where?", PASSAGE, *answers)
        | ({"is_impossible": not answers} if is_version_2 else {})
        for name, answers in given.items()
    ]
    settings = PREDICTION | {"version_2_with_negative": is_version_2}
    wanted = read(
        planted.article((PASSAGE, entries), version=version), **settings
    )
    if name.endswith("parquet"):
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), name)
    else:
        write_rows(rows, name)
    found = squad_files.read_questions(name, **settings)
    assert [x.source for x in found] == [
        f"{name}:{number}, question {x.id!r}"
        for number, x in enumerate(found, 1)
    ]
    assert [x._replace(source="") for x in found] == [
        x._replace(source="") for x in wanted
    ]
    for version in (None, "2.0" if is_version_2 else "1.1"):
        answers = squad_scores.read_answers(name, version)
        assert answers == squad_scores.read_answers("file.json", version)


def test_several_files_are_one_and_may_be_compressed(read, tmp_path):
    wanted = read(one("tower"), **PREDICTION)
    content = gzip.compress(json.dumps(row("in", id="q2")).encode())
    (tmp_path / "rows.json.gz").write_bytes(content)
    path = "file.json,rows.json.gz"
    found = squad_files.read_questions(
        path, version_2_with_negative=False, **PREDICTION
    )
    assert found[:1] == wanted and found[1].source.startswith("rows.json.gz:1")
    answers = {"q1": ["tower"], "q2": ["in"]}
    assert squad_scores.read_answers(path) == ("1.1", answers)


def test_rows_may_lack_answers_and_have_is_impossible(read, tmp_path):
    questions = {"context": PASSAGE, "question": "Where?"}
    path = write_rows([questions | {"id": i} for i in (1, 2)])
    found = squad_files.read_questions(path, **PREDICTION, **VERSION_2)
    assert [(x.id, x.answers) for x in found] == [("1", ()), ("2", ())]
    path = write_rows([row("tower", is_impossible=False)])
    training = {"is_training": True, **VERSION_2}
    assert not squad_files.read_questions(path, **training)[0].is_impossible
    with pytest.raises(ValueError, match="rows.json:1: answers is missing"):
        squad_scores.read_answers(write_rows([questions | {"id": "q"}]))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            {"answers": {"text": ["a", "b"], "answer_start": [1]}},
            "2 texts, but 1",
        ),
        ({"answers": {"answer_start": [1]}}, "answers.text is missing"),
        (
            {"answers": {"text": [None]}},
            r"answers.text\[0\] is missing or null",
        ),
        (
            {"answers": {"text": ["tower"]}},
            "'q1': the answer 'tower' has no 'ans",
        ),
        ({"answers": "tower"}, "answers is 'tower'; it should be an object"),
        ({"answers": None}, "'q1': answers is missing or null"),
        ({"context": None}, "context is missing or null"),
        ({"context": " "}, "the passage ' ' is empty"),
        ({"id": None}, "a question: id is missing"),
        ({"question": 7}, "'q1': question is 7; it should be a string"),
        (
            {"answers": {"text": [], "answer_start": []}},
            "'q1': 0 answers; .* Add it, or --version_2_with_negative",
        ),
        (
            {"answers": {"text": ["in"], "answer_start": [0]}},
            "1 of 2 questions .*\n  rows.json:2, question 'q1': at answer_s",
        ),
    ],
)
def test_a_wrong_row_is_named_with_its_line(read, second, message):
    path = write_rows([row("tower"), row("in", **second)])
    with pytest.raises(ValueError, match=message) as raised:
        squad_files.read_questions(
            path, version_2_with_negative=False, is_training=True
        )
    assert "rows.json:2" in str(raised.value)


def test_columns_of_rows_that_are_missing_are_named(read):
    path = write_rows([{"context": PASSAGE, "query": "Where?", "id": "q"}])
    with pytest.raises(
        ValueError, match="no column 'question'; there are .* Rows"
    ):
        squad_files.read_questions(path, **PREDICTION, **VERSION_2)
    path = write_rows([row("tower"), row(id="q2")])
    with pytest.raises(
        ValueError, match="rows.json:2.*run_squad reads rows so with --v"
    ):
        squad_scores.read_answers(path, "1.1")
