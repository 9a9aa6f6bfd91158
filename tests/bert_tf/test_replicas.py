"""The same training on one device, two devices and two worker processes.

`python -m tools.replica_report` compares more configurations in a table.
"""

import re
import shutil
import signal

import pytest
import run_processes

NUM_TRAIN_STEPS = 12
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory, pretraining_records):
    """Holds records and a config."""
    folder = tmp_path_factory.mktemp("replicas")
    shutil.copytree(pretraining_records, folder, dirs_exist_ok=True)
    run_processes.write_config(folder)
    return folder


def start(folder, name, num_workers=1, **values):
    """Returns a context manager that starts the processes of a run."""
    settings = dict(
        num_train_steps=NUM_TRAIN_STEPS,
        num_warmup_steps=2,
        learning_rate=1e-2,
        do_eval=False,
    )
    arguments = run_processes.training_arguments(
        folder, folder / name, **(settings | values)
    )
    logs = [folder / f"{name}.{i}.log" for i in range(num_workers)]
    return run_processes.workers(arguments, logs, is_forked=True)


@pytest.fixture(scope="module")
def train(folder):
    """Returns a function that trains and returns the lines of steps.jsonl."""

    def train(name, num_workers=1, **values):
        with start(folder, name, num_workers, **values) as processes:
            for process in processes:
                assert process.wait() == 0, process.printed()
        return run_processes.log_lines(folder / name)

    return train


@pytest.fixture(scope="module")
def one_device(train):
    """Lines of a run on one device."""
    return train("one_device")


def check(lines, expected):
    assert [line["step"] for line in lines] == [*range(1, NUM_TRAIN_STEPS + 1)]
    for line, other in zip(lines, expected, strict=True):
        for name in ("loss", "masked_lm_loss", "gradient_norm"):
            assert line[name] == pytest.approx(other[name], rel=1e-5), line


def test_two_devices_train_like_one(train, one_device):
    check(
        train(
            "mirrored",
            distribution_strategy="mirrored",
            virtual_devices=2,
            gradient_accumulation_steps=2,
        ),
        one_device,
    )


def test_two_worker_processes_train_like_one_device(train, one_device):
    check(train("workers", num_workers=2), one_device)


def test_several_steps_a_call_are_the_same_on_two_devices(train, one_device):
    check(
        train(
            "several",
            distribution_strategy="mirrored",
            virtual_devices=2,
            steps_per_loop=5,
            save_checkpoints_steps=5,
        ),
        one_device,
    )


def test_candidates_are_the_same_on_two_devices(train):
    candidates = dict(masked_lm_candidates=180)
    check(
        train(
            "mirrored_candidates",
            distribution_strategy="mirrored",
            virtual_devices=2,
            **candidates,
        ),
        train("candidates", **candidates),
    )


def test_a_signal_to_one_worker_ends_a_call_of_all(folder):
    with start(
        folder,
        "stopped",
        num_workers=2,
        num_train_steps=10**6,
        steps_per_loop=1000,
        save_checkpoints_steps=1000,
    ) as processes:
        chief = processes[0]
        assert chief.wait_until(
            lambda: run_processes.saved_steps(folder / "stopped"), 300
        )
        processes[1].send(signal.SIGTERM)
        assert [process.wait(300) for process in processes] == [75, 75]
        steps = [
            re.findall(r"after step (\d+), with a", process.printed())
            for process in processes
        ]
    assert steps[0] == steps[1]
    (step,) = map(int, steps[0])
    assert 1000 <= step < 2000  # The second call was not finished.
    assert run_processes.saved_steps(folder / "stopped")[-1] == step
