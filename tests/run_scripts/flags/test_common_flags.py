"""Flags are parsed from the defaults; mistakes are printed in one line."""

import logging
import os
import pathlib
import signal
import subprocess
import sys

import pytest
import tensorflow as tf
from absl import flags

from docs import generated_pages
from run_scripts.flags import common_flags, unknown_flags
from tfrecords.text.vocab import VocabularyOptions

DOC = r"""This -> that.

    python -m run_scripts.script \
      --vocab_file=vocab.txt

The same command resumes.
"""


@pytest.fixture
def values():
    values = flags.FlagValues()
    common_flags.define(values, VocabularyOptions)
    flags.DEFINE_integer(
        "max_seq_length", 128, "Tokens in an example.", 5, flag_values=values
    )
    flags.DEFINE_string("language", "en", "", flag_values=values)
    return values


def parse(values, *words):
    common_flags.parse(values, ["script", *words], DOC)


def test_every_command_starts_from_the_defaults(values):
    parse(values, "--max_seq_length=64", "--nodo_lower_case")
    assert (values.max_seq_length, values.do_lower_case) == (64, False)
    parse(values, "--vocab_file=vocab.txt")
    assert (values.max_seq_length, values.do_lower_case) == (128, None)


def test_a_request_for_help_comes_before_mistakes(values, capsys):
    with pytest.raises(SystemExit) as exit_:
        parse(values, "--no_such_flag", "-h")
    assert exit_.value.code == 0
    assert capsys.readouterr().out.startswith(DOC)


def test_a_flag_file_repeats_a_command(values, tmp_path):
    path = tmp_path / "run.flags"
    path.write_text("# python 3\n--max_seq_length=32\n--language=de\n")
    parse(values, f"--flagfile={path}", "--language=fr")
    assert (values.max_seq_length, values.language) == (32, "fr")


# Errors.


@pytest.mark.parametrize(
    "word, message",
    [
        ("--vocab_fil=a", "Unknown command line flag 'vocab_fil'.*vocab_file"),
        ("a.txt", "Unexpected argument 'a.txt'; every setting is a flag"),
        ("--flagfile=no.flags", "no.flags"),
    ],
)
def test_a_bad_argument_is_named(values, word, message):
    with pytest.raises(flags.Error, match=message):
        parse(values, word)


@pytest.mark.parametrize(
    "word, message",
    [
        ("--iterations_per_loop=9", "is --steps_per_loop here."),
        ("--use_tpu=true", "is --distribution_strategy=tpu here."),
        ("--nouse_tpu", "is not needed here. Omit it."),
        ("--use_tpu=False", "is not needed here. Omit it."),
        ("--master=local", "is not needed here. Omit it."),
        # A flag that this script lacks is not recommended.
        ("--predict_batch_size=8", "is not needed here. Omit it."),
    ],
)
def test_the_counterpart_of_an_original_flag_is_named(values, word, message):
    for name in ("steps_per_loop", "distribution_strategy"):
        flags.DEFINE_string(name, None, "", flag_values=values)
    with pytest.raises(flags.Error) as raised:
        parse(values, word)
    assert str(raised.value).endswith(f"of google-research/bert {message}")


@pytest.mark.parametrize(
    "word, instead",
    [
        ("--ranking_loss=binary", "There is a command for it: run_ranking."),
        ("--optimizer=lamb", "run_pretraining has it; fine-tuning uses AdamW"),
        ("--weight_decay_rate=0", "Weights decay with a rate of 0.01."),
    ],
)
def test_what_to_use_instead_of_a_flag_is_named(values, word, instead):
    message = f"Unknown command line flag .* {instead}"
    with pytest.raises(flags.Error, match=message):
        parse(values, word)


def test_a_flag_of_other_libraries_is_named_as_the_command_has_it(values):
    for word, ours in (
        ("--max_length=9", "max_seq_length"),
        ("--max-len", "max_seq_length"),
        ("--tokenizer_name=a", "vocab_file"),
    ):
        with pytest.raises(flags.Error, match=f"did you mean --{ours}\\?$"):
            parse(values, word)
    with pytest.raises(flags.Error, match="flag 'lr'$"):
        parse(values, "--lr=1")  # This command has no learning rate.


def test_each_flag_that_is_named_is_one_of_a_script():
    found = set()
    for name in generated_pages.scripts():
        found |= set(generated_pages.script(name).FLAGS)
    assert unknown_flags.NAMES_ELSEWHERE.keys() <= found


def test_notes_and_the_retracing_warning_of_tensorflow_are_filtered(
    caplog, monkeypatch, tmp_path
):
    monkeypatch.setattr(sys, "argv", ["script"])
    tf.saved_model.save(tf.Module(), str(tmp_path))
    (tmp_path / "fingerprint.pb").unlink()
    caplog.clear()

    def main(argv):
        double = tf.function(lambda x: x + x)
        for length in range(1, 9):
            double(tf.zeros(length))
        tf.saved_model.load(str(tmp_path))  # "Fingerprint not found."
        tf.get_logger().warning("but this is one")
        logging.getLogger("absl").info("and this")

    with caplog.at_level("INFO", logger="absl"):
        common_flags.run(main)
    assert caplog.messages == ["but this is one", "and this"]


@pytest.mark.parametrize(
    "error, code, line",
    [
        (ValueError("seven is odd"), 1, "error: seven is odd\n"),
        (flags.Error("--odd is unknown"), 1, "error: --odd is unknown\n"),
        (OSError(28, "Disk full", "a"), 1, "error: [Errno 28] Disk full: 'a'"),
        (FloatingPointError("loss not finite"), 3, "error: loss not finite\n"),
        (KeyboardInterrupt(), 130, "stopped; the same command resumes"),
    ],
)
def test_errors_and_interrupts_are_printed_in_one_line(
    capsys, monkeypatch, error, code, line
):
    monkeypatch.setattr(sys, "argv", ["script", "--flag=1"])

    def main(argv):
        assert argv == ["script", "--flag=1"]
        raise error

    with pytest.raises(SystemExit) as exit_:
        common_flags.run(main)
    shown = capsys.readouterr().err
    assert exit_.value.code == code
    assert shown.startswith(line)
    assert "Traceback" not in shown


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_any_script(capsys, monkeypatch, number):
    monkeypatch.setattr(sys, "argv", ["script"])
    with pytest.raises(SystemExit) as exit_:
        common_flags.run(lambda argv: os.kill(os.getpid(), number))
    line = f"stopped by {number.name}; the same command resumes or repeats it\n"
    assert (exit_.value.code, capsys.readouterr().err) == (75, line)


def test_traceback_is_printed_and_not_passed_to_the_script(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["script", "--traceback", "--flag=1"])

    def main(argv):
        assert argv == ["script", "--flag=1"]
        raise ValueError("seven is odd")

    with pytest.raises(SystemExit):
        common_flags.run(main)
    shown = capsys.readouterr().err
    assert "in main\n" in shown and "error: seven is odd" in shown


@pytest.mark.parametrize(
    "text, shown",
    [
        (
            "{{function_node __wrapped__IteratorGetNext_output_types_3}} "
            "corrupted record at 12 [Op:IteratorGetNext]",
            "corrupted record at 12",
        ),
        (
            "Graph execution error:\n\nDetected at node train/mul defined at\n",
            "Detected at node train/mul defined at",
        ),
        (
            "{{node a}} ValueError: train-0, record 3\n\nTrace",
            "train-0, record 3",
        ),
        (
            r"passed to Map:5: assertion failed: [Id 9 of \'a[1]/\303\274\', "
            "record 3]\n\t [[{{node Assert}}]]",
            "Id 9 of 'a[1]/ü', record 3",
        ),
        ("a [[{{node b}}]] [[c]]\nmore", "a"),
        ("", "UnknownError"),
    ],
)
def test_names_of_tensorflow_nodes_are_not_printed(text, shown):
    error = tf.errors.UnknownError(None, None, text)
    assert common_flags._message(error) == shown


def test_an_unexpected_error_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["script"])
    with pytest.raises(ZeroDivisionError):
        common_flags.run(lambda argv: 1 / 0)


def test_log_lines_have_the_time_and_the_level_of_warnings():
    line = common_flags._LogLine()
    record = logging.makeLogRecord(
        {"msg": "step %d", "args": (7,), "levelno": 20, "levelname": "INFO"}
    )
    record.created = 0.0
    clock = line.formatTime(record, "%H:%M:%S")
    assert line.format(record) == f"{clock} step 7"
    record.levelno, record.levelname = 30, "WARNING"
    assert line.format(record) == f"{clock} warning: step 7"


# Text and streams.


@pytest.mark.parametrize(
    "word, message",
    [
        ("--language=a\0b", "contains a zero byte"),
        ("--vocab_file=caf\udce9", r"--vocab_file=b'caf\\xe9' is not UTF-8"),
    ],
)
def test_text_that_is_no_path_is_refused(values, word, message):
    with pytest.raises(flags.Error, match=message):
        parse(values, word)


_LOUD = """
import os, sys
sys.argv = ["script"]
from docs import generated_pages
from run_scripts.flags import common_flags, unknown_flags
files = [os.fstat(number) for number in range(3)]
assert sys.stdin is None or sys.stdin.fileno() == 0
common_flags.run(lambda argv: print("x" * 100_000))
"""

_WRITE = """
import sys
sys.argv = ["script"]
from docs import generated_pages
from run_scripts.flags import common_flags, unknown_flags
from tfrecords.io import atomic_files
def main(argv):
    with atomic_files.atomic_file("{}") as file:
        file.write("x" * 1_000_000)
common_flags.run(main)
"""


def run_in_shell(redirection, code=_LOUD):
    """Runs a script whose output is long; returns status, stdout, stderr."""
    done = subprocess.run(
        ["bash", "-c", f'"$0" -c "$1" {redirection}', sys.executable, code],
        cwd=pathlib.Path(__file__).parents[3],
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_closed_or_full_stdout_is_named():
    for redirection, message in (
        (">&-", "error: [Errno 9] Bad file descriptor: '<stdout>'"),
        (
            "> /dev/full",
            "error: [Errno 28] No space left on device: '<stdout>'",
        ),
    ):
        code, _, shown = run_in_shell(redirection)
        assert code == 1 and shown.startswith(message)
        assert len(shown.splitlines()) == 2, shown


def test_a_reader_of_stdout_may_stop():
    code, shown, errors = run_in_shell("| head -c 3; exit ${PIPESTATUS[0]}")
    assert (code, shown, errors) == (141, "xxx", "")


def test_other_streams_may_be_closed():
    code, shown, _ = run_in_shell("<&- 2>&-")
    assert code == 0 and len(shown) == 100_001


@pytest.mark.parametrize("path", ["-", "/dev/stdout"])
def test_stdout_as_an_output_has_the_errors_of_stdout(path):
    code = _WRITE.format(path)
    stopped = run_in_shell("| head -c 3; exit ${PIPESTATUS[0]}", code)
    assert stopped == (141, "xxx", "")
    status, _, shown = run_in_shell(">&-", code)
    assert status == 1 and "Bad file descriptor: '<stdout>'" in shown


_STARTED = """
import os, signal, sys
sys.argv = ["-m"]
import run_scripts
"""


@pytest.mark.parametrize(
    ("name", "status"), [("SIGINT", 130), ("SIGTERM", 75), ("SIGHUP", 75)]
)
def test_a_signal_during_imports_is_one_line(name, status):
    code = f"{_STARTED}os.kill(os.getpid(), signal.{name})"
    assert run_in_shell("", code) == (status, "", "stopped before the start\n")


@pytest.mark.parametrize(
    ("body", "status", "shown"),
    [
        ("None", 0, ""),
        ("send()", 75, "stopped by SIGTERM; the same command resumes or"),
        ("int('x')", 1, "error: invalid literal for int"),
        ("sys.exit(7)", 7, ""),
    ],
)
def test_a_signal_after_a_run_ends_the_process_with_its_status(
    body, status, shown
):
    code = f"""{_STARTED}
import threading, time
from docs import generated_pages
from run_scripts.flags import common_flags, unknown_flags
def send():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.pthread_kill(threading.main_thread().ident, number)
def hang():
    threading.main_thread().join()
    time.sleep(0.5)  # Until the end of Python waits for this thread.
    send()
    time.sleep(10)
    os._exit(9)
threading.Thread(target=hang).start()
common_flags.run(lambda argv: {body})
"""
    code, _, error = run_in_shell("", code)
    assert (code, error[: len(shown) or None]) == (status, shown)
