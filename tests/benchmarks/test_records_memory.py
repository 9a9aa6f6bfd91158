"""Memory of a run is measured and plotted; no size is checked."""

import os
import subprocess
import sys

import pytest

from benchmarks import records_memory


@pytest.mark.slow
def test_memory_of_repeated_text_is_measured(tmp_path, tiny_vocab_file):
    text = "".join(f"Line {i} of it.\nIt ends.\n\n" for i in range(60))
    (tmp_path / "a.txt").write_text(text)
    records_memory.FLAGS(
        [
            "benchmark",
            f"--input_file={tmp_path}/a.txt",
            f"--vocab_file={tiny_vocab_file}",
        ]
    )
    curve = records_memory.run([str(tmp_path / "a.txt")], 3)
    assert curve.num_bytes == 3 * len(text)
    assert curve.num_examples > 100
    assert len(curve.seconds) == len(curve.worker_bytes) > 2
    assert curve.driver_bytes[-1] == curve.worker_bytes[-1] == 0
    # Python needs 10 MB; driver and workers are measured separately.
    assert min(max(curve.driver_bytes), max(curve.worker_bytes)) > 10e6
    records_memory.draw([curve, curve], str(tmp_path / "curves.png"))
    png = (tmp_path / "curves.png").read_bytes()
    assert png.startswith(b"\x89PNG") and len(png) > 10_000


def test_the_last_sample_is_the_end_of_the_process(monkeypatch):
    # Of a period of a minute, a process that ends at once takes only a part.
    monkeypatch.setattr(records_memory, "_PERIOD_SECONDS", 60)
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    seconds, drivers, _ = records_memory.watch(child)
    assert child.returncode == 0
    assert seconds[-1] < 50 and drivers[-1] == 0


@pytest.mark.parametrize("times", ["0", "x"])
def test_wrong_numbers_are_refused_before_the_work(tiny_vocab_file, times):
    command = ["records_memory", "--input_file=x", f"--times={times}"]
    with pytest.raises(ValueError, match="--times: '.' should be a positive"):
        records_memory.main([*command, f"--vocab_file={tiny_vocab_file}"])


def test_grandchildren_are_found_and_exited_processes_have_no_size():
    code = "import time; time.sleep(60)"
    outer = (
        "import subprocess, sys; "
        f"subprocess.Popen([sys.executable, '-c', '{code}']).wait()"
    )
    with subprocess.Popen([sys.executable, "-c", outer]) as child:
        found = []
        while not found:
            found = records_memory.children(child.pid)
        assert child.pid in records_memory.children(os.getpid())
        assert set(found) < set(records_memory.children(os.getpid()))
        os.kill(found[0], 9)
        child.wait()
    assert records_memory.resident_bytes(child.pid) == 0
    assert records_memory.children(child.pid) == []
    assert records_memory.resident_bytes(os.getpid()) > 10e6
