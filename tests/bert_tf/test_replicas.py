"""The same training on one device, two devices and two worker processes.

`python -m tools.replica_report` compares more configurations in a table.
"""

import shutil

import pytest
import run_processes

NUM_TRAIN_STEPS = 12
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def train(tmp_path_factory, pretraining_records):
    """Returns a function that trains and returns the lines of steps.jsonl."""
    folder = tmp_path_factory.mktemp("replicas")
    shutil.copytree(pretraining_records, folder, dirs_exist_ok=True)
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
        with run_processes.workers(
            arguments, logs, is_forked=True
        ) as processes:
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
