"""SQuAD 1.1 or 2.0, JSON or rows -> checked questions with their passages."""

import collections
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tfrecords.io import json_files
from tfrecords.io.inputs import file_kinds
from tfrecords.options import Options, option, quoted, some
from tfrecords.tables import parts, table_files
from tfrecords.tasks import data_files
from tfrecords.text import text_files

# Maximum number of answers, or ids, in an error message.
_MAX_NAMED = 100
_JSON = (
    'one object in the layout of SQuAD: {"data": [{"paragraphs": [...]}]}, '
    "with the passage, questions and answers of each paragraph; or lines with "
    "id, context, question and answers"
)
_COLUMNS = (
    "Rows of questions have the columns id, context, question and answers, as "
    "Hugging Face's datasets writes SQuAD."
)
# Kinds of a question, and of the answers of a row, see `json_files.check`.
_QUESTION = {"question": str, "answers?": [{"text": str, "answer_start?": int}]}
_ANSWERS_OF_ROW = {"text": [str], "answer_start?": [int]}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadData(data_files.LabelledFiles):
    """Question files to read, and settings of windows over passages."""

    predict_file: str | None = option(
        None,
        "File with the questions to answer, in --data_dir or elsewhere: SQuAD "
        "JSON, or its rows as datasets writes them (Parquet, JSON lines), as "
        "for --train_file and --dev_file. Default: the dev file.",
        reads=True,
    )
    doc_stride: int | None = option(
        None,
        "Tokens from the start of one window of a long passage to the start "
        "of the next. Default: 128; without training, the model's.",
        at_least=1,
    )
    max_query_length: int | None = option(
        None,
        "Maximum tokens of a question; longer ones are truncated. Default: "
        "64; without training, the model's.",
        at_least=1,
    )
    answer_alignment: str = option(
        "original",
        "Tokens that training labels as the answer. original: as in "
        "run_squad.py, all words that it overlaps, unless its own tokens are "
        "among theirs as they are. exact: the tokens from its first to its "
        "last character, where there are such, also within a word, as in Thai, "
        "Japanese and German compounds; otherwise as original.",
        choices=("original", "exact"),
    )
    skip_misplaced_answers: bool = option(
        False,
        "Skip and count training questions whose answer is not at its "
        "answer_start, as run_squad.py does, instead of an error that lists "
        "them.",
    )
    version_2_with_negative: bool | None = option(
        None,
        "Whether questions may have no answer, as in SQuAD 2.0. Default: "
        "false; without training, the model's.",
    )

    def find_files(self) -> dict[str, str]:
        """Returns paths by split: train, dev, test; see `data_files`."""
        version = "v2.0" if self.version_2_with_negative else "v1.1"
        splits = ("train", "dev", "predict")
        files = data_files.find_files(
            self.data_dir,
            {split: getattr(self, f"{split}_file") for split in splits},
            {split: f"{split}-{version}.json" for split in splits[:2]},
            f"JSON in the layout of SQuAD, such as train-{version}.json, or "
            "its rows as datasets writes them, in Parquet or JSON lines",
        )
        test = files.pop("predict", None)
        # The dev file is predicted anyway, so it needs no second split.
        if test and test != files.get("dev"):
            files["test"] = test
        return files


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreOptions(Options):
    """How predictions are compared with answers."""

    score: str = option(
        "squad",
        "Rules of exact match and F1. squad: English words. cmrc: Chinese "
        "characters and the longest run in common, as in CMRC 2018 and DRCD. "
        "korquad: characters, as in KorQuAD 1.0.",
        choices=("squad", "cmrc", "korquad"),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadOptions(SquadData, ScoreOptions):
    """Question files to read, and settings of windows and answers."""

    n_best_size: int | None = option(
        None,
        "Number of answers per question in nbest_predictions.json, and of "
        "start and end positions per window that they are chosen from. "
        "Default: 20; without training, the model's.",
        at_least=1,
    )
    max_answer_length: int | None = option(
        None,
        "Maximum tokens of an answer. Default: 30; without training, the "
        "model's.",
        at_least=1,
    )
    null_score_diff_threshold: float | None = option(
        None,
        "With --version_2_with_negative: a question has no answer if the null "
        "score exceeds the score of the best answer by more than this. "
        "Default: with --do_eval, the value with the best F1 on dev; otherwise "
        "the model's, tuned in the same way; otherwise 0, as in the original.",
    )


class Answer(NamedTuple):
    """A part of a passage."""

    text: str  # As in the file.
    start: int | None  # Offset of its first character, if given.


class Question(NamedTuple):
    """A question about a passage."""

    id: str  # Key of its predictions.
    text: str
    passage: str
    answers: tuple[Answer, ...]  # One per annotator, if any.
    is_impossible: bool  # The passage has no answer; only in version 2.0.
    source: str  # File, article and question, for messages.


def read_questions(
    path: str,
    *,
    version_2_with_negative: bool,
    is_training: bool,
    skip_misplaced_answers: bool = False,
) -> list[Question]:
    """Returns the questions of a file, in its order.

    run_squad.py: read_squad_examples.

    Args:
      path: JSON in the layout of SQuAD, or a table; or several, as in
        `read_entries`. A file that names no version may be of either version.
      version_2_with_negative: whether it is version 2.0, in which questions
        may have no answer.
      is_training: whether each question must have exactly one answer, at its
        `answer_start`, or none if it is impossible. Otherwise answers may be
        missing, `answer_start` is not checked, since scores compare texts,
        and each question must have an id of its own.
      skip_misplaced_answers: whether the caller skips training questions for
        which `is_misplaced` is true; otherwise they are an error.

    Raises:
      ValueError: naming file, article or line, question and value, if the file
        is of the other version, or members are missing or contradict each
        other.
    """
    questions = [
        _question(*found, version_2_with_negative, is_training)
        for found in read_entries(
            path, lambda *x: _check_version(*x, version_2_with_negative)
        )
    ]
    if not questions:
        raise ValueError(f"{path} has no questions; copy it again.")
    if not is_training:
        check_ids((question.id for question in questions), path)
    elif not skip_misplaced_answers:
        _check_places(questions, path)
    return questions


def check_ids(names: Iterable[str], path: str) -> None:
    """Raises ValueError if two questions of a file have the same id."""
    counts = collections.Counter(names)
    repeated = [quoted(name) for name in counts if counts[name] > 1]
    if repeated:
        raise ValueError(
            f"{path}: {len(repeated)} ids are those of several questions: "
            f"{some(repeated, most=_MAX_NAMED)}. Give each question "
            "a different id; it is the key of its predictions."
        )


def is_misplaced(question: Question) -> bool:
    """Returns whether a training question's answer is not at its start."""
    return any(_at_start(question, x) != x.text for x in question.answers)


def _at_start(question: Question, answer: Answer) -> str:
    """Returns the text of the passage where the answer should be."""
    if answer.start < 0:
        return ""
    return question.passage[answer.start : answer.start + len(answer.text)]


def _check_places(questions: Sequence[Question], path: str) -> None:
    """Raises ValueError that lists all answers not at their answer_start."""
    misplaced = list(filter(is_misplaced, questions))
    if not misplaced:
        return
    lines = []
    for question in misplaced[:_MAX_NAMED]:
        (answer,) = question.answers
        place = question.passage.find(answer.text)
        lines.append(
            f"  {question.source.removeprefix(f'{path}: ')}: at answer_start "
            f"{answer.start} the passage has "
            f"{quoted(_at_start(question, answer))}, not the answer "
            f"{quoted(answer.text)}, which is "
            + ("not in the passage" if place < 0 else f"first at {place}")
        )
    if len(misplaced) > _MAX_NAMED:
        lines.append(f"  and {len(misplaced) - _MAX_NAMED} more")
    raise ValueError(
        "\n".join(
            [
                f"{path}: {len(misplaced)} of {len(questions)} questions have "
                "an answer that is not at its answer_start, which counts "
                "characters, not bytes, from 0:",
                *lines,
                "Correct them, or skip these questions with "
                "--skip_misplaced_answers.",
            ]
        )
    )


def read_entries(
    names: str, check_version: Callable[[dict, str], None]
) -> Iterator[tuple[str | None, dict, str]]:
    """Yields passage, entry of `qas` and its place, of each question.

    Args:
      names: JSON in the layout of SQuAD, or a table, see `_read_rows`; or
        several, as in `parts.find`.
      check_version: called with content and path of each JSON.

    Raises:
      ValueError: naming the file, if it is neither.
    """
    for path in parts.find(names):
        if _has_rows(path):
            yield from _read_rows(path)
        else:
            content = _load(path)
            check_version(content, path)
            yield from _entries(content, path)


def _has_rows(path: str) -> bool:
    if table_files.format_of(path) == "parquet":
        return True
    with file_kinds.open_text(path) as file:
        first = next(filter(bytes.strip, file), b"")
    return b'"context":' in first and b'"paragraphs"' not in first


def _read_rows(path: str) -> Iterator[tuple[str, dict, str]]:
    """Yields passage, question and "file:line" of each row of a table.

    Hugging Face's `datasets` writes such rows, to Parquet and JSON lines:

      {"id": "q1", "title": "Cats", "context": "The cat sat.",
       "question": "Who?", "answers": {"text": ["cat"], "answer_start": [4]}}

    The question is an entry of `qas` in the layout of SQuAD. It is impossible
    if there are no answers, unless the row has `is_impossible`.
    """
    is_parquet = table_files.format_of(path) == "parquet"
    input_format = "parquet" if is_parquet else "jsonl"
    header = table_files.read_header(path, input_format, columns=["answers"])
    names = ["context", "id", "question"]
    names += [name for name in ("answers", "is_impossible") if name in header]
    for where, cells in table_files.read_columns(
        path, input_format, names, _COLUMNS
    ):
        passage, *values = cells
        entry = dict(zip(names[1:], values, strict=True))
        answers = _answers_of_row(entry.pop("answers", None), where)
        if answers is not None:
            entry["answers"] = answers
            if entry.get("is_impossible") is None:
                entry["is_impossible"] = not answers
        yield passage, entry, where


def _answers_of_row(value: object, where: str) -> list | None:
    """Returns an object for each answer of a row; None if it has no answers."""
    if value is None or isinstance(value, list):
        return value
    json_files.check(value, _ANSWERS_OF_ROW, where, "answers")
    texts, starts = value["text"], value.get("answer_start")
    if starts is None:
        return [{"text": text} for text in texts]
    if len(starts) != len(texts):
        raise ValueError(
            f"{where}: answers has {len(texts)} texts, but {len(starts)} "
            "answer_start. Give one for each text, in the same order."
        )
    return [
        {"text": text, "answer_start": start}
        for text, start in zip(texts, starts, strict=True)
    ]


def _load(path: str) -> dict:
    """Returns the content of JSON in the layout of SQuAD."""
    with file_kinds.open_text(path) as file:
        data = file.read()
    text_files.check_encoding(data, path)
    first, _, rest = data.partition(b"\n")
    if rest.strip():  # More than one line.
        text_files.check_not_json(first.decode("utf-8", "ignore"), path, _JSON)
    try:
        return json_files.parse(data, path, {"data": list})
    except ValueError as error:
        raise ValueError(
            f"{error} The layout is that of SQuAD's files, such as "
            "train-v1.1.json; rows are read from JSON lines and Parquet."
        ) from None


def _check_version(content: dict, path: str, is_version_2: bool) -> None:
    version = content.get("version")
    number = str(version or "").strip().lower().removeprefix("v")
    if is_version_2 and number.startswith("1"):
        raise ValueError(
            f"{path} has version {quoted(version)}; with "
            "--version_2_with_negative it should be v2.0. Omit the flag, or "
            "give a file of SQuAD 2.0."
        )
    if not is_version_2 and number.startswith("2"):
        raise ValueError(
            f"{path} has version {quoted(version)}, in which questions may "
            "have no answer. Add --version_2_with_negative, or give a file of "
            "SQuAD 1.1."
        )


def _entries(content: dict, path: str) -> Iterator[tuple[str, dict, str]]:
    """Yields passage, question and location of each question."""
    for number, article in enumerate(content["data"], 1):
        where = f"{path}: article {number}"
        if isinstance(article, dict) and article.get("title"):
            where += f" ({quoted(article['title'])})"
        json_files.check(article, {"paragraphs": list}, where)
        for index, paragraph in enumerate(article["paragraphs"], 1):
            source = f"{where}, paragraph {index}"
            json_files.check(paragraph, {"context?": str, "qas": list}, source)
            for entry in paragraph["qas"]:
                yield paragraph.get("context"), entry, source


def _question(
    passage: str | None,
    entry: dict,
    source: str,
    is_version_2: bool,
    is_training: bool,
) -> Question:
    json_files.check(passage, str, source, "context")
    if not passage.strip():
        raise ValueError(
            f"{source}: the passage {quoted(passage)} is empty. Give its text, "
            "or remove the paragraph."
        )
    json_files.check(entry, dict, f"{source}, a question")
    name = question_id(entry, f"{source}, a question")
    source = f"{source}, question {quoted(name)}"
    json_files.check(entry, _QUESTION, source)
    given = entry.get("answers")
    if is_training:
        json_files.check(given, list, source, "answers")
    answers = tuple(
        Answer(answer["text"], answer.get("answer_start"))
        for answer in given or ()
    )
    is_impossible = False
    # Without answers it is a test set, which has no is_impossible.
    if is_version_2 and (given is not None or "is_impossible" in entry):
        is_impossible = _is_impossible(entry, answers, source)
    if is_training and not is_impossible:
        _check_answer(answers, source)
    return Question(
        name, entry["question"], passage, answers, is_impossible, source
    )


def question_id(entry: Mapping[str, object], where: str) -> str:
    """Returns the id of a question, the key of its predictions.

    A number, as in the COVID-QA files, is written with its digits, as in the
    original's JSON of predictions.

    Raises:
      ValueError: if it is missing, or neither text nor an integer.
    """
    value = entry.get("id")
    if type(value) is int:
        return str(value)
    json_files.check(value, str, where, "id")
    return value


def _is_impossible(entry, answers, source) -> bool:
    if not isinstance(entry.get("is_impossible"), bool):
        raise ValueError(
            f"{source}: 'is_impossible' is "
            f"{quoted(entry.get('is_impossible'))}; in version 2.0 it is true "
            "or false in each question. Add it, or omit "
            "--version_2_with_negative for a file of version 1.1."
        )
    if entry["is_impossible"] and answers:
        raise ValueError(
            f"{source}: is_impossible is true, but there is the answer "
            f"{quoted(answers[0].text)}. Correct one of the two."
        )
    return entry["is_impossible"]


def _check_answer(answers, source) -> None:
    """Raises ValueError unless there is one answer, with its answer_start."""
    if len(answers) != 1:
        fix = "Keep one, or give the file as --dev_file."
        if not answers:
            fix = "Add it, or --version_2_with_negative, as for SQuAD 2.0."
        raise ValueError(
            f"{source}: {len(answers)} answers; a training question has "
            f"exactly one. {fix}"
        )
    (answer,) = answers
    if not answer.text.strip():
        raise ValueError(
            f"{source}: the answer {quoted(answer.text)} is empty. Give its "
            "text, or remove the question."
        )
    if answer.start is None:
        raise ValueError(
            f"{source}: the answer {quoted(answer.text)} has no "
            "'answer_start'; training needs it. Add it, in characters counted "
            "from 0."
        )
