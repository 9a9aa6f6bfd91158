"""Finished shards -> a journal that a rerun resumes from."""

import collections
import json
import os
from collections.abc import Sequence

from tfrecords.io import atomic_files, json_files, records, storage

JOURNAL_NAME = "progress.jsonl"
# Kind of a line that describes a shard.
_LINE = {"set": str, "shard": records.SHARD, "statistics": dict}


class Journal:
    """A file with a line of settings, then one line for each finished shard.

    It stays in the folder of the records, so that if a shard is lost later,
    only that shard is made again.

    Args:
      output_dir: the folder that holds one folder for each set of records.
      run: everything that the records depend on, as JSON.
      names: the names of the sets.

    Raises:
      ValueError: if the folder holds records of another run, or its store
        has no atomic renames.
    """

    def __init__(self, output_dir: str, run: dict, names: Sequence[str]):
        storage.check_writable(output_dir)
        self.output_dir = output_dir
        self.run = json.loads(json.dumps(run))
        self._names = list(names)
        self._path = os.path.join(output_dir, JOURNAL_NAME)
        lines = self._read_lines()
        self._rows = {
            (row["set"], row["shard"]["name"]): row for row in lines[1:]
        }
        # A journal without shards is from a run that failed immediately, and is
        # replaced.
        if self._rows or lines == [self.run]:
            self._compare(lines[0])
            self.run = lines[0]
        else:
            self._check_no_records()
            storage.make_folder(output_dir)
        self._write()  # Drops a last line that a crash cut.

    def _write(self):
        with storage.atomic_file(self._path) as file:
            for line in [self.run, *self._rows.values()]:
                file.write(json.dumps(line) + "\n")

    def _read_lines(self):
        try:
            with storage.open_bytes(self._path) as file:
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return []
        try:
            return [
                json_files.parse(line, f"{self._path}:{number}", form)
                for number, line in enumerate(lines[:-1], 1)
                for form in [_LINE if number > 1 else dict]
            ]
        except ValueError as error:
            raise ValueError(
                f"{error} Or remove {self.output_dir!r}, or choose another "
                "--output_dir."
            ) from error

    def _compare(self, before):
        names = {*before, *self.run}
        if self.finished_manifests():  # Of any version.
            names -= {"version", "libraries"}
        self._compare_libraries(before, names)
        for name in sorted(names):
            old, new = before.get(name), self.run.get(name)
            if old != new:
                raise ValueError(
                    f"{self.output_dir!r} holds records made with "
                    f"{name}={old}; now it is {name}={new}. Choose another "
                    "--output_dir, or remove this one first."
                )

    def _compare_libraries(self, before: dict, names: set[str]) -> None:
        """Raises ValueError if a library is there in another version."""
        if "libraries" not in names or "libraries" not in before:
            return
        names.discard("libraries")
        now = self.run.get("libraries", {})
        other = {
            name: version
            for name, version in before["libraries"].items()
            if now.get(name, version) != version
        }
        if other:
            exact = " ".join(f"'{n}=={v}'" for n, v in other.items())
            raise ValueError(
                f"{self.output_dir!r} holds unfinished records made with "
                f"{exact}; now there is "
                f"{', '.join(f'{n} {now[n]}' for n in other)}. To finish them: "
                f"pip install {exact}. Or choose another --output_dir, or "
                "remove this one first."
            )

    def _check_no_records(self):
        for name in self._names:
            folder = os.path.join(self.output_dir, name)
            storage.remove_leftovers(folder)
            if storage.names_in(folder):
                raise ValueError(
                    f"{folder!r} is not empty, and {self._path!r} does not "
                    "describe what is in it. Choose another --output_dir, or "
                    "remove this one first."
                )

    def has(self, set_name: str, shard_name: str) -> bool:
        """Returns whether a shard is finished and still complete on disk."""
        row = self._rows.get((set_name, shard_name))
        path = os.path.join(self.output_dir, set_name, shard_name)
        return (
            row is not None
            and storage.exists(f"{path}.index")
            and storage.exists(path)
            and storage.version(path)[0] == row["shard"]["num_bytes"]
        )

    def check_digests(self) -> None:
        """Calls `records.check_digests` for finished shards on a disk."""
        if storage.is_local(self.output_dir):
            for name in self._names:
                rows = [self._rows[key] for key in self._rows if key[0] == name]
                shards = [records.shard_info(row["shard"]) for row in rows]
                found = [x for x in shards if self.has(name, x.name)]
                folder = os.path.join(self.output_dir, name)
                records.check_digests(folder, found)

    def add(
        self, set_name: str, shard: records.ShardInfo, statistics: dict
    ) -> None:
        """Adds a finished shard.

        Raises:
          OSError: if the disk is full; the journal is then unchanged.
        """
        row = {"set": set_name, "shard": vars(shard), "statistics": statistics}
        self._rows[set_name, shard.name] = row
        if storage.is_local(self._path):
            atomic_files.append(self._path, json.dumps(row) + "\n")
        else:
            self._write()  # Stores cannot append.

    def read(
        self, set_name: str, shard_names: Sequence[str]
    ) -> tuple[list[records.ShardInfo], dict]:
        """Returns finished shards and the sum of their statistics."""
        rows = [self._rows[set_name, name] for name in shard_names]
        total: collections.Counter = collections.Counter()
        for row in rows:
            total.update(row["statistics"])
        return [records.shard_info(row["shard"]) for row in rows], dict(total)

    def finished_manifests(self) -> dict[str, records.Manifest]:
        """Returns the manifest of each set, or {} if anything is missing."""
        manifests = {}
        for name in self._names:
            folder = os.path.join(self.output_dir, name)
            path = os.path.join(folder, records.MANIFEST_NAME)
            if not storage.exists(path):
                return {}
            manifest = manifests[name] = records.Manifest.read(folder)
            if not all(self.has(name, shard.name) for shard in manifest.shards):
                return {}
        return manifests
