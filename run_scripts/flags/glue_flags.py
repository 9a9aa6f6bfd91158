"""Flags of GLUE and of one's own tables -> a task, and its records."""

import os

from absl import flags

from tfrecords.tasks import glue_examples, glue_tables, split_records
from tfrecords.text import tokenizer as tokenizer_lib

# Not --seed: runs with several seeds must share the rows they are judged by.
DEV_SEED = 12345


def define_data(values: flags.FlagValues) -> None:
    """Adds the flags that say where rows of text and label come from."""
    flags.DEFINE_string(
        "task_name",
        None,
        "A task of GLUE: "
        f"{', '.join(task.name for task in glue_tables.GLUE_TASKS)}. With "
        "--train_file and the like: any name for a task of one's own.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "data_dir",
        None,
        "Folder of the task's files under their official names.",
        flag_values=values,
    )
    for split in ("train", "dev", "test"):
        flags.DEFINE_string(
            f"{split}_file",
            None,
            f"A {split} file of one's own, with a line of headers: .csv with "
            "commas and quotes, any other with tabs and no quotes.",
            flag_values=values,
        )
    flags.DEFINE_list(
        "text_column",
        None,
        "Headers of the one or two text columns of one's own files.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "label_column",
        "label",
        "Header of the label column of one's own files.",
        flag_values=values,
    )
    flags.DEFINE_list(
        "labels",
        None,
        "Labels in one's own files, in the order of their ids; or score, "
        "where the label is a number to predict.",
        flag_values=values,
    )
    flags.DEFINE_float(
        "dev_share",
        0.1,
        "Share of the training rows to hold out where there is no dev file; "
        "0 for none.",
        flag_values=values,
    )


def find_task(values: flags.FlagValues) -> glue_tables.GlueTask:
    """Returns the task that the flags of `define_data` mean.

    Raises:
      ValueError: if they name none, or not all that one's own files need.
    """
    files = {
        split: values[f"{split}_file"].value
        for split in ("train", "dev", "test")
        if values[f"{split}_file"].value
    }
    if files:
        for name in ("text_column", "labels"):
            if not values[name].value:
                raise ValueError(
                    f"--{'_file, --'.join(files)}_file need --{name} too. "
                    "See --help."
                )
        for split, path in files.items():
            found = split_records.find_path(values.data_dir, path)
            if not os.path.isfile(found):
                raise ValueError(f"No file {path}; give a table of rows.")
            # Whole, so that nobody looks for it in --data_dir again.
            files[split] = os.path.abspath(found)
        return glue_tables.own_task(
            values.task_name or "own",
            files=files,
            text_columns=tuple(values.text_column),
            label_column=values.label_column,
            labels=tuple(values.labels),
        )
    if not values.task_name or not values.data_dir:
        raise ValueError(
            "No data: give --task_name=CoLA and --data_dir=FOLDER for a task "
            "of GLUE, or --train_file=TABLE for one of your own."
        )
    return glue_tables.find(values.task_name)


def make_records(
    values: flags.FlagValues,
    task: glue_tables.GlueTask,
    tokenizer: tokenizer_lib.BertTokenizer,
    output_dir: str,
) -> dict[str, str]:
    """Returns split to folder of records; makes those that are missing."""
    return glue_examples.make_records(
        task,
        values.data_dir or "",
        output_dir,
        tokenizer,
        max_seq_length=values.max_seq_length,
        dev_share=values.dev_share,
        seed=DEV_SEED,
    )
