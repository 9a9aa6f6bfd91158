"""Options of answers and a model -> the kind of its answers, a class.

Here are the names of the classes, so that `--help` does not import TensorFlow,
and nothing of `contrib` is imported that is not asked for.
"""

import dataclasses
import importlib
from collections.abc import Iterable, Mapping

from bert_tf.checkpoint.options import WriteOptions
from bert_tf.config import POOLING_MODES, BertConfig
from tfrecords.options import MAX_SEQ_LENGTH, REQUIRED, Options, option

# Name -> module and class of bert_tf. Of those without a task of their own, and
# of those of one task, the first is the default.
CLASSES = {
    "classification": "serving.answers.classification.Classification",
    "multi_label": "serving.answers.multi_label.MultiLabel",
    "regression": "serving.answers.score.Regression",
    "ranking": "contrib.search.ranking_answers.Ranking",
    "question_answering": "serving.answers.questions.QuestionAnswering",
    "tagging": "serving.answers.tags.Tagging",
    "multiple_choice": "serving.answers.choices.MultipleChoice",
    "fill_mask": "serving.answers.masks.FillMask",
    "pseudo_log_likelihood": "serving.answers.likelihoods.PseudoLogLikelihood",
    "encoder": "serving.answers.encoder.Encoder",
    "sentence_embedding": "serving.answers.vectors.SentenceEmbedding",
    "token_vectors": "serving.answers.token_vectors.TokenVectors",
    "preprocessor": "serving.answers.preprocessor.Preprocessor",
}
# Name -> what the model card calls it, here and on Hugging Face's hub.
TITLES = {
    "classification": ("text classification", "text-classification"),
    "multi_label": ("several labels of a text", "text-classification"),
    "regression": ("a score for a text or a pair", "text-classification"),
    "ranking": ("a ranking of passages for a query", "text-ranking"),
    "question_answering": ("question answering", "question-answering"),
    "tagging": ("tagging of words", "token-classification"),
    "multiple_choice": ("multiple choice", "multiple-choice"),
    "fill_mask": ("filling in [MASK]", "fill-mask"),
    "pseudo_log_likelihood": ("pseudo-log-likelihood of a text", "fill-mask"),
    "encoder": ("hidden states of tokens", "feature-extraction"),
    "sentence_embedding": ("vectors of sentences", "feature-extraction"),
    "token_vectors": ("vectors of words", "feature-extraction"),
    "preprocessor": ("from text to the inputs of the encoder", None),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoolingOptions(Options):
    """How the vectors of tokens become that of a text."""

    max_seq_length: int | None = option(
        None,
        "Maximum tokens of a text; longer texts are truncated. Default: as in "
        "training.",
        at_least=5,
        at_most=MAX_SEQ_LENGTH,
    )
    pooling: str | None = option(
        None,
        "sentence_embedding: cls, the vector at [CLS]; mean, max, "
        "mean_sqrt_len_tokens (the sum over the root of the length), "
        "weightedmean (by position) over all tokens except padding; or "
        "lasttoken. Default: that of a folder of sentence-transformers, whose "
        "further modules follow in any case; otherwise mean.",
        choices=POOLING_MODES,
    )
    layers: tuple[str, ...] | None = option(
        None,
        "sentence_embedding, token_vectors: layers whose vectors are "
        "concatenated, such as -1,-2. Default: -1, the last.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PromptOptions(Options):
    """Which prompt a sentence model puts before each text."""

    prompt_name: str | None = option(
        None,
        "sentence_embedding: name of the prompt that is put before each text, "
        "such as query, of those that a folder of sentence-transformers has; "
        "an empty name for none. Default: as exported, or the folder's "
        "default, if any.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class CalibrationOptions(PromptOptions):
    """Also whether the temperature of a calibrated model is undone."""

    uncalibrated: bool | None = option(
        None,
        "classification: multiply logits by the temperature that training with "
        "--calibrate has divided them by. Default: false.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerOptions(CalibrationOptions, PoolingOptions):
    """Which answers a model gives, and how.

    For fields that are None, the help text gives the default.
    """

    kind: str = option(
        "auto",
        "What `serving_default` computes; auto: the task that the model was "
        "trained for, ranking of a model of --ranking_loss, or "
        "sentence_embedding of a folder of sentence-transformers; "
        "preprocessor: only the inputs of --kind=encoder, from text.",
        choices=("auto", *CLASSES),
    )
    top_k: int | None = option(
        None,
        "fill_mask: number of candidates for each [MASK]. Default: 5.",
        at_least=1,
    )
    within_word_masking: bool | None = option(
        None,
        "pseudo_log_likelihood: where a WordPiece is masked, mask those after "
        "it in its word, too (Kauf and Ivanova 2023). Default: false.",
    )
    doc_stride: int | None = option(
        None,
        "question_answering: tokens from the start of one window of a passage "
        "to the start of the next; default: from model.json, otherwise 128. "
        "tagging, token_vectors: the same for a text; default: from "
        "model.json, otherwise half a window.",
        at_least=1,
    )
    max_query_length: int | None = option(
        None,
        "question_answering: maximum tokens of a question; longer questions "
        "are truncated. Default: from model.json, otherwise 64.",
        at_least=1,
    )
    n_best_size: int | None = option(
        None,
        "question_answering: maximum number of answers to a question. "
        "Default: from model.json, otherwise 20.",
        at_least=1,
    )
    max_answer_length: int | None = option(
        None,
        "question_answering: maximum tokens of an answer. Default: from "
        "model.json, otherwise 30.",
        at_least=1,
    )
    version_2_with_negative: bool | None = option(
        None,
        "question_answering: whether a question may have no answer. Default: "
        "from model.json, otherwise false.",
    )
    null_score_diff_threshold: float | None = option(
        None,
        "question_answering: return no answer if the null score exceeds the "
        "score of the best answer by more than this. Default: from "
        "model.json, otherwise 0.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig(AnswerOptions, WriteOptions):
    """Which model to export, where to, and its inference settings."""

    model_dir: str = option(
        REQUIRED,
        "Folder of a run or of one of its checkpoints, or a checkpoint of any "
        "format that convert_checkpoint reads.",
        reads=True,
    )
    export_dir: str = option(
        REQUIRED, "Folder to write the export to.", writes="folder"
    )
    precision: str | None = option(
        None,
        "Dtype of the matrix products and their weights; embeddings, LayerNorm "
        "and outputs are float32. Default: as in training, so that predictions "
        "equal those of the run.",
        choices=("float32", "bfloat16", "float16"),
    )
    weights_dtype: str | None = option(
        None,
        "bfloat16: all weights are stored in it, embeddings included and "
        "LayerNorm not, which is half the size of float32; with another "
        "--precision each request casts them. Default: as --precision, with "
        "embeddings in float32.",
        choices=("bfloat16",),
    )


# Of all kinds; each of the others belongs to the kinds that have it.
_SHARED = ("kind", "max_seq_length")
OPTIONS = tuple(
    field.name
    for field in dataclasses.fields(AnswerOptions)
    if field.name not in _SHARED
)


def by_name(name: str) -> type:
    """Returns the class of a kind, a subclass of `answers.kind.Kind`."""
    module, _, cls = CLASSES[name].rpartition(".")
    return getattr(importlib.import_module(f"bert_tf.{module}"), cls)


def of_outputs(names: Iterable[str]) -> type:
    """Returns the kind of a signature by its outputs, or the base class.

    For a SavedModel without its model.json.
    """
    from bert_tf.serving.answers.kind import Kind

    names = set(names)
    known = (x for x in map(by_name, CLASSES) if x.signature_outputs)
    return next((x for x in known if names >= {*x.signature_outputs}), Kind)


def of_model(metadata: Mapping) -> list[type]:
    """Returns the kinds of models with a model.json, first that of its head."""
    task, labels = metadata["task"], metadata.get("labels") or ()
    found = [x for x in map(by_name, CLASSES) if x.weights]
    own = [x for x in found if x.task == task]
    is_of_pairs = metadata.get("num_texts") != 1
    if task == "classification" and len(labels) == 2 and is_of_pairs:
        own.append(by_name("ranking"))  # Of "not relevant" and "relevant".
    return own + [x for x in found if x.task is None]


def choose(options: AnswerOptions, metadata: Mapping, model) -> type:
    """Returns the kind that `options` ask for, or the default for "auto".

    A left-to-right model cannot fill masks, and its [CLS] attends only to
    itself.

    Args:
      options: of the answers.
      metadata: content of the model's model.json. The default is the kind that
        an entry of it says the model was made for, see `Kind.made_for`.
      model: reads its `config` and `sentence_embedding`.

    Raises:
      ValueError: if the model has no such head, or only a newly initialized
        one; or if a setting of `options` does not apply to the kind.
    """
    from bert_tf.checkpoint import contents

    task, config = metadata["task"], model.config
    untrained = contents.read_untrained(metadata, config)
    fitting = {
        kind.name: kind
        for kind in of_model(metadata)
        if _is_trained(kind, task, untrained, config)
        and kind.unsupported_reason(config) is None
    }
    names = " or ".join(fitting)
    if config.is_causal and options.pooling == "cls":
        raise ValueError(
            "pooling=cls does not fit a left-to-right model, whose [CLS] does "
            "not attend to the text. Use pooling=mean."
        )
    given = options.kind
    if given not in ("auto", *fitting):
        without = " without trained " * bool(untrained) + ", ".join(untrained)
        why = by_name(given).unsupported_reason(config)
        why = why or f"a model with task {task!r}{without}"
        raise ValueError(
            f"kind={given} does not fit {why}; those that fit are {names}."
        )
    if not fitting:
        raise ValueError(
            f"The model has untrained {', '.join(untrained)}, which every "
            "answer depends on. Train it first."
        )
    # The model has this entry, and metadata made for an export may lack it.
    embedding = {contents.SENTENCE_EMBEDDING: model.sentence_embedding}
    entries = {**metadata, **embedding}
    kind = fitting.get(given) or next(
        (kind for kind in fitting.values() if entries.get(kind.made_for)),
        next(iter(fitting.values())),
    )
    check_options(options, kind)
    return kind


def choose_length(
    options: AnswerOptions, metadata: Mapping, config: BertConfig
) -> int:
    """Returns the configured sequence length; by default, that of training."""
    limit = config.max_position_embeddings
    length = options.max_seq_length or metadata.get("max_seq_length", limit)
    if length > limit:
        raise ValueError(
            f"max_seq_length={length} exceeds the model's "
            f"max_position_embeddings={limit}."
        )
    return length


def check_options(options: AnswerOptions, kind: type) -> None:
    """Raises ValueError if an option does not apply to a kind."""
    for name in OPTIONS:
        value = getattr(options, name)
        if value is None or name in kind.options:
            continue
        others = [x for x in CLASSES if name in by_name(x).options]
        raise ValueError(
            f"{name}={value} is for kind={' or '.join(others)}, but the kind "
            f"in use is {kind.name!r}. Omit it."
        )


def _is_trained(
    kind: type, task: str, untrained: Iterable[str], config
) -> bool:
    """Returns whether no untrained weight affects the answers."""
    from bert_tf.checkpoint import contents

    # A ranking has the head of either task.
    prefixes = [kind.weights if kind.task in (None, task) else f"{task}/"]
    if kind.task and contents.reads_pooler(task, config):
        prefixes.append(contents.POOLER)
    return not any(name.startswith(tuple(prefixes)) for name in untrained)
