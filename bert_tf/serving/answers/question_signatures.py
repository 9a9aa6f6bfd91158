"""Questions and passages -> windows; logits -> answers as character spans.

Shapes: N questions, W windows of all questions, S max_seq_length, K answers
per question.
"""

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from bert_tf.serving.answers import text_signatures
from bert_tf.tasks import squad_answers
from tfrecords.tasks import question_windows


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How questions are answered, with the original's defaults.

    Attributes:
      max_seq_length: S.
      doc_stride, max_query_length: as for `question_windows.make_windows`.
      n_best_size, max_answer_length: as for `squad_answers.choose`.
      version_2_with_negative: whether a question may have no answer.
      null_score_diff_threshold: the answer is "" if `null_odds` exceeds this.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64
    n_best_size: int = 20
    max_answer_length: int = 30
    version_2_with_negative: bool = False
    null_score_diff_threshold: float = 0.0


def find_settings(max_seq_length: int, *sources: Mapping) -> Settings:
    """Returns settings, each taken from the first of `sources` that has it.

    Raises:
      ValueError: if a window of `max_seq_length` has no room for a passage.
    """
    settings = {"max_seq_length": max_seq_length}
    for field in dataclasses.fields(Settings):
        for source in sources:
            if source.get(field.name) is not None:
                settings.setdefault(field.name, source[field.name])
    settings = Settings(**settings)
    # A window has [CLS], the question, [SEP], at least one token and [SEP].
    num_special = question_windows.SPECIAL_TOKENS
    if settings.max_query_length + num_special >= max_seq_length:
        raise ValueError(
            f"--max_query_length={settings.max_query_length} leaves no room "
            f"for a passage in --max_seq_length={max_seq_length}, which also "
            f"holds {num_special} special tokens. Lower --max_query_length, or "
            "raise --max_seq_length."
        )
    return settings


def make_answer(
    model, tokenizer, settings: Settings
) -> text_signatures.Function:
    """Returns a signature with inputs `question` and `context`, [N] string.

    Windows are those of `make_squad_records`, and answers those that
    `run_squad` writes. If a question or its passage has no tokens, `answer` is
    "".

    Args:
      model: batch -> `start_logits`, `end_logits`, each [W, S].
      tokenizer: a BertTokenizer.
      settings: settings of windows and answers.

    Returns:
      A function that returns `answer` [N] string; its `start` and `end` [N]
      int32, in characters of the context, end exclusive, -1 for no answer;
      `probability` [N] float32; `num_answers` [N] int32, at most K; and for the
      K best answers `nbest_answers`, `nbest_starts`, `nbest_ends`,
      `nbest_probabilities`, `nbest_start_logits` and `nbest_end_logits`, each
      [N, K]. With `version_2_with_negative` also `null_odds` [N] float32.
    """
    length = settings.max_seq_length

    @tf.function(
        input_signature=[text_signatures.STRINGS, text_signatures.STRINGS],
        autograph=False,
    )
    def answer(question, context):
        context = text_signatures.check_rows(
            context,
            question,
            "question and context must have the same number of strings.",
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
    """Returns the outputs by name; `has_question` is [N] bool."""
    text = answers.best
    if settings.version_2_with_negative:
        text = squad_answers.decide(answers, settings.null_score_diff_threshold)
    text = tf.where(has_question, text, "")
    # [N, K] from here on.
    ranks = tf.range(tf.shape(answers.texts)[1])
    is_answer = ranks < answers.count[:, tf.newaxis]
    has_span = is_answer & (answers.texts != "")
    starts = tf.where(has_span, answers.spans.start, -1)
    ends = tf.where(has_span, answers.spans.end, -1)
    is_chosen = is_answer & (answers.texts == text[:, tf.newaxis])
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


def _pick(rows: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """Returns the elements of `rows` [N, K] at `indices` [N]."""
    return tf.gather(rows, indices, batch_dims=1)
