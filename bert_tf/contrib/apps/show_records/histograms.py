"""A sample of examples -> HTML page with histograms."""

import numpy as np

from bert_tf.contrib.apps.report import figures, page
from tfrecords.inspection import samples

_LEAST_RANGE = 10


def make(batch: dict[str, np.ndarray], unk_id: int | None, title: str) -> str:
    """Returns a page of histograms of lengths, masked tokens and [UNK].

    Args:
      batch: features of the examples, each [N, ...].
      unk_id: id of [UNK]; None if no vocabulary is known.
      title: title of the page.
    """
    is_token = batch["input_mask"] > 0
    counts = {"Tokens, with special ones": is_token.sum(axis=1)}
    if "masked_lm_weights" in batch:
        masked = batch["masked_lm_weights"] > 0
        counts["Masked tokens"] = masked.sum(axis=1)
    if unk_id is not None:
        is_unknown = (samples.unmask(batch) == unk_id) & is_token
        share = 100 * is_unknown.sum() / max(is_token.sum(), 1)
        words = f"[UNK] before masking, {share:.2f} % of the tokens"
        counts[words] = is_unknown.sum(axis=1)
    sections = []
    for words, values in counts.items():
        highest = int(values.max(initial=_LEAST_RANGE))
        mean = values.sum() / max(1, len(values))
        plot = figures.histogram(values, highest, words, "in an example", 0)
        sections.append(page.section(f"{words}: mean {mean:.2f}", plot))
    return page.document(title, *sections)
