import os
import stat

import pytest

from tfrecords.io import atomic_files, streams


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_a_named_pipe_is_written_to(tmp_path, mode):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with atomic_files.atomic_file(path, mode) as file:
        file.write("line" if mode == "w" else b"line")
    assert os.read(reader, 9) == b"line"
    os.close(reader)
    assert os.listdir(tmp_path) == ["pipe"] and streams.is_stream(path)


def test_a_closed_named_pipe_is_an_error_of_its_name(tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(BrokenPipeError) as raised:
        with atomic_files.atomic_file(path) as file:
            os.close(reader)
            file.write("line")
    assert raised.value.filename == path


def test_a_terminal_is_written_to():
    controller, terminal = os.openpty()
    path = os.ttyname(terminal)
    with atomic_files.atomic_file(path) as file:
        file.write("line")
    assert os.read(controller, 9) == b"line"
    for number in (controller, terminal):
        os.close(number)


@pytest.mark.parametrize("path", ["-", "/dev/stdout"])
def test_a_file_to_which_stdout_appends_is_appended_to(path, capfd):
    # capfd redirects stdout to a file.
    os.write(1, b"first\n")
    with atomic_files.atomic_file(path) as file:
        file.write("second\n")
    with atomic_files.atomic_file(path, "wb") as file:
        file.write(b"third\n")
    assert capfd.readouterr().out == "first\nsecond\nthird\n"


def test_a_disk_and_a_folder_are_refused(tmp_path, monkeypatch):
    with pytest.raises(IsADirectoryError) as raised:
        streams.is_stream(str(tmp_path))
    assert raised.value.filename == str(tmp_path)
    status = os.stat_result((stat.S_IFBLK | 0o600, *[0] * 9))
    monkeypatch.setattr(os, "stat", lambda path: status)
    with pytest.raises(ValueError, match="/dev/sda is a block device"):
        streams.is_stream("/dev/sda")


def test_an_output_that_is_an_input_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("a")
    os.symlink("a", "link")
    os.link("a", "name")
    for path in ("a", "./a", "link", "name", str(tmp_path / "a")):
        with pytest.raises(ValueError, match="--out=.* same file as --in=a"):
            streams.check_output("out", path, [("in", "a")])
    for path in ("b", "-"):
        streams.check_output("out", path, [("in", "a"), ("in", None)])
    with pytest.raises(FileNotFoundError) as raised:
        streams.check_output("out", "none/b", [])
    assert raised.value.filename == "none/b"


@pytest.mark.parametrize(
    ("path", "is_refused"),
    [
        *(("run/run.json", True), ("run/logs/new.jsonl", True)),
        *(("run/best/new.jsonl", True), ("run/predictions/a/b", True)),
        *(("link.json", True), ("run/report.html", False)),
        *(("model/vocab.txt", True), ("vocab.txt", False)),
        ("new/vocab.txt", False),
        *(("records/a.tfrecord", True), ("records/lengths.png", False)),
        *(("features.tfrecord", False), ("eval_results.json", False)),
        *(("logs/new.jsonl", False), ("run.json", False)),
    ],
)
def test_an_output_among_a_runs_own_files_is_refused(
    tmp_path, monkeypatch, path, is_refused
):
    monkeypatch.chdir(tmp_path)
    for name in (
        *("run/run.json", "run/report.html", "run/logs/a", "run/best/a"),
        *("run/predictions/a/a", "logs/a", "records/a.tfrecord"),
        *("records/manifest.json", "features.tfrecord", "eval_results.json"),
        *("model/model.json", "model/vocab.txt", "vocab.txt"),
        "new/config.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a")
    (tmp_path / "link.json").symlink_to("run/run.json")
    if not is_refused:
        streams.check_output("out", path, [])
        return
    with pytest.raises(ValueError, match=f"--out={path} is among the files of"):
        streams.check_output("out", path, [])
