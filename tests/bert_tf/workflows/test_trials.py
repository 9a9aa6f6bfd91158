"""Several runs of run_glue, each in its folder; the best is copied."""

import dataclasses
import json
import os
import sys

import planted_data
import pytest

from bert_tf.training import stopping
from bert_tf.training.stopping import DIVERGED_EXIT_CODE as DIVERGED
from bert_tf.workflows import trials
from bert_tf.workflows.configs import TrialsConfig
from bert_tf.workflows.selection import search
from run_scripts import run_glue
from tfrecords.io import json_files


@pytest.fixture
def flags(tmp_path, tiny_config, tiny_vocab_file):
    """Flags of a run on a small CoLA data set."""
    one_layer = dataclasses.replace(tiny_config, num_hidden_layers=1)
    one_layer.to_json_file(tmp_path / "bert_config.json")
    planted_data.write_glue(tmp_path / "glue")
    return [
        "--task_name=CoLA",
        f"--data_dir={tmp_path / 'glue/CoLA'}",
        f"--vocab_file={tiny_vocab_file}",
        f"--bert_config_file={tmp_path / 'bert_config.json'}",
        f"--output_dir={tmp_path / 'run'}",
        "--max_seq_length=16",
        "--train_batch_size=8",
        "--learning_rate=1e-3",
        "--num_train_epochs=1",
        "--do_train",
        "--do_eval",
    ]


@pytest.fixture
def without_grid(flags):
    """Those flags without the ones that the paper has values for."""
    by_grid = tuple(f"--{name}=" for name in search.parse(("paper",)))
    return [flag for flag in flags if not flag.startswith(by_grid)]


@pytest.fixture
def started(monkeypatch):
    """Runs commands of scripts in this process, and records them."""
    commands = []

    class Process:
        def __init__(self, command, env):
            assert env["BERT_TF_PARENT"] == str(os.getpid())
            module, *words = command[2:]
            assert command[:2] == [sys.executable, "-m"]
            assert module == "run_scripts.run_glue"
            commands.append(words)
            run_glue.main(["run_glue", *words])

        def wait(self):
            return 0

        def poll(self):
            return 0

    monkeypatch.setattr(trials.subprocess, "Popen", Process)
    return commands


def run(*words):
    run_glue.main(["run_glue", *words])


def test_each_setting_has_a_run_for_each_seed_and_fold():
    config = TrialsConfig(output_dir="x", num_restarts=2, seed=5)
    setting = {"train_batch_size": 16, "learning_rate": 5e-5}
    planned = trials.plan(config, setting, 2)
    assert [trial.name for trial in planned] == [
        f"train_batch_size_16-learning_rate_5e-05-seed_{seed}-fold_{fold}"
        for seed in (5, 6)
        for fold in (0, 1)
    ]
    assert all(trial.setting == setting for trial in planned)
    assert [trial.seed for trial in planned] == [5, 5, 6, 6]


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_restarts_differ_in_seed_and_the_best_is_kept(flags, tmp_path, started):
    flags = [*flags, "--do_predict", "--num_restarts=2", "--seed=5"]
    run(*flags)
    output = tmp_path / "run"
    written = json_files.read(output / "trials.json")
    assert [r["name"] for r in written["trials"]] == ["seed_5", "seed_6"]
    scores = [result["score"] for result in written["trials"]]
    (setting,) = written["settings"]
    assert setting["num_runs"] == 2
    assert setting["mean"] == pytest.approx(sum(scores) / 2)
    best = written["trials"][scores.index(max(scores))]
    assert json_files.read(output / "best/state.json") == json_files.read(
        output / "trials" / best["name"] / "best/state.json"
    )
    results = json_files.read(output / "eval_results.json")
    assert results["dev"]["matthews_correlation"] == best["score"]
    assert best["majority_baseline"] == 0.0
    assert (output / "predictions/CoLA.tsv").exists()
    # Two runs with shared records, then the best is evaluated and predicts.
    assert len(started) == 3
    assert (output / "records/train/manifest.json").exists()
    weights = [
        (output / f"trials/seed_{seed}/best/model.safetensors").read_bytes()
        for seed in (5, 6)
    ]
    assert weights[0] != weights[1]
    assert not (output / "trials/seed_5/checkpoints").exists()

    # The same command repeats no run; one more restart adds one run.
    started.clear()
    run(*flags)
    assert len(started) == 1
    run(*flags, "--num_restarts=3")
    assert len(started) == 3
    assert len(json_files.read(output / "trials.json")["trials"]) == 3
    with pytest.raises(ValueError, match="flags:\n  learning_rate: was "):
        run(*flags, "--learning_rate=1e-4")


def write_result(folder, score):
    os.makedirs(folder / "best")
    (folder / "best/model.safetensors").write_text(str(score))
    content = {
        "task_name": "CoLA",
        "step": 1,
        "best_metric": "matthews_correlation",
        "dev": {"matthews_correlation": score},
        "majority_baseline": {"dev": {"matthews_correlation": None}},
    }
    (folder / "eval_results.json").write_text(json.dumps(content))


@pytest.fixture
def outcomes(monkeypatch, tmp_path):
    """Dict to fill: seed -> score, or exit status of a failed run.

    Nothing is run.
    """
    planned = {}

    def start(task, config, command, changes):
        folder = tmp_path / "run/trials" / f"seed_{changes.get('seed')}"
        if "seed" not in changes:
            return 0
        os.makedirs(folder)
        outcome = planned[changes["seed"]]
        if isinstance(outcome, int):
            return outcome
        write_result(folder, outcome)
        return 0

    monkeypatch.setattr(trials, "_start", start)
    return planned


def test_a_run_with_an_undefined_score_is_not_the_best(
    flags, outcomes, tmp_path, caplog
):
    outcomes |= {5: None, 6: -0.5, 7: None}
    with caplog.at_level("INFO", logger="absl"):
        run(*flags, "--num_restarts=3", "--seed=5")
    assert (tmp_path / "run/best/model.safetensors").read_text() == "-0.5"
    written = json_files.read(tmp_path / "run/trials.json")["trials"]
    assert [x["score"] for x in written] == [None, -0.5, None]
    assert written[0]["undefined"].startswith("all predictions, or")
    for text in (
        "trial 1: seed_5  dev matthews_correlation undefined",
        "2 of 3 runs have an undefined score",
        "(matthews_correlation undefined): seed_5, seed_6, seed_7.",
    ):
        assert text in caplog.text


def test_a_run_that_diverges_does_not_stop_the_others(
    flags, outcomes, tmp_path, caplog
):
    outcomes |= {1: 0.2, 2: DIVERGED, 3: 0.3}
    run(*flags, "--seed=1", "--num_restarts=3")
    results = json_files.read(tmp_path / "run/trials.json")["trials"]
    assert [result["has_failed"] for result in results] == [False, True, False]
    assert (tmp_path / "run/best/model.safetensors").read_text() == "0.3"
    assert "seed_2 diverged; it is ignored" in caplog.text


@pytest.mark.parametrize(
    ("second", "error", "message"),
    [
        (1, ValueError, "seed_2 ended with status 1; see its message"),
        (-9, ValueError, "seed_2 ended with status -9; see"),  # Out of memory.
        (stopping.EXIT_CODE, stopping.Stopped, "seed_2; the same command"),
    ],
)
def test_a_run_that_fails_or_is_stopped_stops_all_runs(
    flags, outcomes, tmp_path, second, error, message
):
    outcomes |= {1: 0.5, 2: second, 3: 0.6}
    with pytest.raises(error, match=message):
        run(*flags, "--seed=1", "--num_restarts=3")
    assert len(json_files.read(tmp_path / "run/trials.json")["trials"]) == 1


def test_if_all_runs_diverge_there_is_no_best_model(flags, outcomes, tmp_path):
    outcomes |= {1: DIVERGED, 2: DIVERGED}
    with pytest.raises(ValueError, match="All 2 runs diverged"):
        run(*flags, "--seed=1", "--num_restarts=2")
    assert not (tmp_path / "run/best").exists()


def test_what_a_killed_run_left_is_removed(flags, outcomes, tmp_path):
    outcomes |= {1: 0.2, 2: 0.3}
    words = [*flags, "--seed=1", "--num_restarts=2"]
    run(*words)
    left = [
        tmp_path / "run/trials/seed_1/.checkpoints.0123456789abcdef.tmp",
        tmp_path / "run/.best.0123456789abcdef.tmp",
    ]
    for folder in left:
        folder.mkdir()
    run(*words)
    assert not any(folder.exists() for folder in left)


def test_a_folder_of_other_runs_is_rejected(
    flags, without_grid, outcomes, tmp_path
):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/run.json").write_text("{}")
    with pytest.raises(ValueError, match="contains a single run. Choose"):
        run(*flags, "--num_restarts=2")
    (tmp_path / "run/run.json").unlink()
    outcomes |= {1: 0.2, 2: 0.3}
    run(*flags, "--seed=1", "--num_restarts=2")
    run(*flags, "--seed=1", "--num_restarts=2", "--keep_checkpoint_max=1")
    message = "search: was 'no --search', is now '--search=paper'"
    with pytest.raises(ValueError, match=message):
        run(*without_grid, "--seed=1", "--search=paper")
    with pytest.raises(ValueError, match="contains several runs. Choose"):
        run(*flags)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--stop_at_step=3 --num_restarts=2", "=3 is for a single"),
        ("--nodo_eval --num_restarts=2", "add --do_train and --do_eval"),
        (
            "--search=paper --distribution_strategy=multi_worker",
            "omit --distribution_strategy=mult",
        ),
        (
            "--search=paper --train_batch_size=8 --learning_rate=1e-3 "
            "--num_train_epochs=1",
            "--search=paper has its own values for --train_batch_size, "
            "--learning_rate, --num_train_epochs",
        ),
        # Also an explicit value that equals the default.
        (
            "--search=paper --learning_rate=5e-5",
            "values for --learning_rate. Om",
        ),
    ],
)
def test_invalid_flags_are_rejected(without_grid, tmp_path, more, message):
    with pytest.raises(ValueError, match=message):
        run(*without_grid, *more.split())
    assert not (tmp_path / "run").exists()


def test_stopping_all_runs_stops_the_current_one(flags, monkeypatch):
    calls = []

    class Process:
        def __init__(self, command, env):
            pass

        def wait(self):
            if "terminate" not in calls:
                raise stopping.Stopped("by SIGTERM")
            calls.append("wait")

        def poll(self):
            return None

        def terminate(self):
            calls.append("terminate")

    monkeypatch.setattr(trials.subprocess, "Popen", Process)
    with pytest.raises(stopping.Stopped, match="by SIGTERM"):
        run(*flags, "--num_restarts=2")
    assert calls == ["terminate", "wait"]
