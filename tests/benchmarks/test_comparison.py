"""Ratios of turns, peers that fail, and a minimal run of ours."""

import json

import pytest

from benchmarks import comparison, settings, train_step, turns, work
from benchmarks.peers import products


def times(*seconds):
    return turns.Times(list(seconds), seconds, 11.0, 9.0, 2_000_000, 5)


@pytest.fixture
def wanted():
    (found,) = settings.combinations(
        "tiny", ["fine_tuning"], [32], [4], ["float32"], is_training=True
    )
    return found


@pytest.fixture
def found():
    """Two groups: ours with one peer, ours with another."""
    product = products.FLOPS / 1e9  # Seconds at 1 GFLOP/s.
    rates = {
        "product_tensorflow": times(product, product),
        "product_torch": times(product / 2, product / 2),
    }
    return [
        {"ours": times(1.0, 2.0), "a": times(2.0, 2.0), **rates},
        {"ours": times(3.0, 3.0), "b": times(9.0, 9.0), **rates},
    ]


def test_the_product_rate_is_that_of_the_faster_library(found):
    assert comparison.product_rate(found) == pytest.approx(2e9)
    for group in found:
        del group["product_torch"]
    assert comparison.product_rate(found) == pytest.approx(1e9)


def test_ratios_are_computed_within_a_group(wanted, found):
    rows = comparison.make_rows(wanted, ["ours", "a", "b", "absent"], found)
    assert [row.name for row in rows] == ["ours", "a", "b"]
    ours, a, b = rows
    assert ours.seconds == [1.0, 2.0, 3.0, 3.0]
    assert ours.ratios == [1.0] * 4
    assert a.ratios == [2.0, 1.0]
    assert b.ratios == [3.0, 3.0]
    assert ours.tokens_per_second == pytest.approx(4 * 32 / 2.5)
    share = work.matmul_flops(wanted) / 2.5 / 2e9
    assert ours.share == pytest.approx(share)


# Two processes that import TensorFlow.
@pytest.mark.slow
def test_ours_can_be_run_without_peers(tmp_path, capsys, monkeypatch):
    # Saves a process and works without torch.
    monkeypatch.setattr(comparison, "PRODUCTS", ("product_tensorflow",))
    path = tmp_path / "report.json"
    words = "--size=tiny --seq_length=16 --batch_size=2 --precision=float32 "
    words += "--task=pretraining --peers= --rounds=1 --seconds=0"
    train_step.main(["train_step", *words.split(), f"--json={path}"])
    (table,) = json.loads(path.read_text())["tables"]
    (row,) = table["rows"]
    assert row["name"] == "ours"
    assert row["num_parameters"] == 4_433_468
    assert len(row["seconds"]) == 1 and min(row["seconds"]) > 0
    assert row["last_loss"] < row["first_loss"]
    assert row["peak_bytes"] > 1e8
    assert table["product_flops_per_second"] > 1e8
    assert table["title"] == "pretraining step, tiny, 2 x 16, float32"
    assert "| ours | " in capsys.readouterr().out


def test_a_peer_that_fails_is_skipped():
    stopped = []

    class Fake:
        def stop(self):
            stopped.append(self)

    def do(name):
        if name in ("a", broken):
            raise RuntimeError(f"{name}: exit code 1\nand more")

    workers = {"ours": Fake(), "a": Fake(), "b": Fake()}
    broken = None
    assert comparison._leave_out(workers, do) == ["a: exit code 1"]
    assert list(workers) == ["ours", "b"]
    assert len(stopped) == 1
    broken = "ours"
    with pytest.raises(RuntimeError, match="ours: exit code 1"):
        comparison._leave_out(workers, do)
