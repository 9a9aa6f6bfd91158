"""A sample of examples -> one PNG with three histograms."""

import numpy as np

from tfrecords import libraries
from tfrecords.inspection import samples
from tfrecords.io import atomic_files

_BLUE, _GREY = "#1f6fb4", "#777777"
_MAX_BINS = 60
_LEAST_RANGE = 10


def _histogram(axes, values, title: str, label: str, more: str = "") -> None:
    """Draws a histogram of integers, and their mean."""
    highest = int(values.max(initial=_LEAST_RANGE))
    width = max(1, -(-highest // _MAX_BINS))
    # From -0.5, so that a bar of width 1 is centered on its number.
    edges = np.arange(0, highest + 2 * width, width) - 0.5
    axes.hist(values, bins=edges, color=_BLUE)
    mean = values.mean() if len(values) else 0.0
    axes.axvline(
        mean, color=_GREY, linestyle="--", label=f"mean {mean:.2f}{more}"
    )
    axes.set_title(title)
    axes.set_xlabel(label)
    axes.set_ylabel("examples")
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _placeholder(axes, title: str, reason: str) -> None:
    axes.axis("off")
    axes.set_title(title)
    axes.text(0.5, 0.5, reason, ha="center", va="center", color=_GREY)


def draw(
    batch: dict[str, np.ndarray], unk_id: int | None, title: str, path: str
) -> None:
    """Draws histograms of lengths, masked tokens and [UNK] to a PNG.

    Args:
      batch: features of the examples, each [N, ...].
      unk_id: id of [UNK]; None if no vocabulary is known.
      title: title of the figure.
      path: path of the PNG.
    """
    with libraries.extra("plots", "A plot"):
        import matplotlib

    matplotlib.use("Agg")  # Before pyplot looks for a display.
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 3, figsize=(13, 4))
    is_token = batch["input_mask"] > 0
    tokens = is_token.sum(axis=1)
    _histogram(panels[0], tokens, "Length", "tokens, with special ones")
    if "masked_lm_weights" in batch:
        masked = (batch["masked_lm_weights"] > 0).sum(axis=1)
        _histogram(panels[1], masked, "Masked", "masked tokens")
    else:
        _placeholder(panels[1], "Masked", "no masks in this schema")
    if unk_id is None:
        _placeholder(panels[2], "[UNK]", "needs --vocab_file")
    else:
        is_unknown = (samples.unmask(batch) == unk_id) & is_token
        share = 100 * is_unknown.sum() / max(is_token.sum(), 1)
        _histogram(
            panels[2],
            is_unknown.sum(axis=1),
            "[UNK]",
            "[UNK], before masking",
            f", {share:.2f} % of the tokens",
        )
        # Keeps the bars of the few examples with any [UNK] visible.
        panels[2].set_yscale("symlog", linthresh=1)
    figure.suptitle(title, fontsize=12)
    figure.tight_layout()
    with atomic_files.atomic_file(path, "wb") as file:
        figure.savefig(file, format="png", dpi=110)
    pyplot.close(figure)
