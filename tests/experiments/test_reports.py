"""When a report is written, and its files; experiments' tests show the rest."""

from matplotlib.figure import Figure

from experiments import commands, reports
from experiments.commands import Job, PlanOptions


def test_a_report_follows_each_run_and_ends_the_plan(monkeypatch, tmp_path):
    scripts = ("make_vocab", "run_glue", "make_ner_records", "run_ner")
    jobs = [Job(script, script, {}, 1.0) for script in scripts]
    done = []

    def run(progress):
        for job in progress.jobs:
            done.append(job.name)
            yield job

    monkeypatch.setattr(commands, "run", run)
    options = PlanOptions(output_dir=str(tmp_path))
    progress = commands.Progress(jobs, options)
    seen = [len(done) for _ in reports.after_runs(progress, {})]
    assert seen == [2, 4, 4]


def test_the_files_are_written_atomically(tmp_path):
    reports.write(str(tmp_path), "# Ablations\n")
    reports.save_figure(Figure(), str(tmp_path), "report.png")
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(written) == {"report.md", "report.png"}
    assert written["report.md"] == b"# Ablations\n"
    assert written["report.png"].startswith(b"\x89PNG")
