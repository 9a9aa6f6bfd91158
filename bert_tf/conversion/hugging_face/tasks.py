"""Architectures and labels of a config.json <-> our tasks and labels."""

from collections.abc import Collection

from bert_tf.conversion import renaming

PARTS = renaming.PARTS
POOLER, MASKED_LM, NEXT_SENTENCE = PARTS

# Class -> (task, parts that the class has). transformers, modeling_bert.py.
ARCHITECTURES = {
    "BertForPreTraining": ("pretraining", PARTS),
    "BertForMaskedLM": ("pretraining", (MASKED_LM,)),
    "BertForNextSentencePrediction": ("pretraining", (POOLER, NEXT_SENTENCE)),
    "BertModel": ("pretraining", (POOLER,)),
    "BertLMHeadModel": ("pretraining", (MASKED_LM,)),
    "BertForSequenceClassification": ("classification", (POOLER,)),
    "BertForTokenClassification": ("tagging", ()),
    "BertForQuestionAnswering": ("spans", ()),
    "BertForMultipleChoice": ("multiple_choice", (POOLER,)),
}


def named_class(values: dict, path: str) -> str | None:
    """Returns the first class that a config.json names, None if it does not.

    Args:
      values: of config.json.
      path: of config.json, for messages.

    Raises:
      ValueError: if it names no class but something else.
    """
    given = values.get("architectures") or [None]
    # transformers writes a list; by hand it may be the name alone.
    first = given[0] if isinstance(given, list) else given
    if not isinstance(first, str | None):
        raise ValueError(
            f"{path}: architectures={given!r} should list the class that the "
            'weights were saved from, such as ["BertModel"].'
        )
    return first


def architecture(values: dict, names: Collection[str], path: str) -> str:
    """Returns the class that a folder was saved from.

    Args:
      values: of config.json.
      names: of the folder's tensors; they tell if `values` do not.
      path: of config.json, for messages.

    Raises:
      ValueError: if the class cannot be read, or is not to be told.
    """
    given = named_class(values, path)
    if given in ARCHITECTURES:
        return given
    if given is not None:
        raise ValueError(
            f"{path}: architectures={[given]}; what can be read is "
            f"{', '.join(ARCHITECTURES)}. If the model is one of these with "
            "more around it, save that one."
        )
    if any(name.startswith("classifier.") for name in names):
        raise ValueError(
            f"{path} names no architectures, and a classifier may be of texts, "
            'of tokens or of choices. Add "architectures": '
            '["BertForSequenceClassification"], or what it is.'
        )
    is_for_spans = "qa_outputs.weight" in names
    return "BertForQuestionAnswering" if is_for_spans else "BertModel"


def architecture_for(task: str, parts: Collection[str]) -> str:
    """Returns the class that holds a task's weights.

    Args:
      task: a key of `models.TASK_MODELS`.
      parts: of `PARTS`, those that there are. What the class has no place for
        is lost, and is as little as can be.
    """
    task = "classification" if task == "regression" else task
    of_task = {n: set(w) for n, (t, w) in ARCHITECTURES.items() if t == task}
    for name, wanted in of_task.items():
        if wanted <= set(parts):
            return name
    return "BertModel" if task == "pretraining" else next(iter(of_task))


def _labels(values: dict, path: str) -> tuple[str, ...]:
    """Returns the names of the classes in order; transformers' default is 2."""
    given = values.get("id2label")
    if given is None:
        count = values.get("num_labels") or 2
        return tuple(f"LABEL_{i}" for i in range(count))
    ids = [str(i) for i in range(len(given) if isinstance(given, dict) else 0)]
    if not ids or set(given) != set(ids):
        raise ValueError(
            f"{path}: id2label={given!r} should name the classes from 0 on, "
            "each once."
        )
    return tuple(str(given[i]) for i in ids)


def task_of(
    architecture: str, values: dict, path: str
) -> tuple[str, tuple[str, ...], list[str]]:
    """Returns task, labels, and notes of what is not the same here.

    Args:
      architecture: a key of `ARCHITECTURES`.
      values: of config.json.
      path: of config.json, for messages.

    Raises:
      ValueError: if there is no such task here.
    """
    task, _ = ARCHITECTURES[architecture]
    if task not in ("classification", "tagging"):
        return task, (), []
    labels = _labels(values, path)
    if task == "tagging":
        if len(labels) < 2:
            raise ValueError(
                f"{path}: one class, {labels[0]!r}; a tagger here has 2 or "
                "more. It cannot be read."
            )
        return task, labels, []
    problem, notes = values.get("problem_type"), []
    if len(labels) > 1 and problem == "regression":
        raise ValueError(
            f"{path}: problem_type='regression' with {len(labels)} labels; a "
            "regression here has one score. It cannot be read."
        )
    if len(labels) > 1:
        if problem == "multi_label_classification":
            notes.append(
                f"problem_type is {problem!r}: its classes do not exclude each "
                "other, take the sigmoid of each logit; probabilities here are "
                "a softmax"
            )
        return task, labels, notes
    if problem not in (None, "regression"):
        notes.append(f"one logit, of problem_type {problem!r}, is a score here")
    return "regression", (), notes


def values_for(task: str, labels: Collection[str], architecture: str) -> dict:
    """Returns what config.json says of a task."""
    values: dict = {"architectures": [architecture], "model_type": "bert"}
    if task == "regression":
        labels, values["problem_type"] = ("LABEL_0",), "regression"
    if task == "classification":
        values["problem_type"] = "single_label_classification"
    if labels:
        values["id2label"] = {str(i): label for i, label in enumerate(labels)}
        values["label2id"] = {label: i for i, label in enumerate(labels)}
    return values
