r"""A run in a store, killed at random moments -> are its files byte-identical?

    python -m tools.store_kill_report --kills=20

As tools.kill_report, but --output_dir is in a store, for which a local folder
stands in (tests/folder_store.py): it renames files only. The processes have the
caches of three machines in turn. After each kill, what the store holds is read
as a user would, and every checkpoint has to be intact.
"""

import argparse
import os
import pathlib
import random
import signal
import tempfile
import time

from bert_tf.checkpoint import checksums, run_models
from tests import folder_store, run_processes
from tfrecords.io import stored_folders

FLAGS = {
    "num_train_steps": 60,
    "save_checkpoints_steps": 5,
    "gradient_accumulation_steps": 2,
}


class Store:
    """A store in a folder, with the runs gs://bucket/0, gs://bucket/1, ...

    Args:
      folder: an existing folder, for the store and everything else.
      data: from `run_processes.make_data`.
    """

    def __init__(self, folder: pathlib.Path, data: pathlib.Path):
        self.folder, self.data = folder, data
        self.number = 0
        (folder / "sitecustomize.py").write_text(
            "from tests import folder_store\n"
            f"folder_store.use({str(folder / 'store')!r})\n"
        )
        folder_store.use(folder / "store")

    def training(self, address: str):
        """Returns the context of a process that trains."""
        paths = map(str, (self.folder, run_processes.ROOT))
        machine = self.folder / f"machine-{self.number % 3}"
        environment = {
            "PYTHONPATH": os.pathsep.join(paths),
            stored_folders.CACHE_VARIABLE: str(machine),
        }
        return run_processes.training(
            run_processes.training_arguments(self.data, address, **FLAGS),
            self.folder / "store.log",
            environment=environment,
        )

    def read(self, address: str) -> pathlib.Path:
        """Returns a copy of a run, made on a new machine.

        Raises:
          DamagedError: if one of its checkpoints is damaged.
        """
        self.number += 1
        cache = self.folder / f"reader-{self.number}"
        os.environ[stored_folders.CACHE_VARIABLE] = str(cache)
        run = pathlib.Path(stored_folders.fetch(address))
        for step in run_processes.saved_steps(run):
            checksums.check(str(run / "checkpoints" / run_models.name(step)))
        return run


def train(store: Store, address: str, seconds: float | None) -> bool:
    """Trains, for some seconds if given; returns whether it ended by itself."""
    with store.training(address) as process:
        if seconds is not None:
            process.wait_until(lambda: False, seconds)
            process.send(signal.SIGKILL)
        code = process.wait()
        if code not in (0, -signal.SIGKILL):
            raise RuntimeError(process.printed())
    return code == 0


def main() -> None:
    """Kills, resumes and compares; exits with 1 if a file differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.kills < 1:
        parser.error(f"--kills={options.kills} should be at least 1")
    run_processes.end_with_us()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data, local = folder / "data", folder / "local"
        run_processes.make_data(data, dupe_factor=2, hidden_size=16)
        arguments = run_processes.training_arguments(data, local, **FLAGS)
        begin = time.monotonic()
        with run_processes.training(arguments, folder / "local.log") as process:
            if process.wait():
                raise RuntimeError(process.printed())
        seconds = time.monotonic() - begin
        store, kills, runs = Store(folder, data), 0, 0
        while kills < options.kills:
            address, has_ended = f"gs://bucket/{runs}", False
            while not has_ended:
                is_last = kills == options.kills
                after = None if is_last else rng.uniform(0.4, 1.4) * seconds
                has_ended = train(store, address, after)
                run = store.read(address)
                step = max(run_processes.saved_steps(run), default=0)
                kills += not has_ended
                what = "ended" if has_ended else f"kill {kills}"
                print(f"{what}: step {step} of {address} is intact", flush=True)
            if run_processes.results(run) != run_processes.results(local):
                raise SystemExit(f"{address} differs from the local run.")
            runs += 1
    print(
        f"{kills} kills of {runs} runs; all files equal those of a local run."
    )


if __name__ == "__main__":
    main()
