"""histograms.py: a page of histograms, with or without masks."""

import re

import planted_records as planted
import pytest

from bert_tf.contrib.apps.show_records import histograms


@pytest.mark.parametrize("has_masks", [True, False])
@pytest.mark.parametrize("unk_id", [planted.UNK, None])
def test_bars_count_all_examples(has_masks, unk_id):
    batch = planted.make_batch(60, unk_share=0.05)
    if not has_masks:
        batch = {n: x for n, x in batch.items() if n.startswith("input")}
    page = histograms.make(batch, unk_id, "60 examples")
    plots = page.split("<svg")[1:]
    assert len(plots) == 1 + has_masks + (unk_id is not None)
    for plot in plots:
        counts = map(int, re.findall(r"\d+ to \d+: (\d+)</title>", plot))
        assert sum(counts) == 60
    lengths = (batch["input_mask"] > 0).sum(axis=1)
    assert f"with special ones: mean {lengths.mean():.2f}" in page


def test_no_examples_have_an_empty_page():
    batch = {n: x[:0] for n, x in planted.make_batch(2).items()}
    assert "mean 0.00" in histograms.make(batch, None, "0 examples")
