"""Name of a task, as model.json has it -> its model."""

import keras

from bert_tf.model import models

TASK_MODELS = {
    "pretraining": models.BertPretrainer,
    "classification": models.BertClassifier,
    "regression": models.BertRegressor,
    "spans": models.BertSpanPredictor,
    "tagging": models.BertTagger,
    "multiple_choice": models.BertMultipleChoice,
}


def for_task(
    task: str, config, num_labels: int = 0, dtype: str | None = None
) -> keras.Model:
    """Returns a new model of a task.

    Args:
      task: a key of `TASK_MODELS`.
      config: BertConfig.
      num_labels: classes of a classifier or tagger.
      dtype: a Keras dtype policy, by default Keras' own.

    Raises:
      ValueError: if there is no such task.
    """
    if task not in TASK_MODELS:
        raise ValueError(f"task {task!r} is none of {', '.join(TASK_MODELS)}.")
    if task in ("classification", "tagging"):
        return TASK_MODELS[task](config, num_labels, dtype=dtype)
    return TASK_MODELS[task](config, dtype=dtype)
