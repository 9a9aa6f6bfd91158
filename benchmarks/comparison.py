"""Settings and names of implementations -> tables of their step times."""

import importlib.metadata
import os
import platform
import statistics
from typing import NamedTuple

from absl import flags, logging

from benchmarks import peers, turns, work
from benchmarks.peers import products
from tfrecords.io import json_files

OURS = "ours"
PRODUCTS = ("product_tensorflow", "product_torch")


class Row(NamedTuple):
    """Measurements of one implementation in one setting.

    Attributes:
      name: a key of `peers.PEERS`.
      seconds: seconds per step, in each round.
      ratios: its seconds / our seconds, in each round.
      tokens_per_second: from the median seconds.
      share: fraction of the machine's matrix product rate, from the median.
      peak_bytes: peak resident size of its process.
      num_parameters: trainable weights.
      first_loss: loss before the first update.
      last_loss: loss after the last update, on the same batch.
    """

    name: str
    seconds: list[float]
    ratios: list[float]
    tokens_per_second: float
    share: float
    peak_bytes: int
    num_parameters: int
    first_loss: float
    last_loss: float


def with_ours(given: list[str]) -> list[str]:
    """Returns the names with ours first."""
    return [OURS, *(name for name in given if name != OURS)]


def run_groups(
    values: flags.FlagValues,
    setting: work.Setting,
    names: list[str],
    *,
    options: dict | None = None,
) -> tuple[list[dict[str, turns.Times]], list[str]]:
    """Times ours with each group of peers, and the machine's matrix products.

    Args:
      values: parsed flags; see `settings.define_flags`.
      setting: the same for all implementations.
      names: ours, then peers.
      options: keyword arguments for ours.

    Returns:
      For each group the times by name; and a line for each failure.
    """
    found, failures = [], []
    for group in turns.groups(names, values.at_once):
        workers = {
            name: turns.Worker(name, setting, options if name == OURS else None)
            for name in [*group, *PRODUCTS]
        }
        warm = {}

        def make_ready(name, workers=workers):
            workers[name].wait()
            workers[name].ask(work.random_batch(setting))

        def warm_up(name, workers=workers, warm=warm):
            warm[name] = turns.warm_up(workers[name], values.seconds)

        try:
            # All are ready before the first one runs a step.
            failures += _leave_out(workers, make_ready)
            failures += _leave_out(workers, warm_up)
            found.append(turns.take(workers, values.rounds, warm))
        finally:
            for worker in workers.values():
                worker.stop()
    return found, failures


def _leave_out(workers: dict, do) -> list[str]:
    """Calls `do` for each worker; removes peers that fail, returns why."""
    failures = []
    for name in list(workers):
        try:
            do(name)
        except RuntimeError as error:
            if name == OURS:
                raise
            logging.warning("skipped: %s", error)
            failures.append(str(error).partition("\n")[0])
            workers.pop(name).stop()
    return failures


def product_rate(found: list[dict[str, turns.Times]]) -> float:
    """Returns FLOP/s of the faster library, from the median over rounds."""
    rates = []
    for name in PRODUCTS:
        seconds = [
            s for group in found if name in group for s in group[name][0]
        ]
        if seconds:
            rates.append(products.FLOPS / statistics.median(seconds))
    return max(rates)


def make_rows(
    setting: work.Setting, names: list[str], found: list[dict[str, turns.Times]]
) -> list[Row]:
    """Returns a row for each implementation that ran."""
    rate, flops = product_rate(found), work.matmul_flops(setting)
    rows = []
    for name in names:
        times = [group[name] for group in found if name in group]
        if not times:
            continue
        ours = [group[OURS].seconds for group in found if name in group]
        seconds = [s for one in times for s in one.seconds]
        median = statistics.median(seconds)
        rows.append(
            Row(
                name,
                seconds,
                turns.ratios(seconds, [s for one in ours for s in one]),
                setting.num_tokens / median,
                flops / median / rate,
                max(one.peak_bytes for one in times),
                times[0].num_parameters,
                times[0].first_loss,
                times[0].last_loss,
            )
        )
    return rows


def title(setting: work.Setting, size: str) -> str:
    """Returns the title of a setting's table."""
    task = setting.task.replace("_", "-")
    kind = f"{task} step" if setting.is_training else "inference"
    return (
        f"{kind}, {size}, {setting.batch_size} x {setting.seq_length}, "
        f"{setting.precision}"
    )


def format_table(rows: list[Row]) -> str:
    """Returns a Markdown table.

    "ms" and tokens/s are medians over rounds, ratios are peer / ours by round.
    """
    lines = [
        "| | ms | x ours, median (range) | tokens/s | of products | peak MB "
        "| weights | loss |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        median, least, most = turns.spread(row.ratios)
        lines.append(
            f"| {row.name} | {1e3 * statistics.median(row.seconds):.1f} "
            f"| {median:.2f} ({least:.2f} to {most:.2f}) "
            f"| {row.tokens_per_second:.0f} | {100 * row.share:.0f} % "
            f"| {row.peak_bytes / 1e6:.0f} | {row.num_parameters} "
            f"| {row.first_loss:.3f} to {row.last_loss:.3f} |"
        )
    return "\n".join(lines)


def machine(names: list[str]) -> dict:
    """Returns the CPU, number of cores and versions of peers or packages."""
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        cpu = next(
            (x.split(":")[1].strip() for x in lines if "model name" in x),
            platform.machine(),
        )
    versions = {}
    modules = [peers.PEERS.get(name, [name])[0] for name in names]
    packages = {peers.PACKAGES.get(x, x) for x in modules} - {OURS}
    for package in ["tensorflow", "keras", *sorted(packages), "torch"]:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "versions": versions,
    }


def compare(
    values: flags.FlagValues,
    wanted: list[work.Setting],
    options: dict | None = None,
) -> list[dict]:
    """Times each setting, prints its table and writes `--json`.

    Args:
      values: parsed flags; see `settings.define_flags`.
      wanted: from `settings.from_flags`.
      options: keyword arguments for ours.

    Returns:
      The content of `--json` for each setting.
    """
    implementations = with_ours(values.peers)
    report = {"machine": machine(implementations), "tables": []}
    print(report["machine"])
    for setting in wanted:
        found, failures = run_groups(
            values, setting, implementations, options=options
        )
        rows = make_rows(setting, implementations, found)
        rate = product_rate(found)
        name = title(setting, values.size)
        print(f"\n{name}; products {rate / 1e12:.2f} TFLOP/s", flush=True)
        print(format_table(rows), flush=True)
        for failure in failures:
            print(f"skipped: {failure}", flush=True)
        report["tables"].append(
            {
                "title": name,
                "setting": setting._asdict(),
                "options": options or {},
                "product_flops_per_second": rate,
                "matmul_flops": work.matmul_flops(setting),
                "rows": [row._asdict() for row in rows],
                "left_out": failures,
            }
        )
        if values.json:  # After each setting, in case the run is stopped.
            json_files.write(values.json, report)
    return report["tables"]
