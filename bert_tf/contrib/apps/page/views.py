"""Loaded model -> its views: functions from texts to HTML."""

import html
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np

from bert_tf.contrib.apps import attributions
from bert_tf.contrib.apps.page import attention_page, marked_text
from bert_tf.serving import kinds
from bert_tf.serving.answers import tags
from bert_tf.serving.answers.kind import ExplainedKind
from bert_tf.serving.answers.likelihoods import PseudoLogLikelihood
from bert_tf.serving.answers.masks import FillMask
from bert_tf.serving.answers.vectors import SentenceEmbedding
from bert_tf.serving.predictor import Predictor
from tfrecords.tasks import glue_tables
from tfrecords.text.tokenizer import BertTokenizer
from tfrecords.text.vocab import MASK

_ANSWER_COLOR = "#cdeccd"
_MAX_ANSWERS = 5


class Box(NamedTuple):
    """A text box of the page: its label, number of lines, and an example."""

    label: str
    lines: int
    example: str = ""


_TEXTS = (Box("Text", 4, "The cat sat by the door."), Box("Second text", 2))
_ADDED = "What each word adds to the answer is marked."
# Kind of answers -> the method of `Views` that draws it, title, help and text
# boxes. Other kinds have no view.
_VIEWS = {
    "classification": ("classify", "Classify", _ADDED, _TEXTS),
    "multi_label": ("classify", "Label", _ADDED, _TEXTS),
    "regression": ("classify", "Score", _ADDED, _TEXTS),
    "ranking": (
        "rank",
        "Rank",
        "Which passage answers the query best?",
        (
            Box("Query", 1, "Where did the cat sit?"),
            Box(
                "Passages, one in a line", 4, "It rained.\nIt sat by the door."
            ),
        ),
    ),
    "question_answering": (
        "answer",
        "Answer",
        "The answer is marked in the passage, which may be long.",
        (
            Box("Question", 1, "Where did the cat sit?"),
            Box("Passage", 8, "The cat sat by the door. It was old."),
        ),
    ),
    "tagging": (
        "tag",
        "Entities",
        "Entities, or tags of words, are marked in the text.",
        (Box("Text", 4, "Ann Lee went to Rome."),),
    ),
    "multiple_choice": (
        "choose",
        "Choose",
        "Which ending fits best?",
        (
            Box("Text", 4, "The cat sat by the door."),
            Box("Endings, one in a line", 4, "It slept.\nIt sang."),
        ),
    ),
    "fill_mask": (
        "fill",
        "Fill the mask",
        f"{MASK} stands for a word.",
        (Box("Text", 4, f"The cat {MASK} by the door."),),
    ),
    "pseudo_log_likelihood": (
        "score_tokens",
        "Score",
        "How likely each WordPiece is, given all others of the text.",
        (Box("Text", 4, "The cat sat by the door."),),
    ),
}


class View(NamedTuple):
    """One thing to ask of a model.

    Attributes:
      name: short name, for ids.
      title: name for users.
      help: how to use it.
      inputs: its text boxes.
      function: their texts -> HTML; it raises ValueError for wrong texts.
      width: of the result, in widths of the text boxes.
    """

    name: str
    title: str
    help: str
    inputs: tuple[Box, ...]
    function: Callable[..., str]
    width: int = 1


class Views:
    """What a model answers: its task, similar texts, and attention.

    Args:
      model: a model from `bert_tf.load`.
      tokenizer: its tokenizer, if it has one of its own.

    Attributes:
      warning: why there is no view for the task; "" if there is one.
      takes_pairs: whether the model reads a second text.

    Raises:
      ValueError: if the model has no vocabulary.
    """

    def __init__(self, model: keras.Model, tokenizer: BertTokenizer | None):
        self.model = model
        # Of any model; it raises if there is no vocabulary.
        self._embed = Predictor(model, tokenizer, kind=SentenceEmbedding.name)
        self._predict, self.warning = self._embed, ""
        try:
            self._predict = Predictor(model, tokenizer)
        except ValueError as error:  # A newly initialized head.
            self.warning = str(error)
        self.takes_pairs = takes_pairs(model)
        self._explain = self._likelihood = None
        if self._predict.answers.name == FillMask.name:
            self._likelihood = Predictor(
                model, tokenizer, kind=PseudoLogLikelihood.name
            )
        if isinstance(self._predict.answers, ExplainedKind):
            self._explain = attributions.Explainer(self._predict)

    def find(self) -> list[View]:
        """Returns the views of this model, that of its task first."""
        found = []
        for predict in filter(None, (self._predict, self._likelihood)):
            if predict.kind in _VIEWS:
                name, title, text, boxes = _VIEWS[predict.kind]
                if boxes is _TEXTS and not self.takes_pairs:
                    boxes = boxes[:1]
                draw = getattr(self, name)
                found.append(View(name, title, text, boxes, draw))
        compare = View(
            "compare",
            "Compare",
            "The cosine of the mean vectors of two texts. Without training "
            "for it, texts without relation may also have a high one.",
            (
                Box("Text", 3, "The cat sat by the door."),
                Box("Other text", 3, "A dog lay in front of the house."),
            ),
            self.compare,
        )
        attend = View(
            "attend",
            "Attention",
            "How much each token attends to each other, in each head.",
            _TEXTS if self.takes_pairs else _TEXTS[:1],
            self.attend,
            width=3,
        )
        return [*found, compare, attend]

    def fill(self, text: str) -> str:
        """Returns the text with its masks filled, and candidates for each."""
        if MASK not in text:
            raise ValueError(f"The text has no {MASK}. Put one for a word.")
        filled = self._predict(text)
        parts = [marked_text.mark(filled.text, ())]
        for i, candidates in enumerate(filled.masks, 1):
            parts.append(f"<p>{html.escape(MASK)} {i}</p>")
            parts.append(
                marked_text.bars((x.token, x.probability) for x in candidates)
            )
        return "\n".join([*parts, self._note_cut(text)])

    def score_tokens(self, text: str) -> str:
        """Returns the log-probability of each token, and of the text."""
        _check_text(text)
        found = self._likelihood(text)
        return "\n".join(
            [
                f"<p>pseudo-log-likelihood <b>{found.score:.4g}</b>, "
                f"pseudo-perplexity <b>{found.perplexity:.4g}</b></p>",
                marked_text.likely(found.tokens, found.log_probabilities),
                self._note_cut(text),
            ]
        )

    def classify(self, text: str, other: str = "") -> str:
        """Returns the label or score, and what each word adds to it."""
        _check_text(text)
        return marked_text.explained(
            self._explain((text, other) if other.strip() else text)
        )

    def answer(self, question: str, passage: str) -> str:
        """Returns the passage with the answer marked, and the next best."""
        _check_text(question, "question")
        _check_text(passage, "passage")
        best = self._predict((question, passage))
        spans = []
        if best.start >= 0:
            title = f"probability {best.probability:.4f}"
            spans = [
                marked_text.Span(best.start, best.end, _ANSWER_COLOR, title)
            ]
        names = (
            (x.text or "no answer", x.probability)
            for x in best.nbest[:_MAX_ANSWERS]
        )
        return "\n".join(
            [
                f"<p><b>{html.escape(best.text or 'no answer')}</b></p>",
                marked_text.mark(passage, spans),
                marked_text.bars(names),
            ]
        )

    def tag(self, text: str) -> str:
        """Returns the text with its entities marked, or the tags of words."""
        _check_text(text)
        tagged = self._predict(text)
        found = [(x.start, x.end, x.label, x) for x in tagged.entities]
        if not tags.has_entities(self.model.metadata["labels"]):
            found = [(x.start, x.end, x.tag, x) for x in tagged.words]
        colors = marked_text.colors(name for _, _, name, _ in found)
        spans = [
            marked_text.Span(
                start, end, colors[name], f"{x.probability:.4f}", name
            )
            for start, end, name, x in found
        ]
        none = "" if spans else "<p>No entities.</p>"
        return marked_text.mark(text, spans) + none

    def choose(self, context: str, endings: str) -> str:
        """Returns the endings with their probabilities, the best first."""
        _check_text(context)
        lines = [line for line in endings.splitlines() if line.strip()]
        if len(lines) < 2:
            raise ValueError("Give two or more endings, one in a line.")
        choice = self._predict((context, lines))
        longest = max(lines, key=len)
        return "\n".join(
            [
                f"<p><b>{html.escape(choice.text)}</b></p>",
                marked_text.bars(zip(lines, choice.probabilities, strict=True)),
                self._note_cut(context, longest),
            ]
        )

    def rank(self, query: str, passages: str) -> str:
        """Returns the passages with their scores, the best first."""
        _check_text(query, "query")
        lines = [line for line in passages.splitlines() if line.strip()]
        if len(lines) < 2:
            raise ValueError("Give two or more passages, one in a line.")
        found = self._predict((query, lines))
        rows = "".join(
            f"<li>{html.escape(text)} <b>{score:.4f}</b></li>"
            for text, score in zip(found.passages, found.scores, strict=True)
        )
        longest = max(lines, key=len)
        return f"<ol>{rows}</ol>{self._note_cut(query, longest)}"

    def compare(self, text: str, other: str) -> str:
        """Returns the cosine of the mean vectors of two texts."""
        _check_text(text)
        _check_text(other, "other text")
        first, second = self._embed([text, other]).astype(np.float64)
        cosine = first @ second
        cosine /= np.linalg.norm(first) * np.linalg.norm(second)
        notes = [self._note_cut(text), self._note_cut(other)]
        return f"<p>cosine <b>{cosine:.4f}</b></p>" + "".join(notes)

    def attend(self, text: str, other: str = "") -> str:
        """Returns the attention of all heads: a page in a frame of its own.

        So its script has no access to the page around it.
        """
        _check_text(text)
        found = attention_page.compute(
            self.model.encoder,
            self._predict.tokenizer,
            self._embed.max_seq_length,
            [text, other],
        )
        page = attention_page.draw([found], type(self.model).__name__)
        return (
            '<iframe title="attention" sandbox="allow-scripts" '
            'style="width:100%;height:1000px;border:0" '
            f'srcdoc="{html.escape(page)}"></iframe>'
        )

    def _note_cut(self, *texts: str) -> str:
        """Returns a note if one text, or a pair, has too many tokens."""
        length = self._predict.max_seq_length
        texts = [text for text in texts if text.strip()]
        tokens = self._predict.tokenizer(texts)
        count = int(tokens.row_lengths().numpy().sum()) + len(texts) + 1
        if count <= length:
            return ""
        return marked_text.warn(
            f"{count} tokens, but {length} are read: the end was cut."
        )


def takes_pairs(model: keras.Model) -> bool:
    """Returns whether a model reads a second text.

    That is recorded for GLUE's tasks and for tables. Other classifiers may, if
    they have a segment for it; a tagger does not.
    """
    metadata = model.metadata
    if model.config.type_vocab_size == 1 or metadata["task"] == "tagging":
        return False
    if not any(
        issubclass(kind, ExplainedKind) for kind in kinds.of_model(metadata)
    ):
        return True
    of_glue = {x.name: len(x.text_columns) for x in glue_tables.GLUE_TASKS}
    default = of_glue.get(metadata.get("task_name"), 2)
    return metadata.get("num_texts", default) == 2


def _check_text(text: str, name: str = "text") -> None:
    if not text.strip():
        raise ValueError(f"The {name} is empty. Type one.")
