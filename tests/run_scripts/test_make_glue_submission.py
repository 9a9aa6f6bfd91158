"""make_glue_submission: a zip that the site accepts, or one error line."""

import statistics
import zipfile

import pytest

from run_scripts import make_glue_submission as submission
from tfrecords.tasks import glue_rows

# As listed on the site's submission page.
FILES = [
    *("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI-m", "MNLI-mm", "QNLI"),
    *("RTE", "WNLI", "AX"),
]


def write_run(folder, name="CoLA", rows=1063, label="0"):
    """A folder of a run with one file of predictions."""
    path = folder / "predictions" / f"{name}.tsv"
    path.parent.mkdir(parents=True)
    lines = ["index\tprediction"]
    lines += [f"{row}\t{label}" for row in range(rows)]
    path.write_text("\n".join(lines) + "\n", errors="surrogateescape")
    return path


def make(tmp_path, *run_dirs):
    submission.main(
        [
            "make_glue_submission",
            f"--run_dirs={','.join(map(str, run_dirs))}",
            f"--output_file={tmp_path / 'glue.zip'}",
        ]
    )


def test_the_zip_has_every_file_and_filled_ones_are_reported(tmp_path, caplog):
    cola = write_run(tmp_path / "cola")
    scores = write_run(tmp_path / "stsb", "STS-B", 1379, "4.1250")
    with caplog.at_level("INFO", logger="absl"):
        make(tmp_path, tmp_path / "cola", tmp_path / "stsb")
    with zipfile.ZipFile(tmp_path / "glue.zip") as archive:
        texts = {n: archive.read(n).decode() for n in archive.namelist()}
    assert sorted(texts) == sorted(f"{name}.tsv" for name in FILES)
    assert texts["CoLA.tsv"] == cola.read_text()
    assert texts["STS-B.tsv"] == scores.read_text()
    for name, (rows, answer) in submission.TEST_SETS.items():
        header, *lines = texts[f"{name}.tsv"].splitlines()
        assert header == "index\tprediction"
        assert len(lines) == rows
        if name not in ("CoLA", "STS-B"):
            assert lines[-1] == f"{rows - 1}\t{answer}"
            assert f"{name}  rows {rows}  no run: filled" in caplog.text
    assert "CoLA  rows 1063  no run" not in caplog.text
    # The same predictions give the same bytes.
    first = (tmp_path / "glue.zip").read_bytes()
    make(tmp_path, tmp_path / "stsb", tmp_path / "cola")
    assert (tmp_path / "glue.zip").read_bytes() == first


def test_filled_answers_are_labels_of_their_tasks():
    for name, (_, answer) in submission.TEST_SETS.items():
        assert submission._is_answer(submission._TASKS[name], answer)


def test_official_files_have_the_expected_numbers_of_rows(shared_data):
    folder = shared_data / "glue"
    for name in ("CoLA", "SST-2", "MRPC", "STS-B", "RTE", "WNLI", "AX"):
        task = submission._TASKS[name]
        lines = (folder / name / task.files["test"]).read_text().splitlines()
        assert len(lines) - 1 == submission.TEST_SETS[name][0], name


def test_filled_answers_are_the_most_frequent_of_official_files(shared_data):
    for name in ("CoLA", "SST-2", "MRPC", "STS-B", "RTE", "WNLI"):
        task = submission._TASKS[name]
        path = shared_data / "glue" / name / task.files["train"]
        rows = glue_rows.read_rows(task, str(path), is_labelled=True)
        labels = [row.label for row in rows]
        if task.is_regression:
            expected = f"{statistics.fmean(labels):.4f}"
        else:
            expected = task.labels[statistics.mode(labels)]
        assert submission.TEST_SETS[name][1] == expected, name


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (dict(rows=1000), r"CoLA.tsv has 1,000 rows; .* CoLA has 1,063"),
        (dict(label="yes"), r"CoLA.tsv:2: '0\\tyes' should be 0, a tab and 0,"),
        (dict(name="STS-B", rows=1379, label="nan"), "STS-B.tsv:2: .*a score"),
        (dict(label="\udcff"), r"CoLA.tsv:2: .* should be 0, a tab and 0,"),
        (
            dict(name="reviews"),
            r"reviews.tsv does not match any test set of GLUE \(CoLA",
        ),
    ],
)
def test_files_that_the_site_would_reject_are_refused(tmp_path, run, message):
    write_run(tmp_path / "run", **run)
    with pytest.raises(ValueError, match=message):
        make(tmp_path, tmp_path / "run")
    assert not (tmp_path / "glue.zip").exists()


def test_each_run_must_have_predictions_for_other_test_sets(tmp_path):
    write_run(tmp_path / "a")
    write_run(tmp_path / "b")
    with pytest.raises(ValueError, match="b.*CoLA.tsv and .*a.*the same test"):
        make(tmp_path, tmp_path / "a", tmp_path / "b")
