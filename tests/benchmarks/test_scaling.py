"""Scaling tables: memory estimate, skipped cells, ratios, format."""

import pytest

from benchmarks import scaling, settings, work


def setting(size="base", length=512, rows=16, precision="bfloat16"):
    (found,) = settings.combinations(
        size, ["pretraining"], [length], [rows], [precision], is_training=True
    )
    return found


def test_memory_is_weights_slots_and_activations():
    # Korthikanti et al. 2022: 34 S B H and 5 A S S B bytes per layer.
    wanted = setting()
    layer = 34 * 512 * 16 * 768 + 5 * 12 * 512 * 512 * 16
    logits = 3 * 4 * 16 * 77 * 30522
    expected = 16 * 110e6 + 12 * layer + logits
    assert scaling.gigabytes(wanted, 110_000_000) == pytest.approx(
        expected / 1e9
    )
    more = scaling.gigabytes(setting(precision="float32"), 0)
    assert more == pytest.approx((24 * layer + logits) / 1e9)


def test_cells_above_the_limits_are_skipped_with_a_reason():
    wanted = setting()
    rate = work.matmul_flops(wanted) / 8.0  # A floor of 8 seconds.

    def reason(limits):
        return scaling.reason_to_leave_out(wanted, 110_000_000, rate, limits)

    assert reason((9.0, 99.0)) == ""
    assert reason((5.0, 99.0)) == "floor 8 s"
    assert reason((9.0, 1.0)) == "8 GB"


def test_rows_are_lengths_and_columns_are_batch_sizes():
    cells = [
        {"seq_length": s, "batch_size": b, "left_out": "", "ms": s * b}
        | {"factor": 1.25}
        for s in (64, 128)
        for b in (1, 4)
    ]
    cells[-1] = cells[-1] | {"left_out": "floor 9 s"}
    assert scaling.format_table(cells).splitlines() == [
        "| tokens | batch 1 | batch 4 |",
        "| --- | --- | --- |",
        "| 64 | 64 ms, 1.2x | 256 ms, 1.2x |",
        "| 128 | 128 ms, 1.2x | (floor 9 s) |",
    ]


class Fake:
    """A worker whose steps all take the same time."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.batches = []

    def ask(self, question):
        if isinstance(question, list):
            self.batches.append(question[0]["input_word_ids"].shape)
            return 1
        return [self.seconds] * question, [0.0] * question


def test_a_cell_has_the_ratio_to_its_floor():
    wanted = setting("tiny", 64, 4)
    floor = work.matmul_flops(wanted) / 1e12
    ours = Fake(3 * floor)
    workers = {
        "ours": ours,
        "product_tensorflow": Fake(scaling.products.FLOPS / 1e12),
    }
    cell = scaling.measure(workers, wanted, num_rounds=3, seconds=0)
    assert cell["factors"] == pytest.approx([3.0] * 3)
    assert cell["ms"] == pytest.approx(3e3 * floor)
    assert cell["floor_ms"] == pytest.approx(1e3 * floor)
    assert ours.batches == [(4, 64)]
