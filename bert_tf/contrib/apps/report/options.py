"""Flags of the report of runs -> ReportConfig."""

import dataclasses

from tfrecords.options import REQUIRED, Options, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportConfig(Options):
    """Which runs to show, and where."""

    run_dirs: tuple[str, ...] = option(
        REQUIRED,
        "Output folders of one or more runs of the same task, comma-separated.",
        reads=True,
    )
    output_file: str = option(
        "report.html", "HTML file to write, atomically.", writes="file"
    )
