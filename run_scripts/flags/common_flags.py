"""Flags of any script -> parsed values and user-facing errors.

Each script has its own `flags.FlagValues`, so that one process can import
several scripts with different defaults.
"""

import contextlib
import dataclasses
import functools
import logging as python_logging
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

from absl import flags, logging

import run_scripts
from bert_tf.training import stopping
from tfrecords import options
from tfrecords.io import streams

_TENSORFLOW_FILES = re.compile(r"[/\\]tensorflow[/\\]python[/\\]")
_CACHE = "cache_dir"
_CACHE_VARIABLE = "BERT_TF_CACHE_DIR"  # As in stored_folders.py.


def require(values: flags.FlagValues, *names: str) -> None:
    """Makes flags required; the error for a missing flag names it."""
    for name in names:
        flags.register_validator(
            name,
            lambda value: value is not None,
            "it is required; --help has a command with it.",
            values,
        )


def make_flags(*classes: type, **defaults: Any) -> flags.FlagValues:
    """Returns new flags for the options of dataclasses, see `define`."""
    flag_values = flags.FlagValues()
    for cls in classes:
        define(flag_values, cls, **defaults)
    return flag_values


def define(flag_values: flags.FlagValues, cls: type, **defaults: Any) -> None:
    """Adds a flag for each option of a dataclass that has none yet.

    Args:
      flag_values: the script's flags.
      cls: subclass of `options.Options`.
      **defaults: defaults of this script that differ from those of `cls`.
    """
    types = options.field_types(cls)
    for field in dataclasses.fields(cls):
        if field.name not in flag_values and field.metadata:
            default = defaults.get(field.name, field.default)
            _define(flag_values, cls, field, types[field.name], default)
            is_path = field.metadata["reads"] or field.metadata["writes"]
            if is_path and _CACHE not in flag_values:
                flags.DEFINE_string(
                    _CACHE,
                    None,
                    "Folder for copies of inputs and outputs that are in "
                    f"stores. Default: ${_CACHE_VARIABLE}, or "
                    "~/.cache/bert_tf.",
                    flag_values=flag_values,
                    module_name="Stores",
                )


class _Plain:
    """Mixin of absl's parsers: neither underscores nor non-ASCII digits."""

    def convert(self, argument):
        options.check_plain(argument)
        return super().convert(argument)


class _Integer(_Plain, flags.IntegerParser):
    pass


class _Float(_Plain, flags.FloatParser):
    pass


def _define(flag_values, cls, field, python_type: type, default) -> None:
    """Adds the flag of one option; its module is the name of its class."""
    owner = next(c for c in cls.__mro__ if field.name in c.__annotations__)
    keywords = {
        "name": field.name,
        "default": None if default is options.REQUIRED else default,
        "help": field.metadata["help"],
        "flag_values": flag_values,
        "module_name": owner.__name__,
    }
    if field.metadata["choices"]:
        choices = list(field.metadata["choices"])
        flags.DEFINE_enum(enum_values=choices, **keywords)
    elif python_type is bool:
        flags.DEFINE_bool(**keywords)
    elif python_type is tuple:
        if keywords["default"] is not None:
            keywords["default"] = list(keywords["default"])
        flags.DEFINE_list(**keywords)
    elif python_type is str:
        flags.DEFINE_string(**keywords)
    else:
        parser = _Integer if python_type is int else _Float
        bounds = field.metadata["at_least"], field.metadata["at_most"]
        serializer = flags.ArgumentSerializer()
        flags.DEFINE(parser(*bounds), serializer=serializer, **keywords)
    if default is options.REQUIRED:
        require(flag_values, field.name)
    if old_name := field.metadata["old_name"]:
        flags.DEFINE_alias(
            old_name, field.name, flag_values, module_name=owner.__name__
        )


def config(cls, flag_values: flags.FlagValues) -> Any:
    """Returns an instance of the dataclass `cls`, filled from its flags.

    A field without a flag keeps its default. Addresses of stores are replaced
    by paths of local copies, see `stored_folders`.
    """
    values = {}
    for field in dataclasses.fields(cls):
        if field.name in flag_values:
            value = flag_values[field.name].value
            value = tuple(value) if isinstance(value, list) else value
            values[field.name] = _local(field, value)
    return cls(**values)


def _local(field: dataclasses.Field, value: Any) -> Any:
    """Returns the value of a flag with local copies in place of addresses."""
    paths = value.split(",") if isinstance(value, str) else value
    is_path = field.metadata.get("reads") or field.metadata.get("writes")
    if not is_path or not any(map(options.is_address, paths or ())):
        return value
    from tfrecords.io import stored_folders  # Few commands name a store.

    if field.metadata["writes"]:
        return stored_folders.open_output(value, field.metadata["writes"])
    copies = [stored_folders.fetch(path) for path in paths]
    return ",".join(copies) if isinstance(value, str) else tuple(copies)


def _outputs_in_stores(argv: list[str]) -> contextlib.AbstractContextManager:
    """Returns the context in which outputs can be in stores."""
    if not any(":/" in word or "-flagfile" in word for word in argv):
        return contextlib.nullcontext()
    from tfrecords.io import stored_folders  # Few commands name a store.

    return stored_folders.outputs()


def parse(values: flags.FlagValues, argv: list[str], doc: str) -> None:
    """Resets the flags and parses `argv`; `--help` prints the help and exits.

    Args:
      values: the script's flags.
      argv: the script's name, then its arguments.
      doc: the script's docstring, printed above the flags by `--help`.

    Raises:
      flags.Error: if a flag is unknown, missing or malformed.
    """
    if any(word in ("--help", "-h", "-help", "--helpfull") for word in argv):
        from run_scripts.flags import headings  # For the help alone.

        print(headings.help_text(values, doc))
        raise SystemExit(0)
    values.unparse_flags()
    for name in values:
        values[name].unparse()
    try:
        words = values(argv)
    except flags.UnrecognizedFlagError as error:
        from run_scripts.flags import unknown_flags  # For mistakes alone.

        message = unknown_flags.explain(error, values)
        raise flags.Error(message) from None
    if len(words) > 1:
        raise flags.Error(
            f"Unexpected argument {words[1]!r}; every setting is a flag, "
            "such as --output_dir=DIR. See --help."
        )
    _check_text(values)
    if _CACHE in values and values[_CACHE].value:
        options.check_on_disk(_CACHE, values[_CACHE].value)
        options.check_path(f"--{_CACHE}", values[_CACHE].value)
        # A variable, since child processes need it too.
        os.environ[_CACHE_VARIABLE] = values[_CACHE].value


def _check_text(values: flags.FlagValues) -> None:
    """Raises flags.Error for text that is not Unicode or has a zero byte."""
    for name in values:
        value = values[name].value
        for text in value if isinstance(value, list) else [value]:
            if not isinstance(text, str):
                continue
            if "\0" in text:
                raise flags.Error(
                    f"--{name}={text!r} contains a zero byte. Remove it."
                )
            try:
                text.encode()
            except UnicodeEncodeError:
                raise flags.Error(
                    f"--{name}={os.fsencode(text)!r} is not UTF-8, which "
                    "TensorFlow needs in names of files. Rename the file, or "
                    "correct the text."
                ) from None


class _LogLine(python_logging.Formatter):
    """Formats a record as `07:02:11 text`, with its level if it is not INFO."""

    def format(self, record: python_logging.LogRecord) -> str:
        line = f"{self.formatTime(record, '%H:%M:%S')} "
        if record.levelno != python_logging.INFO:
            line += f"{record.levelname.lower()}: "
        return line + super().format(record)


def _is_wanted(record: python_logging.LogRecord) -> bool:
    """Returns False for TensorFlow's notes and its warning about retracing.

    Batches of several lengths are traced once per length, on purpose.
    """
    if record.levelno <= python_logging.INFO and _TENSORFLOW_FILES.search(
        record.pathname
    ):
        return False
    return "triggered tf.function retracing" not in record.getMessage()


def _message(error: Exception) -> str:
    """Returns an error's message, without TensorFlow's text around ours."""
    if not isinstance(error, _tensorflow_errors()):
        return str(error)
    if failed := re.search(r"assertion failed: \[(.*)\]", error.message):
        # tf.debugging.Assert escapes quotes and all but ASCII.
        text = failed[1].encode().decode("unicode_escape")
        return text.encode("latin-1").decode(errors="replace")
    # An error in a dataset: "{{node ...}} ValueError: <ours>\n\nTraceback".
    text = error.message.rpartition("ValueError: ")[2]
    # Names of nodes mean nothing to users: {{function_node ...}}, [Op:Name].
    text = re.sub(r"\{\{.*?\}\}|\[\[.*?\]\]|\[Op:\w+\]", "", text).strip()
    text = text.removeprefix("Graph execution error:").strip()
    return text.partition("\n")[0].strip() or type(error).__name__


def _tensorflow_errors() -> tuple[type, ...]:
    """Returns TensorFlow's errors; none if it has not been imported."""
    tensorflow = sys.modules.get("tensorflow")
    return (tensorflow.errors.OpError,) if tensorflow else ()


def write_report(output_dir: str) -> None:
    """Writes report.html of an evaluated run; an error is a warning."""
    from bert_tf.contrib.apps.report import report

    report.write_own(output_dir)


def command(main) -> Callable[[], None]:
    """Returns the console entry point for a script's `main(argv)`."""
    return functools.partial(run, main)


def run(main) -> None:
    """Runs a script's `main(argv)`; prints a user error as one line.

    `--traceback` anywhere in the command shows where the error was raised.
    """
    stopping.end_with_parent()
    logging.set_verbosity(logging.INFO)
    handler = python_logging.StreamHandler()  # To stderr.
    handler.setFormatter(_LogLine())
    # Configures the root logger, to which absl and all libraries propagate.
    python_logging.basicConfig(handlers=[handler])
    # TensorFlow logs to its own logger, and to that of absl.
    for name in ("tensorflow", "absl"):
        python_logging.getLogger(name).addFilter(_is_wanted)
    argv = [word for word in sys.argv if word != "--traceback"]
    status = 1
    try:
        with (
            stopping.ignored_after(run_scripts.exit_while_importing),
            stopping.at_once_on_signal(),
            streams.complete_stdout(),
            _outputs_in_stores(argv),
        ):
            main(argv)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
        raise
    except stopping.Stopped as stopped:
        # The terminal may be closed, which is why the run stops.
        with contextlib.suppress(OSError):
            print(f"stopped {stopped}", file=sys.stderr)
        status = stopped.exit_code
    except Exception as error:
        user_errors = (ValueError, flags.Error, OSError, FloatingPointError)
        if not isinstance(error, (*user_errors, *_tensorflow_errors())):
            raise
        if len(argv) < len(sys.argv):
            traceback.print_exc()
        print(f"error: {_message(error)}", file=sys.stderr)
        print("(--traceback: stack trace, --help: flags)", file=sys.stderr)
        if isinstance(error, FloatingPointError):
            status = stopping.DIVERGED_EXIT_CODE
    except KeyboardInterrupt:
        print(
            "stopped; the same command resumes or repeats it", file=sys.stderr
        )
        status = 130
    finally:
        stopping.end_on_signal(status)
    if status:
        raise SystemExit(status)
