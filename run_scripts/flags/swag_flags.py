"""Flags of files in SWAG's layout -> their paths by split."""

from absl import flags

from tfrecords.tasks import swag_examples


def define_data(values: flags.FlagValues) -> None:
    """Adds the flags that say where contexts and endings come from."""
    flags.DEFINE_string(
        "data_dir",
        None,
        "Folder of SWAG's train.csv, val.csv and test.csv, as far as they are "
        "there.",
        flag_values=values,
    )
    for split, name in swag_examples.FILES.items():
        flags.DEFINE_string(
            f"{split}_file",
            None,
            f"Another file than {name}, in the same layout, in --data_dir or "
            "elsewhere.",
            flag_values=values,
        )


def find_files(values: flags.FlagValues) -> dict[str, str]:
    """Returns split to path.

    Raises:
      ValueError: if no file is there, or one that a flag names is not.
    """
    names = {
        split: values[f"{split}_file"].value
        for split in swag_examples.FILES
        if values[f"{split}_file"].value
    }
    if values.data_dir is None and not names:
        raise ValueError(
            "No data: give --data_dir=FOLDER of SWAG's train.csv and val.csv, "
            "or --train_file and the like."
        )
    if values.data_dir is None:
        # The official names are no files of the folder one happens to be in.
        return {
            split: path
            for split, path in swag_examples.find_files("", names).items()
            if split in names
        }
    return swag_examples.find_files(values.data_dir, names)
