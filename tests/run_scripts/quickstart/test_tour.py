import json
import pathlib

import pytest

from run_scripts.quickstart import corpus as quickstart_corpus
from run_scripts.quickstart import page as quickstart_page
from run_scripts.quickstart import task as quickstart_task
from run_scripts.quickstart import tour
from tfrecords.tasks import glue_tables
from tfrecords.text import documents


def test_prose_is_kept_and_code_is_dropped():
    docstring = """Returns the sum of all elements along an axis.

    The result has
    the same type as the `input`.

    >>> total([1, 2])
    3

    x : int
        ======
    """
    assert quickstart_corpus.paragraphs(docstring) == [
        "Returns the sum of all elements along an axis.",
        "The result has the same type as the input.",
    ]


@pytest.fixture
def few_sources(monkeypatch):
    """Twenty documents per library instead of the installed ones."""

    def read_sources():
        for library in quickstart_corpus.LABELS:
            for number in range(20):
                text = [
                    f"The {library} function number {number} returns the sum "
                    f"of the values in row {row} & column {row}. It takes "
                    f"{number + 20 * row} seconds in {library}."
                    for row in range(8)
                ]
                yield quickstart_corpus.Source(
                    library, f"{library}/{number}.py", text
                )

    monkeypatch.setattr(quickstart_corpus, "read_sources", read_sources)
    monkeypatch.setattr(quickstart_corpus, "NUM_TRAIN_ROWS", 24)
    monkeypatch.setattr(quickstart_corpus, "NUM_DEV_ROWS", 12)
    monkeypatch.setattr(quickstart_corpus, "LABELLED_SHARE", 0.3)


def test_the_corpus_is_read_back_and_rows_come_from_other_documents(
    few_sources, tmp_path
):
    corpus, train, dev = (
        str(tmp_path / name) for name in ("corpus.txt", "train.tsv", "dev.tsv")
    )
    quickstart_corpus.write_corpus(corpus, train, dev)
    read = list(documents.read_documents([corpus]))
    assert 50 < len(read) < 110
    sentences = {sentence for found in read for sentence in found.sentences}
    assert any("values in row 3 & column 3." in text for text in sentences)
    rows = [
        line.rstrip("\n").split("\t")
        for path in (train, dev)
        for line in pathlib.Path(path).read_text().splitlines()[1:]
    ]
    assert len(rows) == 36
    assert {label for _, label in rows} == set(quickstart_corpus.LABELS)
    for text, label in rows:
        assert f" {label} " in text
        first = text.split(". ")[0] + "."
        assert first not in sentences


@pytest.mark.slow
def test_every_stage_runs_and_a_rerun_skips_them(few_sources, tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    command = ["quickstart", f"--output_dir={tmp_path}", "--vocab_size=300"]
    command.append("--num_train_steps=12")
    tour.main(command)
    summary = json.loads((tmp_path / "summary.json").read_text())
    for name in ("masked_lm", "unigram", "pretrained", "from_scratch"):
        assert 0 <= summary[f"{name}_accuracy"] <= 1, name
    assert summary["margin"] == pytest.approx(
        summary["pretrained_accuracy"] - summary["from_scratch_accuracy"]
    )
    # The export predicts what was measured in training.
    assert summary["served_accuracy"] == pytest.approx(
        summary["pretrained_accuracy"]
    )
    assert set(summary["seconds"]) == {
        *("corpus", "vocabulary", "records", "pretraining", "fine_tuning"),
        *("from_scratch", "export", "prediction", "total"),
    }
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 3

    def times():
        found = [p for p in tmp_path.rglob("*") if p.is_file()]
        return {
            p: p.stat().st_mtime_ns
            for p in found
            if p.name not in ("summary.json", "page.html")
        }

    before = times()
    tour.main(command)
    assert times() == before
    assert json.loads((tmp_path / "summary.json").read_text()) == summary

    with pytest.raises(ValueError, match="num_train_steps: was 12, is now 13"):
        tour.main([*command, "--num_train_steps=13"])


@pytest.fixture
def glue_dir(tmp_path):
    """CoLA in its official format: no header, text in the fourth column."""
    folder = tmp_path / "CoLA"
    folder.mkdir()
    rows = [f"gj04\t{i % 2}\t*\tThe {'no' * (i % 2)} sum." for i in range(12)]
    (folder / "train.tsv").write_text("".join(f"{row}\n" for row in rows))
    (folder / "dev.tsv").write_text("".join(f"{row}\n" for row in rows[:4]))
    return str(folder)


def test_texts_to_predict_are_those_of_the_dev_rows(glue_dir, tmp_path):
    task = quickstart_task.find(str(tmp_path), glue_dir, "cola")
    path = tmp_path / "texts.tsv"
    quickstart_task.write_texts(task, glue_dir, str(path))
    assert path.read_text() == (
        "text_a\nThe  sum.\nThe no sum.\nThe  sum.\nThe no sum.\n"
    )


def test_the_served_score_is_the_metric_of_the_task(glue_dir, tmp_path):
    task = quickstart_task.find(str(tmp_path), glue_dir, "CoLA")
    answers = tmp_path / "predictions.jsonl"
    for given, score in (("0101", 1.0), ("1010", -1.0), ("0111", 0.57735)):
        lines = [json.dumps({"label": label}) + "\n" for label in given]
        answers.write_text("".join(lines))
        assert quickstart_task.served_score(
            task, glue_dir, str(answers)
        ) == pytest.approx(score, abs=1e-5)


def test_wrong_input_is_refused_before_the_first_stage(glue_dir, tmp_path):
    command = ["quickstart", f"--output_dir={tmp_path / 'out'}"]
    for flags, message in (
        (("--glue_dir=x",), "give both for a GLUE task"),
        ((f"--glue_dir={glue_dir}", "--task_name=AX"), "AX has no train set"),
        ((f"--glue_dir={glue_dir}", "--task_name=MNLI"), "dev_matched.tsv"),
        (("--glue_dir=nowhere", "--task_name=CoLA"), "No file nowhere/train"),
        (("--corpus=nowhere/*.txt",), "'nowhere/\\*.txt' matches no file"),
    ):
        with pytest.raises(ValueError, match=message):
            tour.main([*command, *flags])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "task, split", [("CoLA", "dev"), ("MNLI", "dev_matched")]
)
def test_the_page_has_curves_of_the_first_dev_set_and_says_undefined(
    tmp_path, task, split
):
    logs = tmp_path / "fine_tuned" / "logs" / split
    logs.mkdir(parents=True)
    (logs / "steps.jsonl").write_text(
        '{"step": 1, "accuracy": null}\n{"step": 7, "accuracy": 0.5}\n'
    )
    candidates = [
        {"token": x, "probability": 1 / n} for n, x in enumerate("abcde", 2)
    ]
    answer = {"text": "<a> [MASK]", "masks": [candidates]}
    (tmp_path / "filled.jsonl").write_text(json.dumps(answer) + "\n")
    scores = dict.fromkeys(("pretrained", "from_scratch", "served"), 0.25)
    scores |= {"masked_lm": 0.3, "unigram": 0.1}
    summary = {f"{name}_accuracy": x for name, x in scores.items()}
    summary |= {"margin": None, "metric": "accuracy", "seconds": {"total": 2.5}}
    quickstart_page.write(str(tmp_path), summary, glue_tables.find(task))
    page = (tmp_path / "page.html").read_text()
    assert f"{task}: dev accuracy by step" in page
    assert page.count("<circle") == page.count("<svg") == 1
    assert "pre-training adds undefined to the accuracy" in page
    for name, value in (
        ("gain of pre-training", "undefined"),
        ("total, seconds", "2.5"),
    ):
        assert f">{name}</td><td class=n>{value}</td>" in page
    guesses = "a 0.50; b 0.33; c 0.25; d 0.20"
    assert f"&lt;a&gt; [MASK]</td><td>{guesses}</td>" in page


def test_commands_can_be_pasted_into_a_shell(capsys):
    tour.show("run_scripts.x", {"corpus": "my books/*.txt", "steps": 3})
    assert capsys.readouterr().out == (
        "\n$ python -m run_scripts.x \\\n"
        "    '--corpus=my books/*.txt' \\\n    --steps=3\n"
    )


def test_a_stage_that_fails_in_its_own_process_is_named():
    with pytest.raises(ValueError, match="run_scripts.none failed, see above"):
        tour.call_fresh("run_scripts.none")
