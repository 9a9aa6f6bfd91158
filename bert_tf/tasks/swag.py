"""Batches of choices -> the loss and accuracy of picking the right one."""

import dataclasses

from bert_tf.model import models
from bert_tf.tasks import glue, task
from tfrecords import schema


def multiple_choice_task(name: str) -> task.Task:
    """Returns a task that picks one of some continuations, such as "SWAG".

    Devlin et al. 2018, section 4.4: the only new weights are a vector whose
    dot product with [CLS] is the score of a choice; the scores of all choices
    go through one softmax. So losses and accuracies are those of a
    classification of which every example has classes of its own, and a model
    takes any number of choices.
    """
    return dataclasses.replace(
        glue.classification_task(name, 2),
        schema=schema.MULTIPLE_CHOICE,
        build_model=models.BertMultipleChoice,
    )
