"""Standard streams, pipes and devices -> files to read or write.

Scripts import this module first, so that it imports only Python's own.
"""

import contextlib
import errno
import io
import os
import signal
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import IO

_STDOUT = "<stdout>"  # Its name in errors.
# Status of a process that writes to a closed pipe and does not handle SIGPIPE.
_CLOSED_PIPE_EXIT_CODE = 128 + signal.SIGPIPE
_STDOUT_PATHS = ("-", "/dev/stdout")
# A folder with one of these is that of a run, a model, an export or records.
_MARKS = frozenset(
    "run.json model.json manifest.json modules.json model.safetensors "
    "pytorch_model.bin tf_model.h5 saved_model.pb".split()
)
# No output may replace these in it, nor its shards; and folders of a run that
# are its own.
_OWN = _MARKS.union(
    "run.flags run.lock eval_results.json trials.json state.json vocab.txt "
    "optimizer.safetensors lora.safetensors bert_config.json config.json "
    "tokenizer.json tokenizer_config.json".split()
)
_RUN_FOLDERS = ("best", "checkpoints", "logs", "predictions")


def open_closed() -> None:
    """Opens the standard streams that the caller closed (`<&-`, `>&-`).

    Otherwise the next file that is opened gets the number of the stream, and
    what libraries print is written into it. `sys.stdin` is then None, as
    Python leaves it. Writing to stdout still fails, so that no output is lost
    silently.
    """
    for name, flags in (
        ("stdin", os.O_RDONLY),
        ("stdout", os.O_RDONLY),
        ("stderr", os.O_WRONLY),
    ):
        if getattr(sys, name) is not None:
            continue
        number = os.open(os.devnull, flags)  # The lowest free: its own.
        os.set_inheritable(number, True)
        if name != "stdin":
            stream = open(number, "w", closefd=False)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


@contextlib.contextmanager
def complete_stdout() -> Iterator[None]:
    """Flushes stdout after the body, so that its errors are reported.

    A pipe that its reader has closed, as `| head` does, ends the script without
    a message.

    Raises:
      OSError: naming stdout, if it is closed, or the disk is full.
    """
    _name_stdout()
    try:
        try:
            yield
        except SystemExit:
            sys.stdout.flush()
            raise
        sys.stdout.flush()
    except OSError as error:
        if error.filename != _STDOUT:
            raise
        # Otherwise Python's flush at exit would fail, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:
            raise SystemExit(_CLOSED_PIPE_EXIT_CODE) from None
        raise


class _Stdout(io.FileIO):
    """The file of stdout; its errors name it, unlike Python's."""

    def write(self, data) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, _STDOUT) from None


def _name_stdout() -> None:
    """Makes errors of `sys.stdout` name it; a test's own one is kept."""
    old = sys.stdout
    if old is not sys.__stdout__:
        return
    # With `python -u`, too: an unbuffered write to a closed pipe may be cut.
    file = io.BufferedWriter(_Stdout(old.fileno(), "w", closefd=False))
    sys.stdout = io.TextIOWrapper(
        file,
        encoding=old.encoding,
        errors=old.errors,
        line_buffering=old.line_buffering or old.write_through,
    )


def is_stream(path: str) -> bool:
    """Returns whether an output must be written to directly, not replaced.

    Renaming a file to /dev/null or /dev/stdout would, as root, remove the
    device for all programs of this machine.

    Args:
      path: "-" or /dev/stdout, which may be redirected to a file; or path of a
        named pipe, a device, a socket, or of a regular file, which need not
        exist.

    Raises:
      ValueError: if it is a block device, a disk.
      OSError: naming `path`, if it is a folder or cannot be looked up.
    """
    if path in _STDOUT_PATHS:
        return True
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if stat.S_ISBLK(mode):
        raise ValueError(
            f"{path} is a block device, and writing would destroy the data on "
            "it. Give a file."
        )
    return not stat.S_ISREG(mode)


@contextlib.contextmanager
def open_output(path: str, mode: str) -> Iterator[IO]:
    """Opens a path for which `is_stream` is true.

    Args:
      path: as in `is_stream`.
      mode: "w" for UTF-8 text, "wb" for bytes.
    """
    if path in _STDOUT_PATHS:
        # Opening it again would truncate a file that it appends to.
        sys.stdout.reconfigure(encoding="utf-8")
        yield sys.stdout.buffer if "b" in mode else sys.stdout
        sys.stdout.flush()
        return
    encoding = None if "b" in mode else "utf-8"
    with open(path, mode, encoding=encoding) as file:
        yield file


def check_output(
    name: str, path: str, inputs: Iterable[tuple[str, str | None]]
) -> None:
    """Checks the output of a command, before it begins.

    Args:
      name: flag of the output.
      path: path of a file; "-" for stdout.
      inputs: pairs of a flag and the path of an input, "-" for stdin; None and
        files that do not exist are skipped.

    Raises:
      ValueError: if the output is one of the inputs, a file of a run, model or
        records, or a disk.
      OSError: naming `path`, if it is a folder, or its folder does not exist.
    """
    output = "/dev/stdout" if path == "-" else path
    if not is_stream(path):
        try:
            os.stat(os.path.dirname(os.path.realpath(path)))
        except OSError as error:
            error.filename = path
            raise
    # A terminal or pipe may be both.
    for flag, given in inputs if os.path.isfile(output) else ():
        other = "/dev/stdin" if given == "-" else given
        if other and os.path.exists(other) and os.path.samefile(output, other):
            raise ValueError(
                f"--{name}={path} is the same file as --{flag}={given}, and "
                "would destroy this input. Choose another file."
            )
    if not is_stream(path):
        _check_not_own(name, path)


def _check_not_own(name: str, path: str) -> None:
    """Raises ValueError if an output is a file of a run, model or records."""

    def has(folder, names):
        return any(os.path.exists(os.path.join(folder, x)) for x in names)

    folder, file = os.path.split(os.path.realpath(path))
    is_own = file in _OWN or ".tfrecord" in file
    is_own = is_own and os.path.exists(path) and has(folder, _MARKS)
    while not is_own and folder != os.path.dirname(folder):
        folder, inside = os.path.split(folder)
        is_own = inside in _RUN_FOLDERS and has(folder, ("run.json",))
    if is_own:
        raise ValueError(
            f"--{name}={path} is among the files of a run, a model or records. "
            "Choose another file."
        )
