"""Flags -> runs: one thin script per command."""

import os
import signal
import sys

# A script starts: "-m" while Python is looking for the module, or a console
# command.
_IS_SCRIPT = sys.argv[0] == "-m" or os.path.basename(sys.argv[0]).startswith(
    "bert-"
)
try:
    from tfrecords import libraries
    from tfrecords.io import streams
except ImportError as error:  # See tfrecords/libraries.py.
    if not _IS_SCRIPT:
        raise
    sys.exit(f"error: {error}")

# Before any script imports TensorFlow, which logs messages about CUDA.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def exit_while_importing(number, frame) -> None:
    """Handles a signal until `common_flags.run`: nothing has been done yet.

    An error would be raised in the middle of a library's import. The status is
    that of a run that is stopped: supervisors start it again.
    """
    del frame
    os.write(2, b"stopped before the start\n")
    os._exit(130 if number == signal.SIGINT else 75)


streams.open_closed()
if _IS_SCRIPT:
    libraries.quiet_tensorflow()
    libraries.lean_imports()
    for _number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(_number) in (
            signal.SIG_DFL,
            signal.default_int_handler,
        ):
            signal.signal(_number, exit_while_importing)
