"""Model metadata -> model card (README.md), for people and the Hub.

The card is Hugging Face's: YAML that its hub reads, then Markdown. It says only
what files record, so of a checkpoint from elsewhere little but its sizes.
"""

import dataclasses
import math
import os
import re
import string
from collections.abc import Iterable, Mapping

from bert_tf.checkpoint import contents, run_models
from bert_tf.config import BertConfig
from bert_tf.model import sentence_embedding
from tfrecords.options import quoted
from tfrecords.text import vocab

FILE = "README.md"
# In every card, so that a conversion replaces no other README.md.
MARK = "<!-- A model card, written by bert_tf. -->"
# Task -> its name, and its name on Hugging Face's hub.
_TASKS = {
    "classification": ("text classification", "text-classification"),
    "multi_label": ("several labels of a text", "text-classification"),
    "regression": ("a score for a text or a pair", "text-classification"),
    "spans": ("question answering", "question-answering"),
    "tagging": ("tagging of words", "token-classification"),
    "multiple_choice": ("multiple choice", "multiple-choice"),
    "pretraining": ("pre-trained", "fill-mask"),
    "left_to_right": ("left-to-right language model", "text-generation"),
}
_IN_WINDOWS = ("spans", "tagging")  # Tasks whose texts are.
# Format of files -> the library that reads them, by its name on the hub.
_LIBRARIES = {"hugging_face": "transformers", "keras_hub": "keras-hub"}
_SIZES = (
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
    "hidden_act",
    "classifier_pooling",
)
_MAX_LABELS = 30

# The text of a card, a `string.Template`.
_CARD = f"""\
---
$yaml
---

# $title

{MARK}

BERT ($kind) in files of the format $files.

$properties

## Training

$training

## Scores

$scores

## Limits

$limits

## Licence

$licence
"""
_UNKNOWN_LICENCE = (
    "Unknown: none was given when these files were written. Ask the authors of "
    "the weights and of the data before you pass them on."
)
_UNKNOWN_TRAINING = (
    "Data and settings are not known: these files are not from the folder of a "
    "training run."
)
_ON_DEV_SETS = (
    "On the dev sets. The best checkpoint may have been selected on the first "
    "of them, so its scores can be too good. The baseline is the best constant "
    "answer; of a tagger, each word's most frequent tag."
)
_ON_HELD_OUT = (
    "On held-out records. The baseline always predicts the most frequent token."
)
_LANGUAGE = (
    "The language is that of the vocabulary and of the data, and not recorded. "
    "It was not evaluated on other languages or domains, nor for bias or "
    "safety."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of a model and of the files that hold it.

    Attributes:
      config: sizes of the model.
      metadata: content of model.json, at least `task`.
      files: format of the files, such as "SavedModel" or a key of
        `formats.CONVERTERS`.
      kind: class of what the files compute, `serving.answers.kind.Kind`; None
        for the task.
      names: what they compute, here and on Hugging Face's hub; None for the
        task.
      settings: further settings of the files, such as `precision`.
      run: content of run.json of the run that trained it; empty if unknown.
      results: content of eval_results.json of its step; empty if unknown. Both
        are of `run_models.read_run`.
      license: as for `check_license`.
    """

    config: BertConfig
    metadata: Mapping
    files: str
    kind: type | None = None
    names: tuple[str, str | None] | None = None
    settings: Mapping = dataclasses.field(default_factory=dict)
    run: Mapping = dataclasses.field(default_factory=dict)
    results: Mapping = dataclasses.field(default_factory=dict)
    license: str | None = None

    def title(self) -> str:
        """Returns the headline."""
        name = self.metadata.get("task_name")
        return f"BERT, {self.kind_names()[0]}" + (f": {name}" if name else "")

    def kind_names(self) -> tuple[str, str | None]:
        """Returns the name of what it computes, here and on the hub."""
        if self.names:
            return self.names
        task = self.metadata["task"]
        if self.config.is_causal and task == "pretraining":
            task = "left_to_right"
        return _TASKS[task]

    def has_weights(self) -> bool:
        """Returns whether the files have weights."""
        return self.kind is None or self.kind.weights is not None

    def has_head(self) -> bool:
        """Returns whether they have the head that the scores are of."""
        return self.kind is None or self.kind.task is not None

    def num_parameters(self) -> int:
        """Returns the number of weights in the files."""
        if not self.has_weights():
            return 0
        labels = self.metadata.get("labels") or ()
        shapes = contents.shapes(
            self.config, self.metadata["task"], len(labels)
        )
        only = "" if self.has_head() else "encoder/"
        return sum(
            math.prod(shape)
            for name, shape in shapes.items()
            if name.startswith(only)
        )


def check_license(license: str | None) -> None:
    """Raises ValueError if it is not of the form of the hub's identifiers."""
    if license is not None and not re.fullmatch(
        r"[a-z0-9][a-z0-9.-]*", license
    ):
        raise ValueError(
            f"--license={quoted(license)} should be an identifier of Hugging "
            "Face's list, such as apache-2.0, mit or other, in small letters. "
            "Omit it if the licence is unknown."
        )


def of_checkpoint(
    given: contents.Contents,
    files: str,
    license: str | None = None,
    run: Mapping[str, Mapping] | None = None,
) -> str:
    """Returns the card of a Checkpoint that is written in a format.

    Args:
      given: what is written.
      files: the format.
      license: as for `check_license`.
      run: of the folder that it was read from, from `run_models.read_run`.
    """
    found = dict(run or {})
    trained, own = found.get("run", {}).get("config", {}), given.config
    if trained.get("hidden_act", own.hidden_act) != own.hidden_act:
        found.pop("results", None)  # Of the model with the other activation.
    facts = Facts(
        config=own,
        metadata=given.model_json(),
        files=files,
        license=license,
        **found,
    )
    return text(facts)


def write(folder: str, card: str) -> None:
    """Writes a card to `folder`, which `atomic_folder` made.

    Write it last: a card may be edited, so no checksum should cover it.
    """
    with open(os.path.join(folder, FILE), "w", encoding="utf-8") as file:
        file.write(card)


def is_card(path: str) -> bool:
    """Returns whether a file is a card that `write` has written."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return MARK in file.read()


def text(facts: Facts) -> str:
    """Returns the card; equal facts make equal cards."""
    template = _CARD
    if not facts.has_weights():  # It was not trained.
        template = re.sub("## Training.*(?=## Lim)", "", template, flags=re.S)
    return string.Template(template).substitute(
        yaml=_yaml(facts),
        title=_escaped(facts.title()),
        kind=facts.kind_names()[0],
        files=facts.files,
        properties=_table(("Property", "Value"), _properties(facts)),
        training=_training(facts),
        scores=_scores(facts),
        limits="\n".join(f"- {x}" for x in _limits(facts)),
        licence=f"`{facts.license}`" if facts.license else _UNKNOWN_LICENCE,
    )


def _yaml(facts: Facts) -> str:
    # Imported here, as it takes longer than everything else in this module.
    from huggingface_hub import EvalResult, ModelCardData

    pipeline, results = facts.kind_names()[1], []
    if facts.has_head():
        name = facts.metadata.get("task_name") or "held-out records"
        results = [
            EvalResult(
                task_type=pipeline,
                dataset_type=name,
                dataset_name=name,
                dataset_split=split,
                metric_type=metric,
                metric_value=value,
            )
            for split, metric, value, _ in run_models.scores(facts.results)
            if value is not None and math.isfinite(value)
        ]
    return ModelCardData(
        model_name=facts.title() if results else None,
        eval_results=results or None,
        license=facts.license,
        library_name=_LIBRARIES.get(facts.files),
        pipeline_tag=pipeline,
        tags=["bert", "bert_tf"],
    ).to_yaml()


def _properties(facts: Facts) -> list[tuple[str, object]]:
    """Returns names and values of what the files are."""
    metadata, config = facts.metadata, facts.config.to_dict()
    labels = list(metadata.get("labels") or ())
    shown = ", ".join(labels[:_MAX_LABELS])
    if len(labels) > _MAX_LABELS:
        shown += f" and {len(labels) - _MAX_LABELS} more"
    rows = [
        ("task", metadata["task"]),
        ("labels", shown),
        ("parameters", f"{facts.num_parameters():,}"),
        *((name, config.get(name)) for name in _SIZES),
        *((name, metadata.get(name)) for name in vocab.RULES),
        ("max_seq_length", metadata.get("max_seq_length")),
        (contents.PROMPTS, _named(metadata.get(contents.PROMPTS) or {})),
        ("converted from", _without_folders(metadata.get("source"))),
    ]
    values = dict(rows) | dict(facts.settings)
    name = contents.SENTENCE_EMBEDDING
    if embedding := values.get(name) or (
        metadata.get(name) if facts.kind is None else None
    ):
        values[name] = sentence_embedding.describe(embedding)
    if not facts.has_weights():
        for name, _ in rows[:3]:  # Of a model.
            del values[name]
        for name in set(_SIZES) - {"vocab_size"}:
            del values[name]
    return [(n, x) for n, x in values.items() if x not in (None, "", [])]


def _named(prompts: Mapping[str, str]) -> str:
    """Returns names and texts of prompts."""
    return ", ".join(f"{name} {quoted(x)}" for name, x in prompts.items())


def _without_folders(source: str | None) -> str | None:
    """Returns "format name" of a path; the folders above it are private."""
    files, _, path = (source or "").partition(" ")
    if not path or files == "bert_tf":
        return None
    return contents.without_folders(source)


def _training(facts: Facts) -> str:
    """Returns the paragraphs on data and settings of the training."""
    if not facts.run:
        return _UNKNOWN_TRAINING
    left_out = ("config", "task", "init_checkpoint_sha256")
    run = {n: x for n, x in facts.run.items() if n not in left_out}
    if path := run.get("init_checkpoint"):
        run["init_checkpoint"] = os.path.basename(os.path.normpath(path))
    digest = run.pop("records", None)
    rows = [("sha256 of the records", x) for x in _as_list(digest)]
    evaluated = facts.results.get("records")
    rows += [("sha256 of the held-out records", x) for x in _as_list(evaluated)]
    step = facts.results.get("step")
    rows += [("step of these weights", step)] if step else []
    rows += [(n, x) for n, x in run.items() if x is not None]
    start = "Trained from newly initialized weights."
    if path:
        start = "Fine-tuned, or trained further, from another checkpoint."
    return f"{start}\n\n{_table(('Setting', 'Value'), rows)}"


def _as_list(value) -> list:
    return value if isinstance(value, list) else [value] if value else []


def _scores(facts: Facts) -> str:
    """Returns the paragraphs on scores and baselines."""
    rows = run_models.scores(facts.results)
    if not rows:
        return "Not evaluated, as far as these files record."
    paragraphs = [
        _ON_DEV_SETS if "task_name" in facts.results else _ON_HELD_OUT,
        _table(
            ("Split", "Metric", "Score", "Baseline"),
            [
                (split, name, _score(value), "" if x is None else _score(x))
                for split, name, value, x in rows
            ],
        ),
    ]
    if any(value is None for _, _, value, _ in rows):
        paragraphs.append(f"A score is undefined where {run_models.UNDEFINED}.")
    if not facts.has_head():
        paragraphs.append(
            "They are of the model with its head, which is not in these files."
        )
    return "\n\n".join(paragraphs)


def _score(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4g}"


def _limits(facts: Facts) -> list[str]:
    """Returns the limits of the files, and of how they were tested."""
    metadata, settings = facts.metadata, facts.settings
    length = settings.get("max_seq_length") or metadata.get("max_seq_length")
    length = length or facts.config.max_position_embeddings
    lines = [f"A text is cut after {length} tokens, special tokens included."]
    in_windows = metadata["task"] in _IN_WINDOWS
    if facts.kind:
        in_windows = facts.kind.in_windows
    if in_windows:
        lines = [
            f"A long text is read in windows of {length} tokens: no token sees "
            "beyond its window."
        ]
    case = metadata.get("do_lower_case")
    if case is None:
        lines.append("Whether its text was lower-cased is not recorded.")
    elif case and metadata.get("strip_accents") is not False:
        lines.append("Capitals and accents are removed from every text.")
    elif case:
        lines.append("Capitals are removed from every text.")
    elif metadata.get("strip_accents"):
        lines.append("Accents are removed from every text.")
    lines.append(_LANGUAGE)
    trained = facts.run.get("precision") or metadata.get("precision")
    others = [
        f"{name} {settings[name]}"
        for name in ("precision", "weights_dtype", "weights")
        if trained and settings.get(name, trained) != trained
    ]
    if others:
        lines.append(
            f"Trained with precision {_escaped(trained)}; these files have "
            f"{' and '.join(others)}, so their scores may differ."
        )
    if untrained := contents.pop_untrained(dict(metadata)):
        lines.append(
            f"Newly initialized, since the source had no such weights: "
            f"{_escaped(', '.join(untrained))}."
        )
    return lines


def _table(header: tuple[str, ...], rows: Iterable[tuple]) -> str:
    """Returns a table in Markdown."""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(_escaped(value) for value in line) + " |"
        for line in lines
    )


def _escaped(value) -> str:
    """Returns a value as text of one line, for a heading, cell or sentence."""
    words = " ".join(str(value).split())
    return re.sub(r"([|\\`*<\[\]])", r"\\\1", words)
