"""Named weights, token ids -> BERT's outputs: the model in NumPy on one page.

Written from the paper and modeling.py of google-research/bert, in float64 and
with loops where they are clearer. It shares only the names of the weights with
bert_tf, whose layers, losses and optimizers the tests compare with it.

Read `attention`, `encode_one`, `masked_lm_logits` and `pretraining_losses`
first. B batch, S sequence, H hidden, A heads, L layers, P predictions, V
vocabulary, U LSTM units.
"""

import math

import numpy as np


def layer_norm(x, gamma, beta):
    """Normalizes the last axis to mean 0 and variance 1, then scales."""
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-12) * gamma + beta


def gelu(x):
    """GELU in the tanh form of the original."""
    return (
        0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    )


def log_softmax(x):
    """Returns log softmax over the last axis."""
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def dense(x, weights, name):
    """Returns x W + b."""
    return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]


def attention_weights(hidden, mask, weights, name, num_heads):
    """Probabilities [A, S, S] of one example: hidden [S, H], mask [S, S]."""
    query = dense(hidden, weights, f"{name}/query")
    key = dense(hidden, weights, f"{name}/key")
    size = hidden.shape[1] // num_heads
    heads = []
    for head in range(num_heads):
        part = slice(head * size, (head + 1) * size)
        scores = query[:, part] @ key[:, part].T / math.sqrt(size)
        scores = scores + (1 - mask) * -10000.0
        heads.append(np.exp(log_softmax(scores)))
    return np.stack(heads)


def attention(hidden, mask, weights, name, num_heads):
    """Attention of one example: hidden [S, H], mask [S, S]."""
    value = dense(hidden, weights, f"{name}/value")
    context = np.concatenate(
        [
            probabilities @ part
            for probabilities, part in zip(
                attention_weights(hidden, mask, weights, name, num_heads),
                np.split(value, num_heads, axis=1),
                strict=True,
            )
        ],
        axis=1,
    )
    return dense(context, weights, f"{name}/output_dense")


def attention_mask(mask, config):
    """Returns [S, S]: which key positions a query position attends to."""
    length = len(mask)
    return np.array(
        [
            [
                mask[j] if j <= i or not config.is_causal else 0
                for j in range(length)
            ]
            for i in range(length)
        ]
    )


def embed(word_ids, type_ids, weights):
    """Returns the normalized embeddings [S, H] of one example."""
    total = np.stack(
        [
            weights["embeddings/word_embeddings"][word]
            + weights["embeddings/position_embeddings"][position]
            + weights["embeddings/type_embeddings"][kind]
            for position, (word, kind) in enumerate(
                zip(word_ids, type_ids, strict=True)
            )
        ]
    )
    name = "embeddings/norm"
    return layer_norm(total, weights[f"{name}/gamma"], weights[f"{name}/beta"])


def encode_one(word_ids, mask, type_ids, weights, config):
    """Returns (hidden states of each layer, pooled) of one example."""

    def norm(x, name):
        return layer_norm(x, weights[f"{name}/gamma"], weights[f"{name}/beta"])

    hidden = embed(word_ids, type_ids, weights)
    pooled_position = int(mask.sum()) - 1 if config.is_causal else 0
    layers = []
    for i in range(config.num_hidden_layers):
        name = f"layer_{i}"
        norm_1, norm_2 = f"{name}/attention_norm", f"{name}/output_norm"
        attended = attention(
            norm(hidden, norm_1) if config.norm_first else hidden,
            attention_mask(mask, config),
            weights,
            f"{name}/attention",
            config.num_attention_heads,
        )
        hidden = hidden + attended
        hidden = hidden if config.norm_first else norm(hidden, norm_1)
        expanded = norm(hidden, norm_2) if config.norm_first else hidden
        expanded = gelu(dense(expanded, weights, f"{name}/intermediate"))
        hidden = hidden + dense(expanded, weights, f"{name}/output_dense")
        hidden = hidden if config.norm_first else norm(hidden, norm_2)
        layers.append(hidden)
    if config.norm_first:
        layers[-1] = hidden = norm(hidden, "final_norm")
    return layers, np.tanh(dense(hidden[pooled_position], weights, "pooler"))


def encode(batch, weights, config):
    """Returns (hidden states [L][B, S, H], pooled [B, H]) in float64."""
    weights = {n: np.asarray(w, np.float64) for n, w in weights.items()}
    outputs = [
        encode_one(words, mask, types, weights, config)
        for words, mask, types in zip(
            batch["input_word_ids"],
            batch["input_mask"],
            batch["input_type_ids"],
            strict=True,
        )
    ]
    layers = [
        np.stack([layers[i] for layers, _ in outputs])
        for i in range(config.num_hidden_layers)
    ]
    return layers, np.stack([pooled for _, pooled in outputs])


def layer_attention(batch, weights, config):
    """Returns (embeddings [B, S, H], attention [L][B, A, S, S]) in float64."""
    weights = {n: np.asarray(w, np.float64) for n, w in weights.items()}
    names = ("input_word_ids", "input_type_ids")
    embedded = np.stack(
        [
            embed(*row, weights)
            for row in zip(*(batch[name] for name in names), strict=True)
        ]
    )
    hidden_states = [embedded, *encode(batch, weights, config)[0]]
    if config.norm_first:
        names = [
            [f"layer_{i}/attention_norm/{part}" for part in ("gamma", "beta")]
            for i in range(config.num_hidden_layers)
        ]
        hidden_states = [
            layer_norm(hidden, weights[gamma], weights[beta])
            for hidden, (gamma, beta) in zip(hidden_states, names, strict=False)
        ]
    return embedded, [
        np.stack(
            [
                attention_weights(
                    hidden,
                    attention_mask(mask, config),
                    weights,
                    f"layer_{i}/attention",
                    config.num_attention_heads,
                )
                for hidden, mask in zip(
                    hidden_states[i], batch["input_mask"], strict=True
                )
            ]
        )
        for i in range(config.num_hidden_layers)
    ]


def masked_lm_logits(sequence_output, positions, weights):
    """Returns [B, P, V]; `weights` are the weights of a BertPretrainer."""
    rows = []
    for hidden, row_positions in zip(sequence_output, positions, strict=True):
        masked = hidden[row_positions]
        masked = gelu(
            masked @ weights["masked_lm/transform/kernel"]
            + weights["masked_lm/transform/bias"]
        )
        masked = layer_norm(
            masked,
            weights["masked_lm/norm/gamma"],
            weights["masked_lm/norm/beta"],
        )
        table = weights["encoder/embeddings/word_embeddings"]
        rows.append(masked @ table.T + weights["masked_lm/bias"])
    return np.stack(rows)


def next_token_loss(logits, batch):
    """Returns the mean of -log p(token t + 1) over t; logits [B, S, V]."""
    losses = [
        -log_softmax(rows[t])[words[t + 1]]
        for rows, words, mask in zip(
            logits, batch["input_word_ids"], batch["input_mask"], strict=True
        )
        for t in range(len(words) - 1)
        if mask[t + 1]
    ]
    return np.mean(losses)


def bilstm(x, weights, name, units):
    """Returns outputs [S, 2 U] and final outputs [2 U] of one text [S, H]."""

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    outputs, last = [], []
    for direction, order in (("forward", 1), ("backward", -1)):
        kernel, recurrent, bias = (
            weights[f"{name}/{direction}/lstm_cell/{part}"]
            for part in ("kernel", "recurrent_kernel", "bias")
        )
        state, cell, states = np.zeros(units), np.zeros(units), []
        for row in x[::order]:
            gates = np.split(row @ kernel + state @ recurrent + bias, 4)
            input_gate, forget_gate, output_gate = (
                sigmoid(gates[i]) for i in (0, 1, 3)
            )
            cell = forget_gate * cell + input_gate * np.tanh(gates[2])
            state = output_gate * np.tanh(cell)
            states.append(state)
        outputs.append(np.stack(states)[::order])
        last.append(state)
    return np.concatenate(outputs, -1), np.concatenate(last)


def pretraining_losses(masked_logits, next_logits, batch):
    """Returns the masked-LM loss and the next-sentence loss."""
    total = weight = 0.0
    for logits, ids, weights in zip(
        masked_logits,
        batch["masked_lm_ids"],
        batch["masked_lm_weights"],
        strict=True,
    ):
        for row, label, w in zip(
            log_softmax(logits), ids, weights, strict=True
        ):
            total += -row[label] * w
            weight += w
    labels = batch["next_sentence_labels"]
    each = -log_softmax(next_logits)[np.arange(len(labels)), labels]
    return total / (weight + 1e-5), each.mean()


def adam_update(
    gradient, m, v, step, correct_bias, betas=(0.9, 0.999), epsilon=1e-6
):
    """Returns Adam's update, to be subtracted, and the moments."""
    # The first step is 1.
    m = betas[0] * m + (1 - betas[0]) * gradient
    v = betas[1] * v + (1 - betas[1]) * gradient**2
    if correct_bias:
        corrected = v / (1 - betas[1] ** step)
        update = m / (1 - betas[0] ** step) / (np.sqrt(corrected) + epsilon)
    else:
        update = m / (np.sqrt(v) + epsilon)
    return update, m, v


def adamw_step(
    weight, gradient, m, v, rate, decay, step, correct_bias=False, **adam
):
    """One update of the optimizer of the original."""
    update, m, v = adam_update(gradient, m, v, step, correct_bias, **adam)
    return weight - rate * (update + decay * weight), m, v


def lamb_step(
    weight, gradient, m, v, rate, decay, step, correct_bias=True, **adam
):
    """One update of You et al. 2020, algorithm 2."""
    update, m, v = adam_update(gradient, m, v, step, correct_bias, **adam)
    update = update + decay * weight
    norms = np.linalg.norm(weight), np.linalg.norm(update)
    trust = norms[0] / norms[1] if all(norms) else 1.0
    return weight - rate * trust * update, m, v


def muon_step(weight, gradient, m, rate, decay):
    """One update of Jordan et al. 2024, at the scale of Liu et al. 2025."""
    m = 0.95 * m + gradient
    x = gradient + 0.95 * m
    x = x / np.linalg.norm(x)
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    for _ in range(5):  # Newton-Schulz iterations change only singular values.
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    update = 0.2 * np.sqrt(max(weight.shape)) * (u * s) @ vt
    return weight - rate * (update + decay * weight), m
