"""Answers in characters -> the tokens of passage and window that they are.

run_squad.py: read_squad_examples and _improve_answer_span. Letters: p tokens of
a passage.
"""

import functools
import re
from collections.abc import Sequence

import numpy as np

from tfrecords.tasks import question_windows, squad_files

# What parts words there; the tokenizer knows more spaces than these.
_SPACES = " \t\r\n\u202f"


def find_span(
    question: squad_files.Question,
    passage: np.ndarray,
    starts: np.ndarray,
    answer: Sequence[int],
) -> tuple[int, int] | None:
    """Returns the first and the last token of the answer in the passage.

    These are the tokens of the words that the answer touches, or fewer if the
    answer's own tokens are among them:

      passage   the painter (1895-1943) . . .
      tokens    the painter ( 1895 - 1943 )
      answer                  1895               3, 3, not 2, 6

    Args:
      question: with its one answer.
      passage: [p] token ids.
      starts: [p] first characters of the tokens.
      answer: token ids of the answer's text.

    Returns:
      Numbers of tokens, or None if the answer's words are not among those of
      the passage, as where a space is of a kind that parts no words there.
    """
    words, word_of_character = _split_words(question.passage)
    text, start = question.answers[0]
    first_word = word_of_character[start]
    last_word = word_of_character[start + len(text) - 1]
    there = " ".join(words[first_word : last_word + 1])
    word_of_token = word_of_character[starts]
    first = int(np.searchsorted(word_of_token, first_word, "left"))
    last = int(np.searchsorted(word_of_token, last_word, "right")) - 1
    if " ".join(text.split()) not in there or last < first:
        return None
    length = len(answer)
    for begin in range(first, last + 2 - length):
        if length and passage[begin : begin + length].tolist() == answer:
            return begin, begin + length - 1
    return first, last


def find_place(
    span: tuple[int, int], windows: question_windows.Windows, window: int
) -> tuple[int, int]:
    """Returns where a window has a span of the passage; 0, 0 if not all of it.

    Args:
      span: first and last token in the passage.
      windows: of which arrays, not tensors.
      window: number of one.
    """
    first, last = span
    begin = windows.first[window]
    end = begin + np.count_nonzero(windows.in_passage[window])
    if first < begin or last >= end:
        return 0, 0
    shift = windows.offset[window] - begin
    return first + shift, last + shift


@functools.lru_cache(maxsize=1)  # Questions on a passage follow each other.
def _split_words(passage: str) -> tuple[list[str], np.ndarray]:
    """Returns words, and the word of each character, or the one before it."""
    is_space = np.array([character in _SPACES for character in passage])
    begins = ~is_space & np.concatenate([[True], is_space[:-1]])
    return re.findall(f"[^{_SPACES}]+", passage), np.cumsum(begins) - 1
