"""Training processes, killed and stopped -> the files of an undisturbed run.

A few kills at chosen moments; `python -m tools.kill_report` makes many at
random moments.
"""

import shutil
import signal

import pytest
import run_processes

NUM_TRAIN_STEPS = 60
SAVE_STEPS = 6
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory, pretraining_records):
    """Holds records and a config."""
    folder = tmp_path_factory.mktemp("kills")
    shutil.copytree(pretraining_records, folder, dirs_exist_ok=True)
    run_processes.write_config(folder)
    return folder


def start(folder, name, **values):
    settings = {
        "num_train_steps": NUM_TRAIN_STEPS,
        "save_checkpoints_steps": SAVE_STEPS,
        "keep_checkpoint_max": 20,
        "gradient_accumulation_steps": 2,
        "precision": "bfloat16",
    }
    arguments = run_processes.training_arguments(
        folder, folder / name, **(settings | values)
    )
    return run_processes.training(
        arguments, folder / f"{name}.log", is_forked=True
    )


def test_a_killed_and_stopped_run_equals_an_undisturbed_one(
    folder,
):
    with start(folder, "undisturbed") as process:
        assert process.wait() == 0, process.printed()
    run = folder / "run"

    # Killed while it writes a checkpoint, the second one if possible. A kill
    # that comes after it was written is followed by another.
    while not run_processes.unfinished(run):
        with start(folder, "run") as process:
            process.wait_until(
                lambda: any(
                    int(name.split(".")[1].removeprefix("step-")) > SAVE_STEPS
                    for name in run_processes.unfinished(run)
                )
            )
            process.send(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL, process.printed()
    killed = run_processes.last_step(run)
    assert killed > SAVE_STEPS and killed % SAVE_STEPS == 0
    assert run_processes.saved_steps(run)[-1] in (killed - SAVE_STEPS, killed)

    # Stopped during a step: it saves a checkpoint of exactly that step.
    with start(folder, "run") as process:
        process.wait_until(lambda: run_processes.last_step(run) > killed + 1)
        process.send(signal.SIGTERM)
        assert process.wait() == 75, process.printed()
        assert "the same command" in process.printed()
    stopped = run_processes.last_step(run)
    assert killed < stopped < NUM_TRAIN_STEPS
    assert run_processes.saved_steps(run)[-1] == stopped
    assert not run_processes.unfinished(run)

    # A second run in the same folder is refused and changes nothing.
    with start(folder, "run") as process:
        process.wait_until(lambda: run_processes.last_step(run) > stopped)
        process.send(signal.SIGSTOP)
        with start(folder, "run", learning_rate=0.5) as second:
            assert second.wait() == 1, second.printed()
            assert "run is in use by another run, process " in second.printed()
        process.send(signal.SIGCONT)
        assert process.wait() == 0, process.printed()

    undisturbed, found = map(
        run_processes.results, (folder / "undisturbed", run)
    )
    # The stop saved an additional checkpoint, unless its step is regular.
    if stopped % SAVE_STEPS:
        found = {
            name: x
            for name, x in found.items()
            if f"step-{stopped:08d}" not in name
        }
    assert undisturbed.keys() == found.keys()
    assert [
        name for name in undisturbed if undisturbed[name] != found[name]
    ] == []
