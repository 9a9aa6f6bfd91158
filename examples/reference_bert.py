"""Token ids, named weights -> BERT's hidden states, logits, losses, in NumPy.

BERT on one page, to be read from top to bottom: attention comes first. It
follows the paper (Devlin et al. 2018) and modeling.py of google-research/bert,
for one example at a time and without dropout. Run it; only NumPy is needed:

    python examples/reference_bert.py

Weights are a dict of arrays with the names that they have in bert_tf, which the
tests compare with this page. Shapes: S positions, H hidden units, A heads,
D = H / A, I intermediate units, P masked tokens, V vocabulary, L layers.
"""

import types

import numpy as np


def attention_weights(hidden, mask, weights, name, num_heads):
    """Returns [A, S, S]: how much each position attends to each other one.

    hidden is [S, H]; mask is [S], 1 for a token and 0 for padding. Every row of
    the result sums to 1.
    """
    query = dense(hidden, weights, f"{name}/query")  # [S, H]
    key = dense(hidden, weights, f"{name}/key")  # [S, H]
    query, key = (split_heads(x, num_heads) for x in (query, key))  # [A, S, D]
    scores = query @ key.transpose(0, 2, 1) / np.sqrt(key.shape[2])  # [A, S, S]
    scores = scores - 10000.0 * (1 - mask)  # The softmax makes 0 of these.
    return np.exp(log_softmax(scores))


def attention(hidden, mask, weights, name, num_heads):
    """Returns [S, H]: means of values, weighted by attention, of all heads."""
    value = dense(hidden, weights, f"{name}/value")  # [S, H]
    probabilities = attention_weights(hidden, mask, weights, name, num_heads)
    context = probabilities @ split_heads(value, num_heads)  # [A, S, D]
    context = np.concatenate(list(context), axis=1)  # [S, A D], which is [S, H]
    return dense(context, weights, f"{name}/output_dense")


def split_heads(x, num_heads):
    """Returns [A, S, D]: each head has its own part of the H units."""
    return np.stack(np.split(x, num_heads, axis=1))


def layer(hidden, mask, weights, name, num_heads):
    """Returns [S, H]: attention mixes positions, feed-forward works on each."""
    attended = attention(hidden, mask, weights, f"{name}/attention", num_heads)
    hidden = norm(hidden + attended, weights, f"{name}/attention_norm")
    expanded = gelu(dense(hidden, weights, f"{name}/intermediate"))  # [S, I]
    change = dense(expanded, weights, f"{name}/output_dense")  # [S, H]
    return norm(hidden + change, weights, f"{name}/output_norm")


def embed(word_ids, type_ids, weights):
    """Returns [S, H]: what a token is, where it is, and in which text, summed.

    word_ids  [CLS] a a a [SEP] b b [SEP] [PAD]
    type_ids    0   0 0 0   0   1 1   1     0
    """
    words = weights["embeddings/word_embeddings"][word_ids]
    positions = weights["embeddings/position_embeddings"][: len(word_ids)]
    segments = weights["embeddings/type_embeddings"][type_ids]
    return norm(words + positions + segments, weights, "embeddings/norm")


def encode(word_ids, mask, type_ids, weights, config):
    """Returns the L + 1 hidden states [S, H], and the pooled output [H]."""
    hidden_states = [embed(word_ids, type_ids, weights)]
    for i in range(config.num_hidden_layers):
        inputs = hidden_states[-1], mask, weights, f"layer_{i}"
        hidden_states.append(layer(*inputs, config.num_attention_heads))
    first = hidden_states[-1][0]  # Of [CLS]: it stands for the whole text.
    return hidden_states, np.tanh(dense(first, weights, "pooler"))


def masked_lm_logits(hidden, positions, weights):
    """Returns [P, V]: a score of each vocabulary entry at masked positions."""
    masked = gelu(dense(hidden[positions], weights, "masked_lm/transform"))
    masked = norm(masked, weights, "masked_lm/norm")  # [P, H]
    table = weights["encoder/embeddings/word_embeddings"]  # [V, H], used twice
    return masked @ table.T + weights["masked_lm/bias"]


def pretrain(example, weights, config):
    """Returns the logits of both heads, [P, V] and [2], for an example."""
    names = "input_word_ids", "input_mask", "input_type_ids"
    inputs = [example[name] for name in names]  # [S] each
    encoder = {n.removeprefix("encoder/"): w for n, w in weights.items()}
    hidden_states, pooled = encode(*inputs, encoder, config)
    positions = example["masked_lm_positions"]  # [P]
    masked_lm = masked_lm_logits(hidden_states[-1], positions, weights)
    return masked_lm, dense(pooled, weights, "next_sentence/dense")


def cross_entropy(logits, labels):
    """Returns -log p(label) of each row: logits [N, V], labels [N] -> [N]."""
    return -log_softmax(logits)[np.arange(len(labels)), labels]


def adamw_step(weight, gradient, m, v, rate, decay):
    """Returns weight and moments after an update as the original's."""
    m = 0.9 * m + 0.1 * gradient  # Mean of the last 10 or so gradients.
    v = 0.999 * v + 0.001 * gradient**2
    update = m / (np.sqrt(v) + 1e-6)  # About 1 or -1 where gradients agree.
    return weight - rate * (update + decay * weight), m, v


def norm(x, weights, name):
    """LayerNorm: mean 0 and variance 1 over the last axis, then scaled."""
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12)
    return x * weights[f"{name}/gamma"] + weights[f"{name}/beta"]


def dense(x, weights, name):
    """A linear layer: [..., inputs] -> [..., outputs]."""
    return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]


def gelu(x):
    """GELU in the tanh form of the original."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def log_softmax(x):
    """Logarithm of the softmax over the last axis."""
    x = x - x.max(-1, keepdims=True)  # Else exp could overflow.
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def random_weights(config, rng, scale=0.02):
    """Returns weights by name, of a model that has learned nothing yet."""
    size, between = config.hidden_size, config.intermediate_size  # H, I
    tables = {
        "word": config.vocab_size,
        "position": config.max_position_embeddings,
        "type": config.type_vocab_size,
    }
    products = {  # Inputs and outputs of each linear layer.
        "encoder/pooler": (size, size),
        "masked_lm/transform": (size, size),
        "next_sentence/dense": (size, 2),
    }
    norms = ["encoder/embeddings/norm", "masked_lm/norm"]
    for i in range(config.num_hidden_layers):
        name = f"encoder/layer_{i}"
        for part in ("query", "key", "value", "output_dense"):
            products[f"{name}/attention/{part}"] = size, size
        products[f"{name}/intermediate"] = size, between
        products[f"{name}/output_dense"] = between, size
        norms += [f"{name}/attention_norm", f"{name}/output_norm"]
    weights = {"masked_lm/bias": np.zeros(config.vocab_size)}
    for name, rows in tables.items():
        table = rng.normal(0, scale, (rows, size))
        weights[f"encoder/embeddings/{name}_embeddings"] = table
    for name, shape in products.items():
        weights[f"{name}/kernel"] = rng.normal(0, scale, shape)
        weights[f"{name}/bias"] = np.zeros(shape[1])
    for name in norms:
        weights[f"{name}/gamma"] = np.ones(size)
        weights[f"{name}/beta"] = np.zeros(size)
    return weights


WORDS = "[PAD] [CLS] [SEP] [MASK] the cat sat it purred and slept".split()
# Fields of bert_config.json; beside them the values of BERT-base.
CONFIG = types.SimpleNamespace(
    vocab_size=len(WORDS),  # V, 30522
    hidden_size=32,  # H, 768
    num_hidden_layers=2,  # L, 12
    num_attention_heads=4,  # A, 12
    intermediate_size=128,  # I, 3072
    max_position_embeddings=64,  # 512
    type_vocab_size=2,
)


def main():
    """Prints what each part makes of two sentences with a masked word."""
    tokens = "[CLS] the cat sat [SEP] it [MASK] [SEP] [PAD] [PAD]".split()
    example = {
        "input_word_ids": np.array([WORDS.index(token) for token in tokens]),
        "input_mask": np.array([1, 1, 1, 1, 1, 1, 1, 1, 0, 0]),
        "input_type_ids": np.array([0, 0, 0, 0, 0, 1, 1, 1, 0, 0]),
        "masked_lm_positions": np.array([6]),
    }
    weights = random_weights(CONFIG, np.random.default_rng(1))
    print(f"{sum(w.size for w in weights.values()):,} weights")
    masked_lm, next_sentence = pretrain(example, weights, CONFIG)  # [1, V], [2]
    print("probability of each word at [MASK]:")
    probabilities = np.exp(log_softmax(masked_lm))[0].round(2)
    print(*map("{} {}".format, WORDS, probabilities), sep=", ")
    probabilities = np.exp(log_softmax(next_sentence)).round(2)
    print("second sentence is next {}, is random {}".format(*probabilities))
    loss = cross_entropy(masked_lm, [WORDS.index("purred")])[0]
    print(f"loss {loss:.2f}; of a guess, log V = {np.log(len(WORDS)):.2f}")


if __name__ == "__main__":
    main()
