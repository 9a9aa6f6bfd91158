"""Our model and a peer with the same weights -> table of largest differences.

`make parity` installs the peers and runs these tests. Without any peer the
tests are not collected; tests of a missing peer are skipped. A side is a dict
of results for a batch: outputs and losses by name, and `gradients`, those of
all weights by our names.

Shapes: B batch, S sequence, P predictions.
"""

import importlib.util
import pathlib
import re

import numpy as np
import pytest


def _is_installed(module):
    return importlib.util.find_spec(module) is not None


if not any(map(_is_installed, ("official", "keras_hub", "transformers"))):
    collect_ignore_glob = ["test_*.py"]

_PROCESSOR = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
# Layers, hidden size, attention heads.
SIZES = {"L-2_H-32": (2, 32, 2), "L-4_H-128": (4, 128, 2)}
# Largest absolute difference; the table also has the largest value of each
# quantity. For bfloat16, only matrix products are bfloat16, whose spacing at 1
# is 0.0078; the bounds are twice the measured differences.
BOUNDS = {
    "float32": {"outputs": 2e-5, "losses": 2e-5, "gradients": 2e-5},
    "bfloat16": {"outputs": 0.15, "losses": 0.01, "gradients": 0.04},
}
# On processors without bfloat16 instructions, TensorFlow's products have larger
# errors, those of the Model Garden too.
if not re.search(r"\b(avx512|amx)_bf16\b", _PROCESSOR):
    BOUNDS["bfloat16"] = {"outputs": 0.46, "losses": 0.026, "gradients": 0.17}

_ROWS = pytest.StashKey[list]()
_TITLES = (
    "peer",
    "size",
    "precision",
    "quantity",
    "difference",
    "bound",
    "largest value",
)


def pytest_configure(config):
    config.stash[_ROWS] = []


def pytest_collection_modifyitems(items):
    for item in items:
        if __file__.rpartition("/")[0] in str(item.path):
            # Warnings of the peers are not errors.
            item.add_marker(pytest.mark.filterwarnings("default"))


def pytest_terminal_summary(terminalreporter, config):
    rows = config.stash[_ROWS]
    if not rows:
        return
    terminalreporter.section("largest differences from the peers")
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        )
        terminalreporter.write_line(line.rstrip())


@pytest.fixture
def need():
    """Returns a function that skips the test if a peer is not installed."""

    def check(module):
        if not _is_installed(module):
            pytest.skip(f"{module} is not installed; run make parity")

    return check


@pytest.fixture(params=SIZES)
def size(request):
    return request.param


@pytest.fixture(params=BOUNDS)
def precision(request):
    return request.param


@pytest.fixture
def config(size):
    from bert_tf import config as bert_config

    layers, width, heads = SIZES[size]
    return bert_config.BertConfig(
        vocab_size=97,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=32,
    )


@pytest.fixture
def batch(config):
    """A pre-training batch with two segments, padding, unused predictions."""
    rng = np.random.default_rng(5)
    lengths = np.array([[24], [17], [9], [5]])
    tokens, predictions = 24, 4
    columns = np.arange(tokens)
    mask = columns < lengths
    positions = np.stack(
        [rng.permutation(length)[:predictions] for length in lengths[:, 0]]
    )
    used = np.arange(predictions) < [[4], [3], [2], [1]]
    found = {
        "input_word_ids": rng.integers(5, config.vocab_size, mask.shape) * mask,
        "input_mask": mask,
        "input_type_ids": (columns >= lengths // 2) * mask,
        "masked_lm_positions": positions * used,  # [B, P]
        "masked_lm_ids": rng.integers(5, config.vocab_size, used.shape) * used,
        "next_sentence_labels": np.array([0, 1, 1, 0]),
    }
    return {name: x.astype(np.int32) for name, x in found.items()} | {
        "masked_lm_weights": used.astype(np.float32),
        "is_real_example": np.ones(len(lengths), np.float32),
    }


def _dense(gradient):
    import tensorflow as tf

    return np.asarray(tf.convert_to_tensor(gradient), np.float32)


def pretraining_losses(logits, batch):
    """Returns our losses as tensors."""
    from bert_tf.tasks import pretraining

    losses = pretraining.TASK.losses(logits, batch)
    return {name: loss.value() for name, loss in losses.items()}


@pytest.fixture
def our_side(batch, precision):
    """Returns a function from a Checkpoint to our side of the comparison."""
    import tensorflow as tf

    from bert_tf.checkpoint import model_folders
    from bert_tf.model import models

    def side(
        found,
        build=models.BertPretrainer,
        losses=pretraining_losses,
        change=lambda model: None,
    ):
        policy = {"bfloat16": "mixed_bfloat16"}.get(precision, precision)
        model = build(found.config, dtype=policy)
        weights = model_folders.weight_names(model)
        for name, tensor in found.tensors.items():
            weights[name].assign(tensor)
        change(model)
        inputs = {name: tf.constant(x) for name, x in batch.items()}
        encoded = model.encoder(inputs, return_attention=True)
        outputs = {
            "sequence_output": encoded.sequence_output,
            "pooled_output": encoded.pooled_output,
            "hidden_states": tf.stack(encoded.hidden_states),
            "attention": tf.stack(encoded.attention),
        }
        with tf.GradientTape() as tape:
            logits = model(inputs)
            terms = losses(logits, inputs)
            total = tf.add_n(list(terms.values()))
        named = {n: weights[n] for n in found.tensors}
        gradients = tape.gradient(
            total,
            [weight.value for weight in named.values()],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        return {
            name: np.asarray(tf.cast(x, tf.float32))
            for name, x in (outputs | logits | terms).items()
        } | {"gradients": dict(zip(named, map(_dense, gradients), strict=True))}

    return side


class _Table:
    """Adds rows to the final table, for one size and precision."""

    def __init__(self, rows, size, precision):
        self.rows, self.size, self.precision = rows, size, precision
        if not rows:
            rows.append(_TITLES)

    def add(self, peer, quantity, difference, bound, largest):
        self.rows.append(
            (
                peer,
                self.size,
                self.precision,
                quantity,
                f"{difference:.1e}",
                bound,
                f"{largest:.2g}",
            )
        )

    def check(self, peer, ours, theirs):
        """Adds the quantities of both sides and asserts the bounds."""
        too_far = []
        assert set(theirs) <= set(ours)
        for quantity in [name for name in ours if name in theirs]:
            mine, yours = ours[quantity], theirs[quantity]
            if quantity != "gradients":
                mine, yours = {quantity: mine}, {quantity: yours}
            each = differences(mine, yours)
            # NaN counts as the largest; plain max would ignore it.
            furthest = max(each, key=lambda n: (np.isnan(each[n]), each[n]))
            label = quantity
            if quantity == "gradients":
                label = f"{len(each)} gradients, largest {furthest}"
            bound = BOUNDS[self.precision][_kind(quantity)]
            largest = max(np.max(np.abs(value)) for value in mine.values())
            self.add(peer, label, each[furthest], f"{bound:g}", largest)
            if not each[furthest] <= bound:
                too_far += [f"{furthest}: {each[furthest]:.1e} > {bound:g}"]
        assert not too_far, f"{peer}, {self.size}, {self.precision}: {too_far}"


def _kind(quantity):
    if quantity == "gradients":
        return quantity
    return "losses" if quantity.endswith("loss") else "outputs"


def differences(mine, yours):
    assert set(mine) == set(yours)
    for name, value in mine.items():
        assert value.shape == np.shape(yours[name]), name
    return {
        name: float(np.max(np.abs(value - yours[name])))
        for name, value in mine.items()
    }


@pytest.fixture
def table(request, size, precision):
    return _Table(request.config.stash[_ROWS], size, precision)


@pytest.fixture
def make_checkpoint():
    """Returns a maker of Checkpoints with random weights, for peers to load."""
    from bert_tf import config as bert_config
    from bert_tf.checkpoint import contents

    config = bert_config.BertConfig(
        vocab_size=30,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
    )

    def make(task, labels=(), lacking=(), **settings):
        rng = np.random.default_rng(2)
        shapes = contents.shapes(config, task, len(labels))
        tensors = {
            name: rng.normal(0, 0.2, shape).astype(np.float32)
            for name, shape in shapes.items()
            if not name.startswith(tuple(lacking))
        }
        return contents.Contents(
            source="test",
            config=config,
            task=task,
            labels=tuple(labels),
            tensors=tensors,
            slots={
                f"{kind}/{name}": tensor + 1
                for kind in "mv"
                for name, tensor in tensors.items()
            },
            **settings,
        )

    return make
