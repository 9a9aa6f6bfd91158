"""replay end to end on a tiny run, and errors."""

import contextlib
import hashlib
import json
import re
import shutil
import subprocess

import pytest
import run_processes
import tensorflow as tf

from bert_tf.training import stopping
from run_scripts import run_glue, run_pretraining
from tools import replay


def train(folder, records):
    """Trains seven steps, saved after 3, 6 and 7; returns the run's folder."""
    shutil.copytree(records, folder, dirs_exist_ok=True)
    run_processes.write_config(folder)
    arguments = run_processes.training_arguments(
        folder,
        folder / "run",
        num_train_steps=7,
        num_warmup_steps=2,
        save_checkpoints_steps=3,
        do_eval=False,
    )
    run_pretraining.main(["run_pretraining", *arguments])
    return folder / "run"


@pytest.fixture(scope="module")
def trained(tmp_path_factory, pretraining_records):
    """The folder of a run that was trained eagerly, as `in_process` repeats."""
    tf.config.run_functions_eagerly(True)
    try:
        return train(tmp_path_factory.mktemp("replay"), pretraining_records)
    finally:
        tf.config.run_functions_eagerly(False)


@pytest.fixture
def in_process(monkeypatch, eagerly):
    """Runs the script in this process, where TensorFlow is imported."""
    scripts = {"run_pretraining": run_pretraining, "run_glue": run_glue}

    def repeat(script, arguments):
        with contextlib.suppress(stopping.Stopped):
            scripts[script].main([script, *arguments])

    monkeypatch.setattr(replay, "repeat", repeat)


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of the run, to change."""
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def run(run_dir, *more):
    replay.main(["replay", f"--run_dir={run_dir}", *more])


def files(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.slow
def test_a_run_is_repeated_in_a_separate_process(
    tmp_path, pretraining_records, capsys
):
    trained = train(tmp_path, pretraining_records)
    before = files(tmp_path)
    run(trained)
    assert re.fullmatch(
        r"bit-equal: steps 4 to 7 of .*run, 7 values each; equal weights after "
        r"step 7, sha256 [0-9a-f]{64}\n",
        capsys.readouterr().out,
    )
    # Nothing is left in the run's folder or next to it.
    assert files(tmp_path) == before


def test_the_script_ends_with_a_killed_replay_and_its_failure_is_named(
    monkeypatch,
):
    environments = []

    def run(command, env):
        environments.append(env)
        return subprocess.CompletedProcess(command, len(environments) - 1)

    monkeypatch.setattr(replay.subprocess, "run", run)
    replay.repeat("run_pretraining", [])
    with pytest.raises(ValueError, match="exit code 1.*paths of moved files"):
        replay.repeat("run_pretraining", [])
    assert environments == [stopping.child_environment()] * 2


def remove_then(path, function):
    """Returns a function that first removes a folder."""

    def changed(*arguments):
        shutil.rmtree(path, ignore_errors=True)
        return function(*arguments)

    return changed


def test_a_checkpoint_that_a_living_run_removes_is_named(copied, monkeypatch):
    path = copied / "checkpoints" / "step-00000003"
    link = remove_then(path, replay._link_files)
    message = "still running, and has removed its checkpoint of step 3.*again"
    monkeypatch.setattr(replay, "_link_files", link)
    with pytest.raises(ValueError, match=message):
        run(copied, "--from_step=3")


def test_a_checkpoint_removed_during_a_replay_is_still_there(
    copied, monkeypatch, capsys, in_process
):
    path = copied / "checkpoints" / "step-00000003"
    monkeypatch.setattr(replay, "repeat", remove_then(path, replay.repeat))
    run(copied, "--from_step=3", "--num_steps=1")
    assert "bit-equal: steps 4 to 4" in capsys.readouterr().out


def test_without_hard_links_a_removed_checkpoint_is_named(copied, monkeypatch):
    path = copied / "checkpoints" / "step-00000003"

    def fail(*arguments):
        raise OSError("no hard links")

    def end(*arguments):
        raise ValueError("ended with exit code 1")

    monkeypatch.setattr(replay.os, "link", fail)
    monkeypatch.setattr(replay, "repeat", remove_then(path, end))
    message = "has removed its checkpoint of step 3"
    with pytest.raises(ValueError, match=message):
        run(copied, "--from_step=3", "--num_steps=1")


def change_line(folder, number, **values):
    path = folder / "logs" / "train" / "steps.jsonl"
    lines = path.read_text().splitlines()
    lines[number - 1] = json.dumps(json.loads(lines[number - 1]) | values)
    path.write_text("\n".join(lines) + "\n")


def test_the_first_step_that_differs_is_named(copied, capsys, in_process):
    change_line(copied, 5, gradient_norm=0.5)
    change_line(copied, 6, loss=1.0)
    with pytest.raises(SystemExit) as raised:
        run(copied, "--from_step=3")
    assert raised.value.code == 2
    assert re.match(
        "NOT equal: steps 4 to 7 of .* differ, first step 5: gradient_norm "
        r"0.5 in the run, [0-9.]+ now\nlargest relative difference 0",
        capsys.readouterr().out,
    )


def change_state(folder, change):
    """Changes state.json of step 7, and its own checksum."""
    path = folder / "checkpoints" / "step-00000007" / "state.json"
    state = json.loads(path.read_text())
    change(state)
    del state["state_sha256"]
    text = json.dumps(state, sort_keys=True)
    own = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(state | {"state_sha256": own}))


def test_other_weights_or_slots_are_named(copied):
    again = copied.parent / "again"
    shutil.copytree(copied, again)
    words, is_equal = replay.compare_weights(str(copied), str(again))
    assert is_equal and "equal weights after step 7" in words
    for change, end in (
        (
            lambda s: s["files"]["optimizer.safetensors"].update(sha256="x"),
            "optimizer.safetensors of step 7; its weights are equal",
        ),
        (lambda s: s.update(weights_sha256="other"), "in the run, other now"),
    ):
        change_state(again, change)
        words, is_equal = replay.compare_weights(str(copied), str(again))
        assert not is_equal and words.endswith(end)


def test_values_are_compared_bit_by_bit_and_nan_equals_nan():
    nan = float("nan")
    for then, now, expected in (
        (nan, nan, None),
        (nan, 1.0, "nan in the run, 1.0 now\nlargest relative difference inf"),
        (0.0, -0.0, "0.0 in the run, -0.0 now\nlargest relative difference 0"),
    ):
        found = replay.compare_steps(
            {1: {"loss": then}}, {1: {"loss": now}}, (0, 1)
        )
        assert found == (expected and f"step 1: loss {expected}")


@pytest.mark.slow
def test_a_fine_tuning_is_repeated(trained, tmp_path, capsys, in_process):
    """Its records are neither made again nor changed."""
    rows = [f"ship {'sea ' * (n % 5)},{n % 2}" for n in range(40)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows, ""]))
    arguments = {
        "task_name": "own",
        "train_file": tmp_path / "rows.csv",
        "text_column": "text",
        "label_column": "label",
        "labels": "0,1",
        "init_checkpoint": trained / "checkpoints" / "step-00000007",
        "max_seq_length": 16,
        "train_batch_size": 8,
        "num_train_epochs": 2,
        "output_dir": tmp_path / "run",
    }
    words = [f"--{name}={x}" for name, x in arguments.items()]
    run_glue.main(["run_glue", *words, "--do_train", "--do_eval"])
    capsys.readouterr()
    before = files(tmp_path)
    run(tmp_path / "run")
    assert capsys.readouterr().out.startswith("bit-equal: steps 6 to 9 of ")
    assert files(tmp_path) == before


def test_a_run_that_may_stop_early_is_repeated(
    trained, tmp_path, capsys, in_process
):
    arguments = run_processes.training_arguments(
        trained.parent,
        tmp_path / "run",
        eval_input_file=trained.parent / "train",
        max_eval_steps=1,
        num_train_steps=4,
        num_warmup_steps=1,
        save_checkpoints_steps=2,
        early_stopping_evaluations=2,
    )
    run_pretraining.main(["run_pretraining", *arguments])
    capsys.readouterr()
    run(tmp_path / "run", "--from_step=2")
    assert capsys.readouterr().out.startswith("bit-equal: steps 3 to 4 of ")


def test_weights_that_differ_after_equal_steps_are_named(
    copied, capsys, in_process
):
    change_state(copied, lambda s: s.update(weights_sha256="other"))
    with pytest.raises(SystemExit) as raised:
        run(copied, "--from_step=3")
    assert raised.value.code == 2
    assert re.match(
        "NOT equal: steps 4 to 7 of .* are equal, but not weights of step 7, "
        "sha256 other in the run, ",
        capsys.readouterr().out,
    )


# Errors.


def test_steps_without_a_checkpoint_or_a_log_are_refused(trained, copied):
    for flag, message in (
        ("--from_step=4", "of that step. It has 0, 3, 6, 7, where"),
        ("--num_steps=5", "no line for step 8, .* steps 4 to 8"),
        ("--from_step=7", "no line for step 8"),
    ):
        with pytest.raises(ValueError, match=message):
            run(trained, flag)
    # A log without every step.
    path = copied / "logs" / "train" / "steps.jsonl"
    path.write_text(path.read_text().splitlines(keepends=True)[4])
    with pytest.raises(
        ValueError, match="no line for step 1, .*other --from_step"
    ):
        run(copied)


def test_moved_records_are_named(copied, in_process):
    with pytest.raises(ValueError, match="nowhere"):
        run(copied, "--from_step=3", "--override=--input_file=nowhere")


def test_records_of_an_override_may_be_moved_but_not_others(
    trained, capsys, in_process
):
    words = ["--from_step=0", "--num_steps=1"]
    moved = trained.parent / "moved"
    shutil.copytree(trained.parent / "train", moved)
    run(trained, *words, f"--override=--input_file={moved}")
    found = capsys.readouterr().out
    assert found == f"bit-equal: steps 1 to 1 of {trained}, 7 values each\n"
    shutil.rmtree(moved)
    other = trained.parent / "held_out"
    with pytest.raises(ValueError, match="settings:\n  records: was '.*', is"):
        run(trained, *words, f"--override=--input_file={other}")


def test_a_run_of_several_workers_needs_another_strategy(copied):
    with open(copied / "run.flags", "a") as file:
        file.write("--distribution_strategy=multi_worker\n")
    with pytest.raises(ValueError, match="trained by several workers"):
        run(copied)
