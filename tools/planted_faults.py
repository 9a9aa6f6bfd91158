r"""One-line faults, each in a copy of the code -> which ones no test finds.

    python -m tools.planted_faults
    python -m tools.planted_faults --only=bert_tf/model,17 --jobs=2
    python -m tools.planted_faults --list

tools/planted_faults.txt has the faults, what a tired person would write: a
sign, a bound, a missing mask. The tests nearest to them first run on a copy
without a fault, then each fault's own tests with the fault in place; a test
that fails, or does not end within --limit seconds, has found it. A fault that
lives needs a test, or a line that says why it changes nothing. Exits with 1 if
one lived without that, or if the list is behind the code ("stale").
"""

import argparse
import ast
import collections
import contextlib
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent import futures
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[1]
LIST = "tools/planted_faults.txt"
KINDS = "sign bound order axis constant mask labels check".split()
OUTCOMES = ("found", "lived", "equal", "stale")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", re.MULTILINE)


class Fault(NamedTuple):
    """A line that is replaced by another one.

    Attributes:
      number: its place in the list, from 1 on.
      path: file, from the root.
      kind: one of KINDS.
      old: a line that stands once in the file, without indentation.
      new: the line in its place.
      tests: the nearest tests, as pytest takes them.
      reason: why it changes nothing; "" for a fault that tests should find.
    """

    number: int
    path: str
    kind: str
    old: str
    new: str
    tests: tuple[str, ...]
    reason: str

    @property
    def room(self) -> str:
        """The folder, at most two deep."""
        return "/".join(pathlib.PurePath(self.path).parent.parts[:2])

    def __str__(self):
        return f"{self.number:3}  {self.path}: {self.kind}"


class Result(NamedTuple):
    """A fault and its outcome: one of OUTCOMES, and by which test or why."""

    fault: Fault
    outcome: str
    detail: str = ""


def read(path: pathlib.Path) -> list[Fault]:
    """Returns the faults of a list.

    Args:
      path: a text file with an entry for each fault, blank lines between them:
        path and kind; `- ` and the old line; `+ ` and the new one; perhaps
        `= ` and the reason why it changes nothing; tests, one a line. Lines
        that begin with # are comments.

    Raises:
      ValueError: if an entry has another form.
    """
    lines = path.read_text("utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    faults = []
    for number, entry in enumerate(re.split(r"\n\n+", text.strip()), 1):
        head, *rest = entry.split("\n")
        marked = {
            mark: [line[2:] for line in rest if line.startswith(f"{mark} ")]
            for mark in "-+="
        }
        tests = [line for line in rest if line[:2] not in ("- ", "+ ", "= ")]
        where, _, kind = head.partition("  ")
        counts = [len(marked[mark]) for mark in "-+"]
        if kind not in KINDS or counts != [1, 1] or not tests:
            raise ValueError(
                f"{path}, entry {number}, {head!r}: expected 'FILE  KIND', two "
                f"spaces before a kind of {', '.join(KINDS)}, then '- OLD', "
                "'+ NEW', perhaps '= REASON', and tests."
            )
        (old,), (new,), reason = marked["-"], marked["+"], marked["="]
        faults.append(
            Fault(number, where, kind, old, new, tuple(tests), " ".join(reason))
        )
    return faults


def planted(fault: Fault, root: pathlib.Path) -> str:
    """Returns the text of the fault's file with the fault.

    Raises:
      ValueError: if the fault no longer fits the code: its file or a test is
        missing, its line does not stand exactly once, or the new one does not
        parse or is the same code.
    """
    path = root / fault.path
    if not path.is_file():
        raise ValueError(f"{fault.path} does not exist")
    text = path.read_text("utf-8")
    lines = text.split("\n")
    found = [i for i, line in enumerate(lines) if line.strip() == fault.old]
    if len(found) != 1:
        raise ValueError(f"{len(found)} lines are {fault.old!r}, not 1")
    (at,) = found
    lines[at] = lines[at].replace(fault.old, fault.new)
    changed = "\n".join(lines)
    try:
        is_equal = ast.dump(ast.parse(changed)) == ast.dump(ast.parse(text))
    except SyntaxError as error:
        raise ValueError(f"{fault.new!r} does not parse: {error}") from None
    if is_equal:
        raise ValueError(f"{fault.new!r} is the same code")
    for test in fault.tests:
        name, _, function = test.partition("::")
        is_file = (root / name).is_file()
        if not is_file or (
            function and f"def {function}(" not in (root / name).read_text()
        ):
            raise ValueError(f"the test {test} does not exist")
    return changed


def copy_tree(root: pathlib.Path, folder: pathlib.Path) -> None:
    """Copies the files of a working tree that git does not ignore."""
    command = "git ls-files -z --cached --others --exclude-standard".split()
    names = subprocess.run(command, cwd=root, check=True, capture_output=True)
    for name in names.stdout.decode().split("\0"):
        if name and (root / name).is_file():  # Neither deleted nor a link.
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)


def failed_test(
    folder: pathlib.Path,
    tests: Sequence[str],
    limit: float | None = None,
    *,
    writes_bytecode: bool = False,
) -> str:
    """Runs tests in a copy of the code until one fails.

    Args:
      folder: the copy.
      tests: as pytest takes them.
      limit: seconds after which they are killed.
      writes_bytecode: whether to keep compiled modules, for later runs.

    Returns:
      The name of the test that failed, "no end after ... s", the last lines of
      the output if neither is known, or "" if all passed.
    """
    environment = os.environ | {
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "" if writes_bytecode else "1",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q"]
    command += ["-p", "no:cacheprovider", f"--basetemp={folder}.tmp", *tests]
    log = pathlib.Path(f"{folder}.log")
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        return f"no end after {limit:.0f} s"
    finally:  # What the tests started ends with them.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if code == 0:
        return ""
    output = log.read_text("utf-8", errors="replace")
    match = _FAILED.search(output)
    return match[1] if match else "\n".join(output.splitlines()[-10:])


def try_fault(
    fault: Fault, changed: str, folder: pathlib.Path, limit: float
) -> Result:
    """Runs the tests of a fault, whose file has the text `changed`."""
    path = folder / fault.path
    before, stat = path.read_bytes(), path.stat()
    path.write_text(changed, "utf-8")
    # A compiled module is taken if size and second of its source are its own.
    os.utime(path, (stat.st_atime, stat.st_mtime + 10))
    try:
        found_by = failed_test(folder, fault.tests, limit)
    finally:
        path.write_bytes(before)
        os.utime(path, (stat.st_atime, stat.st_mtime))
    if not fault.reason:
        return Result(fault, "found" if found_by else "lived", found_by)
    if found_by:
        return Result(fault, "stale", f"it changes something: {found_by}")
    return Result(fault, "equal", fault.reason)


def try_all(
    faults: Sequence[Fault],
    root: pathlib.Path,
    jobs: int = 1,
    limit: float = 120.0,
) -> Iterator[Result]:
    """Yields the result of each fault as soon as it is known.

    Args:
      faults: what to plant.
      root: a git working tree, which stays as it is.
      jobs: faults at a time, each in a copy of its own.
      limit: seconds for the tests of one fault.

    Raises:
      ValueError: if a test fails without a fault.
    """
    texts = {}
    for fault in faults:
        try:
            texts[fault] = planted(fault, root)
        except ValueError as error:
            yield Result(fault, "stale", str(error))
    if not texts:
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folders = [pathlib.Path(name) / f"copy-{i}" for i in range(jobs)]
        copy_tree(root, folders[0])
        if (root.parent / "shared").is_dir():  # Real data, for some tests.
            (folders[0].parent / "shared").symlink_to(root.parent / "shared")
        tests = dict.fromkeys(test for fault in texts for test in fault.tests)
        if failed := failed_test(folders[0], tests, writes_bytecode=True):
            raise ValueError(f"Without a fault: {failed}")
        free = queue.SimpleQueue()
        for folder in folders:
            if folder != folders[0]:
                shutil.copytree(folders[0], folder)
            free.put(folder)

        def work(fault):
            folder = free.get()
            try:
                return try_fault(fault, texts[fault], folder, limit)
            finally:
                free.put(folder)

        pool = futures.ThreadPoolExecutor(jobs)
        try:
            running = [pool.submit(work, fault) for fault in texts]
            for future in futures.as_completed(running):
                yield future.result()
        finally:  # After Ctrl-C, too.
            pool.shutdown(cancel_futures=True)


def table(results: Sequence[Result]) -> str:
    """Returns the counts of outcomes by room, as a Markdown table."""
    counts = collections.defaultdict(collections.Counter)
    for result in results:
        for room in (result.fault.room, "all"):
            counts[room].update(["faults", result.outcome])
    columns = ("faults", *OUTCOMES)
    rows = [("room", *columns), ("---", *["--:"] * len(columns))]
    for room in (*sorted(counts.keys() - {"all"}), "all"):
        rows.append((room, *(str(counts[room][name]) for name in columns)))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def select(faults: Sequence[Fault], words: str) -> list[Fault]:
    """Returns the faults of numbers and of beginnings of paths, with commas.

    Raises:
      ValueError: if a word fits none.
    """
    chosen = {}
    for word in words.split(","):
        fitting = [
            fault
            for fault in faults
            if word == str(fault.number)
            or (word and not word.isdigit() and fault.path.startswith(word))
        ]
        if not fitting:
            raise ValueError(
                f"--only: {word!r} is neither a number of 1 to {len(faults)} "
                "nor the beginning of a path in the list."
            )
        chosen |= dict.fromkeys(fitting)
    return sorted(chosen)


def main(arguments: Sequence[str] | None = None, root=ROOT) -> None:
    """Plants faults and prints their outcomes; exits with 0 or 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="prints the faults")
    parser.add_argument(
        "--only", help="numbers and beginnings of paths, with commas"
    )
    parser.add_argument("--jobs", type=int, default=1, help="faults at a time")
    parser.add_argument(
        "--limit", type=float, default=120.0, help="seconds for one fault"
    )
    args = parser.parse_args(arguments)
    if args.jobs < 1:
        parser.error(f"--jobs={args.jobs} should be at least 1")
    try:
        faults = read(root / LIST)
        if args.only is not None:
            faults = select(faults, args.only)
    except ValueError as error:
        parser.error(str(error))
    if args.list:
        for fault in faults:
            print(f"{fault}\n     - {fault.old}\n     + {fault.new}")
        return
    results, begin = [], None
    try:
        for result in try_all(faults, root, args.jobs, args.limit):
            results.append(result)
            line = f"{len(results)}/{len(faults)}  {result.outcome:5}  "
            line += f"{result.fault}  {result.detail}"
            now = time.monotonic()
            if begin is None:  # The tests without a fault have run before.
                begin = now
            else:
                each = (now - begin) / (len(results) - 1)
                left = each * (len(faults) - len(results))
                line += f"  ({left / 60:.0f} minutes left)"
            print(line, flush=True)
    except ValueError as error:
        sys.exit(str(error))
    print(table(results))
    bad = sorted(r.fault for r in results if r.outcome in ("lived", "stale"))
    for fault in bad:
        print(f"{fault}\n     - {fault.old}\n     + {fault.new}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
