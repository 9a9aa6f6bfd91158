"""The same training on one device, two devices and two worker processes.

`python -m tools.replica_report` prints a table of more of them.
"""

import pytest
import run_processes

from run_scripts import make_pretraining_records

NUM_TRAIN_STEPS = 12
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """Name, number of workers and flags -> the lines of the log."""
    folder = tmp_path_factory.mktemp("replicas")
    make_pretraining_records.main(
        ["make", *run_processes.record_arguments(folder, dupe_factor=5)]
    )
    run_processes.write_config(folder)

    def train(name, num_workers=1, **values):
        arguments = run_processes.training_arguments(
            folder,
            folder / name,
            num_train_steps=NUM_TRAIN_STEPS,
            num_warmup_steps=2,
            learning_rate=1e-2,
            do_eval=False,
            **values,
        )
        logs = [folder / f"{name}.{i}.log" for i in range(num_workers)]
        with run_processes.workers(arguments, logs, is_forked=True) as all_:
            for process in all_:
                assert process.wait() == 0, process.printed()
        return run_processes.log_lines(folder / name)

    return train


@pytest.fixture(scope="module")
def alone(train):
    """What one device does."""
    return train("alone")


def check(found, expected):
    assert [line["step"] for line in found] == [*range(1, NUM_TRAIN_STEPS + 1)]
    for line, other in zip(found, expected, strict=True):
        for name in ("loss", "masked_lm_loss", "gradient_norm"):
            assert line[name] == pytest.approx(other[name], rel=1e-5), line


def test_two_devices_train_as_one(train, alone):
    check(
        train(
            "mirrored",
            distribution_strategy="mirrored",
            virtual_devices=2,
            gradient_accumulation_steps=2,
        ),
        alone,
    )


def test_two_worker_processes_train_as_one(train, alone):
    check(train("workers", num_workers=2), alone)
