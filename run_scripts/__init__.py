"""Flags -> runs: one thin script per command."""

import os
import signal
import sys

# Before any script imports TensorFlow, which logs messages about CUDA.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def _open_closed_streams() -> None:
    """Opens the standard streams that the caller closed (`<&-`, `>&-`).

    Otherwise the next file that is opened gets the number of the stream, and
    what libraries print is written into it. Reading stdin and writing to stdout
    still fail, so that no output is lost silently.
    """
    for number, name, flags in (
        (0, "stdin", os.O_WRONLY),
        (1, "stdout", os.O_RDONLY),
        (2, "stderr", os.O_WRONLY),
    ):
        if getattr(sys, name) is not None:
            continue
        opened = os.open(os.devnull, flags)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        os.set_inheritable(number, True)
        mode = "w" if number else "r"
        stream = open(number, mode, closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def exit_while_importing(number, frame) -> None:
    """Handles Ctrl-C until `common_flags.run`: nothing has been done yet.

    A KeyboardInterrupt would be raised in the middle of a library's import.
    """
    del number, frame
    os.write(2, b"stopped before the start\n")
    os._exit(130)


_open_closed_streams()
# Only for a script that starts: "-m" while Python is looking for the module, or
# a console command.
if sys.argv[0] == "-m" or os.path.basename(sys.argv[0]).startswith("bert-"):
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, exit_while_importing)
