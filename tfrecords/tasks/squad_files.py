"""SQuAD 1.1 or 2.0 JSON -> checked questions with their passages."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tfrecords.options import Options, option
from tfrecords.tasks import data_files
from tfrecords.text import text_files

# Names of types in messages.
_KINDS = {str: "a string", list: "a list", int: "an integer"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadData(Options):
    """Question files to read, and settings of windows over passages."""

    data_dir: str | None = option(
        None,
        "Folder of train-v1.1.json and dev-v1.1.json (v2.0 with "
        "--version_2_with_negative); either may be missing.",
    )
    train_file: str | None = option(
        None,
        "SQuAD JSON file to train on, in --data_dir or elsewhere.",
    )
    dev_file: str | None = option(
        None,
        "SQuAD JSON file to evaluate on, in --data_dir or elsewhere.",
    )
    predict_file: str | None = option(
        None,
        "SQuAD JSON file with the questions to answer, in --data_dir or "
        "elsewhere. Default: the dev file.",
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
            f"JSON in the layout of SQuAD, such as train-{version}.json",
        )
        test = files.pop("predict", None)
        # The dev file is predicted anyway, so it needs no second split.
        if test and test != files.get("dev"):
            files["test"] = test
        return files


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadOptions(SquadData):
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
        "Default: with --do_eval, the value with the best F1 on dev; "
        "otherwise the model's, tuned in the same way; otherwise 0, as in the "
        "original.",
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
    path: str, *, version_2_with_negative: bool, is_training: bool
) -> list[Question]:
    """Returns the questions of a file, in its order.

    run_squad.py: read_squad_examples.

    Args:
      path: JSON in the layout of SQuAD. A file that names no version may be of
        either version.
      version_2_with_negative: whether it is version 2.0, in which questions
        may have no answer.
      is_training: whether each question must have exactly one answer, at its
        `answer_start`, or none if it is impossible. Otherwise answers may be
        missing, and `answer_start` is not checked: scores compare texts.

    Raises:
      ValueError: naming file, article, question and value, if the file is of
        the other version, or members are missing or contradict each other.
    """
    content = _load(path)
    _check_version(content, path, version_2_with_negative)
    questions = [
        _question(entry, passage, source, version_2_with_negative, is_training)
        for passage, entry, source in _entries(content, path)
    ]
    if not questions:
        raise ValueError(f"{path} has no questions; copy it again.")
    return questions


def _load(path: str) -> dict:
    with open(path, "rb") as file:
        data = file.read()
    text_files.check_encoding(data, f"{path}:1")
    try:
        content = json.loads(data.decode("utf-8-sig"))
    # The second is of brackets nested deeper than Python's stack.
    except (ValueError, RecursionError) as error:
        where, reason = path, str(error)
        if isinstance(error, UnicodeDecodeError):
            where += f":{1 + data[: error.start].count(10)}"
            reason = f"byte {data[error.start]:#04x} is not UTF-8"
        raise ValueError(
            f"{where} is not JSON ({reason}). Give a file in the layout of "
            "SQuAD, such as train-v1.1.json; is the copy incomplete?"
        ) from error
    return content if isinstance(content, dict) else {"data": None}


def _shown(value: Any) -> str:
    return text_files.shortened(repr(value))


def _check_version(content: dict, path: str, is_version_2: bool) -> None:
    version = content.get("version")
    number = str(version or "").strip().lower().removeprefix("v")
    if is_version_2 and number.startswith("1"):
        raise ValueError(
            f"{path} has version {_shown(version)}; with "
            "--version_2_with_negative it should be v2.0. Omit the flag, or "
            "give a file of SQuAD 2.0."
        )
    if not is_version_2 and number.startswith("2"):
        raise ValueError(
            f"{path} has version {_shown(version)}, in which questions may "
            "have no "
            "answer. Add --version_2_with_negative, or give a file of SQuAD "
            "1.1."
        )


def _get(entry: Any, name: str, kind: type, source: str) -> Any:
    """Returns a member of an object; raises ValueError for a wrong type."""
    value = entry.get(name) if isinstance(entry, dict) else None
    # In Python, a bool is an int.
    if not isinstance(value, kind) or isinstance(value, bool):
        shown = "is missing" if value is None else f"is {_shown(value)}"
        raise ValueError(
            f"{source}: {name!r} {shown}; it should be {_KINDS[kind]}, as in "
            "the files of SQuAD."
        )
    if kind is str:
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{source}: {name!r} is not valid text ({error}). Remove the "
                "lone surrogate."
            ) from error
    return value


def _entries(content: dict, path: str) -> Iterator[tuple[str, dict, str]]:
    """Yields passage, question and location of each question."""
    for number, article in enumerate(_get(content, "data", list, path), 1):
        where = f"{path}: article {number}"
        if isinstance(article, dict) and article.get("title"):
            where += f" ({_shown(article['title'])})"
        paragraphs = _get(article, "paragraphs", list, where)
        for index, paragraph in enumerate(paragraphs, 1):
            source = f"{where}, paragraph {index}"
            passage = _get(paragraph, "context", str, source)
            if not passage.strip():
                raise ValueError(
                    f"{source}: the passage {_shown(passage)} is empty. Give "
                    "its text, or remove the paragraph."
                )
            for entry in _get(paragraph, "qas", list, source):
                yield passage, entry, source


def _question(
    entry: dict,
    passage: str,
    source: str,
    is_version_2: bool,
    is_training: bool,
) -> Question:
    name = _get(entry, "id", str, f"{source}, a question")
    source = f"{source}, question {_shown(name)}"
    text = _get(entry, "question", str, source)
    if not text.strip():
        raise ValueError(
            f"{source}: the question {_shown(text)} is empty. Give its text, "
            "or remove the question."
        )
    given = entry.get("answers")
    if is_training or given is not None:
        given = _get(entry, "answers", list, source)
    answers = tuple(_answer(answer, source) for answer in given or ())
    is_impossible = False
    # Without answers it is a test set, which has no is_impossible.
    if is_version_2 and (given is not None or "is_impossible" in entry):
        is_impossible = _is_impossible(entry, answers, source)
    if is_training and not is_impossible:
        _check_answer(answers, passage, source)
    return Question(name, text, passage, answers, is_impossible, source)


def _answer(entry: dict, source: str) -> Answer:
    start = entry.get("answer_start") if isinstance(entry, dict) else None
    if start is not None:
        start = _get(entry, "answer_start", int, source)
    return Answer(_get(entry, "text", str, source), start)


def _is_impossible(entry, answers, source) -> bool:
    if not isinstance(entry.get("is_impossible"), bool):
        raise ValueError(
            f"{source}: 'is_impossible' is "
            f"{_shown(entry.get('is_impossible'))}; in "
            "version 2.0 it is true or false in each question. Add it, or omit "
            "--version_2_with_negative for a file of version 1.1."
        )
    if entry["is_impossible"] and answers:
        raise ValueError(
            f"{source}: is_impossible is true, but there is the answer "
            f"{_shown(answers[0].text)}. Correct one of the two."
        )
    return entry["is_impossible"]


def _check_answer(answers, passage, source) -> None:
    """Raises ValueError unless there is one answer, at its answer_start."""
    if len(answers) != 1:
        raise ValueError(
            f"{source}: {len(answers)} answers; a training question has "
            "exactly one. Keep one, or give the file as --dev_file."
        )
    (answer,) = answers
    if not answer.text.strip():
        raise ValueError(
            f"{source}: the answer {_shown(answer.text)} is empty. Give its "
            "text, or remove the question."
        )
    if answer.start is None:
        raise ValueError(
            f"{source}: the answer {_shown(answer.text)} has no "
            "'answer_start'; "
            "training needs it. Add it, in characters counted from 0."
        )
    start, end = answer.start, answer.start + len(answer.text)
    found = passage[start:end] if start >= 0 else ""
    if found != answer.text:
        raise ValueError(
            f"{source}: at answer_start {start} the passage has "
            f"{_shown(found)}, "
            f"not the answer {_shown(answer.text)}. Correct answer_start; it "
            "counts characters, not bytes, from 0."
        )
