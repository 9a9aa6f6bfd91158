"""Questions and their passages -> windows, logits -> the answers in words.

Letters: N questions, W windows of all of them, S max_seq_length, K answers of a
question. All of it runs in the graph, as in text_signatures.py.
"""

import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf

from bert_tf.export import text_signatures
from bert_tf.tasks import squad_answers
from tfrecords.tasks import question_windows


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How questions are answered; the defaults are the original's.

    Attributes:
      max_seq_length: S.
      doc_stride, max_query_length: as for `question_windows.make_windows`.
      n_best_size, max_answer_length: as for `squad_answers.choose`.
      version_2_with_negative: whether a question may have no answer.
      null_score_diff_threshold: it has none if `null_odds` exceeds this.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64
    n_best_size: int = 20
    max_answer_length: int = 30
    version_2_with_negative: bool = False
    null_score_diff_threshold: float = 0.0


def find_settings(max_seq_length: int, *sources: Mapping) -> Settings:
    """Returns the settings: each from the first of `sources` that has it."""
    found = {"max_seq_length": max_seq_length}
    for field in dataclasses.fields(Settings):
        for source in sources:
            if source.get(field.name) is not None:
                found.setdefault(field.name, source[field.name])
    return Settings(**found)


def make_answer(
    model, tokenizer, settings: Settings
) -> Callable[[tf.Tensor, tf.Tensor], text_signatures.Answers]:
    """Returns question [N], context [N] string -> named answers.

    The windows are those of `make_squad_records`, the answers those that
    `run_squad` writes to its files. Where a question or its passage has no
    token, `answer` is "".

    Args:
      model: batch -> `start_logits`, `end_logits`, each [W, S].
      tokenizer: a BertTokenizer.
      settings: see there.
    """
    length = settings.max_seq_length

    def answer(question, context):
        tf.debugging.assert_equal(
            tf.size(context),
            tf.size(question),
            "context should have one string for each of question.",
        )
        tokens, passages = question_windows.tokenize(
            tokenizer, question, context
        )
        windows = question_windows.make_windows(
            tokens,
            passages,
            max_seq_length=length,
            doc_stride=settings.doc_stride,
            max_query_length=settings.max_query_length,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
        )
        logits = text_signatures.in_parts(
            model,
            windows.inputs,
            {"start_logits": [length], "end_logits": [length]},
        )
        answers = squad_answers.choose(
            windows,
            logits["start_logits"],
            logits["end_logits"],
            context,
            n_best_size=settings.n_best_size,
            max_answer_length=settings.max_answer_length,
            version_2_with_negative=settings.version_2_with_negative,
        )
        has_question = tokens.row_lengths() > 0
        return _named(answers, settings, has_question)

    return answer


def _named(
    answers: squad_answers.Answers, settings: Settings, has_question: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Returns the outputs of the signature; `has_question` is [N] bool."""
    text = answers.best
    if settings.version_2_with_negative:
        text = squad_answers.decide(answers, settings.null_score_diff_threshold)
    text = tf.where(has_question, text, "")
    # [N, K] from here on.
    numbers = tf.range(tf.shape(answers.texts)[1])
    is_there = numbers < answers.count[:, tf.newaxis]
    has_place = is_there & (answers.texts != "")
    starts = tf.where(has_place, answers.spans.start, -1)
    ends = tf.where(has_place, answers.spans.end, -1)
    is_chosen = is_there & (answers.texts == text[:, tf.newaxis])
    chosen = tf.argmax(tf.cast(is_chosen, tf.int32), axis=1)
    is_chosen = tf.reduce_any(is_chosen, axis=1)  # [N]
    named = {
        "answer": text,
        "start": tf.where(is_chosen, _pick(starts, chosen), -1),
        "end": tf.where(is_chosen, _pick(ends, chosen), -1),
        "probability": tf.cast(is_chosen, tf.float64)
        * _pick(answers.probabilities, chosen),
        "num_answers": answers.count,
        "nbest_answers": answers.texts,
        "nbest_starts": starts,
        "nbest_ends": ends,
        "nbest_probabilities": answers.probabilities,
        "nbest_start_logits": answers.spans.start_logit,
        "nbest_end_logits": answers.spans.end_logit,
    }
    if settings.version_2_with_negative:
        named["null_odds"] = answers.null_odds
    return {
        name: tf.cast(value, tf.float32) if value.dtype == tf.float64 else value
        for name, value in named.items()
    }


def _pick(rows: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Returns of [N, K] what stands at `places` [N]."""
    return tf.gather(rows, places, batch_dims=1)


def of_questions(
    function: Callable[..., text_signatures.Answers],
) -> text_signatures.Function:
    """Returns a function of `question` [N] and `context` [N]."""

    @tf.function(
        input_signature=[text_signatures.STRINGS, text_signatures.STRINGS],
        autograph=False,
    )
    def of_question(question, context):
        return function(question, context)

    return of_question
