"""A task is trained, stopped, evaluated, exported, loaded; a new one is a row.

One run of each, of one layer and four steps, is made once a session.
"""

import contextlib
import json
import math
import pathlib
import shutil
from typing import NamedTuple

import pytest
import run_processes
import served
import tensorflow as tf
from contracts import tasks
from contracts.tasks import TASKS, digests
from safetensors.numpy import load_file

import bert_tf
from bert_tf.checkpoint import checksums
from bert_tf.training import stopping
from bert_tf.workflows import fine_tuning
from run_scripts import report
from tfrecords.io import json_files, records

pytestmark = pytest.mark.usefixtures("eagerly")
FINE_TUNED = [task for task in TASKS if task.is_fine_tuning]
SERVED = [task for task in FINE_TUNED if task.check]
LAST = "checkpoints/step-00000004"


class Run(NamedTuple):
    """A row, the folder of its data, that of its finished run."""

    task: tasks.Task
    data: pathlib.Path
    output: pathlib.Path

    def again(self, output, *words):
        """Runs the same command in another folder."""
        self.task.run(self.data, output, *words)

    def results(self):
        return json_files.read(self.output / "eval_results.json")

    def losses(self):
        """Returns the losses of dev, by step."""
        name = "dev" if self.task.is_fine_tuning else "eval"
        lines = (self.output / f"logs/{name}/steps.jsonl").read_text()
        rows = map(json.loads, lines.splitlines())
        return {row["step"]: row for row in rows}


@contextlib.contextmanager
def functions(run_eagerly):
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(run_eagerly)
    yield
    tf.config.run_functions_eagerly(before)


@pytest.fixture(scope="session")
def finished(made_once, pretraining_records):
    """Row -> its finished run, made once."""
    data = made_once(
        "task_data", lambda folder: tasks.write(folder, pretraining_records)
    )

    def find(task):
        def make(folder):
            with functions(run_eagerly=True):
                task.run(data, folder / "run")

        name = f"task_{task.name.replace(' ', '_')}"
        return Run(task, data, made_once(name, make) / "run")

    return find


@pytest.fixture(params=TASKS, ids=str)
def run(request, finished):
    return finished(request.param)


@pytest.fixture
def copied(run, tmp_path):
    """The same run in a folder that the test may change."""
    return run._replace(output=shutil.copytree(run.output, tmp_path / "copy"))


def test_records_are_those_of_the_script_that_makes_them(run, tmp_path):
    task = run.task
    made = (run.output if task.is_fine_tuning else run.data) / "records"
    for name in task.sets:
        opened = records.Records.open(str(made / name))
        assert len(opened) > 0
        assert opened.manifest.sizes.get("max_seq_length")
    opened = records.Records.open(str(made / "train"))
    assert opened.manifest.schema_name == task.schema
    if task.is_fine_tuning and task.make:
        words = [*task.data, *task.windows, tasks.MODEL[0]]
        task.call(task.make, run.data, tmp_path / "records", *words)
        assert digests(tmp_path / "records") == digests(made)


def test_every_step_trains(run):
    lines = run_processes.log_lines(run.output)
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert all(math.isfinite(line["loss"]) for line in lines)
    weights = [
        load_file(run.output / f"checkpoints/step-0000000{step}/{name}")
        for step in (2, 4)
        for name in ["model.safetensors"]
    ]
    same = [n for n, w in weights[0].items() if (w == weights[1][n]).all()]
    # The losses of tags, spans and vectors read no pooler.
    assert all(name.startswith("encoder/pooler/") for name in same)


@pytest.mark.slow
def test_compiled_steps_have_the_same_losses(run, tmp_path):
    with functions(run_eagerly=False):
        run.again(tmp_path)
    found = run_processes.log_lines(tmp_path)
    expected = run_processes.log_lines(run.output)
    assert len(found) == 4
    for ours, theirs in zip(found, expected, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)


def test_a_stopped_run_resumes_to_the_same_files(run, tmp_path):
    output = tmp_path / "run"
    with pytest.raises(stopping.Stopped, match="after step 3"):
        run.again(output, "--stop_at_step=3")
    run.again(output)
    own = "step-00000003/*"
    found, expected = digests(output, own), digests(run.output)
    assert found.keys() == expected.keys()
    assert not [name for name in found if found[name] != expected[name]]
    assert f"{LAST}/optimizer.safetensors" in found


def test_the_best_model_is_that_of_the_results(run):
    best = json_files.read(run.output / "best/state.json")
    results, by_step = run.results(), run.losses()
    assert list(by_step) == [2, 4]
    assert best["step"] == results["step"]
    assert best["metric"] == run.task.best_metric
    scores = {step: run.task.score(row) for step, row in by_step.items()}
    assert best["value"] == pytest.approx(max(scores.values()))
    assert best["value"] == pytest.approx(scores[best["step"]])
    if run.task.is_fine_tuning:
        assert results["best_metric"] == run.task.best_metric
        assert results["dev"][run.task.best_metric] == best["value"]


def test_results_have_the_metrics_of_the_task(run):
    results = run.results()
    found = results["dev"] if run.task.is_fine_tuning else results
    assert found.keys() >= set(run.task.metrics)
    assert all(math.isfinite(found[name]) for name in run.task.metrics)
    if run.task.is_fine_tuning:
        assert run.task.best_metric in results["majority_baseline"]["dev"]


@pytest.mark.parametrize(
    "task", [task for task in TASKS if task.scores], ids=str
)
def test_results_are_the_scores_of_the_predicted_files(task, finished):
    run = finished(task)
    scores = task.scores(run.data, run.output / "predictions")
    assert task.best_metric in scores
    results = run.results()["dev"]
    for name in scores.keys() & results.keys():
        assert scores[name] == pytest.approx(results[name])


def test_a_model_folder_describes_itself(run):
    task = run.task
    for name in ("best", LAST):
        description = json_files.read(run.output / name / "model.json")
        assert description["task"] == task.task
        assert description.get("labels", []) == list(task.labels)
        untrained = description.get("untrained", [])
        assert all(x.startswith(task.untrained) for x in untrained)
        for prefix in task.untrained:
            assert any(x.startswith(prefix) for x in untrained)
        assert description["do_lower_case"] is True
        vocabulary = (run.output / name / "vocab.txt").read_bytes()
        assert vocabulary == run_processes.VOCAB_FILE.read_bytes()


def test_evaluation_and_prediction_alone_give_the_same_files(copied):
    task, data, output = copied
    before = digests(output)
    (output / "eval_results.json").unlink()
    shutil.rmtree(output / "predictions", ignore_errors=True)
    # Windows, vocabulary, config and threshold are those of the model.
    for goal in task.goals:
        words = [*task.data, goal, "--eval_batch_size=4"]
        task.call(task.script, data, output, *words)
    assert digests(output) == before


def test_prediction_by_a_finished_run_has_what_dev_tuned(copied):
    if not copied.task.check:
        return
    predictions = copied.output / "predictions"
    # Rows with their labels are of an evaluation.
    before = digests(predictions, "dev.jsonl", "test.jsonl")
    shutil.rmtree(predictions)
    copied.again(copied.output, "--nodo_eval")
    assert digests(predictions) == before


def test_the_same_command_again_changes_nothing(copied):
    before = digests(copied.output)
    shutil.rmtree(copied.output / "predictions", ignore_errors=True)
    copied.again(copied.output)
    assert digests(copied.output) == before


def test_other_settings_are_refused_and_change_nothing(copied):
    before = digests(copied.output)
    flags = (copied.output / "run.flags").read_bytes()
    message = "learning_rate: was .*, is now 0.5"
    with pytest.raises(ValueError, match=message):
        copied.again(copied.output, "--learning_rate=0.5")
    assert digests(copied.output) == before
    assert (copied.output / "run.flags").read_bytes() == flags


@pytest.mark.parametrize("name", ["metric", "dev"])
def test_a_best_model_by_other_scores_is_refused(copied, name):
    if not copied.task.is_fine_tuning:
        return
    best = str(copied.output / "best")
    state = checksums.read_state(best)
    assert name in state
    (copied.output / "best/state.json").unlink()
    checksums.write_checksums(best, state | {name: "another"})
    before = digests(copied.output)
    metric = copied.task.best_metric
    message = {
        "metric": f"by another of dev, and now {metric} would decide",
        "dev": f"by {metric} of other dev files, or of what they had",
    }
    with pytest.raises(ValueError, match=message[name]):
        copied.again(copied.output)
    assert digests(copied.output) == before


@pytest.mark.slow
@pytest.mark.parametrize("task", FINE_TUNED, ids=str)
def test_files_that_change_during_training_change_no_prediction(
    task, finished, tmp_path, monkeypatch
):
    data = shutil.copytree(finished(task).data, tmp_path / "data")
    train = fine_tuning.loop.train

    def then_change(*args, **kwargs):
        train(*args, **kwargs)
        for path in data.rglob("*.*"):
            if path.is_file():
                path.write_bytes(path.read_bytes()[:300])

    monkeypatch.setattr(fine_tuning.loop, "train", then_change)
    output = tmp_path / "run"
    try:
        task.run(data, output)
    except ValueError as error:
        assert "has changed since the records in" in str(error)
        return
    expected = finished(task).output / "predictions"
    assert digests(output / "predictions") == digests(expected)


def test_the_model_is_loaded_back(run, tmp_path):
    model, tokenizer = bert_tf.load(run.output)
    saved = load_file(run.output / "best/model.safetensors")
    assert model.metadata["task"] == run.task.task
    assert all(x.startswith(run.task.untrained) for x in model.untrained)
    assert tokenizer.vocab_size == 203
    bert_tf.save(model, tmp_path / "again")
    again = load_file(tmp_path / "again/model.safetensors")
    assert again.keys() - saved.keys() <= model.untrained.keys()
    assert saved.keys() <= again.keys()
    assert all((again[name] == saved[name]).all() for name in saved)


@pytest.mark.parametrize("task", FINE_TUNED, ids=str)
def test_a_run_has_a_report_which_the_script_makes_again(
    task, finished, tmp_path
):
    output = finished(task).output
    content = (output / "report.html").read_bytes()
    (scores, *_) = (x for n, x in read_results(output) if n.startswith("dev"))
    assert f"{scores[task.best_metric]:.4g}<" in content.decode()
    file = tmp_path / "report.html"
    report.main(["report", f"--run_dirs={output}", f"--output_file={file}"])
    assert file.read_bytes() == content


def read_results(output):
    return json_files.read(output / "eval_results.json").items()


@pytest.mark.parametrize("task", FINE_TUNED, ids=str)
def test_a_model_of_another_task_is_refused(task, finished, tmp_path):
    other = next(x for x in TASKS if x.task not in (task.task, "pretraining"))
    words = [*task.data, *task.windows, "--do_eval"]
    source = finished(other).output
    message = f"is a model (with|of) task {other.task}[;,]"
    with pytest.raises(ValueError, match=message):
        task.call(
            *(task.script, finished(task).data, tmp_path / "run", *words),
            f"--init_checkpoint={source}",
        )
    assert not list(tmp_path.glob("run/*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("task", SERVED, ids=str)
def test_an_export_gives_the_predicted_answers(task, finished, tmp_path):
    _, data, output = finished(task)
    rows = task.asked(data)
    with functions(run_eagerly=False):
        answers = served.answers(output, rows, tmp_path, *task.words)
    assert len(answers) == len(rows) > 1
    task.check(answers, output / "predictions")


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_wrong_data_is_refused_before_the_run(task, finished, tmp_path):
    data = shutil.copytree(finished(task).data, tmp_path / "data")
    name, old, new, message = task.wrong
    text = (data / name).read_text()
    assert old in text
    (data / name).write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        task.run(data, tmp_path / "run")
    written = {path.name for path in (tmp_path / "run").rglob("*")}
    assert not written - {"records", "run.lock"}
