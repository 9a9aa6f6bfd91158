"""histograms.py: a PNG of three histograms, with or without masks."""

import pathlib

import numpy as np
import planted_records as planted
import pytest

from bert_tf.contrib.apps.show_records import histograms


@pytest.mark.parametrize("has_masks", [True, False])
@pytest.mark.parametrize("unk_id", [planted.UNK, None])
def test_a_page_is_drawn(tmp_path, has_masks, unk_id):
    batch = planted.make_batch(60, unk_share=0.05)
    if not has_masks:
        batch = {n: x for n, x in batch.items() if n.startswith("input")}
    path = tmp_path / "page.png"
    histograms.draw(batch, unk_id, "60 examples", str(path))
    assert path.read_bytes().startswith(b"\x89PNG")
    assert list(pathlib.Path(tmp_path).iterdir()) == [path]


def test_bars_count_all_examples_and_are_above_their_numbers():
    from matplotlib import pyplot

    for values in (np.array([3, 3, 5]), np.arange(500), np.zeros(4)):
        figure, axes = pyplot.subplots()
        histograms._histogram(axes, values, "title", "label")
        bars = [bar for bar in axes.patches if bar.get_height()]
        assert sum(bar.get_height() for bar in bars) == len(values)
        assert (
            bars[0].get_x()
            <= values.min()
            < (bars[0].get_x() + bars[0].get_width())
        )
        pyplot.close(figure)
