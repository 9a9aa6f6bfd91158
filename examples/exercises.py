"""Answers of docs/guide/exercises.md -> the pictures that they should give.

    python examples/exercises.py [--output_dir=runs/exercises] [name ...]

It needs matplotlib, `pip install '.[plots]'`, and takes half a minute. Each
function answers an exercise: it draws into `axes`, and returns the numbers that
its picture shows. Shapes are those of reference_bert.py; N rows.
"""

import argparse
import itertools
import json
import math
import os
import pathlib
import re
import tempfile

import matplotlib
import numpy as np
import reference_bert as bert
from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#1f6fb4", "#b85c00", "#6b6b6b"
WORDS = "[CLS] the cat sat [SEP] it purred and slept [SEP]".split()
ENCODER_INPUTS = {
    "word_ids": np.array([bert.WORDS.index(word) for word in WORDS]),
    "mask": np.ones(10),
    "type_ids": np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1]),
}


def random_encoder():
    """Returns an encoder's weights, large enough for every term to matter."""
    weights = bert.random_weights(bert.CONFIG, np.random.default_rng(1), 0.3)
    return {name.removeprefix("encoder/"): w for name, w in weights.items()}


def last_hidden(weights, **inputs):
    """Returns the last hidden states [S, H] of the two sentences of `WORDS`."""
    inputs = ENCODER_INPUTS | inputs
    hidden_states, _ = bert.encode(
        **inputs, weights=weights, config=bert.CONFIG
    )
    return hidden_states[-1]


def gelu(axes):
    """1: the two forms of GELU."""
    x = np.linspace(-6, 6, 1201)
    exact = (
        x * (1 + np.array([math.erf(value / math.sqrt(2)) for value in x])) / 2
    )
    difference = bert.gelu(x) - exact
    axes.plot(x, difference, color=BLUE)
    axes.set(title="GELU: tanh form minus exact form")
    axes.set(xlabel="input of the activation", ylabel="difference")
    largest = np.abs(difference).max()
    return {"largest": largest, "at": abs(x[np.abs(difference).argmax()])}


def scale(axes):
    """2: the softmax of scores that are not divided by sqrt(D)."""
    rng = np.random.default_rng(1)
    sizes, entropies = 2 ** np.arange(1, 10), []  # D
    for size in sizes:
        query, key = rng.normal(size=(200, size)), rng.normal(size=(64, size))
        for divisor in (math.sqrt(size), 1):
            log_p = bert.log_softmax(query @ key.T / divisor)  # [200, 64]
            entropies.append(-(np.exp(log_p) * log_p).sum(-1).mean())
    scaled, unscaled = np.array(entropies).reshape(-1, 2).T
    axes.axhline(math.log(64), color=GREY, ls=":", label="64 keys alike")
    axes.plot(sizes, scaled, color=BLUE, marker="o", label="q k / sqrt(D)")
    axes.plot(sizes, unscaled, color=ORANGE, marker="o", label="q k")
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, sizes)
    axes.set(title="How many keys a query attends to", ylim=(0, 5.2))
    axes.set(xlabel="D, units of a head", ylabel="entropy of attention, nats")
    axes.legend(loc="upper right", ncols=3, frameon=False)
    return {"scaled": scaled, "unscaled": unscaled}


def order(axes):
    """3: a shuffled text, with and without position embeddings."""
    shuffled = np.random.default_rng(2).permutation(len(WORDS))
    changed = {name: x[shuffled] for name, x in ENCODER_INPUTS.items()}
    weights, found = random_encoder(), {}
    for name, factor in (("with", 1), ("without", 0)):
        table = factor * weights["embeddings/position_embeddings"]
        weights = weights | {"embeddings/position_embeddings": table}
        before, after = last_hidden(weights), last_hidden(weights, **changed)
        found[name] = np.abs(after - before[shuffled]).max(1)[
            shuffled.argsort()
        ]
    places = np.arange(len(WORDS))
    axes.bar(places - 0.2, found["with"], 0.4, color=BLUE, label="with")
    bars = axes.bar(
        places + 0.2, found["without"], 0.4, color=ORANGE, label="without"
    )
    axes.bar_label(bars, fmt="%.0f", color=ORANGE)
    axes.set_xticks(places, WORDS, rotation=30)
    axes.set(title="Change of a token's output when the words are shuffled")
    axes.set(ylabel="largest difference", ylim=(0, 1.3 * found["with"].max()))
    title = "position embeddings"
    axes.legend(title=title, ncols=2, loc="upper right", frameon=False)
    return found


def padding(axes):
    """4: padding, with its mask and without."""
    weights, alone = random_encoder(), last_hidden(random_encoder())
    counts, found = range(0, 31, 5), {"masked": [], "unmasked": []}
    for count in counts:
        padded = {n: np.pad(x, (0, count)) for n, x in ENCODER_INPUTS.items()}
        for name, mask in (
            ("masked", padded["mask"]),
            ("unmasked", np.ones(10 + count)),
        ):
            hidden = last_hidden(weights, **padded | {"mask": mask})[:10]
            found[name].append(np.abs(hidden - alone).max())
    axes.plot(
        counts,
        found["unmasked"],
        color=ORANGE,
        marker="o",
        label="mask of ones",
    )
    axes.plot(
        counts,
        found["masked"],
        color=BLUE,
        marker="o",
        label="mask of 0 at padding",
    )
    axes.set(title="Change of the text's outputs by padding after it")
    axes.set(xlabel="padding positions", ylabel="largest difference")
    axes.legend(loc="center right", frameon=False)
    return found


def masks(axes):
    """5: what masking makes of 100 tokens."""
    from tfrecords.pretraining import masking

    entries = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(996))]
    rng = np.random.default_rng(1)
    ids = rng.integers(4, len(entries), (1000, 128))
    rules = masking.Rules(max_predictions_per_seq=20, masked_lm_prob=0.15)
    seeds = rng.integers(2**63, size=len(ids), dtype=np.uint64)
    lengths, vocabulary = np.full(len(ids), 128), masking.Vocabulary.of(entries)
    masked = masking.mask(ids, lengths, seeds, vocabulary, rules)
    rows = np.arange(len(ids))[:, None]
    shown = masked.input_word_ids[rows, masked.positions][masked.weights > 0]
    true = masked.ids[masked.weights > 0]
    kinds = {
        "[MASK]": shown == vocabulary.mask_id,
        "another token": (shown != vocabulary.mask_id) & (shown != true),
        "itself": shown == true,
    }
    found = {
        name: 100 * is_kind.sum() / ids.size for name, is_kind in kinds.items()
    }
    bars = axes.bar(list(found), list(found.values()), color=BLUE)
    axes.bar_label(bars, fmt="%.1f")
    axes.set(title="100 tokens: those that the model must predict")
    axes.set(xlabel="what stands in their place", ylabel="tokens", ylim=(0, 14))
    return found


def overlap(axes):
    """6: how many words a second sentence shares with the first."""
    import minimal

    with tempfile.TemporaryDirectory() as folder:
        minimal.write_docstrings(f"{folder}/docstrings.jsonl")
        texts = list(minimal.read_documents([f"{folder}/docstrings.jsonl"]))
    rng = np.random.default_rng(1)
    counts = {"next": [], "random": []}
    for index, document in enumerate(texts):
        other = texts[index - rng.integers(1, len(texts))]
        for first, second in itertools.pairwise(document.sentences):
            pair = {"next": second, "random": rng.choice(other.sentences)}
            for name, text in pair.items():
                words = (
                    set(re.findall(r"\w{5,}", x.lower())) for x in (first, text)
                )
                counts[name].append(len(set.intersection(*words)))
    shares = {
        name: np.bincount(np.minimum(x, 4), minlength=5) / len(x)
        for name, x in counts.items()
    }
    places = np.arange(5)
    axes.bar(places - 0.2, shares["next"], 0.4, color=BLUE, label="next")
    axes.bar(places + 0.2, shares["random"], 0.4, color=ORANGE, label="random")
    axes.set_xticks(places, ["0", "1", "2", "3", "4 or more"])
    axes.set(title="A pair of sentences: is the second next, or random?")
    axes.set(
        xlabel="words of five or more letters in both", ylabel="share of pairs"
    )
    axes.legend(frameon=False)
    right = (1 - shares["next"][0] + shares["random"][0]) / 2
    return {name: share[0] for name, share in shares.items()} | {"rule": right}


def warm_up(axes):
    """7: the first updates of Adam without bias correction."""
    steps, num_warmup_steps = np.arange(1, 1001), 100
    weight = m = v = 0.0
    updates = []
    for _ in steps:  # Gradients agree, and the learning rate is 1.
        new, m, v = bert.adamw_step(weight, 1.0, m, v, rate=1.0, decay=0.0)
        updates.append(weight - new)
        weight = new
    rate = np.minimum(steps / num_warmup_steps, 1)
    rate = np.where(rate < 1, rate, 1 - steps / len(steps))
    found = {"constant": np.array(updates), "warm-up": rate * updates}
    axes.plot(
        steps, found["constant"], color=ORANGE, label="constant learning rate"
    )
    axes.plot(
        steps,
        found["warm-up"],
        color=BLUE,
        label="100 steps of warm-up, then decay",
    )
    axes.axhline(
        1, color=GREY, ls=":", label="with bias correction, constant rate"
    )
    axes.set(title="Size of an update of the original's Adam")
    axes.set(xlabel="step", ylabel="update / peak learning rate")
    axes.legend(frameon=False)
    first = {"first": updates[0]}
    return first | {name: x.max() for name, x in found.items()}


def make_model(vocab_size, num_hidden_layers, norm_first=False):
    """Returns a small BertPretrainer without dropout."""
    import keras

    from bert_tf.config import BertConfig
    from bert_tf.model.models import BertPretrainer

    keras.utils.set_random_seed(1)
    config = BertConfig(
        vocab_size=vocab_size,
        hidden_size=64,
        num_hidden_layers=num_hidden_layers,
        num_attention_heads=1,
        intermediate_size=256,
        max_position_embeddings=32,
        # 1 / sqrt(H): products of H terms are about as large as their factors.
        initializer_range=0.125,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        norm_first=norm_first,
    )
    return BertPretrainer(config)


def masked_batch(ids, positions, mask_id, type_ids=None):
    """Returns a batch with these positions [N, P] of ids [N, S] masked."""
    rows = np.arange(len(ids))[:, None]
    masked = ids.copy()
    masked[rows, positions] = mask_id
    batch = {
        "input_word_ids": masked,
        "input_mask": np.ones_like(ids),
        "input_type_ids": np.zeros_like(ids) if type_ids is None else type_ids,
        "masked_lm_positions": positions,
        "masked_lm_ids": ids[rows, positions],
        "next_sentence_labels": np.zeros(len(ids)),
    }
    batch = {name: x.astype(np.int32) for name, x in batch.items()}
    return batch | {"masked_lm_weights": np.ones(positions.shape, np.float32)}


def depth(axes, num_draws=6):
    """8: gradients of untrained models, with both kinds of layers."""
    import minimal
    import tensorflow as tf

    rng = np.random.default_rng(1)
    ids = rng.integers(4, 24, (16, 15))
    batch = masked_batch(ids, rng.integers(15, size=(16, 1)), 3)
    numbers, found = np.arange(1, 9), {}
    for name, color in (("after", BLUE), ("before", ORANGE)):
        model = make_model(24, num_hidden_layers=8, norm_first=name == "before")
        layers = model.encoder.encoder_layers
        kernels = [layer.output_dense.kernel.value for layer in layers]
        draws = []
        for _ in range(num_draws):
            scale = model.config.initializer_range
            weights = bert.random_weights(model.config, rng, scale)
            for weight in model.weights:
                if weight.path in weights:  # `final_norm` keeps its ones.
                    weight.assign(weights[weight.path])
            with tf.GradientTape() as tape:
                outputs = model(batch, training=False)
                metrics = minimal.pretraining_metrics(outputs, batch)
                loss = metrics["masked_lm_loss"].value()
            draws.append([tf.norm(g) for g in tape.gradient(loss, kernels)])
        draws = np.array(draws)  # [draws, L]
        axes.plot(numbers, draws.T, color=color, alpha=0.3, linewidth=1)
        label = f"LayerNorm {name} each sublayer"
        style = {"color": color, "marker": "o", "label": label}
        axes.plot(numbers, draws.mean(0), **style)
        found |= {name: draws.mean(0), f"{name}, spread": draws.std(0)}
    axes.set(title="Gradients before the first step: six draws and their mean")
    axes.set(xlabel="layer", ylabel="gradient norm of output_dense")
    axes.set_ylim(0, 10)
    axes.legend(frameon=False)
    return found


SENTENCES = """
the cat sleeps on the mat
the dog sleeps on the mat
a ship sails to the north
a storm comes from the west
she reads a book about whales
he writes letters to his sister
we ate bread with salt today
they sold their house last year
birds sing before the sun rises
nobody knows where the river ends
"""


def by_heart(axes, num_steps=80):
    """9: ten sentences learned by heart."""
    import minimal
    import tensorflow as tf

    rows = [
        ["[CLS]", *line.split(), "[SEP]"]
        for line in SENTENCES.split("\n")[1:-1]
    ]
    entries = ["[MASK]", *dict.fromkeys(word for row in rows for word in row)]
    ids = np.array([[entries.index(word) for word in row] for row in rows])
    each = np.repeat(ids, 6, axis=0)  # [60, 8], a row for each masked word
    positions = np.tile(np.arange(1, 7), 10)[:, None]  # [60, 1]
    batch = masked_batch(each, positions, mask_id=0)
    model = make_model(len(entries), num_hidden_layers=2)
    data = tf.data.Dataset.from_tensor_slices(batch).batch(60).repeat()
    minimal.train(model, minimal.pretraining_metrics, data, num_steps, 3e-3)
    logits = model(batch, training=False)["masked_lm_logits"][:, 0]  # [60, V]
    true = batch["masked_lm_ids"][:, 0]
    found = np.exp(-bert.cross_entropy(logits.numpy(), true)).reshape(10, 6)
    axes.imshow(found, cmap="Blues", vmin=0, vmax=1.6, aspect="auto")
    for (row, column), probability in np.ndenumerate(found):
        text = f"{rows[row][column + 1]}\n{probability:.2f}"
        axes.text(column, row, text, ha="center", va="center", fontsize=9)
    axes.set_xticks(range(6), range(1, 7))
    axes.set_yticks(range(10), range(1, 11))
    axes.set(title="Probability of each word when it is masked")
    axes.set(xlabel="word", ylabel="sentence")
    best = np.argmax(logits, axis=-1) == true
    return {"accuracy": best.mean(), "cat": found[0, 1], "dog": found[1, 1]}


def copying(axes, num_steps=100):
    """10: the attention of a head that has learned to look something up."""
    import minimal
    import tensorflow as tf

    rng = np.random.default_rng(1)
    num_rows, length = 64 * num_steps, 6
    words = rng.integers(4, 24, (num_rows, length))  # [N, 6]
    cls, sep = np.full((num_rows, 1), 1), np.full((num_rows, 1), 2)
    ids = np.concatenate([cls, words, sep, words, sep], axis=1)  # [N, 15]
    types = np.tile(np.arange(15) > 7, (num_rows, 1))
    # Three words of each row, each masked in one of its two places.
    chosen = rng.permuted(np.tile(np.arange(length), (num_rows, 1)), axis=1)[
        :, :3
    ]
    positions = 1 + chosen + 7 * rng.integers(2, size=(num_rows, 3))
    batch = masked_batch(ids, positions, mask_id=3, type_ids=types)
    model = make_model(24, num_hidden_layers=1)
    data = tf.data.Dataset.from_tensor_slices(batch).batch(64)
    minimal.train(model, minimal.pretraining_metrics, data, num_steps, 1e-3)

    weights = {weight.path: weight.numpy() for weight in model.weights}
    row = {name: x[0] for name, x in batch.items()}
    masked_lm, _ = bert.pretrain(row, weights, model.config)  # [P, V]
    encoder = {n.removeprefix("encoder/"): w for n, w in weights.items()}
    names = "input_word_ids", "input_type_ids"
    hidden = bert.embed(*(row[name] for name in names), encoder)
    inputs = hidden, row["input_mask"], encoder, "layer_0/attention"
    (attention,) = bert.attention_weights(*inputs, num_heads=1)  # [S, S]
    image = axes.imshow(attention, cmap="Blues", vmin=0, vmax=1)
    axes.figure.colorbar(image, ax=axes, label="attention")
    names = {1: "[CLS]", 2: "[SEP]", 3: "[MASK]"}
    tokens = [names.get(i, f"w{i}") for i in row["input_word_ids"]]
    axes.set_xticks(range(15), tokens, rotation=90)
    axes.set_yticks(range(15), tokens)
    axes.set(title="Attention in a text that is there twice")
    axes.set(xlabel="position looked at", ylabel="position that looks")
    positions = row["masked_lm_positions"]
    copies = np.where(positions > 7, positions - 7, positions + 7)
    right = masked_lm.argmax(-1) == row["masked_lm_ids"]
    return {
        "attention": attention[positions, copies].mean(),
        "right": right.mean(),
    }


EXERCISES = {
    function.__name__: function
    for function in (
        gelu,
        scale,
        order,
        padding,
        masks,
        overlap,
        warm_up,
        depth,
        by_heart,
        copying,
    )
}
SETTINGS = {
    # Text is text in the SVG: a third of the size of outlines. Readers without
    # DejaVu Sans, which comes with matplotlib, see another font.
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "svg.hashsalt": "bert_tf",  # Seed of names; random by default.
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(name, folder):
    """Writes the picture of an exercise; returns its numbers, rounded."""
    height = 5 if name in ("by_heart", "copying") else 3.5
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(7, height), layout="constrained")
        numbers = EXERCISES[name](figure.subplots())
        path = pathlib.Path(folder, f"{name}.svg")
        about = ("Creator", "Date", "Format", "Type")
        figure.savefig(path, metadata=dict.fromkeys(about))
    return {
        key: np.round(np.float64(value), 6).tolist()
        for key, value in numbers.items()
    }


def main():
    """Draws the exercises named on the command line, by default all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output_dir", default="runs/exercises")
    parser.add_argument("names", nargs="*", help=", ".join(EXERCISES))
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in EXERCISES:
            parser.error(f"{name!r} is not one of {', '.join(EXERCISES)}")
    from tfrecords import libraries

    # Before the first answer that imports TensorFlow.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    libraries.quiet_tensorflow()
    folder = pathlib.Path(arguments.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "numbers.json"
    numbers = json.loads(path.read_text()) if path.exists() else {}
    for name in arguments.names or EXERCISES:
        numbers[name] = draw(name, folder)
        print(folder / f"{name}.svg", numbers[name])
    rows = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in numbers.items()]
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
