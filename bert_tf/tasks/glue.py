"""Tables of texts and labels -> their task, a `TextTask`.

An example is a text or a pair of texts; its label is a class, a score or any
number of labels (Devlin et al. 2018, section 4.1 and appendix B.1). The tasks
of GLUE, with columns, labels and metrics, are defined in
tfrecords/tasks/glue_tables.py; those of a user's own tables by flags.
"""

from collections.abc import Callable

from bert_tf.tasks.task import FineTuningTask, evaluated_model
from bert_tf.tasks.texts.classification import Classification
from bert_tf.tasks.texts.multi_label import MultiLabel
from bert_tf.tasks.texts.regression import Regression
from bert_tf.tasks.texts.text_task import TextTask
from tfrecords.tasks import glue_rows, glue_tables


def task_of(
    table: glue_tables.GlueTask, data: glue_tables.GlueData | None = None
) -> TextTask:
    """Returns the task of a table's labels; arguments as of `TextTask`."""
    if table.multi_label:
        return MultiLabel(table, data)
    return (Regression if table.is_regression else Classification)(table, data)


def from_data(
    data: glue_tables.GlueData, make: Callable[..., TextTask] = task_of
) -> FineTuningTask:
    """Returns the task that the options select.

    Args:
      data: files and options.
      make: returns the task of a table and these options.

    Raises:
      ValueError: as in `glue_rows.choose_task`.
    """
    if glue_rows.has_labels(data):
        return make(glue_rows.choose_task(data), data)
    return _OfModel(data, make)


class _OfModel(FineTuningTask):
    """A task whose labels are those of the model that is evaluated."""

    def __init__(self, data, make):
        self.data = data
        self.name = data.task_name or "own"
        self.make = make

    def prepare(self, config, source):
        """Returns the task of the model's labels."""
        model_dir, metadata = evaluated_model(config, source)
        if not model_dir:
            table = glue_rows.choose_task(self.data)
        else:
            labels = tuple(metadata.get("labels", ())) or ("score",)
            table = self.data.choose_task(labels)
        return self.make(table, self.data).prepare(config, source)
