"""Model metadata -> model card (README.md).

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
# Format of files -> the library that reads them, by its name on the hub.
_LIBRARIES = {"hugging_face": "transformers", "keras_hub": "keras-hub"}
_MAX_LABELS = 30
# Of run.json; the digest of the records has a row of its own.
_NOT_SETTINGS = ("config", "task", "init_checkpoint_sha256", "records")

# The text of a card, a `string.Template`.
_CARD = f"""\
---
$yaml
---

# $title

{MARK}

BERT in files of the format $files.

$properties

## Training

$training

## Scores

$scores

## Limits

- A text is cut $where tokens, special tokens included. Passages
  and texts of words are read in windows of it: no token sees beyond its own.
- The language is not recorded, nor is what the first table lacks. The model was
  not evaluated on other languages or domains, nor for bias or safety.
- The licence is $licence.
"""
_EVALUATED = f"""\
The best checkpoint may have been selected on the first dev set, so its scores
can be too good. They are of the model with its head, in the precision of its
training. The baseline is the best constant answer, such as the most frequent
token; of a tagger, each word's most frequent tag. A score is missing where
{run_models.UNDEFINED}."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of a model and of the files that hold it.

    Attributes:
      config: sizes of the model.
      metadata: content of model.json, at least `task`.
      files: format of the files, such as "SavedModel" or "hugging_face".
      kind: class of what the files compute, a `Kind`; None for the task.
      names: what they compute, here and on the hub; None for the task.
      settings: further settings of the files, such as `precision`.
      run, results: of `run_models.read_run`; empty if unknown.
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

    def kind_names(self) -> tuple[str, str | None]:
        """Returns the name of what it computes, here and on the hub."""
        task = self.metadata["task"]
        if self.config.is_causal and task == "pretraining":
            task = "left_to_right"
        return self.names or _TASKS[task]

    def title(self) -> str:
        """Returns the headline."""
        name = self.metadata.get("task_name")
        return f"BERT, {self.kind_names()[0]}" + (f": {name}" if name else "")

    def has_weights(self) -> bool:
        """Returns whether the files have weights."""
        return self.kind is None or self.kind.weights is not None

    def has_head(self) -> bool:
        """Returns whether they have the head that the scores are of."""
        return self.kind is None or self.kind.task is not None

    def num_parameters(self) -> int:
        """Returns the number of weights, of files that have some."""
        num_labels = len(self.metadata.get("labels") or ())
        only = "" if self.has_head() else "encoder/"
        shapes = contents.shapes(self.config, self.metadata["task"], num_labels)
        found = (x for name, x in shapes.items() if name.startswith(only))
        return sum(map(math.prod, found))


def check_license(license: str | None) -> None:
    """Raises ValueError if it is not of the form of the hub's identifiers."""
    form = r"[a-z0-9][a-z0-9.-]*"
    if license is not None and not re.fullmatch(form, license):
        raise ValueError(
            f"license={quoted(license)} should be an identifier of Hugging "
            "Face's list, such as apache-2.0, mit or other, in small letters. "
            "Omit it if the licence is unknown."
        )


def of_checkpoint(
    given: contents.Contents,
    files: str,
    license: str | None = None,
    run: Mapping[str, Mapping] | None = None,
) -> str:
    """Returns the card of a Checkpoint, of a run if `read_run` found one."""
    found, own = dict(run or {}), given.config
    trained = found.get("run", {}).get("config", {})
    if trained.get("hidden_act", own.hidden_act) != own.hidden_act:
        found.pop("results", None)  # Of the model with the other activation.
    metadata = given.model_json()
    facts = Facts(
        config=own, metadata=metadata, files=files, license=license, **found
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
        files=facts.files,
        properties=_table(("Property", "Value"), _properties(facts).items()),
        training=_training(facts),
        scores=_scores(facts),
        where="by other libraries than bert_tf (long_text) after max_seq_length"
        if facts.metadata.get("long_text")
        else "after max_seq_length",
        licence=facts.license or "unknown: ask the authors of weights and data",
    )


def _yaml(facts: Facts) -> str:
    # Imported here, as it takes longer than everything else in this module.
    from huggingface_hub import EvalResult, ModelCardData

    pipeline = facts.kind_names()[1]
    name = facts.metadata.get("task_name") or "held-out records"
    results = [
        EvalResult(pipeline, name, name, metric, value, dataset_split=split)
        for split, metric, value, _ in run_models.scores(facts.results)
        if facts.has_head() and value is not None and math.isfinite(value)
    ]
    return ModelCardData(
        model_name=facts.title() if results else None,
        eval_results=results or None,
        license=facts.license,
        library_name=_LIBRARIES.get(facts.files),
        pipeline_tag=pipeline,
        tags=["bert", "bert_tf"],
    ).to_yaml()


def _properties(facts: Facts) -> dict[str, object]:
    """Returns name -> value of what the files are."""
    metadata, config = facts.metadata, facts.config
    labels = metadata.get("labels") or ()
    found: dict[str, object] = {"vocab_size": config.vocab_size}
    if facts.has_weights():
        found = {"task": metadata["task"], "num_labels": len(labels) or None}
        found["labels"] = list(labels[:_MAX_LABELS])
        found["parameters"] = f"{facts.num_parameters():,}"
        found |= config.to_dict()
        found["newly initialized"] = contents.pop_untrained(dict(metadata))
    found |= {name: metadata.get(name) for name in vocab.RULES}
    length = metadata.get("max_seq_length") or config.max_position_embeddings
    prompts = metadata.get(contents.PROMPTS) or {}
    found["max_seq_length"] = length
    found["long_text"] = metadata.get("long_text")
    found[contents.PROMPTS] = [f"{n} {quoted(x)}" for n, x in prompts.items()]
    files, _, path = (metadata.get("source") or "").partition(" ")
    if path and files != "bert_tf":  # The folders above it are private.
        found["converted from"] = contents.without_folders(metadata["source"])
    name = contents.SENTENCE_EMBEDDING
    found |= {name: None if facts.kind else metadata.get(name)} | facts.settings
    if embedding := found[name]:
        found[name] = sentence_embedding.describe(embedding)
    return found


def _training(facts: Facts) -> str:
    """Returns data and settings of the training."""
    if not facts.run:
        return "Data and settings are not known: these files are not of a run."
    found = {
        "sha256 of the records": facts.run.get("records"),
        "sha256 of the held-out records": facts.results.get("records"),
        "step of these weights": facts.results.get("step"),
        **{n: x for n, x in facts.run.items() if n not in _NOT_SETTINGS},
    }
    path = facts.run.get("init_checkpoint") or "none"  # Its folder is private.
    found["init_checkpoint"] = os.path.basename(os.path.normpath(path))
    return _table(("Setting", "Value"), found.items())


def _scores(facts: Facts) -> str:
    """Returns scores and baselines."""
    rows = run_models.scores(facts.results)
    if not rows:
        return "Not evaluated, as far as these files record."
    table = _table(("Split", "Metric", "Score", "Baseline"), rows)
    return f"{_EVALUATED}\n\n{table}"


def _table(header: tuple[str, ...], rows: Iterable[tuple]) -> str:
    """Returns a table in Markdown, without rows whose value is not known."""
    known = [row for row in rows if row[1] not in (None, "", [])]
    return "\n".join(
        "| " + " | ".join(map(_escaped, line)) + " |"
        for line in (header, ("---",) * len(header), *known)
    )


def _escaped(value) -> str:
    """Returns a value as text of one line, for a heading or a cell."""
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if isinstance(value, float):
        value = f"{value:.6g}"
    value = "" if value is None else value
    words = " ".join(str(value).split())
    return re.sub(r"([|\\`*<\[\]])", r"\\\1", words)
