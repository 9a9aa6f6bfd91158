"""Checkpoint of any format -> Checkpoint, told apart by looking -> any format.

Each format is a module with the same names:

    is_there(path)            whether a file or folder is of the format; cheap
    read(path)                -> Checkpoint; ValueErrors that name the path
    write(checkpoint, folder) fills a folder of `whole_files.whole_folder`
    table(config, task, num_labels)  its rename table
    PEER                      the source implementation, by name and, where
                              pip has it, how to install it
    reference_outputs(path, batch)   what the source implementation computes
                              from `parity.batch`, or None where it is not
                              installed: by the names of `parity.outputs`,
                              any of them
"""

import os

from bert_tf.conversion import checkpoint, google

# By name, as typed; a path is of the first that knows it.
FORMATS = {
    "bert_tf": checkpoint,
    "google": google,
}


def detect(path: str) -> str:
    """Returns the name of the format that a file or folder is of.

    Raises:
      ValueError: if nothing is there, or nothing known.
    """
    if not os.path.exists(path) and not google.is_there(path):
        raise ValueError(f"{path} is not there.")
    for name, module in FORMATS.items():
        if module.is_there(path):
            return name
    raise ValueError(f"{path} holds no model of a format known here.")


def read(path: str) -> checkpoint.Checkpoint:
    """Reads a checkpoint of any format."""
    return FORMATS[detect(path)].read(path)
