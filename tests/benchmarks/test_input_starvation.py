"""Steps on records compared with steps on one batch."""

import numpy as np
import pytest

from benchmarks import input_starvation


def test_either_text_or_records_are_required(tmp_path):
    input_starvation.FLAGS(["benchmark"])
    with pytest.raises(ValueError, match="--records=FOLDER, or --input_file"):
        input_starvation.make_records(str(tmp_path))
    input_starvation.FLAGS(["benchmark", "--records=there"])
    assert input_starvation.make_records(str(tmp_path)) == "there"


def test_only_the_last_loss_is_waited_for():
    calls = []

    class Loss:
        def numpy(self):
            calls.append("loss")

    def next_batch():
        calls.append("batch")

    seconds = input_starvation.timed(lambda _: {"loss": Loss()}, next_batch, 3)
    assert calls == ["batch"] * 3 + ["loss"]
    assert seconds > 0


def test_a_table_has_the_ratio_of_each_round():
    row = {"size": "tiny", "steps": 3, "ratios": [1.0, 1.02, 1.5]}
    row["seconds"] = {
        "one batch": [0.1, 0.1, 0.1],
        "records": np.multiply(row["ratios"], 0.1).tolist(),
    }
    lines = input_starvation.format_table([row]).splitlines()
    assert lines[2] == "| tiny | 100.0 | 102.0 | 1.020 (1.000 to 1.500) |"
