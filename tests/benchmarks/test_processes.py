"""A command's output, status and memory are measured; no time is checked."""

import sys

import pytest

from benchmarks import processes


def python(code):
    return [sys.executable, "-S", "-c", code]


def test_a_command_is_measured_with_the_processes_that_it_starts():
    large = python("bytearray(150_000_000)")
    code = f"import subprocess, sys; subprocess.run({large}); sys.exit(3)"
    ended = processes.measure(python(code))
    assert (ended.status, ended.output) == (3, "")
    assert ended.seconds > 0 and ended.peak_bytes > 150e6


def test_memory_of_the_process_that_measures_does_not_count():
    kept = bytearray(b"x" * 150_000_000)
    ended = processes.measure(python("pass"))
    assert len(kept) == 150_000_000 and 1e6 < ended.peak_bytes < 100e6


def test_the_end_of_the_output_of_a_failed_command_is_shown():
    code = "import sys; print('x' * 9999, flush=True); sys.exit('y')"
    with pytest.raises(RuntimeError, match="^peer: exit code 1\nx{1997}\ny\n$"):
        processes.run("peer", python(code))
    assert processes.run("peer", python("print(1)")).output == "1\n"
