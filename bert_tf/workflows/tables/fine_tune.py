"""DataFrames or files of texts and labels -> fine-tuned model, a Predictor."""

import dataclasses
import json
import os

from bert_tf.serving.predictor import Predictor
from bert_tf.tasks import glue
from bert_tf.tasks.texts.options import LabelledData
from bert_tf.training import run_folder
from bert_tf.workflows import trials
from bert_tf.workflows.configs import TrialsConfig
from tfrecords import options
from tfrecords.io import atomic_files
from tfrecords.tables import data_frames

# Settings that are decided here.
_DECIDED = ("train_file", "dev_file", "do_train", "do_eval", "output_dir")
_DECIDED += ("folds", "fold")  # They leave no model.


def fine_tune(train, dev=None, *, output_dir: str, **settings) -> Predictor:
    """Fine-tunes a classifier or regressor of texts, as `run_glue` does.

    The columns of DataFrames that are read are written to `output_dir/tables`,
    as JSON lines, so that the run has its data, and `bert-report` finds its
    rows. The same call resumes after a stop.

    Args:
      train: a pandas.DataFrame to train on, or the path of a table.
      dev: one to evaluate on, likewise, and to select the best model. Default:
        `dev_share` of the rows of `train` are held out.
      output_dir: folder of the run.
      **settings: the flags of run_glue, such as `text_column="review"`,
        `label_column`, `init_checkpoint`, `num_train_epochs`.

    Returns:
      A Predictor of the best model.

    Raises:
      ValueError: if a setting is unknown or invalid, a column is missing, a
        text is not a str, or the run in `output_dir` has another table.
      stopping.Stopped: if a signal stopped training; the same call resumes.

    Example:
      >>> predictor = bert_tf.fine_tune(
      ...     "reviews.csv",
      ...     text_column="review",
      ...     label_column="stars",
      ...     init_checkpoint="runs/sst-2",
      ...     output_dir="runs/reviews",
      ...     num_train_epochs=1,
      ... )
      >>> predictor("a fine film").label in ("bad", "good")
      True
    """
    known = {
        field.name: (cls, options.field_types(cls)[field.name])
        for cls in (LabelledData, TrialsConfig)
        for field in dataclasses.fields(cls)
        if field.name not in _DECIDED
    }
    of_class = {LabelledData: {}, TrialsConfig: {}}
    for name, value in settings.items():
        if name not in known:
            raise ValueError(
                f"{name} is no setting of fine_tune. Its settings have the "
                "names of the flags of run_glue, such as num_train_epochs; see "
                "run_glue --help."
            )
        cls, kind = known[name]
        if kind is tuple and isinstance(value, str | list):
            value = (value,) if isinstance(value, str) else tuple(value)
        elif isinstance(value, os.PathLike):
            value = os.fspath(value)
        expected = (int, float) if kind is float else kind
        if value is not None and not isinstance(value, expected):
            raise ValueError(
                f"{name} is {options.quoted(value)} ({type(value).__name__}); "
                f"expected {kind.__name__}. Convert it."
            )
        of_class[cls][name] = value
    output_dir = os.fspath(output_dir)
    data = LabelledData(**of_class[LabelledData])
    files = {
        f"{split}_file": _to_file(table, split, output_dir, data)
        for split, table in (("train", train), ("dev", dev))
    }
    config = TrialsConfig(
        output_dir=output_dir,
        do_train=True,
        do_eval=dev is not None or data.dev_share > 0,
        **of_class[TrialsConfig],
    )
    task = glue.from_data(dataclasses.replace(data, **files))
    trials.fine_tune(task, config, "run_glue")
    return Predictor(output_dir)


def _to_file(table, split: str, output_dir: str, data) -> str | None:
    """Returns the path of a table, to which a DataFrame is written."""
    if table is None or isinstance(table, str | os.PathLike):
        return table and os.fspath(table)
    if not data_frames.is_frame(table):
        raise ValueError(
            f"{split} is {options.quoted(table)} ({type(table).__name__}); "
            "expected a pandas.DataFrame, or the path of a table."
        )
    if not data.text_column:
        raise ValueError(
            "Give text_column, the name of one or two columns of the "
            f"DataFrame; it has {', '.join(map(str, table.columns))}."
        )
    others = [*(data.label_columns or [data.label_column])]
    others += [data.id_column, data.group_column]
    if split == "train":
        others.append(data.weight_column)
    columns = {
        x: data_frames.read_column(table, x, (str,)) for x in data.text_column
    }
    columns |= {x: data_frames.read_column(table, x) for x in others if x}
    text = "".join(
        json.dumps(dict(zip(columns, row, strict=True)), default=str) + "\n"
        for row in zip(*columns.values(), strict=True)
    )
    path = os.path.join(output_dir, "tables", f"{split}.jsonl")
    runs = (run_folder.FILE, trials.FOLDER)
    if any(os.path.exists(os.path.join(output_dir, x)) for x in runs):
        known = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                known = file.read()
        if known != text:
            raise ValueError(
                f"{output_dir} is the folder of a run with other rows than "
                f"{split} has. Choose another output_dir."
            )
        return path
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with atomic_files.atomic_file(path) as file:
        file.write(text)
    return path
