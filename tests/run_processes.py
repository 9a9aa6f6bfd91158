"""Flags of a run -> training processes to watch, kill and compare.

A process is fresh, started as users do, or forked from one that has already
imported TensorFlow, which is faster in tests.
"""

import contextlib
import importlib
import json
import multiprocessing
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

ROOT = pathlib.Path(__file__).parents[1]
DATA = pathlib.Path(__file__).parent / "data"
VOCAB_FILE = DATA / "vocab.txt"
SCRIPT = "run_scripts.run_pretraining"


def record_arguments(folder: pathlib.Path, dupe_factor: int) -> list[str]:
    """Returns flags of make_pretraining_records, for train and held_out."""
    return [
        f"--input_file={DATA / 'sentences.txt'}",
        f"--vocab_file={VOCAB_FILE}",
        f"--output_dir={folder}",
        "--held_out_prob=0.2",
        f"--dupe_factor={dupe_factor}",
        "--num_processes=1",
        "--max_seq_length=32",
        "--max_predictions_per_seq=5",
    ]


def write_config(
    folder: pathlib.Path, hidden_size: int = 16, num_hidden_layers: int = 1
) -> None:
    """Writes bert_config.json, with the default dropout of 0.1."""
    sizes = {
        "vocab_size": len(VOCAB_FILE.read_text("utf-8").splitlines()),
        "hidden_size": hidden_size,
        "num_hidden_layers": num_hidden_layers,
        "num_attention_heads": 2,
        "intermediate_size": 4 * hidden_size,
        "max_position_embeddings": 64,
    }
    (folder / "bert_config.json").write_text(json.dumps(sizes))


def make_data(folder: pathlib.Path, dupe_factor: int, hidden_size: int) -> None:
    """Makes records, in a separate process, and a config."""
    folder.mkdir(parents=True, exist_ok=True)
    write_config(folder, hidden_size, num_hidden_layers=2)
    subprocess.run(
        [
            *(sys.executable, "-m", "run_scripts.make_pretraining_records"),
            *record_arguments(folder, dupe_factor),
        ],
        check=True,
        cwd=ROOT,
        capture_output=True,
    )


def training_arguments(
    data: pathlib.Path, output_dir: pathlib.Path, **values
) -> list[str]:
    """Returns flags of run_pretraining, on data from `make_data`."""
    settings = {
        "input_file": data / "train",
        "eval_input_file": data / "held_out",
        "bert_config_file": data / "bert_config.json",
        "vocab_file": VOCAB_FILE,
        "output_dir": output_dir,
        "num_warmup_steps": 10,
        "train_batch_size": 8,
        "eval_batch_size": 8,
        "learning_rate": 1e-3,
        "log_every_steps": 1,
    }
    return [f"--{name}={x}" for name, x in (settings | values).items()]


class _Fresh:
    """A process started with `python -m`."""

    def __init__(self, script, arguments, log, environment):
        with open(log, "ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", script, *arguments],
                cwd=ROOT,
                env=os.environ | environment,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def code(self) -> int | None:
        """Returns the exit code; None while it runs."""
        return self.process.poll()

    def send(self, number: int) -> None:
        """Sends a signal to the whole process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


def _train(
    script: str, arguments: Sequence[str], log: str, environment
) -> None:
    """Trains in a forked process."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.environ.update(environment)
    sys.argv = [script, *arguments]
    importlib.import_module(script).run()


class _Forked:
    """A process forked from a server that has imported TensorFlow."""

    def __init__(self, script, arguments, log, environment):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([SCRIPT])
        self.process = context.Process(
            target=_train,
            args=(
                script,
                list(map(str, arguments)),
                str(log),
                dict(environment),
            ),
            daemon=True,
        )
        self.process.start()

    def code(self) -> int | None:
        """Returns the exit code; None while it runs."""
        return self.process.exitcode

    def send(self, number: int) -> None:
        """Sends a signal to the process."""
        if self.code() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, number)


class Training:
    """A training process.

    Args:
      arguments: flags of the script.
      log: file to which its output is appended.
      environment: environment variables to set.
      is_forked: whether to fork it from a process that has TensorFlow.
      script: module of the script.
    """

    def __init__(
        self,
        arguments,
        log,
        environment=None,
        is_forked=False,
        script=SCRIPT,
    ):
        kind = _Forked if is_forked else _Fresh
        self.log = pathlib.Path(log)
        self.begin = self.log.stat().st_size if self.log.exists() else 0
        self.process = kind(script, arguments, log, environment or {})
        self.code, self.send = self.process.code, self.process.send

    def printed(self) -> str:
        """Returns its output so far."""
        return self.log.read_bytes()[self.begin :].decode(errors="replace")

    def wait(self, seconds: float = 3600.0) -> int:
        """Returns the exit code.

        Raises:
          TimeoutError: if it is still running after `seconds`.
        """
        if not self.wait_until(lambda: False, seconds):
            raise TimeoutError(f"still running after {seconds} s")
        return self.code()

    def wait_until(
        self, condition: Callable[[], bool], seconds: float = 3600.0
    ) -> bool:
        """Waits for a condition or the end of the process; False on timeout."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition() or self.code() is not None:
                return True
            time.sleep(0.002)
        return False

    def kill(self) -> None:
        """Kills the process, if it is running, and waits for its end."""
        self.send(signal.SIGKILL)
        self.wait()


def end_with_us() -> None:
    """Makes SIGTERM raise SystemExit here, so that all processes are killed."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


@contextlib.contextmanager
def training(*arguments, **keywords) -> Iterator[Training]:
    """Yields a `Training`, which is killed afterwards."""
    started = Training(*arguments, **keywords)
    try:
        yield started
    finally:
        started.kill()


def train(arguments, output_dir: pathlib.Path, **keywords) -> list[dict]:
    """Trains in a forked process to the end; returns the lines of its log."""
    log = output_dir.with_name(f"{output_dir.name}.log")
    with training(arguments, log, is_forked=True, **keywords) as process:
        assert process.wait() == 0, process.printed()
    return log_lines(output_dir)


@contextlib.contextmanager
def workers(
    arguments: Sequence[str], logs: Sequence, **keywords
) -> Iterator[list[Training]]:
    """Yields the worker processes of a run, one for each log.

    With one log it is a run without workers.
    """
    with contextlib.ExitStack() as stack:

        def start(log, flags=(), environment=None):
            return stack.enter_context(
                training([*arguments, *flags], log, environment, **keywords)
            )

        if len(logs) == 1:
            yield [start(logs[0])]
            return
        sockets = [socket.socket() for _ in logs]
        for each in sockets:  # All open at the same time: the ports differ.
            each.bind(("127.0.0.1", 0))
        names = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
        for each in sockets:
            each.close()
        started = []
        for index, log in enumerate(logs):
            task = {"type": "worker", "index": index}
            cluster = {"cluster": {"worker": names}, "task": task}
            config = {"TF_CONFIG": json.dumps(cluster)}
            flags = ["--distribution_strategy=multi_worker"]
            started.append(start(log, flags, config))
        yield started


# Files of a run.


def log_lines(output_dir: pathlib.Path, split: str = "train") -> list[dict]:
    """Returns the complete lines of steps.jsonl of a split."""
    path = output_dir / "logs" / split / "steps.jsonl"
    if not path.exists():
        return []
    lines = path.read_text("utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("}\n")]


def last_step(output_dir: pathlib.Path, split: str = "train") -> int:
    """Returns the last step in the log of a split; 0 if there is none."""
    lines = log_lines(output_dir, split)
    return lines[-1]["step"] if lines else 0


def saved_steps(output_dir: pathlib.Path) -> list[int]:
    """Returns the steps of all checkpoints, oldest first."""
    paths = (output_dir / "checkpoints").glob("step-*")
    return sorted(int(path.name.removeprefix("step-")) for path in paths)


def unfinished(output_dir: pathlib.Path) -> set[str]:
    """Returns the names of checkpoints that are being written."""
    return {p.name for p in (output_dir / "checkpoints").glob(".step-*.tmp")}


def results(output_dir: pathlib.Path) -> dict[str, bytes]:
    """Returns name -> content of the files with the results of a run.

    These are all except TensorBoard's, run.flags and run.lock, which contain
    times and names.
    """
    names = ["eval_results.json", "run.json", "logs/*/steps.jsonl"]
    names += ["checkpoints/*/*", "checkpoints/.*"]
    names += ["best/*", "predictions/*", "records/*/*"]  # Of fine-tuning.
    return {
        str(path.relative_to(output_dir)): (
            path.read_bytes() if path.is_file() else b""
        )
        for name in names
        for path in sorted(output_dir.glob(name))
    }
