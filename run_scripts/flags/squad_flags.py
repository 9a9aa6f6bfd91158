"""Flags of SQuAD -> its files by split, settings of windows and of answers."""

import os

from absl import flags

from tfrecords.tasks import split_records, squad_examples

# Split to flag; the name in --data_dir, of each version.
_FLAGS = {"train": "train_file", "dev": "dev_file", "test": "predict_file"}
_OFFICIAL = {"train": "train-{}.json", "dev": "dev-{}.json"}
_DEFAULTS = squad_examples.Settings()


def define_data(values: flags.FlagValues) -> None:
    """Adds the flags that say where questions come from, and of windows.

    Beside that of --max_seq_length, of which `fine_tuning_flags` has one.
    """
    flags.DEFINE_string(
        "data_dir",
        None,
        "Folder of train-v1.1.json and dev-v1.1.json, or of those of v2.0 with "
        "--version_2_with_negative, as far as they are there.",
        flag_values=values,
    )
    for name, what in (
        ("train_file", "to train on"),
        ("dev_file", "with answers, to evaluate on"),
        ("predict_file", "to be answered; default: those of --dev_file"),
    ):
        flags.DEFINE_string(
            name,
            None,
            f"SQuAD JSON, in --data_dir or elsewhere, of questions {what}.",
            flag_values=values,
        )
    flags.DEFINE_integer(
        "doc_stride",
        _DEFAULTS.doc_stride,
        "Tokens from one window of a long passage to the next.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "max_query_length",
        _DEFAULTS.max_query_length,
        "Tokens at which questions are cut.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_bool(
        "version_2_with_negative",
        _DEFAULTS.version_2_with_negative,
        "Whether questions may have no answer, as in SQuAD 2.0.",
        flag_values=values,
    )


def define_answers(values: flags.FlagValues) -> None:
    """Adds the flags of how answers are chosen."""
    flags.DEFINE_integer(
        "n_best_size",
        20,
        "Answers to each question in nbest_predictions.json, and starts and "
        "ends of each window that they are made of.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "max_answer_length",
        30,
        "Most tokens of an answer.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_float(
        "null_score_diff_threshold",
        None,
        "With --version_2_with_negative, a question has no answer if that "
        "scores so much more than the best answer. Default: what is best for "
        "F1 on dev, with --do_eval; else the model's, which was found so; else "
        "0, the original's.",
        flag_values=values,
    )


def settings(values: flags.FlagValues) -> squad_examples.Settings:
    """Returns the settings of windows."""
    return squad_examples.Settings(
        max_seq_length=values.max_seq_length,
        doc_stride=values.doc_stride,
        max_query_length=values.max_query_length,
        version_2_with_negative=values.version_2_with_negative,
    )


def find_files(values: flags.FlagValues) -> dict[str, str]:
    """Returns split to path: train, dev and test, as far as they are there.

    Raises:
      ValueError: if no file is there, or one that a flag names is not.
    """
    files = {}
    version = "v2.0" if values.version_2_with_negative else "v1.1"
    for split, name in _FLAGS.items():
        given = values[name].value
        if given:
            path = split_records.find_path(values.data_dir, given)
            if not os.path.isfile(path):
                raise ValueError(
                    f"--{name}={given}: there is no file {path}. Give JSON in "
                    f"the layout of SQuAD, such as train-{version}.json."
                )
            files[split] = path
        elif values.data_dir and split in _OFFICIAL:
            path = os.path.join(
                values.data_dir, _OFFICIAL[split].format(version)
            )
            if os.path.isfile(path):
                files[split] = path
    if not files:
        raise ValueError(
            f"No data: give --data_dir=FOLDER of train-{version}.json and "
            f"dev-{version}.json"
            + (f", which {values.data_dir} has not" if values.data_dir else "")
            + ", or --train_file, --dev_file or --predict_file."
        )
    # What is evaluated anyway is not made twice.
    if files.get("test") == files.get("dev"):
        files.pop("test", None)
    return files
