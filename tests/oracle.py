"""Batches -> outputs, losses and updates in NumPy: the oracle of the tests.

BERT itself is examples/reference_bert.py. Here it is applied to batches in
float64, with what one page leaves out: `norm_first`, `is_causal`, DistilBERT,
BiLSTM, other optimizers. It shares only the names of the weights with bert_tf.
B batch, S sequence, H hidden, A heads, L layers, P predictions, V vocabulary, U
units of an LSTM.
"""

import numpy as np
import reference_bert as bert


def norm_first_layer(hidden, mask, weights, name, num_heads):
    """Layer of one example with LayerNorm before each sublayer, [S, H]."""
    inputs = bert.norm(hidden, weights, f"{name}/attention_norm")
    hidden = hidden + bert.attention(
        inputs, mask, weights, f"{name}/attention", num_heads
    )
    inputs = bert.norm(hidden, weights, f"{name}/output_norm")
    expanded = bert.gelu(bert.dense(inputs, weights, f"{name}/intermediate"))
    return hidden + bert.dense(expanded, weights, f"{name}/output_dense")


def encode_one(word_ids, mask, type_ids, weights, config):
    """As `reference_bert.encode`, for every config."""
    if not config.type_vocab_size:
        none = np.zeros((2, config.hidden_size))
        weights = weights | {"embeddings/type_embeddings": none}
    is_tanh = config.pooler_act == "tanh"
    if is_tanh and not (config.norm_first or config.is_causal):
        return bert.encode(word_ids, mask, type_ids, weights, config)
    layer = norm_first_layer if config.norm_first else bert.layer
    attends = attention_mask(mask, config)
    states = [bert.embed(word_ids, type_ids, weights)]
    for i in range(config.num_hidden_layers):
        inputs = states[-1], attends, weights, f"layer_{i}"
        states.append(layer(*inputs, config.num_attention_heads))
    if config.norm_first:
        states[-1] = bert.norm(states[-1], weights, "final_norm")
    pooled_position = int(mask.sum()) - 1 if config.is_causal else 0
    pooled = bert.dense(states[-1][pooled_position], weights, "pooler")
    return states, np.tanh(pooled) if is_tanh else np.maximum(pooled, 0)


def attention_mask(mask, config):
    """Returns [S, S]: which key positions a query position attends to."""
    square = np.tile(mask, (len(mask), 1))
    return np.tril(square) if config.is_causal else square


def rows_of(batch):
    """Yields word ids, mask and type ids of each example, [S] each."""
    names = ("input_word_ids", "input_mask", "input_type_ids")
    return zip(*(batch[name] for name in names), strict=True)


def encode(batch, weights, config):
    """Returns (hidden states [L][B, S, H], pooled [B, H]) in float64."""
    weights = {n: np.asarray(w, np.float64) for n, w in weights.items()}
    rows = [encode_one(*row, weights, config) for row in rows_of(batch)]
    layers = [np.stack(x) for x in zip(*(s for s, _ in rows), strict=True)]
    return layers[1:], np.stack([pooled for _, pooled in rows])


def layer_attention(batch, weights, config):
    """Returns (embeddings [B, S, H], attention [L][B, A, S, S]) in float64."""
    weights = {n: np.asarray(w, np.float64) for n, w in weights.items()}
    embedded, attention = [], []
    for ids, mask, types in rows_of(batch):
        states, _ = encode_one(ids, mask, types, weights, config)
        embedded.append(states[0])
        attends, heads = attention_mask(mask, config), []
        for i in range(config.num_hidden_layers):
            hidden, name = states[i], f"layer_{i}/attention"
            if config.norm_first:
                hidden = bert.norm(hidden, weights, f"{name}_norm")
            inputs = hidden, attends, weights, name
            heads.append(
                bert.attention_weights(*inputs, config.num_attention_heads)
            )
        attention.append(heads)
    layers = [np.stack(x) for x in zip(*attention, strict=True)]
    return np.stack(embedded), layers


def masked_lm_logits(sequence_output, positions, weights):
    """Returns [B, P, V]; `weights` are the weights of a BertPretrainer."""
    rows = zip(sequence_output, positions, strict=True)
    return np.stack([bert.masked_lm_logits(*row, weights) for row in rows])


def next_token_loss(logits, batch):
    """Returns the mean of -log p(token t + 1) over t; logits [B, S, V]."""
    losses = [
        -bert.log_softmax(rows[t])[words[t + 1]]
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
    each = np.stack(
        [
            bert.cross_entropy(logits, ids)
            for logits, ids in zip(
                masked_logits, batch["masked_lm_ids"], strict=True
            )
        ]
    )
    weights = batch["masked_lm_weights"]
    masked_lm = (each * weights).sum() / (weights.sum() + 1e-5)
    labels = batch["next_sentence_labels"]
    return masked_lm, bert.cross_entropy(next_logits, labels).mean()


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
