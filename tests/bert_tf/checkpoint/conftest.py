"""Random weights -> Checkpoints of any task, for tests of every format."""

import numpy as np
import pytest
from checkpoint_folders import VOCABULARY

LABELS = ("no", "maybe", "yes")


@pytest.fixture
def make_checkpoint(tiny_config):
    """Returns a maker of Checkpoints; `lacking` are prefixes of weights."""
    from bert_tf.checkpoint import contents

    def make(task, lacking=(), config=tiny_config, **settings):
        labels = LABELS if task in ("classification", "tagging") else ()
        rng = np.random.default_rng(3)
        tensors = {
            name: rng.normal(0, 0.1, shape).astype(np.float32)
            for name, shape in contents.shapes(
                config, task, len(labels)
            ).items()
        }
        tensors = {
            name: tensor
            for name, tensor in tensors.items()
            if not name.startswith(tuple(lacking))
        }
        return contents.Contents(
            source="test",
            config=config,
            task=task,
            labels=labels,
            tensors=tensors,
            **settings,
        )

    return make


@pytest.fixture
def given(make_checkpoint):
    """Returns a Checkpoint of a classifier with a vocabulary."""
    return make_checkpoint(
        "classification", vocabulary=VOCABULARY, do_lower_case=True, step=3
    )
