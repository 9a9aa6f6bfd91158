import os

import pytest

from bert_tf.training import run_folders


@pytest.fixture
def begun(tmp_path):
    """A folder that holds a checkpoint, and a run.json from before."""
    run_folders.check(str(tmp_path), {"task": "glue", "seed": 1})
    (tmp_path / "checkpoints" / "step-00000010").mkdir(parents=True)
    return str(tmp_path)


def test_a_run_from_before_a_setting_goes_on(begun):
    now = {"task": "glue", "seed": 1, "optimizer": "adamw"}
    now |= {"gradient_accumulation_steps": 1, "clip_before_reduce": False}
    run_folders.check(begun, now)
    with pytest.raises(ValueError, match="optimizer: 'adamw' there, 'lamb'"):
        run_folders.check(begun, now | {"optimizer": "lamb"})


def test_one_setting_is_checked_alone(begun):
    run_folders.check_setting(begun, "seed", 1)
    with pytest.raises(ValueError, match="seed: 1 there, 2 now"):
        run_folders.check_setting(begun, "seed", 2)


def test_a_folder_without_work_is_taken(tmp_path):
    run_folders.check(str(tmp_path), {"seed": 1})
    run_folders.check(str(tmp_path), {"seed": 2})
    run_folders.check_setting(str(tmp_path), "seed", 3)


def test_only_the_chief_writes(tmp_path):
    run_folders.check(str(tmp_path), {"seed": 1}, is_chief=False)
    assert not os.listdir(tmp_path)


def test_a_folder_without_papers_is_refused(begun):
    os.remove(os.path.join(begun, run_folders.FILE))
    with pytest.raises(ValueError, match="holds a run without a run.json"):
        run_folders.check(begun, {"seed": 1})


def test_a_best_model_without_checkpoints_is_of_another_run(tmp_path):
    (tmp_path / "best").mkdir()
    with pytest.raises(ValueError, match="best is of a run whose checkpoints"):
        run_folders.check(str(tmp_path), {"seed": 1})
    assert os.listdir(tmp_path) == ["best"]
