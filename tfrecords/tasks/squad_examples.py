"""SQuAD questions -> records of windows, in training with the answer's span.

run_squad.py: read_squad_examples and convert_examples_to_features.

N questions, W windows of all questions, S max_seq_length, p tokens of a
passage.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from tfrecords.tables import parts
from tfrecords.tasks import question_windows, split_records, squad_files
from tfrecords.text import tokenizer as tokenizer_lib

_QUESTIONS_AT_ONCE = 256
# Maximum number of ids in a log message; the manifest lists all of them.
_MAX_NAMED = 10
# The word separators of run_squad.py; the tokenizer splits at more spaces.
_SPACES = " \t\r\n\u202f"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of windows; the defaults are the original's."""

    max_seq_length: int = 384  # Tokens of a window, including padding.
    doc_stride: int = 128  # Tokens from one window's start to the next.
    max_query_length: int = 64  # Maximum number of tokens of a question.
    version_2_with_negative: bool = False  # Questions may have no answer.
    answer_alignment: str = "original"  # See `squad_files.SquadData`.
    skip_misplaced_answers: bool = False

    def flags(self, is_training: bool) -> dict:
        """Returns the settings of records, but for defaults of the last two."""
        flags = dataclasses.asdict(self)
        for name in ("answer_alignment", "skip_misplaced_answers"):
            if not is_training or flags[name] == getattr(Settings, name):
                del flags[name]
        return flags


class Chunk(NamedTuple):
    """N questions and their windows."""

    questions: Sequence[squad_files.Question]
    windows: question_windows.Windows
    query_lengths: np.ndarray  # [N] int32, question tokens before truncation.
    passages: list[np.ndarray]  # N arrays [p], token ids of each passage.
    starts: list[np.ndarray]  # N arrays [p], first characters of the tokens.
    ends: list[np.ndarray]  # N arrays [p], characters after the tokens.


def make_records(
    files: Mapping[str, str],
    output_dir: str,
    tokenizer: tokenizer_lib.BertTokenizer,
    settings: Settings,
) -> dict[str, str]:
    """Writes a folder of records for each split; complete ones are kept.

    The manifest's statistics list the questions whose answer the original does
    not find among the passage's words, for a space in it that ends no word
    there, and which has its own tokens (`answers_original_skips`), those whose
    answer has no tokens (`answers_not_found`; they are skipped), those whose
    answer is not at its answer_start (`answers_misplaced`; skipped with that
    setting, otherwise an error) and those whose answer is not completely inside
    any window (`answers_in_no_window`; all their windows are labelled as
    without answer).

    Args:
      files: path by split; only train gets labels.
      output_dir: parent of a folder for each split, such as `train`.
      tokenizer: maps text to ids.
      settings: settings of windows.

    Returns:
      The folder of each split.

    Raises:
      ValueError: as in `squad_files.read_questions` and `split_records.make`;
        or if a question leaves no room for its passage, or either has no
        tokens.
    """
    make_chunks = chunk_maker(tokenizer, settings)
    return split_records.make(
        [
            _to_make(split, path, tokenizer, settings, make_chunks)
            for split, path in files.items()
        ],
        split_records.vocabulary_of(tokenizer),
        output_dir,
    )


def chunk_maker(
    tokenizer: tokenizer_lib.BertTokenizer, settings: Settings
) -> Callable[[Sequence[squad_files.Question]], Iterator[Chunk]]:
    """Returns a function: questions -> chunks of them, with their windows."""

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string)] * 2,
        autograph=False,  # No control flow to convert; saves seconds.
    )
    def make(questions, passages):
        tokens, pieces = question_windows.tokenize(
            tokenizer, questions, passages
        )
        windows = question_windows.make_windows(
            tokens,
            pieces,
            max_seq_length=settings.max_seq_length,
            doc_stride=settings.doc_stride,
            max_query_length=settings.max_query_length,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
        )
        return windows, tokens.row_lengths(), pieces

    def make_chunks(questions):
        for begin in range(0, len(questions), _QUESTIONS_AT_ONCE):
            chunk = questions[begin : begin + _QUESTIONS_AT_ONCE]
            windows, lengths, pieces = make(
                tf.constant([question.text for question in chunk]),
                tf.constant([question.passage for question in chunk]),
            )
            splits = pieces.ids.row_splits.numpy()[1:-1]
            yield Chunk(
                chunk,
                tf.nest.map_structure(lambda rows: rows.numpy(), windows),
                lengths.numpy(),
                *(np.split(x.values.numpy(), splits) for x in pieces),
            )

    return make_chunks


def _to_make(split, path, tokenizer, settings, make_chunks):
    is_training = split.startswith("train")

    @functools.cache
    def questions():
        return squad_files.read_questions(
            path,
            version_2_with_negative=settings.version_2_with_negative,
            is_training=is_training,
            skip_misplaced_answers=settings.skip_misplaced_answers,
        )

    def count():
        num_windows = 0
        for chunk in make_chunks(questions()):
            _check(chunk, is_training, settings)
            num_windows += len(chunk.windows.question)
        return num_windows

    def examples(statistics):
        counts = {
            "questions": len(questions()),
            "questions_without_answer": sum(
                question.is_impossible for question in questions()
            ),
            "truncated_questions": 0,
            "windows": 0,
            "tokens": 0,
            "answers_original_skips": [],
            "answers_not_found": [],
            "answers_in_no_window": [],
        }
        if is_training and settings.answer_alignment == "exact":
            counts |= {"answers_exact": 0, "answers_not_exact": 0}
        if is_training and settings.skip_misplaced_answers:
            counts["answers_misplaced"] = []
        for chunk in make_chunks(questions()):
            too_long = chunk.query_lengths > settings.max_query_length
            counts["truncated_questions"] += int(too_long.sum())
            for example in _examples(
                chunk, tokenizer, is_training, counts, settings
            ):
                counts["windows"] += 1
                counts["tokens"] += int(example["input_mask"].sum())
                yield example
        _warn_of_lost(path, counts)
        statistics |= counts

    return split_records.Split(
        name=split,
        schema_name="spans" if is_training else "encoder_inputs",
        sizes={"max_seq_length": settings.max_seq_length},
        flags={"task_name": "SQuAD", **parts.source(path)}
        | settings.flags(is_training),
        count=count,
        examples=examples,
    )


def _check(chunk: Chunk, is_training: bool, settings: Settings) -> None:
    """Raises ValueError for questions and passages that fit no window."""
    most = settings.max_seq_length - question_windows.SPECIAL_TOKENS - 1
    for number, question in enumerate(chunk.questions):
        length = chunk.query_lengths[number]
        kept = min(length, settings.max_query_length)
        if not length:
            message = (
                f"{question.source}: the question {question.text!r} has no "
                "tokens"
            )
            if is_training:
                raise ValueError(f"{message}. Give its text, or remove it.")
            # The trial file of CMRC 2018 has two, which its script counts.
            logging.warning("%s; its answer counts in the scores", message)
        if kept > most:
            raise ValueError(
                f"{question.source}: the question has {length} tokens, of "
                f"which {kept} are kept (--max_query_length="
                f"{settings.max_query_length}); a window of "
                f"{settings.max_seq_length} leaves no room for its passage. "
                "Raise --max_seq_length, or lower --max_query_length."
            )
        if not len(chunk.passages[number]):
            raise ValueError(
                f"{question.source}: the passage {question.passage!r} has no "
                "tokens. Give its text, or remove the paragraph."
            )


def _examples(chunk, tokenizer, is_training, counts, settings):
    """Yields the example of each window, with labels in training."""
    windows = chunk.windows
    labels = [{}] * len(windows.question)
    if is_training:
        labels = _labels(chunk, tokenizer, counts, settings)
    for window, label in enumerate(labels):
        if label is not None:
            inputs = {n: rows[window] for n, rows in windows.inputs.items()}
            yield inputs | label


def _labels(
    chunk, tokenizer, counts, settings
) -> list[dict[str, np.int32] | None]:
    """Returns the labels of each window; None for windows to skip."""
    texts = [q.answers[0].text if q.answers else "" for q in chunk.questions]
    answers = tokenizer(tf.constant(texts)).to_list()
    labels = []
    for number, question in enumerate(chunk.questions):
        (rows,) = np.nonzero(chunk.windows.question == number)
        if question.is_impossible:
            positions = [(0, 0)] * len(rows)
        elif squad_files.is_misplaced(question):
            counts["answers_misplaced"].append(question.id)
            labels += [None] * len(rows)
            continue
        else:
            span = _align(chunk, number, answers[number], counts, settings)
            if span is None:
                labels += [None] * len(rows)
                continue
            positions = [locate(span, chunk.windows, row) for row in rows]
            if not any(map(any, positions)):
                counts["answers_in_no_window"].append(question.id)
        labels += [
            {"start_positions": np.int32(s), "end_positions": np.int32(e)}
            for s, e in positions
        ]
    return labels


def _align(
    chunk, number: int, answer: list[int], counts, settings
) -> tuple[int, int] | None:
    """Returns the first and the last token of a question's answer, or None.

    An answer that the original loses, since its words end at spaces that end no
    word of the passage, has its own tokens under either alignment.
    """
    question = chunk.questions[number]
    starts, ends = chunk.starts[number], chunk.ends[number]
    span = find_span(question, chunk.passages[number], starts, answer)
    run = None
    if settings.answer_alignment == "exact":
        run = find_run(question, starts, ends)
        counts["answers_exact" if run else "answers_not_exact"] += 1
    if span is None:  # Tokens that overlap are the exact ones, if there are.
        span = find_overlap(question, starts, ends)
        found = "answers_original_skips" if span else "answers_not_found"
        counts[found].append(question.id)
    return run or span


def find_run(
    question: squad_files.Question, starts: np.ndarray, ends: np.ndarray
) -> tuple[int, int] | None:
    """Returns the first and the last token of exactly the answer's characters.

    In text without spaces, and within compounds, a word of the original's is
    the whole run of letters:

      passage   Der Donau dampf schiff kapitän
      tokens    Der Donau ##dampf ##schiff ##kapitän
      answer              dampf   schiff              2, 3, not 1, 4

    Args:
      question: with its one answer.
      starts: [p] first characters of the tokens.
      ends: [p] characters after the tokens.

    Returns:
      Indices of tokens, or None if no run begins and ends where the answer
      does, without the spaces around it.
    """
    begin, end = _characters(question)
    (first,) = np.nonzero(starts == begin)
    (last,) = np.nonzero(ends == end)
    # Several tokens may be one character, such as a Hangul syllable.
    if len(first) and len(last) and first[0] <= last[-1]:
        return int(first[0]), int(last[-1])
    return None


def find_overlap(
    question: squad_files.Question, starts: np.ndarray, ends: np.ndarray
) -> tuple[int, int] | None:
    """Returns the first and the last token that overlap the answer, or None.

    Arguments are those of `find_run`.
    """
    begin, end = _characters(question)
    (tokens,) = np.nonzero((starts < end) & (ends > begin))
    return (int(tokens[0]), int(tokens[-1])) if len(tokens) else None


def _characters(question: squad_files.Question) -> tuple[int, int]:
    """Returns the range of the answer's characters, without spaces around."""
    text, start = question.answers[0]
    begin = start + len(text) - len(text.lstrip())
    return begin, begin + len(text.strip())


def find_span(
    question: squad_files.Question,
    passage: np.ndarray,
    starts: np.ndarray,
    answer: Sequence[int],
) -> tuple[int, int] | None:
    """Returns the first and the last token of the answer in the passage.

    These are the tokens of all words that the answer overlaps, or only the
    answer's own tokens if they are found among them:

      passage   the painter (1895-1943) . . .
      tokens    the painter ( 1895 - 1943 )
      answer                  1895               3, 3, not 2, 6

    Args:
      question: with its one answer.
      passage: [p] token ids.
      starts: [p] first characters of the tokens.
      answer: token ids of the answer's text.

    Returns:
      Indices of tokens, or None if the answer's words are not among those of
      the passage, for example because of a space that does not separate words
      in run_squad.py.
    """
    words, word_of_character = _split_words(question.passage)
    text, start = question.answers[0]
    first_word = word_of_character[start]
    last_word = word_of_character[start + len(text) - 1]
    passage_text = " ".join(words[first_word : last_word + 1])
    word_of_token = word_of_character[starts]
    first = int(np.searchsorted(word_of_token, first_word, "left"))
    last = int(np.searchsorted(word_of_token, last_word, "right")) - 1
    if " ".join(text.split()) not in passage_text or last < first:
        return None
    length = len(answer)
    for begin in range(first, last + 2 - length):
        if length and passage[begin : begin + length].tolist() == answer:
            return begin, begin + length - 1
    return first, last


def locate(
    span: tuple[int, int], windows: question_windows.Windows, window: int
) -> tuple[int, int]:
    """Returns the positions of a span in a window; 0, 0 if not all is inside.

    Args:
      span: first and last token in the passage.
      windows: all windows, as NumPy arrays.
      window: index of the window.
    """
    first, last = span
    begin = windows.first[window]
    end = begin + np.count_nonzero(windows.in_passage[window])
    if first < begin or last >= end:
        return 0, 0
    shift = windows.offset[window] - begin
    return first + shift, last + shift


@functools.lru_cache(maxsize=1)  # Questions of a passage are consecutive.
def _split_words(passage: str) -> tuple[list[str], np.ndarray]:
    """Returns words, and the word of each character; spaces end a word."""
    is_space = np.array([character in _SPACES for character in passage])
    begins = ~is_space & np.concatenate([[True], is_space[:-1]])
    return re.findall(f"[^{_SPACES}]+", passage), np.cumsum(begins) - 1


def _warn_of_lost(path: str, counts: dict) -> None:
    for name, problem in (
        ("answers_not_found", "answers have no tokens; skipped"),
        ("answers_misplaced", "answers are not at their answer_start; skipped"),
        ("answers_in_no_window", "answers are not completely in any window"),
    ):
        if ids := counts.get(name):
            more = ["..."] * (len(ids) > _MAX_NAMED)
            some = ", ".join(ids[:_MAX_NAMED] + more)
            logging.warning(
                f"{path}: {len(ids)} {problem}: {some}. The manifest lists all "
                f"of them as {name}."
            )
