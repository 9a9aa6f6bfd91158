"""Questions and passages -> answers, which are parts of the passages.

Shapes: N questions, W windows of all questions, S max_seq_length, K answers
per question.
"""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from bert_tf.serving import batches
from bert_tf.serving.answers.kind import TEXT, Kind, columns_to_records, plain
from bert_tf.tasks import squad_answers
from tfrecords.tasks import question_windows

# JSON key -> output of the signature, for one of the n-best answers.
_NBEST = {
    "answer": "nbest_answers",
    "start": "nbest_starts",
    "end": "nbest_ends",
    "probability": "nbest_probabilities",
    "start_logit": "nbest_start_logits",
    "end_logit": "nbest_end_logits",
}


class Answer(NamedTuple):
    """The answer to a question.

    Attributes:
      text: part of the passage; "" for no answer.
      start, end: its characters in the passage, end exclusive; -1 for no
        answer.
      probability: among the answers in `nbest`.
      nbest: the best answers, best first; empty for these.
    """

    text: str
    start: int
    end: int
    probability: float
    nbest: tuple["Answer", ...] = ()


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


def resolve_settings(max_seq_length: int, *sources: Mapping) -> Settings:
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
            f"max_query_length={settings.max_query_length} leaves no room for "
            f"a passage in max_seq_length={max_seq_length}, which also holds "
            f"{num_special} special tokens. Lower max_query_length, or raise "
            "max_seq_length."
        )
    return settings


class QuestionAnswering(Kind):
    """The best answers to a question in a passage of any length.

    Windows are those of `make_squad_records`, and answers those that
    `run_squad` writes. If a question or its passage has no tokens, `answer` is
    "".

    Its signature `text`, of `question` and `context` [N] string, returns
    `answer` [N] string; its `start` and `end` [N] int32, in characters of the
    context, end exclusive, -1 for no answer; `probability` [N] float32;
    `num_answers` [N] int32, at most K; and for the K best answers
    `nbest_answers`, `nbest_starts`, `nbest_ends`, `nbest_probabilities`,
    `nbest_start_logits` and `nbest_end_logits`, each [N, K]. With
    `version_2_with_negative` also `null_odds` [N] float32.
    """

    name = "question_answering"
    task = "spans"
    weights = "spans/"
    inputs = {TEXT: {"question": 1, "context": 1}}
    expected = "a pair (question, context), or a dict with these"
    options = (
        *("doc_stride", "max_query_length", "n_best_size"),
        *("max_answer_length", "version_2_with_negative"),
        "null_score_diff_threshold",
    )
    record_outputs = signature_outputs = (
        "answer",
        "nbest_answers",
        "num_answers",
    )
    ragged_outputs = ("nbest_",)

    def set_options(self, options):
        """Sets `windows`, the Settings."""
        self.windows = resolve_settings(
            self.max_seq_length,
            {name: getattr(options, name) for name in self.options},
            self.metadata,
        )

    def network(self, batch):
        """Returns `start_logits` and `end_logits`, [W, S] float32."""
        return self.model(batch, training=False)

    def make_signatures(self):
        """Returns `text`, see the class, and the tokenizer."""
        length, settings = self.max_seq_length, self.windows

        @tf.function(
            input_signature=[batches.STRINGS, batches.STRINGS], autograph=False
        )
        def answer(question, context):
            context = batches.check_rows(
                context,
                question,
                "question and context must have the same number of strings.",
            )
            tokens, passages = question_windows.tokenize(
                self.tokenizer, question, context
            )
            windows = question_windows.make_windows(
                tokens,
                passages,
                max_seq_length=length,
                doc_stride=settings.doc_stride,
                max_query_length=settings.max_query_length,
                cls_id=self.tokenizer.cls_id,
                sep_id=self.tokenizer.sep_id,
            )
            logits = batches.in_parts(
                self.network,
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

        return {TEXT: answer}, {"tokenizer": self.tokenizer}

    @classmethod
    def count(cls, outputs, fields):
        """Returns the number of answers."""
        return int(outputs["num_answers"][0])

    @classmethod
    def records(cls, fields, outputs, names):
        """Returns the best answer, and `nbest`, an object for each answer."""
        best = {
            name: plain(outputs[name])[0]
            for name in sorted(names)
            if name != "num_answers" and not name.startswith("nbest_")
        }
        return best | {"nbest": columns_to_records(outputs, _NBEST)}

    @classmethod
    def typed(cls, fields, outputs, labels):
        """Returns an Answer."""
        names = ("answer", "start", "end", "probability")
        found = cls.records(fields, outputs, set(names))
        nbest = (Answer(*(x[n] for n in names)) for x in found["nbest"])
        return Answer(*(found[n] for n in names), tuple(nbest))


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
