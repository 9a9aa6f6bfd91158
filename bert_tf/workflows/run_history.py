"""Settings of a run <-> run.flags; folder of a run -> its log, checkpoints."""

import csv
import dataclasses
import importlib.util
import io
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from bert_tf.training import reporting
from tfrecords import libraries
from tfrecords.io import atomic_files, json_files, stored_folders

FLAGS_FILE = "run.flags"
# Start of the first line; the module of the script follows.
_SCRIPT_LINE = "# "
_SCRIPTS = "run_scripts."
# Start of the line of a flag that absl cannot read from a file, in JSON.
_COMMENT = "# Give this in the command; no flag file can hold it: "
_EXPERIMENT = re.compile(r"experiments(\.\w+)+")


class Source(NamedTuple):
    """Contents of run.flags.

    Attributes:
      script: name of the script; the module of an experiment's command.
      versions: versions of Python and libraries, by name.
      flags: values of the flags, as text, by name.
    """

    script: str
    versions: dict[str, str]
    flags: dict[str, str]


def write_flags(command: str, output_dir: str, *configs) -> None:
    """Writes `run.flags`, with which --flagfile repeats the run.

    Args:
      command: as `Source.script`.
      output_dir: folder of the run.
      *configs: dataclasses whose fields have the names of flags; fields that
        are None are omitted.
    """
    fields = {}
    for config in configs:
        for field in dataclasses.fields(config):
            value = getattr(config, field.name)
            if isinstance(value, str):
                value = stored_folders.address(value)
            fields[field.name] = value
    os.makedirs(output_dir, exist_ok=True)
    path = os.path.join(output_dir, FLAGS_FILE)
    # The wheel of TensorFlow may have another name, such as tensorflow-tpu.
    versions = f"python {sys.version.split()[0]}  tensorflow {tf.__version__}"
    for name in ("keras", "tensorflow-text", "numpy"):
        versions += f"  {name} {libraries.version(name) or 'not installed'}"
    with atomic_files.atomic_file(path) as file:
        package = "" if _EXPERIMENT.fullmatch(command) else _SCRIPTS
        file.write(f"{_SCRIPT_LINE}{package}{command}\n")
        # As a comment, which absl skips in flag files.
        file.write(f"# {versions}\n")
        for name, value in sorted(fields.items()):
            if value is not None:
                file.write(_file_line(flag_line(name, value)) + "\n")


def _file_line(line: str) -> str:
    """Returns a flag's line for a flag file; a comment if that cannot hold it.

    absl removes spaces at both ends, and reads each line as another argument.
    """
    if line == line.strip() and not re.search("[\r\n]", line):
        return line
    name, _, value = line.partition("=")
    return f"{_COMMENT}{name}={json.dumps(value)}"


def flag_line(name: str, value) -> str:
    """Returns the argument of a flag, as in a command or flag file."""
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no{name}"
    if isinstance(value, (list, tuple)):
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow(value)
        value = text.getvalue()
    return f"--{name}={value}"


def read_flags(run_dir: str) -> Source | None:
    """Returns script, versions and flags of a run; None without run.flags.

    Raises:
      ValueError: if it has no valid script.
    """
    path = os.path.join(run_dir, FLAGS_FILE)
    if not os.path.lexists(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.removesuffix("\n") for line in file]
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 ({error}). Correct it, or copy it again."
        ) from error
    first, second, *_ = [*lines, "", ""]
    module = first.removeprefix(_SCRIPT_LINE)
    script = module.removeprefix(_SCRIPTS)
    is_ours = script != module and script.isidentifier()
    if is_ours:
        is_ours = importlib.util.find_spec(module) is not None
    if not is_ours and not (module != first and _EXPERIMENT.fullmatch(module)):
        raise ValueError(
            f"{path}:1: {first!r} should be the script of the run, such as "
            f"'{_SCRIPT_LINE}{_SCRIPTS}run_pretraining'. Correct the line."
        )
    versions = (
        word.partition(" ") for word in second.removeprefix("# ").split("  ")
    )
    return Source(
        script,
        {name: version for name, _, version in versions if version},
        _parse_flags(lines, path),
    )


def _parse_flags(lines: Sequence[str], path: str) -> dict[str, str]:
    flags = {}
    for number, line in enumerate(lines, 1):
        is_comment = line.startswith(_COMMENT)
        flag = line.removeprefix(_COMMENT)
        if flag.startswith("--"):
            name, _, value = flag.removeprefix("--").partition("=")
            if is_comment:
                value = json_files.parse(value, f"{path}:{number}", str)
            flags[name] = value
    return flags


def read_log(run_dir: str, split: str = "train") -> dict[int, dict[str, float]]:
    """Returns the logged values of each step of a run, by step; {} without.

    Args:
      run_dir: folder of the run.
      split: "train", or a split that was evaluated during training.
    """
    form = reporting.LINE | {"*?": float}
    path = os.path.join(run_dir, "logs", split, reporting.LOG)
    lines = reporting.read_lines(path, form)
    return {values.pop("step"): values for _, values in lines}
